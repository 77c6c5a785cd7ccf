//! `campanile calibrate` and what is predicted by its file.

use crate::support::command::{campanile, json};
use std::path::Path;
use std::process::Command;

/// Records of a measurement that was made: two cases of one step each.
fn records(folder: &Path) {
    let what = r#"{"hosts":2,"ranks_per_host":2,"rate":"1gbit","steps":1}"#;
    let record = |case: &str, round: u64, step_s: f64| {
        format!(
            r#"{{"ranks":"in-process","case":"{case}","round":{round},"step_s":{step_s},"compute_s":0.01,"exposed_s":0.0}}"#
        )
    };
    let lines = [
        what.to_owned(),
        record("demo DLRM, flat", 0, 0.02),
        record("demo DLRM, flat", 1, 0.04),
        record("demo DLRM, flat", 2, 0.03),
        record("Kaggle DCN, DMT, bf16", 0, 0.05),
    ];
    std::fs::write(folder.join("records.jsonl"), lines.join("\n") + "\n").unwrap();
}

/// A quick calibration has all rates, and its file prices runs that it has not seen.
#[test]
fn a_calibration_is_a_file_that_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in-process.toml");
    let name = ["--name", "test", "--out", file.to_str().unwrap(), "--json"];
    let result = json(&[&["calibrate", "--quick", "--all-reduce", "two-level"][..], &name].concat());
    let measured = &result["measured"];
    // 29 classes of phases, and reading ahead; four collectives over three groups.
    assert_eq!(measured["operations"].as_array().unwrap().len(), 30, "{measured}");
    let links = measured["links"].as_array().unwrap();
    let direct = links.iter().filter(|link| link["algorithm"] == "direct").count();
    // All-reduces in two levels are measured besides direct ones.
    assert_eq!((direct, links.len()), (12, 15), "{measured}");
    assert_eq!((&measured["ranks_per_machine"], &measured["transport"]), (&4.into(), &"in-process".into()));
    for step in result["steps"].as_array().unwrap() {
        assert!(step["priced_s"].as_f64().unwrap() > 0.0, "{step}");
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("name = \"test\"") && text.contains("[measured]"), "{text}");

    let on_it =
        ["simulate", "--system", file.to_str().unwrap(), "--model", "dlrm", "--batch", "64", "--json"];
    assert_eq!(json(&on_it)["all_reduce"], "direct");
    assert_eq!(json(&[&on_it[..], &["--all-reduce", "auto"]].concat())["all_reduce"], "two-level");
    let refused = campanile(&[&on_it[..], &["--all-reduce", "ring"]].concat());
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.contains("run `campanile calibrate --all-reduce ring` to measure it"), "{refused}");

    records(folder.path());
    let out = folder.path().to_str().unwrap();
    let table = json(&["reproduce", "predictions", "--table", "--out", out, "--json"]);
    let rows = table["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["measured_s"], &rows[0]["jobs"][2]), (2, &0.03.into(), &0.04.into()));
    for row in rows {
        let ratio = row["predicted_s"].as_f64().unwrap() / row["measured_s"].as_f64().unwrap();
        assert!(ratio > 0.0 && (ratio - row["ratio"].as_f64().unwrap()).abs() < 1e-12, "{row}");
    }
    assert!(table["worst_error"].as_f64() >= table["median_error"].as_f64(), "{table}");

    // A rate that is missing is named.
    let without = text.replace("\"cross-towers-forward\"", "\"linear-towers-forward\"");
    std::fs::write(&file, without).unwrap();
    let refused = campanile(&["reproduce", "predictions", "--table", "--out", out]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success(), "{message}");
    assert!(message.contains("the rate of linear-towers-forward is given twice"), "{message}");
}

/// Before anything is measured.
#[test]
fn a_file_that_cannot_be_written_is_refused_at_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_campanile"))
        .args(["calibrate", "--out", "no-such-folder/system.toml"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("no-such-folder/system.toml: there is no folder"),
        "{said}"
    );
}
