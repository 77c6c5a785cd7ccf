use super::*;
use crate::program::tests::Flags;
use clap::Parser;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn args(words: &str) -> Args {
    Command::parse_from(std::iter::once("precision").chain(words.split_whitespace())).args
}

#[test]
fn trainings_are_compared_by_seed_and_go_on_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let words = |seeds: u64| {
        format!("--seeds {seeds} --train-rows 2048 --test-rows 256 --json --out {}", folder.path().display())
    };
    let first: serde_json::Value =
        serde_json::from_str(&report(&args(&words(1)), &Flags).unwrap().json).unwrap();
    assert_eq!(first.as_array().unwrap().len(), 3, "{first}");
    assert_eq!((&first[0]["precision"], &first[0]["auc_change"]["mean"]), (&"f32".into(), &0.0.into()));
    let second = report(&args(&words(2)), &Flags).unwrap();
    let records = Records::<TrainedIn>::existing(folder.path()).all().unwrap();
    let order: Vec<(&str, u64)> = records.iter().map(|r| (r.precision.as_str(), r.seed)).collect();
    assert_eq!(
        order,
        [("f32", 0), ("f32x3", 0), ("bf16", 0), ("f32", 1), ("f32x3", 1), ("bf16", 1)],
        "what was there is not trained again"
    );
    assert!(second.text.contains("f32x3") && second.text.contains("±0.001: "), "{}", second.text);
    // Another length is another measurement.
    let other = words(1).replace("2048", "4096");
    assert!(report(&args(&other), &Flags).is_err());
}

#[test]
fn formats_of_tables_are_compared_as_precisions_are() {
    let folder = tempfile::tempdir().unwrap();
    let words = format!(
        "--seeds 1 --train-rows 2048 --test-rows 256 --tables f16 --tables bf16:nearest --json --out {}",
        folder.path().display()
    );
    report(&args(&words), &Flags).unwrap();
    let records = Records::<TrainedIn>::existing(folder.path()).all().unwrap();
    let arms: Vec<&str> = records.iter().map(|record| record.precision.as_str()).collect();
    assert_eq!(arms, ["f32", "tables f16, stochastic", "tables bf16, nearest"]);
    assert!(Command::try_parse_from(["precision", "--tables", "f16:up"]).is_err());
}

#[test]
fn a_mean_beyond_the_limit_is_missed() {
    let record = |precision: &str, seed, auc| TrainedIn {
        precision: precision.into(),
        seed,
        auc,
        logloss: 0.5,
        seconds: 1.0,
        parameters_sha256: precision.into(),
        version: String::new(),
    };
    let records = [
        record("f32", 0, 0.75),
        record("bf16", 0, 0.752),
        record("f32x3", 0, 0.7502),
        record("f32", 1, 0.76),
        record("bf16", 1, 0.7605),
        record("f32x3", 1, 0.7596),
    ];
    assert!(report::changes(&records).iter().all(|change| change.same_bits == (change.precision == "f32")));
    let cells: Vec<String> =
        report::changes(&records).iter().map(|change| change.cells()[5].clone()).collect();
    assert_eq!(cells, ["–", "±0.001: missed", "±0.0003: met"]);
}
