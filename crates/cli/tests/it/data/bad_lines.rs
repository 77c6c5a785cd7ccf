//! Lines that hold no sample: left out and told of, or refused.

use super::shop;
use crate::support::command::{Folder, json, json_and_warnings, refused_with};

/// A log of 1000 lines with three bad ones among them: lines 11, 101 and 501 of the file.
fn log(folder: &Folder) -> (String, String, String) {
    let text = shop::text(&shop::rows(0..1000), ',');
    let mut lines: Vec<String> = text.lines().map(Into::into).collect();
    let good = folder.write("good.csv", format!("{}\n", lines.join("\n")));
    lines.insert(10, "2,1,30,u1,Acme,,,,,7,0".into());
    lines.insert(100, "1,1,30,u1,Acme,,,4|5,1,7,0".into());
    lines.insert(500, "1,1,30".into());
    let bad = folder.write("bad.csv", format!("{}\n", lines.join("\n")));
    (folder.write("schema.toml", shop::schema()), good, bad)
}

const SMALL: &[&str] = &["--dim", "8", "--batch", "128", "--json"];

#[test]
fn a_few_are_left_out_and_told_of() {
    let folder = Folder::new();
    let (schema, good, bad) = log(&folder);
    let train = |data: &str| {
        let args = ["train", "--format", "csv", "--schema", &schema, "--data", data];
        json_and_warnings(&[&args[..], SMALL].concat())
    };
    let (with_bad, warnings) = train(&bad);
    assert_eq!(with_bad["samples"], 1000);
    assert_eq!(with_bad["parameters_sha256"], train(&good).0["parameters_sha256"]);
    for part in [
        "3 bad line(s)",
        &format!("{bad}, line 11, column clicked: expected a label of 0 or 1, got \"2\""),
        &format!("{bad}, line 101, column amounts: expected as many weights as ids, got 1 weights and 2 ids"),
        &format!("{bad}, line 501: expected 11 fields, got 3"),
    ] {
        assert!(warnings.contains(part), "{part:?} is missing in {warnings}");
    }
    let prepare = ["data", "prepare", "--format", "csv", "--schema", &schema, "--data", &bad, "--json"];
    let prepared = json(&[&prepare[..], &["--out", &folder.path("prepared")]].concat());
    assert_eq!((&prepared["samples"], &prepared["bad_lines"]), (&1000.into(), &3.into()));
    let inspect = ["data", "inspect", "--format", "csv", "--schema", &schema, "--data", &bad, "--json"];
    assert_eq!(json(&inspect)["bad_lines"], 3);
}

#[test]
fn the_first_is_refused_where_none_may_be() {
    let folder = Folder::new();
    let (schema, _, bad) = log(&folder);
    let expected = [bad.as_str(), "line 11", "column clicked", "\"2\""];
    for command in [&["train"][..], &["data", "inspect"], &["data", "prepare", "--out", &folder.path("out")]]
    {
        let files = ["--format", "csv", "--schema", &schema, "--data", &bad, "--strict"];
        refused_with(&[command, &files].concat(), &expected);
    }
}

#[test]
fn too_many_are_refused() {
    let folder = Folder::new();
    let (schema, _, bad) = log(&folder);
    let files = ["train", "--format", "csv", "--schema", &schema, "--data", &bad, "--max-bad-share"];
    let expected = ["3 of 1003 lines", "0.30 %", "0.2 %", "line 11", "line 101", "line 501"];
    refused_with(&[&files[..], &["0.002"]].concat(), &expected);
    json(&[&files[..], &["0.003"], SMALL].concat());
    refused_with(&[&files[..], &["2"]].concat(), &["max_bad_share", "from 0 to 1"]);
}
