//! Checkpoints with a flipped bit.

use super::command::{campanile, names, resume, same, text, verified};
use super::logs;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn a_flipped_bit_is_found_and_its_file_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let args = "--samples 640 --eval-samples 100 --batch 64 --rows-cap 100";
    campanile(
        &[&["train", "--json", "--out", text(&run)], &args.split(' ').collect::<Vec<_>>()[..]].concat(),
    )
    .json();
    let checkpoint = run.join("checkpoints/step-000000000010");
    let files = names(&checkpoint);
    assert_eq!(files.len(), 5, "a manifest, and a file of each rank: {files:?}");
    for file in files {
        let path = checkpoint.join(&file);
        let whole = fs::read(&path).unwrap();
        let last = whole.len() - 1;
        // The first 8 bytes of a tensor file are the length of its header, which follows.
        for at in [0, 3, 7, 8, 9, 60, last / 4, last / 2, last - 1, last] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            campanile(&["checkpoint", "verify", text(&run)]).refused(&[&file]);
            resume(&run, &[]).refused(&[&file]);
        }
        for length in [0, 1, last / 2, last] {
            fs::write(&path, &whole[..length]).unwrap();
            campanile(&["checkpoint", "verify", text(&run)]).refused(&[&file]);
            resume(&run, &[]).refused(&[&file]);
        }
        fs::write(&path, &whole).unwrap();
    }
    resume(&run, &[]).json();
}

/// A run with checkpoints after steps 5 and 10, and what it came to.
fn with_two_checkpoints(run: &Path) -> Value {
    let args = "--samples 640 --eval-samples 100 --batch 64 --rows-cap 100 --checkpoint-every 5";
    let args: Vec<&str> = args.split(' ').collect();
    let result = campanile(&[&["train", "--json", "--out", text(run)], &args[..]].concat()).json();
    assert_eq!(names(&run.join("checkpoints")), ["step-000000000005", "step-000000000010"]);
    result
}

/// Flips a bit in the middle of a rank's file.
fn damage(checkpoint: &Path) -> PathBuf {
    let path = checkpoint.join("rank-0001.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn the_last_whole_checkpoint_is_used_and_the_damaged_one_kept() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let expected = with_two_checkpoints(&run);
    let last = run.join("checkpoints/step-000000000010");
    let file = damage(&last);
    let says = ["damaged: ", text(&file), "using the last whole checkpoint, of step 5"];
    let told = |err: &str| says.iter().for_each(|part| assert!(err.contains(part), "{part:?} not in {err}"));

    // What only reads takes the one before, and changes nothing.
    let eval = campanile(&["eval", "--json", "--checkpoint", text(&run)]);
    assert_eq!(eval.json()["step"], 5);
    told(&eval.err);
    let [model, matrix] = ["model.safetensors", "affinity.json"].map(|name| folder.path().join(name));
    let export = campanile(&["checkpoint", "export", text(&run), "--json", "--out", text(&model)]);
    assert_eq!(export.json()["step"], 5);
    told(&export.err);
    let affinity = campanile(&["affinity", "--json", "--checkpoint", text(&run), "--out", text(&matrix)]);
    affinity.json();
    told(&affinity.err);
    assert_eq!(names(&run.join("checkpoints")), ["step-000000000005", "step-000000000010"]);

    // One that is named must be whole.
    campanile(&["eval", "--checkpoint", text(&last)]).refused(&[text(&file)]);
    resume(&last, &[]).refused(&[text(&file)]);
    campanile(&["checkpoint", "verify", text(&run)]).refused(&[text(&file)]);

    // The run goes on from the one before, and comes to the same end; keeping one checkpoint loses none that is whole.
    let damaged = fs::read(&file).unwrap();
    let ended = resume(&run, &["--keep", "1"]);
    same(&ended.json(), &expected);
    told(&ended.err);
    assert!(ended.err.contains("set aside as damaged-step-000000000010"), "{}", ended.err);
    assert_eq!(names(&run.join("checkpoints")), ["damaged-step-000000000010", "step-000000000010"]);
    assert_eq!(verified(&run), Some(10));
    assert!(
        fs::read(run.join("checkpoints/damaged-step-000000000010/rank-0001.safetensors")).unwrap() == damaged
    );
}

/// A run that is refused leaves the damaged checkpoint where it is; one whose manifest is gone is damaged too.
#[test]
fn a_checkpoint_without_a_manifest_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let expected = with_two_checkpoints(&run);
    fs::remove_file(run.join("checkpoints/step-000000000010/manifest.json")).unwrap();
    resume(&run, &["--batch", "32"]).refused(&["train.batch"]);
    assert_eq!(names(&run.join("checkpoints")), ["step-000000000005", "step-000000000010"]);
    // The checkpoint before it, named itself: nothing whole comes later.
    let ended = resume(&run.join("checkpoints/step-000000000005"), &[]);
    same(&ended.json(), &expected);
    assert!(ended.err.contains("manifest.json"), "{}", ended.err);
}

#[test]
fn without_a_whole_checkpoint_all_that_is_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    with_two_checkpoints(&run);
    let steps = ["step-000000000005", "step-000000000010"].map(|name| run.join("checkpoints").join(name));
    let files = steps.each_ref().map(|step| damage(step));
    for ended in [resume(&run, &[]), campanile(&["eval", "--checkpoint", text(&run)])] {
        ended.refused(&["no checkpoint is whole", text(&files[0]), text(&files[1])]);
    }
    assert_eq!(names(&run.join("checkpoints")), ["step-000000000005", "step-000000000010"]);
}

/// The log that a run has prepared for itself can be had again.
#[test]
fn a_damaged_log_of_the_run_itself_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (run, log) = (folder.path().join("run"), folder.path().join("log.tsv"));
    logs::criteo(&log, 600, 1);
    let model = ["--rows-cap", "100", "--dim", "4", "--batch", "100", "--data", text(&log)];
    campanile(&[&["train", "--json", "--out", text(&run)], &model[..]].concat()).json();
    let prepared = run.join("prepared/train");
    let size = |name: &String| fs::metadata(prepared.join(name)).unwrap().len();
    let largest = prepared.join(names(&prepared).into_iter().max_by_key(size).unwrap());
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&largest, bytes).unwrap();
    let ended = resume(&run, &["--epochs", "2"]);
    ended.refused(&[text(&largest), "is damaged", "delete ", "makes it anew"]);
    let told = ended.err.lines().filter(|line| line.contains("phase `")).count();
    assert!(told <= 1, "where all ranks were does not matter: {}", ended.err);
    fs::remove_dir_all(run.join("prepared")).unwrap();
    assert_eq!(resume(&run, &["--epochs", "2"]).json()["steps"], 12);
}

/// Writes a manifest with another value and a checksum that is right, as an enemy would.
fn forge(checkpoint: &Path, change: impl Fn(&mut Value)) {
    let path = checkpoint.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    // Every field stands on lines of its own, and the checksum on the last but one.
    let (body, _) = text.rsplit_once(",\n  \"sha256\"").unwrap();
    let mut value: Value = serde_json::from_str(&format!("{body}\n}}")).unwrap();
    change(&mut value);
    let body = serde_json::to_string_pretty(&value).unwrap();
    let digest = sha256(&body);
    let fields = body.strip_suffix("\n}").unwrap();
    fs::write(&path, format!("{fields},\n  \"sha256\": \"{digest}\"\n}}\n")).unwrap();
}

fn sha256(text: &str) -> String {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    out.split_whitespace().next().unwrap().to_owned()
}

/// What is whole must also make sense: the tensors are those of the run that the manifest describes.
#[test]
fn tensors_that_are_not_the_runs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let args = "--samples 640 --eval-samples 100 --batch 64 --rows-cap 100 --steps 2";
    let args: Vec<&str> = args.split(' ').collect();
    campanile(&[&["train", "--json", "--out", text(&run)], &args[..]].concat()).json();
    let checkpoint = run.join("checkpoints/step-000000000002");
    let whole = fs::read(checkpoint.join("manifest.json")).unwrap();
    let config = |m: &mut Value| m["run"]["config"].take();
    forge(&checkpoint, |_| ());
    assert_eq!(verified(&run), Some(2), "a manifest that is written again is read again");
    let says = |part: &str, change: &dyn Fn(&mut Value)| {
        fs::write(checkpoint.join("manifest.json"), &whole).unwrap();
        forge(&checkpoint, change);
        campanile(&["checkpoint", "verify", text(&run)]).refused(&[part]);
    };
    let without = |name: &'static str| {
        move |m: &mut Value| m["tensors"].as_array_mut().unwrap().retain(|t| t["name"] != name)
    };
    says("no tensors", &|m| m["tensors"] = json!([]));
    says("step is 0", &|m| m["step"] = json!(0));
    says("0 hosts", &|m| m["topology"]["hosts"] = json!(0));
    says("no tensor bottom.0.weight", &without("bottom.0.weight"));
    says("no tensor optimizer.bottom.0.bias.1", &without("optimizer.bottom.0.bias.1"));
    says("no tensor optimizer.tables.C1", &without("optimizer.tables.C1"));
    says("tensor tables.C3.weight has the shape", &|m| {
        m["run"]["config"]["model"]["features"][2]["rows"] = json!(77);
    });
    says("is none of the run", &|m| {
        m["run"]["config"]["optimizer"]["tables"]["update"] = json!({ "rule": "sgd" });
    });
    says("the run in the manifest", &|m| drop(config(m)));
    fs::write(checkpoint.join("manifest.json"), &whole).unwrap();
    assert_eq!(verified(&run), Some(2));
}

/// Whatever is trained, and however its tables are cut, the tensors are those that the run describes.
#[test]
fn checkpoints_of_all_kinds_verify() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.tsv");
    logs::criteo(&log, 200, 1);
    let of_log = format!("--data {} --replicate-rows 50 --optimizer adamw", text(&log));
    for (i, kind) in [
        "--model dcn --towers strided:4 --tower-module dcn:d=8 --cut columns --optimizer row-wise-adagrad",
        "--towers strided:4 --tower-module dlrm:d=4 --cut hotness --optimizer adagrad",
        "--cut columns --optimizer adam",
        "--cut rows --optimizer sgd",
        &of_log,
    ]
    .into_iter()
    .enumerate()
    {
        let run = folder.path().join(i.to_string());
        let args =
            ["train", "--json", "--out", text(&run), "--steps", "2", "--batch", "64", "--rows-cap", "100"];
        let small: &[&str] = if i < 4 { &["--samples", "640", "--eval-samples", "64"] } else { &[] };
        campanile(&[&args[..], small, &kind.split(' ').collect::<Vec<_>>()].concat()).json();
        assert_eq!(verified(&run), Some(2), "{kind}");
    }
}
