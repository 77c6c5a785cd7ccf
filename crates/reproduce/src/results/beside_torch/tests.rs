use super::super::Sources;
use super::*;
use crate::program::tests::Flags;

/// A record of `scripts/compare-torch`: round 0 and 1 have `rate` and three times `rate`.
fn rounds(date: &str, program: &str, more: &str, rate: f64) -> String {
    let line = |round: u64, rate: f64| {
        format!(
            "{{\"date\":\"{date}\",\"commit\":\"abc\",\"cpu\":\"c\",\"threads\":2,\"versions\":{{\"torch\":\"2\"}},\"round\":{round},\
             \"program\":\"{program}\",{more}\"preset\":\"mlperf\",\"model\":\"dlrm\",\"batch\":2048,\"samples_per_s\":{rate}}}\n"
        )
    };
    line(0, rate) + &line(1, 3.0 * rate)
}

#[test]
fn ratios_are_to_the_fastest_peer_of_each_precision() {
    let bf16 = |variant: &str| format!("\"precision\":\"bf16\",\"variant\":\"{variant}\",");
    let records = [
        // An earlier measurement, of programs that compute in f32 alone.
        rounds("2026-01-01", "torch-bag", "", 100.0),
        rounds("2026-01-01", "torch-fbgemm", "", 200.0),
        rounds("2026-01-01", "campanile", "", 250.0),
        rounds("2026-01-02", "torch-bag", "\"precision\":\"f32\",\"variant\":\"plain\",", 100.0),
        rounds("2026-01-02", "torch-bag", &bf16("autocast"), 300.0),
        rounds("2026-01-02", "torch-fbgemm", &bf16("compiled"), 350.0),
        rounds("2026-01-02", "campanile", &bf16("plain"), 400.0),
    ];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), records.concat()).unwrap();
    let text = steps(&Sources { reports: folder.path(), program: &Flags }).unwrap();
    let expected = [
        "| mlperf dlrm, 2048 | f32 | 500/s | 400/s (fbgemm) | 1.25 | 1.25 to 1.25 | 1.3: missed |  |  |  |",
        "| mlperf dlrm, 2048 | bf16 | 800/s | 200/s (bag) | 4.00 | 4.00 to 4.00 | 3: met | 700/s (fbgemm, compiled) | 1.14 | 1.2: missed |",
    ];
    for line in expected {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("f32x3"), "{text}");
    assert!(text.contains("on 2026-01-01 to 2026-01-02, commit abc, c, 2 threads, torch 2."), "{text}");
}
