//! A log with two labels, sample weights and users: from CSV to metrics of each label, groups and slices.

use crate::support::command::{Folder, campanile, has, json, refused_with};
use serde_json::Value;
use std::fmt::Write;
use std::fs;

const SCHEMA: &str = r#"
weight = "weight"
[[labels]]
column = "click"
[[labels]]
column = "buy"
weight = 0.5
[[dense]]
column = "price"
[[sparse]]
column = "ad"
rows = 50
[[sparse]]
column = "city"
rows = 20
"#;

/// Rows of users of three cities; user 0 clicks hardly ever, user 29 nearly always. Some buy what they click.
fn rows(range: std::ops::Range<u64>) -> String {
    let mut text = String::from("user,city,ad,price,click,buy,weight\n");
    for i in range {
        let draw = |what: u64| (i * 8 + what).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let user = draw(0) % 30;
        let click = draw(1) % 32 < user;
        let buy = click && draw(2).is_multiple_of(2);
        let (city, ad, price) = (["Rome", "Pisa", "Bari"][(user % 3) as usize], draw(3) % 40, draw(4) % 100);
        let (click, buy, weight) = (u8::from(click), u8::from(buy), (draw(5) % 5) as f64 / 2.0);
        let _ = writeln!(text, "u{user},{city},a{},{price},{click},{buy},{weight}", ad + 40 * (user % 2));
    }
    text
}

#[test]
fn click_buy_weight_and_user() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", SCHEMA);
    let train = folder.write("train.csv", rows(0..3000) + "u1,Rome,a1,5,1,0,-2\n");
    let held_out = folder.write("eval.csv", rows(3000..4000));
    let run = folder.path("run");
    let files = ["--format", "csv", "--schema", &schema, "--data", &train, "--eval", &held_out];
    let more = ["--positive-weight", "2", "--group", "user", "--slice", "city", "--epochs", "2"];
    let size = ["--dim", "4", "--batch", "128", "--out", &run, "--json"];
    let result = json(&[&["train"], &files[..], &more, &size].concat());
    for label in ["click", "buy"] {
        has(&result["labels"][label], "auc pr_auc logloss ne calibration click_rate bins group slices");
    }
    assert_eq!(result["auc"], result["labels"]["click"]["auc"]);
    assert_eq!(result["positive_weight"], 2.0);
    assert!(result["auc"].as_f64().unwrap() > 0.6, "{}", result["auc"]);
    assert_eq!((&result["group"]["column"], &result["group"]["of_groups"]), (&"user".into(), &30.into()));
    let cities = &result["slices"][0];
    assert_eq!((&cities["column"], &cities["values"]), (&"city".into(), &3.into()));
    let names: Vec<&str> =
        cities["slices"].as_array().unwrap().iter().map(|slice| slice["value"].as_str().unwrap()).collect();
    assert!(["Rome", "Pisa", "Bari"].iter().all(|city| names.contains(city)), "{names:?}");
    // The folder tells the same: summary, metrics, report.
    let text = |name: &str| fs::read_to_string(format!("{run}/{name}")).unwrap();
    let summary: Value = serde_json::from_str(&text("summary.json")).unwrap();
    assert_eq!((&summary["labels"], &summary["group"]), (&result["labels"], &result["group"]));
    let metrics = text("metrics.jsonl");
    let eval = metrics.lines().rfind(|line| line.contains("\"event\":\"eval\"")).unwrap();
    let eval: Value = serde_json::from_str(eval).unwrap();
    assert_eq!(eval["labels"]["buy"]["auc"], result["labels"]["buy"]["auc"]);
    let report = text("report.html");
    for part in ["By city · buy", "AUC by user · click", "<td class=\"left\">Pisa</td>", "id=\"labels\""] {
        assert!(report.contains(part), "the report should have {part:?}");
    }
    // `eval` finds the scores of training, and the table has all labels.
    let table = folder.path("predictions.csv");
    let on_same = ["--data", &held_out, "--predictions", &table, "--group", "user", "--slice", "city"];
    let evaluated =
        json(&[&["eval", "--checkpoint", &run, "--use", "last", "--json"], &on_same[..]].concat());
    assert_eq!(evaluated["labels"], result["labels"]);
    let table = fs::read_to_string(table).unwrap();
    assert_eq!(table.lines().count(), 1001);
    assert_eq!(table.lines().next(), Some("label_click,label_buy,probability_click,probability_buy"));
    // For people, a line of each label.
    let shown = campanile(&["eval", "--checkpoint", &run, "--slice", "city"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in
        ["\n  click   AUC 0.", "\n  buy     AUC 0.", "Quality of buy by city, 3 values", "of 30 groups"]
    {
        assert!(shown.contains(part), "{part:?} is missing in {shown}");
    }
    // `predict` needs neither labels nor weights nor users.
    let new = folder.write("new.csv", "city,ad,price\nRome,a1,5\nPisa,a2,\n");
    let out = folder.path("out.csv");
    json(&["predict", "--checkpoint", &run, "--data", &new, "--out", &out, "--json"]);
    let predicted = fs::read_to_string(out).unwrap();
    assert_eq!(predicted.lines().next(), Some("row,probability_click,probability_buy"));
    assert_eq!(predicted.lines().count(), 3);
}

#[test]
fn prepared_logs_show_the_columns_and_refuse_others() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", SCHEMA.replacen("weight =", "keep = [\"user\"]\nweight =", 1));
    let train = folder.write("train.csv", rows(0..600) + "u1,Rome,a1,5,1,0,-2\n");
    let prepared = folder.path("prepared");
    let args =
        ["data", "prepare", "--format", "csv", "--schema", &schema, "--data", &train, "--out", &prepared];
    let result = json(&[&args[..], &["--json"]].concat());
    assert_eq!((&result["samples"], &result["bad_lines"]), (&600.into(), &1.into()));
    assert_eq!((&result["labels"][1]["column"], &result["kept"][0]), (&"buy".into(), &"user".into()));
    has(&result["sample_weights"], "min max sum");
    let inspected = json(&["data", "inspect", "--data", &prepared, "--format", "prepared", "--json"]);
    has(&inspected["inspection"], "labels sample_weight kept");
    assert_eq!(inspected["inspection"]["kept"][0]["distinct"], 30);
    let shown = campanile(&["data", "inspect", "--data", &prepared, "--format", "prepared"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in ["label buy: ", "sample weight weight: 0 to 2", "kept column user: 30 distinct values"] {
        assert!(shown.contains(part), "{part:?} is missing in {shown}");
    }
    let run = folder.path("run");
    let of_log =
        ["train", "--data", &prepared, "--eval", &prepared, "--dim", "4", "--steps", "2", "--out", &run];
    json(&[&of_log[..], &["--json"]].concat());
    let eval = ["eval", "--checkpoint", &run, "--data", &prepared];
    let grouped = json(&[&eval[..], &["--group", "user", "--slice", "city", "--json"]].concat());
    assert_eq!(grouped["group"]["of_groups"], 30);
    refused_with(
        &[&eval[..], &["--slice", "country"]].concat(),
        &["column country", "`keep`", "prepare the log again"],
    );
    refused_with(
        &[&of_log[..7], &["--positive-weight", "-1"]].concat(),
        &["train.positive_weight", "above 0"],
    );
    refused_with(&["train", "--group", "user", "--steps", "1"], &["data.group", "synthetic"]);
    // Another weight of clicks is another run.
    refused_with(
        &["train", "--resume", &run, "--positive-weight", "2", "--steps", "4"],
        &["train.positive_weight", "requested 2"],
    );
}
