//! Increments: everything that reads a checkpoint reads a chain of them.

use super::command::{campanile, names, resume, same, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const ARGS: &str =
    "--samples 25600 --eval-samples 300 --batch 64 --rows-cap 3000 --checkpoint-every 50 --keep 9";

/// A run of 400 steps in `run`, and what it came to.
fn trained(run: &Path, more: &[&str]) -> Value {
    let args: Vec<&str> = ARGS.split(' ').collect();
    campanile(&[&["train", "--json", "--out", text(run)], &args[..], more].concat()).json()
}

/// Steps of the checkpoints of a run. A checkpoint is put off while another one is being written.
fn steps(run: &Path) -> Vec<u64> {
    let names = names(&run.join("checkpoints"));
    names.iter().filter_map(|name| name.strip_prefix("step-")?.parse().ok()).collect()
}

/// Folder of the checkpoint of a step.
fn of_step(run: &Path, step: u64) -> PathBuf {
    run.join(format!("checkpoints/step-{step:012}"))
}

#[test]
fn commands_read_chains_as_they_read_full_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let [full, chain] = ["full", "chain"].map(|name| folder.path().join(name));
    let expected = trained(&full, &[]);
    same(&trained(&chain, &["--checkpoint-kind", "incremental"]), &expected);

    let inspected = campanile(&["checkpoint", "inspect", "--json", text(&chain)]).json();
    assert_eq!((&inspected["kind"], &inspected["step"]), (&Value::from("incremental"), &Value::from(400)));
    let steps = steps(&chain);
    let (full_step, increments) = steps[..steps.len() - 1].split_first().unwrap();
    assert!(!increments.is_empty(), "{steps:?}");
    assert_eq!(inspected["builds_on"], serde_json::json!(steps[..steps.len() - 1]));
    assert!(inspected["bytes"].as_u64() < inspected["bytes_with_base"].as_u64());
    let of_full = campanile(&["checkpoint", "inspect", "--json", text(&full)]).json();
    assert_eq!(of_full["kind"], "full");
    assert_eq!(inspected["tensors"], of_full["tensors"]);
    assert!(inspected["bytes"].as_u64() < of_full["bytes"].as_u64());
    let told = campanile(&["checkpoint", "verify", text(&chain)]);
    let increments: Vec<_> = increments.iter().map(u64::to_string).collect();
    let said =
        format!("full checkpoint of step {full_step} and the increments of steps {}", increments.join(", "));
    assert!(told.out.contains(&said), "{said:?} not in {}", told.out);

    // The same bytes come out, whatever command reads them, on any number of ranks.
    let of = |run: &Path, what: &str, command: &[&str]| {
        let out = folder.path().join(format!("{}-{what}", run.file_name().unwrap().display()));
        let args = [command, &["--out", text(&out)]].concat();
        campanile(&args).json();
        fs::read(out).unwrap()
    };
    for run in [&full, &chain] {
        let eval = campanile(&["eval", "--json", "--checkpoint", text(run), "--ranks-per-host", "1"]).json();
        assert_eq!(eval["auc"], campanile(&["eval", "--json", "--checkpoint", text(&full)]).json()["auc"]);
    }
    let export = |run: &Path| {
        let bytes = of(run, "model", &["checkpoint", "export", text(run), "--json", "--optimizer"]);
        // The header tells the run, whose config says how it is saved.
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(export(&full) == export(&chain), "exports differ");
    let predictions = |run: &Path| {
        let out = run.with_extension("csv");
        campanile(&["eval", "--json", "--checkpoint", text(run), "--predictions", text(&out)]).json();
        fs::read(out).unwrap()
    };
    assert!(predictions(&full) == predictions(&chain), "predictions differ");

    // Another run begins with the weights of either.
    let warm = |from: &Path, name: &str| {
        let out = folder.path().join(name);
        trained(&out, &["--warm-start", text(from), "--steps", "3"])
    };
    assert_eq!(
        warm(&full, "warm-full")["parameters_sha256"],
        warm(&chain, "warm-chain")["parameters_sha256"]
    );
}

#[test]
fn a_damaged_increment_is_named_and_the_run_goes_on_from_the_last_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let expected = trained(&run, &["--checkpoint-kind", "incremental"]);
    let [.., whole, damaged, 400] = steps(&run)[..] else { panic!("too few of {:?}", steps(&run)) };
    let file = of_step(&run, damaged).join("rank-0001.safetensors");
    let bytes = fs::read(&file).unwrap();
    for cut in [true, false] {
        let mut changed = bytes.clone();
        if cut {
            changed.truncate(bytes.len() / 2);
        } else {
            *changed.last_mut().unwrap() ^= 1;
        }
        fs::write(&file, changed).unwrap();
        let eval = campanile(&["eval", "--json", "--checkpoint", text(&run)]);
        assert_eq!(eval.json()["step"], whole, "{}", eval.err);
        for part in [text(&file), &format!("builds on the checkpoint of step {damaged}")] {
            assert!(eval.err.contains(part), "{part:?} not in {}", eval.err);
        }
        campanile(&["checkpoint", "verify", text(&run)]).refused(&[text(&file)]);
    }
    let resumed = resume(&run, &[]);
    same(&resumed.json(), &expected);
    let there = names(&run.join("checkpoints"));
    let [damaged, last] = [damaged, 400].map(|step| format!("step-{step:012}"));
    for name in [format!("damaged-{damaged}"), format!("damaged-{last}"), last] {
        assert!(there.contains(&name), "{name} not in {there:?}");
    }
}

#[test]
fn flags_of_increments_need_increments() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let refused = |more: &[&str], parts: &[&str]| {
        campanile(&[&["train", "--out", text(&run)], more].concat()).refused(parts);
    };
    refused(
        &["--increments", "3"],
        &["checkpoint.increments (--increments)", "--checkpoint-kind incremental"],
    );
    refused(&["--checkpoint-kind", "incremental", "--increments", "0"], &["use 1 or more"]);
    campanile(&["train", "--checkpoint-kind", "incremental"]).refused(&["--checkpoint-kind", "--out DIR"]);
}
