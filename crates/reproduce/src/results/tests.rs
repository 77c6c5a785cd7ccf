use super::*;
use crate::program::tests::Flags;
use spec::codec::{Codec, Compensation};
use spec::program::Algorithm;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports")
}

#[test]
fn every_table_is_made_from_the_records_of_the_repository() {
    let reports = root();
    let sources = Sources { reports: &reports, program: &Flags };
    for (name, make) in TABLES {
        // This program cannot read system files; the binary can.
        if name == "predictions" {
            continue;
        }
        let text = make(&sources).unwrap_or_else(|error| panic!("{name}: {}", error.chain()));
        assert!(text.contains("| ") || text.contains("```text"), "{name} is no table: {text}");
        assert!(text.ends_with(".\n"), "{name} does not say where it comes from: {text}");
    }
    assert!(table("no such table", &sources).is_none());
}

#[test]
fn a_table_follows_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let line = |model: &str, auc: f64| {
        format!(
            "{{\"time\":\"2026-01-02T03:04:05\",\"commit\":\"abc\",\"model\":\"{model}\",\"auc\":{auc},\"logloss\":0.5,\
             \"samples\":1000,\"eval_samples\":10}}\n"
        )
    };
    let records = line("dlrm", 0.7) + &line("dlrm", 0.8) + &line("dcn", 0.76);
    std::fs::write(folder.path().join("real-data.jsonl"), records).unwrap();
    let sources = Sources { reports: folder.path(), program: &Flags };
    let text = table("real data", &sources).unwrap().unwrap();
    assert!(
        text.contains("| dlrm | 2 | 0.7500 | 0.7000 to 0.8000 | 0.5000 | 0.756: missed by 0.0060 |"),
        "{text}"
    );
    assert!(text.contains("| dcn | 1 | 0.7600 | 0.7600 to 0.7600 | 0.5000 | 0.756: met |"), "{text}");
    assert!(text.contains("on 2026-01-02, commit abc: 1,000 samples"), "{text}");
    std::fs::write(folder.path().join("real-data.jsonl"), "{\"time\":").unwrap();
    let error = table("real data", &sources).unwrap().unwrap_err();
    assert!(error.to_string().ends_with("real-data.jsonl, line 1"), "{error}");
}

#[test]
fn days_and_commits_are_named_once() {
    assert_eq!(
        days(["2026-01-03T1", "2026-01-02T1", "2026-01-03T2"].into_iter()),
        "2026-01-02 to 2026-01-03"
    );
    assert_eq!(days(["2026-01-03T1"].into_iter()), "2026-01-03");
    assert_eq!(distinct(["b", "a", "b"].into_iter()), "a, b");
}

/// A ring rounds in every round, recursive doubling in every doubling; errors that are carried average out.
#[test]
fn errors_of_reductions_grow_as_the_rounds_and_average_out() {
    let of = |nodes, algorithm, codec, compensation, steps| {
        reductions::error(nodes, algorithm, codec, compensation, steps).unwrap()
    };
    let plain = |nodes, algorithm| of(nodes, algorithm, Codec::U8, Compensation::None, 1);
    let (ring, doubling) = (Algorithm::Ring, Algorithm::RecursiveDoubling);
    assert!(plain(128, ring) > 3.0 * plain(8, ring));
    assert!(plain(128, doubling) < 2.5 * plain(8, doubling));
    assert!(plain(128, ring) > 3.0 * plain(128, doubling));
    let carried = |steps| of(8, ring, Codec::U4, Compensation::Every, steps);
    assert!(carried(64) < 0.1 * carried(1), "{} after one, {} after 64", carried(1), carried(64));
}
