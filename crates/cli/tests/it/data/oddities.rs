//! Logs and flags that are odd: what a run warns of, notes and refuses.

use super::shop;
use crate::support::command::{Folder, campanile, json, json_and_warnings, refused_with};
use std::fs;
use std::os::unix::fs::symlink;

const SMALL: [&str; 5] = ["--dim", "8", "--batch", "64", "--json"];

fn train(args: &[&str]) -> String {
    json_and_warnings(&[&["train", "--format", "csv"], args, &SMALL].concat()).1
}

/// The warnings among what was said.
fn warnings(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.strip_prefix("warning: ")).collect()
}

#[test]
fn logs_that_mislead_are_warned_of() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let rows = shop::rows(0..300);
    let text = shop::text(&rows, ',');
    let csv = folder.write("log.csv", &text);
    let sound = ["--schema", &schema, "--data", &csv];
    let said = train(&[&sound[..], &["--split", "0.1"]].concat());
    assert_eq!(warnings(&said), Vec::<&str>::new());

    // The same file by another name, and the same lines in another file.
    symlink(&csv, folder.path("link.csv")).unwrap();
    let copy = folder.write("copy.csv", &text);
    for eval in [&csv, &folder.path("link.csv"), &copy] {
        let said = train(&[&sound[..], &["--eval", eval]].concat());
        let found = warnings(&said);
        assert!(
            found.len() == 1 && found[0].contains("same 300 samples") && found[0].contains("--split"),
            "{said}"
        );
    }
    let other = folder.write("other.csv", shop::text(&shop::rows(300..400), ','));
    let said = train(&[&sound[..], &["--eval", &other, &csv]].concat());
    assert!(warnings(&said)[0].contains("log.csv: is trained and evaluated on"), "{said}");

    let leak = folder.write("leak.toml", shop::schema().replace("column = \"user\"", "column = \"clicked\""));
    let said = train(&["--schema", &leak, "--data", &csv]);
    assert!(warnings(&said)[0].contains("\"clicked\": the label is also a feature"), "{said}");

    let mut sorted = shop::rows(0..300);
    sorted.sort_by_key(|row| row.clicked);
    let sorted = folder.write("sorted.csv", shop::text(&sorted, ','));
    let said = train(&["--schema", &schema, "--data", &sorted]);
    assert!(warnings(&said)[0].contains("sorted by label, which changes once in 300 rows"), "{said}");
    // Split between the labels.
    let rare: Vec<shop::Row> = shop::rows(0..300)
        .into_iter()
        .filter(|row| !row.clicked)
        .chain(shop::rows(0..300).into_iter().filter(|row| row.clicked).take(5))
        .collect();
    let rare = folder.write("rare.csv", shop::text(&rare, ','));
    let ordered = folder.write("ordered.toml", format!("in_time_order = true\n{}", shop::schema()));
    let said = train(&["--schema", &ordered, "--data", &rare, "--split", "0.1"]);
    assert!(warnings(&said)[0].contains("sorted by label"), "{said}");

    let stamped: String = text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            format!("{line},{}\n", if i == 0 { "ts".into() } else { (1_700_000_000 + 60 * i).to_string() })
        })
        .collect();
    let stamped = folder.write("stamped.csv", stamped);
    let dense = format!("{}\n[[dense]]\ncolumn = \"ts\"\ntransform = \"log\"\n", shop::schema());
    let as_number = folder.write("number.toml", &dense);
    let named = folder.write("named.toml", format!("time = \"ts\"\n{dense}"));
    for schema in [as_number, named] {
        let said = train(&["--schema", &schema, "--data", &stamped]);
        let found = warnings(&said);
        assert!(found.len() == 1 && found[0].contains("\"ts\": a time used as a number"), "{said}");
    }
}

#[test]
fn shuffling_is_decided_by_the_order_of_the_log_and_said() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let ordered = folder.write("ordered.toml", format!("in_time_order = true\n{}", shop::schema()));
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..500), ','));
    let run = |schema: &str, more: &[&str]| {
        let args = ["train", "--format", "csv", "--schema", schema, "--data", &csv];
        let (result, said) = json_and_warnings(&[&args[..], more, &SMALL].concat());
        (result["parameters_sha256"].clone(), said)
    };
    let (mixed, said) = run(&schema, &[]);
    assert!(said.contains("shuffled in every epoch") && said.contains("--shuffle 0"), "{said}");
    let (in_order, said) = run(&ordered, &[]);
    assert!(said.contains("rows are in time order: not shuffled; --shuffle N shuffles"), "{said}");
    assert_ne!(mixed, in_order);
    let (kept, said) = run(&schema, &["--shuffle", "0"]);
    assert_eq!((kept, said.as_str()), (in_order, ""), "what was asked for is not commented on");
    assert_eq!(run(&ordered, &["--shuffle", "500"]).0, mixed);
    // A prepared log remembers, and so does a run.
    for (schema, digest) in [(&schema, &mixed), (&ordered, &run(&ordered, &[]).0)] {
        let out = folder.path("prepared");
        let prepare =
            ["data", "prepare", "--format", "csv", "--schema", schema, "--data", &csv, "--out", &out];
        json(&[&prepare[..], &["--json"]].concat());
        let result = json(&[&["train", "--format", "prepared", "--data", &out], &SMALL[..]].concat());
        assert_eq!(result["parameters_sha256"], *digest);
        let name = folder.path(if digest == &mixed { "mixed" } else { "in-order" });
        // At a rate that does not follow the length of the run.
        let twice = ["--epochs", "2", "--optimizer", "adagrad"];
        let (whole, _) = run(schema, &twice);
        run(schema, &[&twice[..], &["--steps", "5", "--out", &name]].concat());
        let resumed = ["train", "--resume", &name, "--epochs", "2", "--json"];
        assert_eq!(json(&resumed)["parameters_sha256"], whole);
    }
}

#[test]
fn flags_that_change_nothing_are_refused_or_noted() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..200), ','));
    let prepared = folder.path("prepared");
    json(&[
        "data", "prepare", "--format", "csv", "--schema", &schema, "--data", &csv, "--out", &prepared,
        "--json",
    ]);
    let cases: &[(&[&str], &[&str])] = &[
        (&["train", "--checkpoint-every", "5"], &["--checkpoint-every", "--out"]),
        (&["train", "--keep", "3"], &["--keep", "--out"]),
        (&["train", "--schema", &schema], &["--schema", "synthetic"]),
        (&["train", "--data", &prepared, "--schema", &schema], &["--schema", "prepared"]),
        (
            &["train", "--hosts", "2", "--hosts-per-tower", "2", "--samples", "100"],
            &["--hosts-per-tower 2", "sptt"],
        ),
        (&["train", "--lr", "-1"], &["--lr", "-1", "above 0"]),
        (&["train", "--lr", "inf"], &["--lr", "above 0"]),
        (&["train", "--lr", "0"], &["--lr", "above 0"]),
    ];
    for (args, expected) in cases {
        refused_with(args, expected);
    }
    let file = folder.write("run.toml", "[optimizer]\npeak = -1.0\n");
    refused_with(&["train", &file], &["optimizer.peak", "-1"]);
    let said = train(&["--schema", &schema, "--data", &csv, "--steps", "5000"]);
    assert!(
        said.contains("--steps 5000: the data has 4 steps in 1 epoch; --epochs 1250 trains longer"),
        "{said}"
    );
    assert!(!train(&["--schema", &schema, "--data", &csv, "--steps", "4"]).contains("--steps"));
}

#[test]
fn files_that_lead_nowhere_are_told_apart() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..100), ','));
    let (one, other, dangling) = (folder.path("one.csv"), folder.path("other.csv"), folder.path("gone.csv"));
    symlink(&one, &other).unwrap();
    symlink(&other, &one).unwrap();
    symlink(folder.path("nothing"), &dangling).unwrap();
    let prepared = folder.path("prepared");
    json(&[
        "data", "prepare", "--format", "csv", "--schema", &schema, "--data", &csv, "--out", &prepared,
        "--json",
    ]);
    let on = |data| ["train", "--format", "csv", "--schema", &schema, "--data", data];
    refused_with(&on(&one), &[&one, "symbolic link", "circle"]);
    let inside = format!("{one}/log.csv");
    refused_with(&on(&inside), &["symbolic links in a circle"]);
    refused_with(&on(&dangling), &[&dangling, "symbolic link", "nothing"]);
    refused_with(&on(&prepared), &[&prepared, "is a prepared log", "--format prepared"]);
    // Without a word on the format it is taken for what it is.
    let result = json(&[&["train", "--data", &prepared], &SMALL[..]].concat());
    assert!(result["steps"].as_u64().unwrap() > 0);
    assert!(campanile(&["train", "--help"]).status.success());
    assert!(fs::metadata(&csv).is_ok());
}
