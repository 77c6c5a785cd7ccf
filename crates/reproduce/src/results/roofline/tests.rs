use super::super::Sources;
use super::*;
use crate::program::tests::Flags;
use serde_json::{Value, json};

fn record(precision: &str, ms: f64, top: f64, rest: f64) -> Value {
    let peak = |median: f64| json!({ "median": median, "best": 1.1 * median });
    let phase = |name: &str, limit: &str, share: f64, wide: Option<f64>| {
        let precision = (limit == "products").then_some(precision);
        json!({ "name": name, "ms": 1.0, "best_ms": 0.8, "limit": limit, "precision": precision, "share": share, "wide_share": wide })
    };
    json!({
        "time": "2026-01-02T03:04:05Z", "version": "0.1.0 (commit abc)", "cpu": "a CPU", "preset": "mlperf", "model": "dlrm",
        "batch": 2048, "precision": precision, "threads": 2, "rounds": 5, "steps": 6, "ms_per_step": ms,
        "peaks": {
            "products": { precision: peak(2e11) }, "gather": peak(1e10), "update": peak(1.1e10), "stream": peak(2e10),
        },
        "phases": [
            phase("lookup in place", "gather", 0.85, None),
            phase("bottom forward", "products", 0.2, Some(0.77)),
            phase("top forward", "products", top, Some(0.99)),
            phase("top backward", "products", 0.9, Some(0.99)),
            phase("update tables", "update", 0.7, None),
            json!({ "name": "loss", "ms": 0.001, "best_ms": 0.001, "limit": "stream", "share": null }),
        ],
        "groups": [{ "name": "products", "share_of_step": 0.5 }, { "name": "rest", "share_of_step": rest }],
    })
}

#[test]
fn a_roofline_is_judged_by_its_last_record() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("roofline")).unwrap();
    let records =
        [record("bf16", 60.0, 0.55, 0.25), record("f32", 300.0, 0.5, 0.5), record("f32", 150.0, 0.8, 0.1)];
    std::fs::write(folder.path().join(FILE), records.map(|record| record.to_string()).join("\n")).unwrap();
    let sources = Sources { reports: folder.path(), program: &Flags };
    let text = targets(&sources).unwrap();
    let f32 = "| mlperf dlrm, 2048 | f32 | 150.0 | 80 % (75: met) | 91 % (75: met) | 85 % (80: met) | 70 % (80: missed) | 10 % (12: met) | 200 | 10, 11, 20 |";
    let bf16 = "| mlperf dlrm, 2048 | bf16 | 60.0 | 55 % (60: missed) | 62 % (60: met) | 85 % (80: met) | 70 % (80: missed) | 25 % (20: missed) | 200 | 10, 11, 20 |";
    assert!(text.find(f32).unwrap() < text.find(bf16).unwrap(), "{text}");
    assert!(!text.contains("300.0"), "an older record: {text}");
    let text = phases(&sources).unwrap();
    assert!(text.contains("| top forward | products | 1.00 | 80 % | 1.00 | 55 % |"), "{text}");
    assert!(
        !text.contains("loss")
            && text.contains("on 2026-01-02, version 0.1.0 (commit abc), a CPU, 2 threads."),
        "{text}"
    );
}
