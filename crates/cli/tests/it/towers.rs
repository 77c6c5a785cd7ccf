//! Towers on the command line: steps by SPTT as golden files, files of towers, and what is refused.

use crate::support::command::{Folder, campanile, has, json};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;

const SMALL: &[&str] =
    &["--samples", "4096", "--eval-samples", "1000", "--batch", "512", "--threads", "1", "--json"];

/// Compares with a readable golden file. After a deliberate change, write it again with
/// `CAMPANILE_BLESS=1 cargo test -p campanile-cli --test it towers::`.
fn golden(name: &str, args: &[&str]) {
    let output = campanile(&[&["schedule"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let path = format!("{}/tests/golden/schedule-{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("CAMPANILE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(text, expected, "{name}");
}

/// Two towers over single-hot and multi-hot features, their tables cut as the paper cuts them.
const MULTI_HOT: &str = r#"
[model]
kind = "dcn"
dim = 8
dense_features = 4
bottom = [32, 8]
top = [32, 1]
cross_layers = 2
cross_rank = 8
features = [
    { name = "country", rows = 50 },
    { name = "likes", rows = 400, hotness = { many = { mean = 3 } }, pooling = "mean" },
    { name = "visited", rows = 300, hotness = { many = { mean = 5 } }, weighted = true },
    { name = "item", rows = 500 },
]
towers = [["country", "likes"], ["visited", "item"]]
tower_module = "dcn:d=8"

[topology]
hosts = 4
ranks_per_host = 2
hosts_per_tower = 2

[placement]
cut = "hotness"

[data.synthetic]
groups = 2
"#;

/// DMT §3.1 and §3.2: the steps a to f, what they become where nothing is permuted, and tower modules between them.
#[test]
fn sptt_steps_are_as_written() {
    let folder = Folder::new();
    golden("sptt-2x2", &["--towers", "each", "--batch", "1024"]);
    golden("sptt-vectors-2x2", &["--towers", "each", "--batch", "1024", "--peer-permute", "vectors"]);
    golden("sptt-peer-ranks-2x2", &["--towers", "each", "--batch", "1024", "--peer-permute", "none"]);
    golden("dmt-rows-4x2", &[&folder.write("multi-hot.toml", MULTI_HOT), "--batch", "1024"]);
}

#[test]
fn a_schedule_tells_programs_of_its_groups() {
    let folder = Folder::new();
    let schedule = json(&["schedule", &folder.write("multi-hot.toml", MULTI_HOT), "--json"]);
    let groups = &schedule["groups"];
    assert_eq!((&schedule["dataflow"], &groups["permuted"]), (&json!("sptt"), &json!("ids")));
    assert_eq!((&groups["count"], &groups["size"]), (&json!(2), &json!(4)));
    assert_eq!(groups["members"][1]["ranks"], json!([4, 5, 6, 7]));
    assert_eq!(schedule["tower_buckets"].as_array().map(Vec::len), Some(2));
    let flat = json(&["schedule", "--json"]);
    assert_eq!((&flat["dataflow"], &flat["groups"]), (&json!("flat"), &Value::Null));
    assert_eq!(flat["tower_buckets"], json!([]));
}

#[test]
fn describe_lists_towers_and_what_they_cost() {
    let args = ["--preset", "terabyte", "--towers", "strided:8", "--tower-module", "dlrm:d=64"];
    let described = json(&[&["describe"], &args[..], &["--json"]].concat());
    let towers = described["towers"].as_array().unwrap();
    assert_eq!(towers.len(), 8);
    assert_eq!(towers[0]["features"], json!(["C1", "C9", "C17", "C25"]));
    assert_eq!((&towers[0]["columns_in"], &towers[0]["columns_out"]), (&json!(512), &json!(256)));
    assert_eq!((&described["compression_ratio"], &described["dataflow"]), (&json!(2.0), &json!("sptt")));
    // DMT, Table 4.
    assert!((described["mflops_per_sample"].as_f64().unwrap() - 8.95).abs() < 0.01);
    let text = String::from_utf8(campanile(&[&["describe"], &args[..]].concat()).stdout).unwrap();
    for part in ["8 towers of dlrm:c=1,p=0,d=64, compression ratio 2.00", "0: C1 C9 C17 C25", "512 → 256"] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    // The rows of the blocks add up to the last.
    let mflops = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().last().unwrap().parse().unwrap()
    };
    let blocks = ["towers  ", "bottom  ", "interaction  ", "top  "].map(mflops);
    assert!((blocks.iter().sum::<f64>() - mflops("all  ")).abs() < 0.002, "{blocks:?}");
}

/// DMT, Tables 3 to 5.
#[test]
fn the_papers_complexity_is_reproduced_for_programs() {
    let rows = json(&["reproduce", "dmt-complexity", "--json"]);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 18);
    let keys = "table model mflops paper_mflops parameters_g paper_parameters_g compression_ratio";
    rows.iter().for_each(|row| has(row, keys));
    let ratios = rows.iter().filter_map(|row| row["paper_compression_ratio"].as_f64());
    assert_eq!(ratios.collect::<Vec<_>>(), [2.0, 4.0, 8.0, 16.0]);
}

/// A file of towers, as text.
fn towers_file(towers: &[Vec<&str>]) -> String {
    json!({ "towers": towers }).to_string()
}

/// DMT, Table 3: vectors that only pass through give the flat model, to the last bit.
#[test]
fn a_file_of_pass_through_towers_trains_the_flat_model() {
    let folder = Folder::new();
    let names: Vec<String> = (1..=26).map(|f| format!("C{f}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let towers = towers_file(&[names[20..].to_vec(), names[..7].to_vec(), names[7..20].to_vec()]);
    let file = folder.write("towers.json", towers);
    let with = |more: &[&str]| json(&[&["train", "--towers", &file], more, SMALL].concat());
    let (flat, sptt) = (with(&["--dataflow", "flat"]), with(&[]));
    assert_eq!((&flat["dataflow"], &sptt["dataflow"]), (&json!("flat"), &json!("sptt")));
    assert_eq!((&flat["towers"], &sptt["towers"]), (&json!(3), &json!(3)));
    assert!(flat["parameters_sha256"].is_string() && flat["auc"].is_number());
    for key in ["parameters_sha256", "auc", "logloss"] {
        assert_eq!(flat[key], sptt[key], "{key}");
    }
    // With modules it is another model, which trains as well.
    let dmt = with(&["--tower-module", "dlrm:d=8"]);
    assert_ne!(dmt["parameters_sha256"], sptt["parameters_sha256"]);
    assert!(dmt["final_loss"].as_f64().unwrap().is_finite());
}

/// A tower with one more feature.
fn with<'a>(tower: &[&'a str], more: &'a str) -> Vec<&'a str> {
    [tower, &[more]].concat()
}

/// Asserts that a command ends with this code and a message that has all of these parts.
fn refused(args: &[&str], code: i32, parts: &[&str]) {
    let Output { status, stderr, .. } = campanile(args);
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{args:?} should have been refused: {message}");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "{args:?} should say {part:?}, said: {message}");
    }
}

#[test]
fn files_of_towers_are_refused_with_the_name_at_fault() {
    let folder = Folder::new();
    let names: Vec<String> = (1..=26).map(|f| format!("C{f}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (first, rest) = (names[..13].to_vec(), names[13..].to_vec());
    let files: Vec<(&str, String, Vec<&str>)> = vec![
        (
            "twice.json",
            towers_file(&[first.clone(), with(&rest, "C5")]),
            vec!["\"C5\"", "tower 0", "tower 1"],
        ),
        ("missing.json", towers_file(&[first.clone(), rest[1..].to_vec()]), vec!["C14", "in no tower"]),
        ("unknown.json", towers_file(&[first.clone(), with(&rest, "C99")]), vec!["\"C99\"", "tower 1"]),
        ("case.json", towers_file(&[with(&first[1..], "c1"), rest.clone()]), vec!["\"c1\"", "tower 0"]),
        ("empty.json", towers_file(&[first.clone(), vec![], rest.clone()]), vec!["tower 1 is empty"]),
        ("none.json", towers_file(&[]), vec!["no tower"]),
        ("gap.json", towers_file(&[first.clone(), with(&rest[1..], "C14[0..9]")]), vec!["C14", "16 columns"]),
        (
            "beyond.json",
            towers_file(&[first.clone(), with(&rest[1..], "C14[0..17]")]),
            vec!["\"C14[0..17]\""],
        ),
        ("text.json", "C1, C2\nC3".into(), vec!["text.json", "{\"towers\"", "line 1"]),
        ("cut.json", "{\"towers\": [[\"C1\"".into(), vec!["cut.json", "{\"towers\"", "line 1"]),
        ("key.json", json!({ "towers": [], "modules": 3 }).to_string(), vec!["key.json", "`modules`"]),
        ("lists.json", json!([["C1"], ["C2"]]).to_string(), vec!["lists.json", "{\"towers\""]),
        ("numbers.json", json!({ "towers": [[1, 2]] }).to_string(), vec!["numbers.json", "`1`"]),
        ("nothing.json", String::new(), vec!["nothing.json", "{\"towers\""]),
    ];
    for (name, text, parts) in &files {
        let file = folder.write(name, text);
        for command in ["train", "describe", "schedule"] {
            refused(&[command, "--towers", &file], 1, parts);
        }
    }
    let missing = folder.path("nowhere.json");
    refused(&["train", "--towers", &missing], 1, &["nowhere.json", "strided:T"]);
    let binary = folder.write("binary.json", [0xff, 0xfe, 0x00, 0x80]);
    refused(&["train", "--towers", &binary], 1, &["binary.json"]);
    refused(&["train", "--towers", &folder.path("")], 1, &["strided:T"]);
}

#[test]
fn towers_that_cannot_be_are_refused_with_the_number_at_fault() {
    let towers = |more: &[&'static str]| [&["train", "--towers", "strided:4"], more].concat();
    let module = |module: &'static str| towers(&["--tower-module", module]);
    // Flags that cannot be read end as clap ends them.
    let cases: Vec<(Vec<&str>, i32, Vec<&str>)> = vec![
        (
            towers(&["--hosts", "3", "--hosts-per-tower", "2"]),
            1,
            vec!["hosts_per_tower", "3 hosts", "groups of 2"],
        ),
        (towers(&["--hosts-per-tower", "0"]), 1, vec!["hosts_per_tower", "groups of 0"]),
        (vec!["train", "--hosts", "3", "--hosts-per-tower", "2"], 1, vec!["3 hosts", "groups of 2"]),
        (vec!["train", "--towers", "strided:0"], 1, vec!["strided:0", "1 to 26"]),
        (vec!["train", "--towers", "strided:27"], 1, vec!["strided:27", "1 to 26"]),
        (vec!["train", "--towers", "strided:x"], 1, vec!["strided:x", "strided:T"]),
        (module("dlrm:d=0"), 2, vec!["d is 0"]),
        (module("dlrm:c=0,d=8"), 2, vec!["c and p are 0"]),
        (module("dlrm:d=99999999999999999999"), 2, vec!["99999999999999999999"]),
        (module("dlrm"), 2, vec!["d is missing"]),
        (module("dcn:d=8,rank=0"), 2, vec!["rank is 0"]),
        (module("dcn:d=8,width=3"), 2, vec!["width"]),
        (module("mlp:d=8"), 2, vec!["mlp:d=8", "dlrm:c=1"]),
        (vec!["train", "--tower-module", "dlrm:d=8"], 1, vec!["tower_module", "model.towers"]),
        (
            towers(&["--tower-module", "dlrm:d=8", "--dataflow", "flat"]),
            1,
            vec!["train.dataflow", "sptt", "hosts_per_tower = 2"],
        ),
        (towers(&["--dataflow", "flat", "--peer-permute", "ids"]), 1, vec!["train.peer_permute", "flat"]),
        (towers(&["--replicate-rows", "10"]), 1, vec!["replicate_rows", "sptt"]),
        (towers(&["--dataflow", "ring"]), 2, vec!["ring", "flat or sptt"]),
        (towers(&["--cut", "diagonal"]), 2, vec!["diagonal", "hotness"]),
    ];
    for (args, code, parts) in &cases {
        refused(args, *code, parts);
    }
}

/// A DMT run through its whole life: kept, scored on another cluster, exported, and gone on with elsewhere and otherwise.
#[test]
fn a_run_with_towers_is_kept_scored_exported_and_resumed() {
    let folder = Folder::new();
    let config = folder.write("run.toml", MULTI_HOT);
    let out = folder.path("kept");
    let (config, out) = (config.as_str(), out.as_str());
    let train = [&["train", config, "--peer-permute", "none", "--steps", "4", "--out", out], SMALL].concat();
    let trained = json(&train);
    let report = fs::read_to_string(folder.path("kept/report.html")).unwrap();
    assert!(report.contains("sptt"), "the report says how vectors travelled");

    let scored = json(&["eval", "--checkpoint", out, "--ranks-per-host", "1", "--json"]);
    let auc = |value: &Value| value["auc"].as_f64().unwrap();
    assert!((auc(&scored) - auc(&trained)).abs() < 1e-4, "{scored} after {trained}");

    let exported = folder.path("model.safetensors");
    let export = campanile(&["checkpoint", "export", out, "--out", &exported]);
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    let file = fs::read(&exported).unwrap();
    let header = String::from_utf8_lossy(&file[..file.len().min(8192)]).into_owned();
    assert!(header.contains("towers.0.cross.v") && header.contains("towers.1.map.weight"), "{header}");

    // On one host the two hosts of a group that the run was saved with do not fit, and need not be said.
    let more = ["train", "--resume", out, "--hosts", "1", "--steps", "8", "--json"];
    assert_eq!(json(&more)["steps"], 8);
}

/// What a run by SPTT keeps of its permutation does not keep it from going on flat.
#[test]
fn a_run_by_sptt_goes_on_flat_with_the_same_bits() {
    let folder = Folder::new();
    let digest = |name: &str, dataflow: &str| {
        let out = folder.path(name);
        let out = out.as_str();
        let first = [&["train", "--dataflow", "sptt", "--steps", "4", "--out", out], SMALL].concat();
        json(&first);
        let more = ["train", "--resume", out, "--steps", "8", "--dataflow", dataflow, "--json"];
        json(&more)["parameters_sha256"].clone()
    };
    assert_eq!(digest("on", "sptt"), digest("over", "flat"));
}
