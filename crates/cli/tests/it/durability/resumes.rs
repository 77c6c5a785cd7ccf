//! What can be resumed, and what is refused.

use super::command::{campanile, campanile_in, names, resume, same, text, verified};
use super::logs;
use serde_json::Value;
use std::fs;
use std::path::Path;

const SMALL: &str = "--samples 1280 --eval-samples 500 --batch 64 --checkpoint-every 5";

fn train(run: &Path, more: &[&str]) -> Value {
    let small: Vec<&str> = SMALL.split(' ').collect();
    campanile(&[&["train", "--json", "--out", text(run)], &small[..], more].concat()).json()
}

#[test]
fn another_run_is_refused_with_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &["--steps", "10"]);
    let before = fs::read(run.join("metrics.jsonl")).unwrap();
    for (flags, part) in [
        ("--model dcn", "model.kind: requested dcn, but the run has dlrm"),
        ("--batch 128", "train.batch: requested 128, but the run has 64"),
        ("--seed 7", "train.seed: requested 7, but the run has 0"),
        ("--optimizer adagrad", "optimizer.dense.update"),
        ("--samples 2560", "data.synthetic.samples: requested 2560, but the run has 1280"),
        ("--shuffle 100", "shuffle"),
        ("--preset kaggle", "leave --preset out"),
        ("--steps 5", "done 10 steps"),
    ] {
        let flags: Vec<&str> = flags.split(' ').collect();
        resume(&run, &flags).refused(&[part]);
    }
    assert_eq!(verified(&run), Some(10));
    assert!(fs::read(run.join("metrics.jsonl")).unwrap() == before, "a refused resume changes nothing");
}

/// Formats and rounding of tables are part of a run; scores of its checkpoint are those of the run.
#[test]
fn tables_keep_their_format() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let trained = train(&run, &["--steps", "10", "--tables", "f16"]);
    for (flags, part) in [
        ("--tables f32", "format: requested none, but the run has f16"),
        ("--tables bf16", "format: requested bf16, but the run has f16"),
        ("--rounding nearest", "tables.rounding: requested nearest, but the run has stochastic"),
    ] {
        let flags: Vec<&str> = flags.split(' ').collect();
        resume(&run, &flags).refused(&[part]);
    }
    let scored = campanile(&["eval", "--checkpoint", text(&run), "--json"]).json();
    assert_eq!(scored["auc"], trained["auc"]);
    // Files hold the weights as they are.
    let inspected = campanile(&["checkpoint", "inspect", text(&run), "--json"]).json();
    for tensor in inspected["tensors"].as_array().unwrap() {
        let (name, format) = (tensor["name"].as_str().unwrap(), tensor["format"].as_str().unwrap());
        assert_eq!(format, if name.starts_with("tables.") { "f16" } else { "f32" }, "{name}");
    }
    assert_eq!(resume(&run, &["--steps", "15", "--tables", "f16"]).json()["steps"], 15);
}

#[test]
fn other_samples_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (run, log, other) =
        (folder.path().join("run"), folder.path().join("train.tsv"), folder.path().join("other.tsv"));
    logs::criteo(&log, 600, 1);
    logs::criteo(&other, 600, 5);
    let model = ["--preset", "kaggle", "--rows-cap", "100", "--dim", "4", "--batch", "100", "--steps", "4"];
    campanile(&[&["train", "--json", "--out", text(&run), "--data", text(&log)], &model[..]].concat()).json();
    resume(&run, &["--steps", "6", "--data", text(&other)]).refused(&["training data", "other.tsv"]);
    // The same file with other lines.
    let text = fs::read(&log).unwrap();
    fs::copy(&other, &log).unwrap();
    resume(&run, &["--steps", "6"]).refused(&["training data", "train.tsv"]);
    fs::write(&log, text).unwrap();
    assert_eq!(resume(&run, &["--steps", "6"]).json()["steps"], 6);
}

#[test]
fn an_earlier_checkpoint_is_refused_while_there_is_a_later() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let expected = train(&run, &["--keep", "4"]);
    let checkpoints = run.join("checkpoints");
    // Those that came while another was being written were left out; the first and the last are there in any case.
    let saved = names(&checkpoints);
    assert_eq!((&saved[0][..], &saved[saved.len() - 1][..]), ("step-000000000005", "step-000000000020"));
    let first = checkpoints.join(&saved[0]);
    resume(&first, &[]).refused(&["later checkpoint", "than step 5"]);
    for later in &saved[1..] {
        fs::remove_dir_all(checkpoints.join(later)).unwrap();
    }
    same(&resume(&first, &[]).json(), &expected);
}

#[test]
fn a_finished_run_gives_its_results_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let expected = train(&run, &[]);
    let again = resume(&run, &[]).json();
    same(&again, &expected);
    assert_eq!(again["samples"], 0, "nothing was left to train");
    let short = folder.path().join("short");
    train(&short, &["--steps", "5"]);
    let said = resume(&short, &[]).err;
    assert!(
        said.contains("all 5 steps are done") && said.contains("--epochs 1 (or --steps N, up to 20)"),
        "{said}"
    );
}

/// However the folder is named, and however often, the only checkpoint stays, and the user learns how to go on.
#[test]
fn a_complete_run_says_so_by_any_path() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("runs/one");
    let expected = train(&whole, &["--keep", "1"]);
    std::os::unix::fs::symlink("runs", folder.path().join("link")).unwrap();
    for path in ["runs/one", "./runs/../runs/one", "link/one", "runs/one/checkpoints", text(&whole)] {
        let ended = campanile_in(folder.path(), &["train", "--json", "--resume", path]);
        same(&ended.json(), &expected);
        let said = &ended.err;
        assert!(said.contains("is complete: all 20 steps are done"), "{path}: {said}");
        assert!(said.contains("--epochs 2"), "{path}: {said}");
        assert_eq!(names(&whole.join("checkpoints")), ["step-000000000020"], "{path}");
    }
    let longer = ["train", "--json", "--resume", "runs/one", "--epochs", "2"];
    let ended = campanile_in(folder.path(), &longer);
    assert!(!ended.err.contains("complete"), "{}", ended.err);
    assert_eq!(ended.json()["steps"], 40);
}

/// Checkpoints by the clock come while training goes on, and change nothing else.
#[test]
fn a_run_saves_its_state_by_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let [by_steps, by_time, by_default] = ["steps", "time", "default"].map(|name| folder.path().join(name));
    let expected = train(&by_steps, &[]);
    let args = "--samples 1280 --eval-samples 500 --batch 64";
    let trained = |run: &Path, more: &[&str]| {
        let args: Vec<&str> = args.split(' ').collect();
        campanile(&[&["train", "--json", "--out", text(run)], &args[..], more].concat()).json()
    };
    // An interval that the first step is longer than.
    same(&trained(&by_time, &["--checkpoint-every", "0.000001s"]), &expected);
    let metrics = fs::read_to_string(by_time.join("metrics.jsonl")).unwrap();
    let saved = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let saved: Vec<u64> =
        saved.filter(|r| r["event"] == "checkpoint").map(|r| r["step"].as_u64().unwrap()).collect();
    assert!(saved.len() >= 2 && saved[0] == 1 && saved.last() == Some(&20), "{saved:?}");
    let kept = names(&by_time.join("checkpoints"));
    assert!(kept.len() <= 2 && kept.last().unwrap() == "step-000000000020", "{kept:?}");

    same(&trained(&by_default, &[]), &expected);
    let config = |run: &Path| fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(config(&by_default).contains("every = \"10min\""), "{}", config(&by_default));
    assert!(config(&by_steps).contains("every = 5\n"), "{}", config(&by_steps));
    resume(&by_steps, &[]).json();
    assert!(config(&by_steps).contains("every = 5\n"), "a resumed run keeps it");
    let never = folder.path().join("never");
    for interval in ["0", "10m", "0s", "soon"] {
        let refused = campanile(&["train", "--out", text(&never), "--checkpoint-every", interval]);
        assert!(refused.code.is_some_and(|code| code > 0), "{refused:?}");
    }
}

/// The folder of a run that was killed before it wrote its config tells nothing about it.
#[test]
fn a_run_that_had_not_begun_is_started_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    for part in ["checkpoints", "tensorboard", "prepared/train"] {
        fs::create_dir_all(run.join(part)).unwrap();
    }
    for file in ["metrics.jsonl", "config.toml.partial"] {
        fs::write(run.join(file), "").unwrap();
    }
    resume(&run, &[]).refused(&["config.toml", "--out"]);
    assert_eq!(train(&run, &["--steps", "5"])["steps"], 5);
}

#[test]
fn what_four_ranks_saved_one_takes_up() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let expected = train(&run, &[]);
    let scores = |more: &[&str]| {
        let eval = ["eval", "--json", "--checkpoint", text(&run)];
        campanile(&[&eval, more].concat()).json()
    };
    let one = ["--hosts", "1", "--ranks-per-host", "1"];
    for scores in [scores(&[]), scores(&one)] {
        assert!(
            (scores["auc"].as_f64().unwrap() - expected["auc"].as_f64().unwrap()).abs() < 1e-6,
            "{scores}"
        );
    }
    // Nothing is left to train, so the parameters are the same bits; then one rank goes on.
    let resumed = resume(&run, &one).json();
    assert_eq!(resumed["parameters_sha256"], expected["parameters_sha256"]);
    let longer = resume(&run, &[&one[..], &["--epochs", "2"]].concat()).json();
    assert_eq!(longer["steps"], 40);
    assert_eq!(verified(&run), Some(40));
}
