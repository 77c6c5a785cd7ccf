//! `campanile simulate`: its JSON, the rows that MAD-Max's tool prints, its files, its refusals.

mod files;
mod hostile;
mod refusals;
mod tasks;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

fn campanile(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_campanile")).arg("simulate").args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = campanile(&[args, &["--json"]].concat());
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {err}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(args: &[&str]) -> String {
    let output = campanile(args);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{args:?} should have been refused");
    assert!(!err.contains("panicked"), "{args:?}: {err}");
    err
}

/// A folder for the files of a test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and gives its path.
    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().into()
    }
}

const KEYS: &str = "iteration_ms gemm_ms embedding_ms other_ms all_to_all_ms all_reduce_ms all_gather_ms reduce_scatter_ms \
                    exposed_ms serial_ms samples_per_s memory_gb fits memory_parts_gb model system task cost operations";

#[test]
fn without_arguments_it_predicts_something() {
    let output = campanile(&[]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "dlrm, pre-training, on h100:64 (8 nodes × 8 devices)",
        "ms a step",
        "It fits.",
        "Timeline",
        "exposed",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let one = json(&[]);
    for key in KEYS.split_whitespace() {
        assert!(!one[key].is_null(), "{key} is missing");
    }
    let operation = &one["operations"][0];
    for key in "name lane begin_ms end_ms seconds bytes flops".split_whitespace() {
        assert!(!operation[key].is_null(), "{key} is missing in {operation}");
    }
}

#[test]
fn trained_models_at_every_scale() {
    for (model, system) in [
        ("dlrm", "v100:16"),
        ("8t-dlrm", "h100:512"),
        ("sptt-dcn", "a100:128"),
        ("26t-dcn", "h100:8"),
        ("xlrm", "a100-80:256"),
        ("16t-xlrm", "h100:4096"),
        ("dlrm", "h100:4096"),
    ] {
        for cost in ["madmax", "roofline", "hierarchical"] {
            let one = json(&["--model", model, "--system", system, "--cost", cost, "--batch", "2048"]);
            assert!(one["iteration_ms"].as_f64().unwrap() > 0.0, "{model} on {system} by {cost}");
            assert!(one["exposed_ms"].as_f64().unwrap() >= 0.0);
        }
    }
    let train = json(&["--model", "8t-dcn", "--system", "h100:64"]);
    let inference = json(&["--model", "8t-dcn", "--system", "h100:64", "--task", "inference"]);
    assert!(inference["iteration_ms"].as_f64() < train["iteration_ms"].as_f64());
    assert!(inference["memory_gb"].as_f64() < train["memory_gb"].as_f64());
    let wide = json(&["--model", "8t-dcn", "--system", "h100:64", "--wire", "f32"]);
    assert!(wide["all_to_all_ms"].as_f64() > train["all_to_all_ms"].as_f64());
}

/// Algorithm and codec of the schedule are what is priced, and what the output names.
#[test]
fn the_algorithm_and_the_codec_are_priced() {
    let of = |args: &[&str]| json(&[&["--model", "8t-dlrm", "--system", "h100:64"], args].concat());
    let usual = of(&[]);
    assert_eq!((&usual["all_reduce"], &usual["wire"]), (&"two-level".into(), &"bf16".into()));
    let direct = of(&["--all-reduce", "direct"]);
    assert_eq!(direct["all_reduce"], "direct");
    assert!(direct["all_reduce_ms"].as_f64() > usual["all_reduce_ms"].as_f64(), "{direct}");
    let mut exchanges: Vec<f64> = Vec::new();
    for wire in ["f32", "bf16", "u8", "fp8", "u4", "u2"] {
        exchanges.push(of(&["--wire", wire])["all_to_all_ms"].as_f64().unwrap());
    }
    assert!(exchanges.windows(2).all(|pair| pair[1] < pair[0]), "{exchanges:?}");
    let text = campanile(&["--model", "dlrm", "--all-reduce", "direct", "--wire", "f32"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("flat; f32 on the wire; direct all-reduce"), "{text}");
    let rules =
        |all_reduce: &str| of(&["--cost", "madmax", "--all-reduce", all_reduce])["iteration_ms"].clone();
    assert_eq!(rules("ring"), rules("two-level"), "MAD-Max's rules know no algorithm");
}

#[test]
fn what_does_not_fit_says_so_and_what_to_do() {
    let args = ["--model", "gpt-3", "--system", "llm-a100", "--transformer", "ddp"];
    assert_eq!(json(&args)["fits"], false);
    let text = String::from_utf8(campanile(&args).stdout).unwrap();
    assert!(text.contains("It does not fit, by ") && text.contains("--transformer fsdp"), "{text}");
    assert!(text.contains("shorter ones are left out"));
    let shards = ["--model", "gpt-3", "--system", "llm-a100", "--activations", "recompute"];
    assert_eq!(json(&shards)["fits"], true);
}

#[test]
fn a_trace_and_a_page_are_written() {
    let files = Files::new();
    let (trace, page) = (files.path("trace.json"), files.path("page.html"));
    let args = ["--model", "8t-dlrm", "--trace", trace.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let one = json(&args);
    let trace: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(spans.len(), one["operations"].as_array().unwrap().len());
    for span in &spans {
        assert!(span["dur"].as_f64().unwrap() >= 0.0 && span["ts"].as_f64().unwrap() >= 0.0, "{span}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("8t-dlrm on h100:64") && page.contains("all-to-all") && page.contains("it fits"));
}

#[test]
fn bars_show_when_lanes_are_at_work() {
    let output = campanile(&["--model", "8t-dlrm", "--bars"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("peer exchange") && text.contains('▒'), "{text}");
}
