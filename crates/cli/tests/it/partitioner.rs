//! The partitioner on the command line: affinity, towers, their picture, the whole recipe, and what is refused.

mod rows;

use crate::support::browser::Browser;
use crate::support::command::{Folder, campanile, has, json, json_and_warnings, refused_with};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// `groups` of `each` features that have much to do with each other, one feature of every group in turn.
fn planted(groups: usize, each: usize) -> Value {
    let count = groups * each;
    let names: Vec<String> = (1..=count).map(|f| format!("C{f}")).collect();
    let between = |i: usize, j: usize| match i.abs_diff(j) {
        0 => 1.0,
        apart if apart % groups == 0 => 0.6,
        // Not quite equal, so that nothing hangs on ties.
        _ => 0.1 + 0.001 * ((i + j) % 7) as f64,
    };
    let rows: Vec<Vec<f64>> = (0..count).map(|i| (0..count).map(|j| between(i, j)).collect()).collect();
    json!({ "features": names, "affinity": rows })
}

fn towers(path: &str) -> Vec<Vec<String>> {
    let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    serde_json::from_value(file["towers"].clone()).unwrap()
}

#[test]
fn groups_become_towers_and_a_page() {
    let folder = Folder::new();
    let affinity = folder.write("affinity.json", planted(4, 4).to_string());
    let (out, page, svg) =
        (folder.path("towers.json"), folder.path("towers.html"), folder.path("towers.svg"));
    let told = json(&[
        "partition",
        "--affinity",
        &affinity,
        "--towers",
        "4",
        "--out",
        &out,
        "--picture",
        &page,
        "--json",
    ]);
    has(&told, "towers stress stress_over_classical within across max_over_min max_over_min_bound seconds");
    assert_eq!(told["max_over_min"], 1.0);
    assert!(told["stress_over_classical"].as_f64().unwrap() <= 1.0 + 1e-9);
    let found = towers(&out);
    assert_eq!(json!(found), told["towers"]);
    let planted: Vec<Vec<String>> =
        (1..=4).map(|group| (0..4).map(|at| format!("C{}", group + 4 * at)).collect()).collect();
    assert_eq!(found, planted);

    let args =
        ["partition", "--affinity", &affinity, "--towers", "4", "--out", &out, "--force", "--picture", &svg];
    let text = String::from_utf8(campanile(&args).stdout).unwrap();
    assert!(text.contains("0: C1 C5 C9 C13") && text.contains("of the classical solution"), "{text}");
    let drawing = fs::read_to_string(&svg).unwrap();
    let plain = json(&[&args[..8], &["--distance", "plain", "--json"]].concat());
    assert_eq!((&plain["towers"], &plain["within"]), (&told["towers"], &told["within"]));
    assert_ne!(plain["stress"], told["stress"]);
    refused_with(&[&args[..8], &["--picture", "towers.png"]].concat(), &["towers.png", ".svg"]);
    assert!(drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>"));
    // A cell for every pair, a frame for every tower, the background; a point for every feature.
    assert_eq!(drawing.matches("<rect").count(), 16 * 16 + 4 + 1);
    assert_eq!(drawing.matches("<circle").count(), 16);
    if let Some(browser) = Browser::found() {
        let view = browser.open(Path::new(&page), 1200, 900);
        view.is_quiet();
        assert_eq!(view.dom.matches("<circle").count(), 16);
        assert!(view.dom.contains("4 towers of 16 features"));
    }
}

/// `--distance plain --no-settle` is the paper's partitioner: a plane cannot show all distances, and what k-means makes of it stays.
#[test]
fn moves_and_swaps_can_be_left_out() {
    let folder = Folder::new();
    let between = |i: usize, j: usize| match i == j {
        true => 1.0,
        false => ((i * j * 37 + (i + j) * 11) % 97) as f64 / 97.0,
    };
    let rows: Vec<Vec<f64>> = (0..24).map(|i| (0..24).map(|j| between(i, j)).collect()).collect();
    let names: Vec<String> = (1..=24).map(|f| format!("C{f}")).collect();
    let affinity = folder.write("affinity.json", json!({ "features": names, "affinity": rows }).to_string());
    let out = folder.path("towers.json");
    let args =
        ["partition", "--affinity", &affinity, "--towers=6", "--distance=plain", "--out", &out, "--json"];
    let within = |more: &[&str]| {
        let told = json(&[&args[..], &["--force"], more].concat());
        assert_eq!(told["max_over_min"], 1.0);
        told["within"].as_f64().unwrap()
    };
    let (settled, left) = (within(&[]), within(&["--no-settle"]));
    assert!(settled > left, "{settled} with moves and swaps, {left} without");
}

#[test]
fn names_cannot_break_out_of_the_picture() {
    let folder = Folder::new();
    let affinity =
        json!({ "features": ["<script>alert(1)</script>", "\"&"], "affinity": [[1, 0.5], [0.5, 1]] });
    let affinity = folder.write("affinity.json", affinity.to_string());
    let (out, page) = (folder.path("towers.json"), folder.path("towers.html"));
    let args = ["partition", "--affinity", &affinity, "--towers", "2", "--out", &out, "--picture", &page];
    assert!(campanile(&args).status.success());
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
}

/// Version 1.0 of the format, as NumPy writes it.
fn npy(rows: usize, columns: usize, values: &[f64]) -> Vec<u8> {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn matrices_of_numpy_are_read() {
    let folder = Folder::new();
    let affinity = folder.write("affinity.npy", npy(2, 2, &[1.0, 0.5, 0.5, 1.0]));
    let out = folder.path("towers.json");
    let told = json(&["partition", "--affinity", &affinity, "--towers", "2", "--out", &out, "--json"]);
    assert_eq!(told["towers"], json!([["C1"], ["C2"]]));
    let wide = folder.write("wide.npy", npy(1, 2, &[1.0, 0.5]));
    refused_with(
        &["partition", "--force", "--affinity", &wide, "--towers", "1", "--out", &out],
        &["wide.npy", "1 × 2", "square"],
    );
}

#[test]
fn bad_matrices_are_refused_by_their_entry() {
    let folder = Folder::new();
    let out = folder.path("towers.json");
    let cases = [
        (r#"{"features": ["A", "B"], "affinity": [[1, 0.5], [0.5]]}"#, &["row 1 (B)", "square"][..]),
        (r#"{"features": ["A", "B"], "affinity": [[1, 0.5]]}"#, &["2 features", "square"]),
        (r#"{"features": ["A"], "affinity": [[1, 0.5], [0.5, 1]]}"#, &["1 feature names", "2 × 2"]),
        (
            r#"{"features": ["A", "B"], "affinity": [[1, 0.5], [0.4, 1]]}"#,
            &["B and A", "0.4", "0.5", "row 1, column 0"],
        ),
        (
            r#"{"features": ["A", "B"], "affinity": [[1, null], [0.5, 1]]}"#,
            &["A and B", "row 0, column 1", "NaN"],
        ),
        (
            r#"{"features": ["A", "NaN"], "affinity": [[1, 0.5], [NaN, 1]]}"#,
            &["NaN and A", "row 1, column 0"],
        ),
        (r#"{"features": ["A", "B"], "affinity": [[1, -Infinity], [0.5, 1]]}"#, &["row 0, column 1", "NaN"]),
        (
            r#"{"features": ["A", "B"], "affinity": [[1, 1.5], [1.5, 1]]}"#,
            &["A and B", "1.5", "between 0 and 1"],
        ),
        (r#"{"features": ["A", "A"], "affinity": [[1, 0.5], [0.5, 1]]}"#, &["A", "twice"]),
        (r#"{"features": [], "affinity": []}"#, &["names no features"]),
        (r#"{"affinity": []}"#, &["features"]),
        ("", &["affinity.json", "looks like"]),
    ];
    for (text, parts) in cases {
        let affinity = folder.write("affinity.json", text);
        refused_with(&["partition", "--affinity", &affinity, "--towers", "1", "--out", &out], parts);
    }
    let not_a_number = folder.write("nan.npy", npy(2, 2, &[1.0, f64::NAN, f64::NAN, 1.0]));
    refused_with(
        &["partition", "--affinity", &not_a_number, "--towers", "1", "--out", &out],
        &["nan.npy", "C1 and C2", "row 0, column 1", "NaN"],
    );
    assert!(!Path::new(&out).exists());
}

#[test]
fn more_towers_than_features_need_slices() {
    let folder = Folder::new();
    let affinity = folder.write("affinity.json", planted(2, 2).to_string());
    let out = folder.path("towers.json");
    let with =
        |more: &[&'static str]| [&["partition", "--affinity", &affinity, "--out", &out], more].concat();
    refused_with(
        &with(&["--towers", "8"]),
        &["8 towers are impossible for 4 features", "--slice-to", "--dim"],
    );
    refused_with(
        &with(&["--towers", "8", "--dim", "16"]),
        &["8 towers are too many for 4 features", "--slice-to 15 gives 8 pieces"],
    );
    refused_with(
        &with(&["--towers", "9", "--dim", "2"]),
        &["9 towers are too many for 4 features", "at most 8 pieces", "8 towers are the most"],
    );
    refused_with(
        &with(&["--towers", "9", "--dim", "18446744073709551615"]),
        &["9 towers are too many for 4 features", "--slice-to"],
    );
    refused_with(&with(&["--towers", "0"]), &["0 towers"]);
    refused_with(&with(&["--towers", "2", "--slice-to", "0", "--dim", "8"]), &["--slice-to 0"]);
    refused_with(&with(&["--towers", "2", "--slice-to", "4"]), &["--dim"]);
    refused_with(&with(&["--towers", "2", "--slice-to", "4", "--dim", "0"]), &["--dim 0"]);
    refused_with(
        &with(&["--towers", "2", "--slice-to", "1", "--dim", "100000"]),
        &["4096 pieces", "use at least 98"],
    );
    refused_with(&with(&["--towers", "2", "--dims", "1000000000"]), &["--dims", "1 to 4"]);
    refused_with(&with(&["--towers", "2", "--data", "x.tsv"]), &["--data", "--checkpoint"]);
    refused_with(&with(&["--towers", "2", "--strategy", "greedy"]), &["greedy", "--loads"]);
    refused_with(&with(&["--towers", "2", "--ratio", "0.5"]), &["--ratio", "0.5"]);
    refused_with(&with(&["--towers", "2", "--dims", "0"]), &["--dims", "1 to 4"]);
    refused_with(&with(&["--towers", "2", "--strategy", "best"]), &["best", "coherent, diverse"]);
    assert!(campanile(&with(&["--towers", "8", "--dim", "16", "--slice-to", "15"])).status.success());
    let mut all = towers(&out).concat();
    all.sort();
    let pieces: Vec<String> = (1..=4).flat_map(|f| [format!("C{f}[0..8]"), format!("C{f}[8..16]")]).collect();
    assert_eq!(all, pieces);
}

#[test]
fn groups_and_loads_are_by_name() {
    let folder = Folder::new();
    let affinity = folder.write("affinity.json", planted(2, 3).to_string());
    let out = folder.path("towers.json");
    let groups = folder.write("groups.json", r#"{"user": ["C1", "C2"], "item": ["C3", "C4", "C5", "C6"]}"#);
    let args = ["partition", "--affinity", &affinity, "--towers", "3", "--groups", &groups, "--out", &out];
    assert!(campanile(&args).status.success());
    let user = |name: &String| name == "C1" || name == "C2";
    assert!(towers(&out).iter().all(|tower| tower.iter().all(user) || !tower.iter().any(user)));
    for (text, parts) in [
        (r#"{"user": ["C1", "C9"]}"#, &["C9", "not a feature"][..]),
        (r#"{"user": ["C1", "C2"], "item": ["C2"]}"#, &["C2", "user", "item"]),
        (r#"{"user": ["C1", "C1"]}"#, &["C1", "user", "twice"]),
        (r#"{"user": ["C1"]}"#, &["C2", "no group"]),
    ] {
        folder.write("groups.json", text);
        refused_with(&[&args[..], &["--force"]].concat(), parts);
    }
    let loads = folder.write("loads.json", r#"{"C1": 5, "C2": 4, "C3": 3, "C4": 3, "C5": 2, "C6": 1}"#);
    let by_load = [
        "partition",
        "--affinity",
        &affinity,
        "--towers=2",
        "--balance=load",
        "--out",
        &out,
        "--json",
        "--force",
    ];
    let told = json(&[&by_load[..], &["--loads", &loads]].concat());
    assert_eq!(told["max_over_min"], 1.0, "{told}");
    refused_with(&by_load, &["--loads"]);
    let by_number =
        ["partition", "--affinity", &affinity, "--towers=2", "--out", &out, "--loads", &loads, "--force"];
    refused_with(&by_number, &["--loads", "--balance load"]);
    assert!(campanile(&[&by_number[..], &["--strategy", "greedy"]].concat()).status.success());
    assert_eq!(towers(&out), [["C1", "C4", "C6"], ["C2", "C3", "C5"]]);
    for (text, parts) in [
        (r#"{"C1": 5}"#, &["no load for feature C2"][..]),
        (r#"{"C1": 5, "C2": 4, "C3": 3, "C4": 3, "C5": 2, "C6": -1}"#, &["C6", "-1"]),
        (r#"{"C1": 5, "C2": 4, "C3": 3, "C4": 3, "C5": 2, "C6": 1, "C7": 1}"#, &["C7", "not a feature"]),
        (r#"{"C1": 5, "C2": 0, "C3": 0, "C4": 0, "C5": 0, "C6": 0}"#, &["only 1 features", "2 towers"]),
    ] {
        let loads = folder.write("loads.json", text);
        refused_with(&[&by_load[..], &["--loads", &loads]].concat(), parts);
    }
}

const QUICK: &[&str] = &["--samples", "20000", "--eval-samples", "4000", "--batch", "500", "--threads", "1"];

#[test]
fn affinity_is_measured_on_a_checkpoint() {
    let folder = Folder::new();
    let (run, out) = (folder.path("run"), folder.path("affinity.json"));
    assert!(campanile(&[&["train", "--out", &run], QUICK].concat()).status.success());
    let told = json(&["affinity", "--checkpoint", &run, "--out", &out, "--json"]);
    assert_eq!(told["features"], 26);
    let mean = told["mean"].as_f64();
    let file: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(file["features"][25], "C26");
    assert_eq!(file["affinity"].as_array().unwrap().len(), 26);
    assert_eq!(file["affinity"][3][3], 1.0);
    // The same by way of `partition`, which then knows the tables and their loads too.
    let (one, two) = (folder.path("one.json"), folder.path("two.json"));
    assert!(campanile(&["partition", "--affinity", &out, "--towers", "4", "--out", &one]).status.success());
    let checkpoint = ["partition", "--force", "--checkpoint", &run, "--towers", "4", "--out", &two];
    assert!(campanile(&checkpoint).status.success());
    assert_eq!(towers(&one), towers(&two));
    let slices = ["--balance", "load", "--slice-to", "4", "--json"];
    let told = json(&[&checkpoint[..], &slices].concat());
    assert_eq!(told["max_over_min"], 1.0);
    assert_eq!(
        told["towers"].as_array().unwrap().iter().map(|t| t.as_array().unwrap().len()).sum::<usize>(),
        26 * 4
    );
    // What comes out goes into training.
    let towers = ["train", "--towers", &two, "--tower-module", "dlrm:d=4", "--json"];
    assert_eq!(json(&[&towers[..], QUICK].concat())["towers"], 4);
    refused_with(&["affinity", "--force", "--checkpoint", &folder.path("none"), "--out", &out], &["none"]);
    refused_with(&["partition", "--towers", "4", "--out", &two], &["--affinity"]);
    // The mean of absolute values is never below the absolute value of the mean.
    let absolute = json(&[
        "affinity",
        "--force",
        "--checkpoint",
        &run,
        "--affinity-of",
        "mean-abs",
        "--out",
        &out,
        "--json",
    ]);
    assert!(absolute["mean"].as_f64() > mean);
    refused_with(
        &["affinity", "--checkpoint", &run, "--affinity-samples", "0", "--out", &out],
        &["--affinity-samples", "0"],
    );
    let by_memory = ["--balance", "load", "--load-of", "memory", "--json"];
    let told = json(&[&checkpoint[..], &by_memory].concat());
    assert!(told["max_over_min"].as_f64() >= told["max_over_min_bound"].as_f64(), "{told}");
    refused_with(&[&checkpoint[..], &["--load-of", "memory"]].concat(), &["--balance load"]);
    let too_many = ["partition", "--force", "--checkpoint", &run, "--towers", "27", "--out", &two];
    refused_with(&too_many, &["27 towers are too many for 26 features", "--slice-to 15 gives 52 pieces"]);
    refused_with(
        &["affinity", "--checkpoint", &run, "--affinity-of", "max", "--out", &out],
        &["abs-mean or mean-abs"],
    );
}

#[test]
fn the_recipe_keeps_the_best() {
    let folder = Folder::new();
    let out = folder.path("towers");
    let told = json(&[&["towers", "--towers", "3", "--out", &out, "--json"], QUICK].concat());
    has(&told, "best towers tried flat test auc_of");
    assert!(told["auc_of"].as_str().unwrap().starts_with("validation: samples of the synthetic log"));
    assert!(Path::new(&out).join("best/report.html").is_file());
    let tried = told["tried"].as_array().unwrap();
    assert_eq!(
        tried.iter().map(|t| t["strategy"].as_str().unwrap()).collect::<Vec<_>>(),
        ["coherent", "diverse", "strided"]
    );
    for one in tried {
        has(one, "auc towers within across max_over_min bytes_between_hosts seconds");
        assert_eq!(one["towers"].as_array().unwrap().len(), 3);
        let strategy = one["strategy"].as_str().unwrap();
        for name in
            [format!("{strategy}.json"), format!("{strategy}.html"), format!("{strategy}/report.html")]
        {
            assert!(Path::new(&out).join(&name).is_file(), "{name}");
        }
    }
    let best = tried
        .iter()
        .max_by(|a, b| a["auc"].as_f64().unwrap().total_cmp(&b["auc"].as_f64().unwrap()))
        .unwrap();
    assert_eq!(told["best"], best["strategy"]);
    assert_eq!(json!(towers(&format!("{out}/towers.json"))), best["towers"]);
    // The search goes on: what ended is taken from the records, and a run without one goes on from its checkpoint.
    let records = fs::read_to_string(format!("{out}/records.jsonl")).unwrap();
    assert_eq!(records.lines().count(), 1 + 5, "a head, the flat model, three strategies and the best");
    let kept: String = records.lines().take(3).map(|line| format!("{line}\n")).collect();
    fs::write(format!("{out}/records.jsonl"), kept).unwrap();
    let (again, said) =
        json_and_warnings(&[&["towers", "--towers", "3", "--out", &out, "--json"], QUICK].concat());
    assert!(said.contains("2 result(s) are taken from"), "{said}");
    let without_times = |told: &Value| {
        let mut told = told.clone();
        told["test"]["seconds"] = Value::Null;
        told["tried"].as_array_mut().unwrap().iter_mut().for_each(|one| one["seconds"] = Value::Null);
        told
    };
    assert_eq!(without_times(&again), without_times(&told));
    refused_with(
        &[&["towers", "--out", &out], QUICK].concat(),
        &["records.jsonl", "other settings", "towers: requested 4, but the folder has 3"],
    );
    let taken = folder.path("taken");
    fs::create_dir(&taken).unwrap();
    folder.write("taken/mine.txt", String::new());
    refused_with(&[&["towers", "--out", &taken], QUICK].concat(), &["not an empty folder"]);
    let other = folder.path("other");
    refused_with(
        &[&["towers", "--out", &other, "--towers", "each"], QUICK].concat(),
        &["--towers each", "number"],
    );
    refused_with(&[&["towers", "--out", &other, "--towers", "27"], QUICK].concat(), &["27"]);
    refused_with(&["towers", "--out", &other, "--eval-samples", "0"], &["evaluate"]);
    refused_with(&[&["towers", "--out", &other, "--ratio", "0.5"], QUICK].concat(), &["--ratio"]);
    refused_with(
        &[&["towers", "--out", &other, "--tower-module", "none"], QUICK].concat(),
        &["--tower-module none"],
    );
    let groups: Value = (1..=26)
        .map(|f| (format!("g{f}"), json!([format!("C{f}")])))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let groups = folder.write("groups.json", groups.to_string());
    refused_with(
        &[&["towers", "--out", &other, "--groups", &groups], QUICK].concat(),
        &["4 towers", "26 groups"],
    );
    refused_with(
        &[&["towers", "--out", &other, "--strategies", "coherent,coherent"], QUICK].concat(),
        &["coherent", "twice"],
    );
    assert!(!Path::new(&other).join("flat").exists(), "nothing is trained for what is refused");
}

/// Groups of equal and of unequal sizes come out of a model that was trained on them (`reports/` has ten logs of each).
#[test]
fn planted_groups_are_found_by_training() {
    let folder = Folder::new();
    let out = folder.path("planted");
    let args = [
        "reproduce",
        "planted-groups",
        "--seeds",
        "1",
        "--features",
        "12",
        "--groups",
        "3",
        "--samples",
        "400000",
        "--ratios",
        "1,2",
        "--out",
        &out,
        "--json",
    ];
    let told = json(&args);
    for record in told.as_array().unwrap() {
        let found = |strategy: &str| {
            let pairs = record["adjusted_rand"].as_array().unwrap();
            pairs.iter().find(|pair| pair[0] == strategy).unwrap()[1].as_f64().unwrap()
        };
        assert!(found("coherent, n = 2") >= 0.95 && found("coherent, n = 4") >= 0.95, "{record}");
        assert!(found("strided") < 0.5, "{record}");
    }
    // The records are there: nothing is trained again, and other settings do not mix with them.
    assert_eq!(json(&args), told);
    refused_with(
        &["reproduce", "planted-groups", "--samples", "1000", "--out", &out],
        &["records.jsonl", "other settings"],
    );
}

#[test]
fn table_6_compares_over_seeds_and_goes_on_where_it_was() {
    let folder = Folder::new();
    let out = folder.path("table6");
    let args = ["reproduce", "dmt-table6", "--preset", "demo", "--dim", "8", "--out", &out, "--json"];
    let two = json(&[&args[..], &["--runs", "2"], QUICK].concat());
    let rows = two.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        has(row, "model strategy pilots partitioner strided u p");
        assert_eq!(row["pilots_of"], "validation");
        assert_eq!(row["pilots"].as_array().unwrap().len(), 2);
        assert_eq!(row["strided"]["aucs"].as_array().unwrap().len(), 2);
    }
    let three = json(&[&args[..], &["--runs", "3"], QUICK].concat());
    let aucs = &three[0]["partitioner"]["aucs"];
    assert_eq!(aucs[0], rows[0]["partitioner"]["aucs"][0], "the first two are those of before");
    assert_eq!(aucs.as_array().unwrap().len(), 3);
    let table = ["reproduce", "dmt-table6", "--out", &out, "--table"];
    let table = String::from_utf8(campanile(&table).stdout).unwrap();
    assert!(table.contains("DMT 16T-DLRM") && table.contains("3+3") && table.contains("0.7990"), "{table}");
    assert!(table.contains("chosen by validation rows"), "{table}");
    let files: Vec<_> =
        fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!files.iter().any(|name| name.starts_with(".tmp")), "the flat models are gone: {files:?}");
    refused_with(&["reproduce", "dmt-table6", "--model", "dcn", "--out", &out], &["--model"]);
    refused_with(&["reproduce", "dmt-table6", "--strategies", "strided", "--out", &out], &["strided"]);
    let new = folder.path("new");
    refused_with(&["reproduce", "dmt-table6", "--dims", "99", "--out", &new], &["--dims", "1 to 26"]);
    assert!(!Path::new(&new).join("records.jsonl").exists(), "what is refused leaves nothing behind");
}

#[test]
fn a_synthetic_log_tells_its_groups() {
    let folder = Folder::new();
    let out = folder.path("groups.json");
    assert!(campanile(&["data", "groups", "--out", &out]).status.success());
    let groups = towers(&out);
    assert_eq!(groups.len(), 8);
    assert_eq!(groups[0], ["C5", "C11", "C25", "C26"]);
    let train = ["train", "--towers", &out, "--tower-module", "dlrm:d=8", "--steps", "1", "--json"];
    assert_eq!(json(&[&train[..], QUICK].concat())["towers"], 8);
    refused_with(&["data", "groups", "--data", "none.tsv"], &["synthetic"]);
}

/// Slices of a table stay in the group of their feature, and share its load.
#[test]
fn slices_keep_their_groups_and_share_loads() {
    let folder = Folder::new();
    let affinity = folder.write("affinity.json", planted(2, 2).to_string());
    let groups = folder.write("groups.json", r#"{"a": ["C1", "C2"], "b": ["C3", "C4"]}"#);
    let loads = folder.write("loads.json", r#"{"C1": 10, "C2": 10, "C3": 10, "C4": 10}"#);
    let out = folder.path("towers.json");
    let args = [
        "partition",
        "--affinity",
        &affinity,
        "--towers",
        "4",
        "--groups",
        &groups,
        "--balance",
        "load",
        "--loads",
        &loads,
        "--slice-to",
        "4",
        "--dim",
        "8",
        "--out",
        &out,
        "--json",
    ];
    assert_eq!(json(&args)["max_over_min"], 1.0);
    let again = folder.path("again.json");
    for tower in towers(&out) {
        let first = |name: &String| name.starts_with("C1[") || name.starts_with("C2[");
        assert!(tower.iter().all(first) || !tower.iter().any(first), "{tower:?}");
    }
    let none = folder.write("loads.json", r#"{"C1": 10, "C2": 10, "C3": 0, "C4": 0}"#);
    let args = [&args[..9], &["--loads", &none, "--out", &again]].concat();
    refused_with(&[&args[..4], &["2"], &args[5..]].concat(), &["--groups", "group 1 is b", "no load"]);
    let huge = folder.write("huge.json", r#"{"C1": 1e308, "C2": 1e308, "C3": 1e308, "C4": 1e308}"#);
    refused_with(
        &[
            "partition",
            "--affinity",
            &affinity,
            "--towers",
            "2",
            "--balance",
            "load",
            "--loads",
            &huge,
            "--out",
            &again,
        ],
        &["sum of the loads"],
    );
    let one = folder.write("one.json", r#"{"features": ["A"], "affinity": [[1]]}"#);
    assert!(campanile(&["partition", "--affinity", &one, "--towers", "1", "--out", &again]).status.success());
}
