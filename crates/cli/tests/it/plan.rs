//! `campanile plan`, and runs that follow a plan.

use crate::support::command::{Folder, campanile, has, json, refused_with};
use serde_json::Value;
use std::fs;

/// A small run on two ranks.
const RUN: &[&str] =
    &["--hosts", "1", "--ranks-per-host", "2", "--batch", "256", "--samples", "1024", "--eval-samples", "64"];

fn read(path: &str) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The words of a config for the table of a plan, whose cuts are even.
fn layout(table: &Value) -> String {
    let shards = table["shards"].as_array().unwrap();
    let count = |what: &str| {
        let mut starts: Vec<u64> = shards.iter().map(|shard| shard[what][0].as_u64().unwrap()).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.len()
    };
    let ranks: Vec<String> = shards.iter().map(|shard| shard["ranks"][0].to_string()).collect();
    let words = match (shards[0]["copies"].as_str(), count("rows"), count("columns")) {
        (Some("samples"), ..) => "kind = \"replicated\"".into(),
        (Some(_), ..) => "kind = \"data_parallel\"".into(),
        (None, 1, 1) => format!("kind = \"table_wise\", rank = {}", ranks[0]),
        (None, _, 1) => format!("kind = \"row_wise\", ranks = [{}]", ranks.join(", ")),
        (None, 1, _) => format!("kind = \"column_wise\", ranks = [{}]", ranks.join(", ")),
        (None, rows, columns) => {
            format!("kind = \"grid\", rows = {rows}, columns = {columns}, ranks = [{}]", ranks.join(", "))
        }
    };
    format!("{} = {{ {words} }}\n", table["name"].as_str().unwrap())
}

/// A plan is printed, kept, drawn and followed: a run with it has the bits of the run whose config has the same cuts.
#[test]
fn a_plan_is_told_and_followed() {
    let folder = Folder::new();
    let (out, html) = (folder.path("plan.json"), folder.path("plan.html"));
    let plan = [&["plan", "--memory-per-rank", "1GiB"], RUN].concat();
    let told = json(&[&plan[..], &["--json", "--out", &out, "--html", &html]].concat());
    has(&told, "fits seconds imbalance bound_ratio ranks tables");
    assert_eq!(told["fits"], true);
    assert!(told["imbalance"].as_f64().unwrap() >= 1.0 && told["bound_ratio"].as_f64().unwrap() >= 0.999);
    let (ranks, tables) = (told["ranks"].as_array().unwrap(), told["tables"].as_array().unwrap());
    assert_eq!((ranks.len(), tables.len()), (2, 26));
    ranks.iter().for_each(|rank| has(rank, "memory_bytes predicted_ms lookup_bytes sent_bytes"));
    tables.iter().for_each(|table| has(table, "name scheme shards reason refused"));
    let page = fs::read_to_string(&html).unwrap();
    for part in ["Predicted time of a rank", "Memory of a rank", "C26", "<svg"] {
        assert!(page.contains(part), "{part} is missing in the page");
    }
    let text = campanile(&plan);
    let text = String::from_utf8(text.stdout).unwrap();
    for part in ["26 tables on 1 host × 2 ranks", "rank", "memory", "predicted", "Schemes:", "C26", "second:"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }

    let layouts: String = read(&out)["tables"].as_array().unwrap().iter().map(layout).collect();
    let config = folder.write("cuts.toml", format!("[placement.tables]\n{layouts}"));
    let named = folder.write("named.toml", "[placement]\nplan = \"plan.json\"\n");
    let train = [&["train", "--json"], RUN].concat();
    let digest = |more: &[&str]| json(&[&train[..], more].concat())["parameters_sha256"].clone();
    let expected = digest(&[&config]);
    assert_eq!(digest(&["--plan", &out]), expected);
    assert_eq!(digest(&[&named]), expected);

    // A run that goes on keeps its plan, and another one may take over.
    let run = folder.path("run");
    let part = [&["--out", &run, "--plan", &out, "--steps", "2", "--quiet"], RUN].concat();
    json(&[&["train", "--json"], &part[..]].concat());
    let kept = fs::read_to_string(format!("{run}/config.toml")).unwrap();
    assert!(kept.contains("[placement.plan]"), "{kept}");
    let resumed = json(&["train", "--json", "--resume", &run, "--steps", "4"]);
    assert_eq!(resumed["parameters_sha256"], digest(&["--plan", &out, "--steps", "4"]));
}

/// Plans are compared by table and by rank, and files that are there are not replaced.
#[test]
fn plans_are_compared() {
    let folder = Folder::new();
    let (a, b) = (folder.path("a.json"), folder.path("b.json"));
    json(&[&["plan", "--json", "--out", &a, "--search", "greedy"], RUN].concat());
    let mut plan = read(&a);
    let rows = plan["tables"][2]["rows"].clone();
    plan["tables"][2]["shards"] =
        serde_json::json!([{ "rows": [0, rows], "columns": [0, 16], "ranks": [0] }]);
    plan["tables"][2]["shards"][0]["ranks"][0] =
        if read(&a)["tables"][2]["shards"][0]["ranks"] == serde_json::json!([0]) {
            1.into()
        } else {
            0.into()
        };
    fs::write(&b, plan.to_string()).unwrap();
    let told = json(&["plan", "--diff", &a, &b, "--json"]);
    assert_eq!((&told["unchanged"], &told["tables"][0]["name"]), (&25.into(), &"C3".into()));
    let text = String::from_utf8(campanile(&["plan", "--diff", &a, &b]).stdout).unwrap();
    assert!(text.contains("1 tables change, 25 do not") && text.contains("C3"), "{text}");
    refused_with(&[&["plan", "--out", &a], RUN].concat(), &[&a, "--force"]);
    refused_with(&["plan", "--diff", &a, &folder.path("none.json")], &["none.json"]);
}

/// A plan for something else is refused with the first difference.
#[test]
fn plans_of_other_runs_are_refused() {
    let folder = Folder::new();
    let plan = folder.path("plan.json");
    json(&[&["plan", "--json", "--out", &plan], RUN].concat());
    let with = |more: &[&str]| {
        let all = [&["train", "--plan", &plan][..], RUN, more].concat();
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let other = |flag: &str, value: &str| -> Vec<String> {
        let mut args = with(&[]);
        let at = args.iter().position(|arg| arg == flag).unwrap();
        args[at + 1] = value.into();
        args
    };
    let no_plan = folder.write("no.json", "{}");
    let cases: Vec<(Vec<String>, Vec<&str>)> = vec![
        (other("--ranks-per-host", "4"), vec!["placement.plan", "1 host × 2 ranks", "1 host × 4 ranks"]),
        (with(&["--dim", "8"]), vec!["table C1", "dim is 16 in the plan, but 8 in the model"]),
        (with(&["--rows-cap", "9"]), vec!["rows are ", "but 9 in the model"]),
        (with(&["--dataflow", "sptt"]), vec!["the flat dataflow", "sptt with 1 host per tower"]),
        (with(&["--cut", "columns"]), vec!["placement.plan", "--cut"]),
        (with(&["--replicate-rows", "10"]), vec!["placement.plan", "--replicate-rows"]),
        (other("--plan", &no_plan), vec![&no_plan, "version"]),
        (other("--plan", "nowhere"), vec!["--plan nowhere", "auto"]),
        (["plan", "--plan", "auto"].map(String::from).to_vec(), vec!["makes a plan"]),
        (["plan", "--weights", "speed=2"].map(String::from).to_vec(), vec!["speed", "imbalance"]),
        (["plan", "--reserve", "0.2"].map(String::from).to_vec(), vec!["--reserve", "--memory-per-rank"]),
        (
            ["simulate", "--system", "h100:8", "--plan", &plan].map(String::from).to_vec(),
            vec!["1 host × 2 ranks", "1 host × 8 ranks"],
        ),
    ];
    for (args, expected) in cases {
        refused_with(&args.iter().map(String::as_str).collect::<Vec<_>>(), &expected);
    }
}

/// When nothing fits, the command fails and says what would make it fit; so does a run, before anything is allocated.
#[test]
fn what_does_not_fit_is_refused_with_remedies() {
    let run = ["--preset", "terabyte", "--memory-per-rank", "40GiB"];
    let output = campanile(&[&["plan", "--json"], &run[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["fits"], false);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (told["remedies"].as_array().unwrap().len(), message.matches("\n- ").count()),
        (4, 4),
        "{message}"
    );
    assert!(message.contains("--table-memory"), "{message}");
    assert!(
        told["need_bytes"].as_u64() > told["room_bytes"].as_u64() && message.contains("too much"),
        "{message}"
    );
    let train = ["train", "--preset", "terabyte", "--dim", "4096"];
    refused_with(&train, &["GB are free", "not fit", "too much", "\n- "]);
}

/// Other commands take plans too.
#[test]
fn plans_are_simulated() {
    let simulated = json(&["simulate", "--model", "dlrm", "--system", "h100:16", "--plan", "auto", "--json"]);
    assert!(simulated["iteration_ms"].as_f64().unwrap() > 0.0, "{simulated}");
    let explored =
        json(&["explore", "--model", "dlrm", "--systems", "h100:16", "--plan", "none,auto", "--json"]);
    assert_eq!(explored["evaluated"], 2);
    let steps = json(&[&["schedule", "--plan", "auto", "--json"], RUN].concat());
    assert!(steps["config"]["placement"]["plan"]["tables"].is_array(), "{}", steps["config"]);
}
