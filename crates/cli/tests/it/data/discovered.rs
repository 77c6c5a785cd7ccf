//! `campanile data inspect` on logs that nobody has described, and the files it leaves.

use super::criteo::real;
use super::{shop, shop_parquet};
use crate::support::command::{Folder, campanile, has, json, json_and_warnings, refused_with};
use serde_json::Value;
use std::fs;

fn inspect(data: &str, more: &[&str]) -> Value {
    json(&[&["data", "inspect", "--json", "--data", data], more].concat())
}

fn column<'a>(found: &'a Value, name: &str) -> &'a Value {
    let columns = found["columns"].as_array().unwrap();
    columns.iter().find(|column| column["name"] == name).unwrap_or_else(|| panic!("no {name} in {columns:?}"))
}

fn role<'a>(found: &'a Value, name: &str) -> &'a str {
    column(found, name)["role"].as_str().unwrap()
}

#[test]
fn a_csv_is_found_out() {
    let (folder, rows) = (Folder::new(), shop::rows(0..1500));
    let csv = folder.write("log.csv", shop::text(&rows, ','));
    let found = inspect(&csv, &[]);
    has(&found, "inspection bad_lines suggested_config format delimiter header columns label warnings");
    assert_eq!(
        (&found["format"], &found["delimiter"], &found["header"]),
        (&"csv".into(), &",".into(), &true.into())
    );
    assert_eq!(
        (&found["label"], &found["time"], &found["bad_lines"]),
        (&"clicked".into(), &Value::Null, &0.into())
    );
    assert_eq!(found["missing_texts"], serde_json::json!(["NA"]));
    for (name, expected) in [
        ("clicked", "label"),
        ("price", "number"),
        ("age", "number"),
        ("user", "id"),
        ("brand", "id"),
        ("tags", "id"),
        ("visited", "id"),
        ("bought", "id"),
        ("hour", "id"),
        ("session", "left_out"),
    ] {
        assert_eq!(role(&found, name), expected, "{name}");
        has(column(&found, name), "name role type missing distinct reason");
    }
    let users: std::collections::HashSet<_> = rows.iter().map(|row| &row.user).collect();
    assert_eq!(column(&found, "user")["distinct"], users.len());
    assert!(column(&found, "session")["reason"].as_str().unwrap().contains("predict --key"));
    assert_eq!(found["inspection"]["samples"], 1500);
}

#[test]
fn text_says_what_was_found() {
    let folder = Folder::new();
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..300), ';'));
    let output = campanile(&["data", "inspect", "--data", &csv]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in
        ["`;` between fields and a header", "id: text, ", "number: float, ", "left out: ", "--write DIR"]
    {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

/// Inspects a log, writes the files, and trains with them for a few steps.
fn trains(folder: &Folder, data: &[&str], name: &str) -> Value {
    let (dir, run) = (folder.path(name), folder.path(&format!("{name}-run")));
    let args = [&["data", "inspect", "--json", "--write", &dir, "--data"], data].concat();
    let found = json(&args);
    assert_eq!(found["written"].as_array().unwrap().len(), 2);
    let config = format!("{dir}/run.toml");
    let result = json(&["train", &config, "--out", &run, "--batch", "16", "--steps", "3", "--json"]);
    assert_eq!(result["steps"], 3, "{name}");
    found
}

#[test]
fn what_is_written_trains() {
    let (folder, rows) = (Folder::new(), shop::rows(0..600));
    let csv = folder.write("log.csv", shop::text(&rows, ','));
    trains(&folder, &[&csv], "csv");
    let schema = fs::read_to_string(folder.path("csv/schema.toml")).unwrap();
    for part in ["separator = \"|\"", "weight_separator = \":\"", "missing = [\"NA\"]", "# id: text, "] {
        assert!(schema.contains(part), "{part} is missing in\n{schema}");
    }
    let run = fs::read_to_string(folder.path("csv/run.toml")).unwrap();
    for part in ["schema = \"schema.toml\"", "split = 0.1", &format!("train = [\"{csv}\"]")] {
        assert!(run.contains(part), "{part} is missing in\n{run}");
    }
    let tsv = folder.write("log.tsv", shop::text(&rows, '\t'));
    trains(&folder, &[&tsv], "tsv");
    let parquet = folder.path("log.parquet");
    shop_parquet::write(&rows, &parquet);
    let found = trains(&folder, &[&parquet], "parquet");
    assert_eq!((&found["format"], &found["delimiter"]), (&"parquet".into(), &Value::Null));
    assert_eq!(
        (role(&found, "tags"), role(&found, "amounts"), role(&found, "price")),
        ("id", "left_out", "number")
    );
}

/// One column of ids and no number is the least that trains. Two files without headers, one of them compressed.
#[test]
fn the_smallest_logs_train() {
    let folder = Folder::new();
    let line = |i: u64| format!("{},c{}\n", i * 7 % 3 / 2, i * 31 % 11);
    let text = |range: std::ops::Range<u64>| range.map(line).collect::<String>();
    let one = folder.write("one.csv", text(0..150));
    let two = folder.write("two.csv.zst", zstd::encode_all(text(150..300).as_bytes(), 1).unwrap());
    let found = trains(&folder, &[&one, &two], "small");
    assert_eq!((&found["header"], &found["label"]), (&false.into(), &"column1".into()));
    assert_eq!(found["inspection"]["samples"], 300);
}

#[test]
fn time_decides_the_split() {
    let folder = Folder::new();
    let line = |i: u64, at: u64| format!("{},u{},{}\n", i * 7 % 3 / 2, i * 31 % 11, 1_700_000_000 + at);
    let header = "clicked,user,ts\n";
    let sorted = header.to_owned() + &(0..300).map(|i| line(i, i)).collect::<String>();
    let mixed = header.to_owned() + &(0..300).map(|i| line(i, i * 77 % 300)).collect::<String>();
    for (name, text, in_order) in [("sorted", sorted, true), ("mixed", mixed, false)] {
        let log = folder.write(&format!("{name}.csv"), text);
        let dir = folder.path(name);
        let found = inspect(&log, &["--write", &dir]);
        assert_eq!((&found["time"], &found["in_time_order"]), (&"ts".into(), &in_order.into()));
        let run = fs::read_to_string(format!("{dir}/run.toml")).unwrap();
        assert_eq!(run.contains("split_by = \"ts\""), !in_order, "{run}");
        let schema = fs::read_to_string(format!("{dir}/schema.toml")).unwrap();
        assert!(
            schema.contains("time = \"ts\"") && schema.contains("in_time_order = true") == in_order,
            "{schema}"
        );
    }
}

#[test]
fn nothing_is_overwritten_unasked() {
    let folder = Folder::new();
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..200), ','));
    let dir = folder.path("dir");
    let args = ["data", "inspect", "--data", &csv, "--write", &dir, "--json"];
    fs::create_dir(&dir).unwrap();
    fs::write(format!("{dir}/run.toml"), "mine").unwrap();
    refused_with(&args, &["run.toml", "--force"]);
    assert_eq!(fs::read_to_string(format!("{dir}/run.toml")).unwrap(), "mine");
    assert!(!fs::exists(format!("{dir}/schema.toml")).unwrap());
    json(&[&args[..], &["--force"]].concat());
    assert_ne!(fs::read_to_string(format!("{dir}/run.toml")).unwrap(), "mine");
    refused_with(&["data", "inspect", "--data", &csv, "--write", &csv], &["is a file"]);
    refused_with(&["data", "inspect", "--data", &csv, "--force"], &["--write"]);
    refused_with(&["data", "inspect", "--data", &csv, "--format", "csv", "--label", "clicked"], &["--label"]);
}

#[test]
fn what_is_no_log_is_refused() {
    let folder = Folder::new();
    let no_label = folder.write("no.csv", "a,b\n".to_owned() + &"x,1.5\ny,2.5\n".repeat(20));
    refused_with(
        &["data", "inspect", "--data", &no_label],
        &["no.csv", "--label COLUMN", "a (text, 2 distinct)"],
    );
    refused_with(&["data", "inspect", "--data", &no_label, "--label", "c"], &["no column `c`"]);
    let garbage = folder.write("garbage", [0u8, 1, 2, 3, 255].repeat(100));
    refused_with(&["data", "inspect", "--data", &garbage], &["garbage", "neither Parquet nor text"]);
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..50), ','));
    let parquet = folder.path("log.parquet");
    shop_parquet::write(&shop::rows(0..50), &parquet);
    refused_with(&["data", "inspect", "--data", &csv, &parquet], &["Parquet", "apart"]);
}

#[test]
fn warnings_are_given() {
    let folder = Folder::new();
    let line = |i: u64| format!("{},{0},u{},{}\n", u64::from(i >= 200), i * 31 % 11, i * 7 % 5);
    let sorted = folder.write(
        "sorted.csv",
        "clicked,again,user,shop\n".to_owned() + &(0..300).map(line).collect::<String>(),
    );
    let found = inspect(&sorted, &[]);
    let warnings = found["warnings"].to_string();
    assert!(
        warnings.contains("sorted by label") && warnings.contains("`again` equals the label"),
        "{warnings}"
    );
    let schema = "label = { column = \"clicked\" }\n[[sparse]]\ncolumn = \"clicked\"\nrows = 9\n";
    let schema = folder.write("schema.toml", schema);
    let args = ["data", "inspect", "--format", "csv", "--schema", &schema, "--data", &sorted, "--json"];
    let warnings = json(&args)["warnings"].to_string();
    assert!(warnings.contains("the label is also a feature"), "{warnings}");
}

/// Names of a file reach neither the terminal nor the comments of a file as they are.
#[test]
fn names_are_shown_escaped() {
    let folder = Folder::new();
    let line = |i: u64| format!("{},u{},{}.5\n", i * 7 % 3 / 2, i * 31 % 11, i % 5);
    let header = "clicked,\"\x1b[31muser\nname\",\"pri\"\"ce\\\"\n";
    let log = folder.write("log.csv", header.to_owned() + &(0..100).map(line).collect::<String>());
    let output = campanile(&["data", "inspect", "--data", &log]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\\u{1b}[31muser\\nname") && !text.contains('\x1b'), "{text}");
    trains(&folder, &[&log], "escaped");
}

#[test]
fn line_ends_in_quotes_are_read() {
    let folder = Folder::new();
    let line = |i: u64| format!("{},\"u{}\nof {}\"\n", i * 7 % 3 / 2, i * 31 % 11, i % 2);
    let mut text = "clicked,user\n".to_owned() + &(0..400).map(line).collect::<String>();
    text += "1,\"never ends\n0,\"u1\nof 1\"\n";
    let log = folder.write("log.csv", text);
    let (found, warned) = json_and_warnings(&["data", "inspect", "--json", "--data", &log]);
    assert_eq!((&found["inspection"]["samples"], &found["bad_lines"]), (&401.into(), &1.into()));
    assert!(warned.contains("line 802: a quoted field that begins on this line does not end"), "{warned}");
    assert_eq!(column(&found, "user")["distinct"], 22);
}

/// `data.schema` may name a file beside the config, and errors name the line of the config.
#[test]
fn a_config_may_name_its_schema() {
    let folder = Folder::new();
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..200), ','));
    fs::create_dir(folder.path("deep")).unwrap();
    folder.write("deep/columns.toml", shop::schema());
    let text =
        format!("[data]\nformat = \"csv\"\nschema = \"columns.toml\"\ntrain = [{csv:?}]\n[model]\ndim = 8\n");
    let config = folder.write("deep/run.toml", &text);
    let out = folder.path("run");
    let result = json(&["train", &config, "--batch", "64", "--steps", "2", "--out", &out, "--json"]);
    assert_eq!(result["steps"], 2);
    let wrong = folder.write("deep/wrong.toml", text.replace("dim = 8", "dimm = 8"));
    refused_with(&["train", &wrong], &["wrong.toml", "line 6", "dimm"]);
    let absent = folder.write("deep/absent.toml", text.replace("columns.toml", "none.toml"));
    refused_with(&["train", &absent], &["absent.toml", "data.schema", "none.toml", "cannot be read"]);
    let broken = folder.write("deep/broken.toml", "[data\n");
    refused_with(&["train", &broken], &["broken.toml", "line 1"]);
}

#[test]
fn criteos_own_lines_are_recognised() {
    for name in ["criteo_kaggle_117k.tsv.xz", "criteo_terabyte_day0_10k.tsv.gz"] {
        let Some(log) = real(name) else { continue };
        let found = inspect(&log, &[]);
        assert_eq!((&found["format"], &found["label"]), (&"criteo-tsv".into(), &"label".into()), "{name}");
        assert_eq!((&found["in_time_order"], &found["bad_lines"]), (&true.into(), &0.into()), "{name}");
    }
}

/// What a newcomer does: look at the log, then train on what was written, and get an AUC on rows that were kept apart.
#[test]
fn the_split_that_is_written_is_evaluated_on() {
    let folder = Folder::new();
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..3000), ','));
    let (dir, run) = (folder.path("dir"), folder.path("run"));
    json(&["data", "inspect", "--data", &csv, "--write", &dir, "--json"]);
    let result = json(&["train", &format!("{dir}/run.toml"), "--out", &run, "--json"]);
    assert!(result["auc"].as_f64().unwrap() > 0.55, "{result}");
}
