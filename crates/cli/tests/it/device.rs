//! `--device`, `--precision` and `campanile doctor`, mostly on machines without a GPU.

use crate::support::command::{campanile, json};
use crate::support::skipped::skipped;

/// Exit code and message of a command that must fail.
fn refusal(args: &[&str]) -> (Option<i32>, String) {
    let output = campanile(args);
    assert!(!output.status.success(), "{args:?} should have been refused");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Whether this machine has a GPU that can be used.
fn has_gpu() -> bool {
    json(&["doctor", "--json"])["cuda"]["usable"] == true
}

const SMALL: &[&str] = &["--samples", "2048", "--eval-samples", "512", "--batch", "512"];

#[test]
fn the_doctor_tells_what_there_is() {
    let told = json(&["doctor", "--json"]);
    assert!(told["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0), "{told}");
    assert!(
        ["avx512", "avx2", "portable"].contains(&told["machine"]["vector_instructions"].as_str().unwrap())
    );
    assert!(told["machine"]["matrix_instructions"].is_string(), "{told}");
    assert_eq!(told["machine"]["precisions"]["f32"], "native");
    for part in ["driver", "nvrtc", "cublaslt", "nccl", "cache"] {
        let part = &told["cuda"][part];
        let explained = if part["found"] == true { "version" } else { "remedy" };
        assert!(part[explained].is_string(), "{told}");
    }
    assert_eq!(told["cuda"]["usable"], told["cuda"]["problem"].is_null(), "{told}");
    assert!(told["cuda"]["gpus"].is_array() && told["mpi"]["library"]["found"].is_boolean(), "{told}");

    let output = campanile(&["doctor"]);
    assert!(output.status.success(), "whatever is missing");
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["Machine\n", "MPI\n", "CUDA\n", "cores: ", "--precision: f32 native", "--device cuda "] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    for missing in told["missing"].as_array().unwrap() {
        assert!(text.contains(missing["problem"].as_str().unwrap()), "{missing} is not told in\n{text}");
    }
}

#[test]
fn what_is_required_must_be_there() {
    let told = json(&["doctor", "--json"]);
    for needed in ["cuda", "mpi"] {
        let output = campanile(&["doctor", "--require", needed]);
        assert_eq!(output.status.success(), told[needed]["usable"] == true, "{needed}: {told}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() || said.starts_with(&format!("error: --require {needed}: ")),
            "{said}"
        );
    }
    let (code, said) = refusal(&["doctor", "--require", "opencl"]);
    assert!(code == Some(2) && said.contains("opencl") && said.contains("cuda"), "{said}");
}

/// One sentence, before anything is prepared, trained or written.
#[test]
fn a_gpu_that_is_not_there_is_refused() {
    if has_gpu() {
        return skipped("no-gpu", "this machine has a GPU: what one without says is not tried here");
    }
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let (run, scores) = (run.to_str().unwrap(), folder.path().join("scores.csv"));
    let trained = campanile(&[&["train", "--steps", "2", "--out", run], SMALL].concat());
    assert!(trained.status.success());
    let log = folder.path().join("log.tsv");
    std::fs::write(&log, "").unwrap();
    let commands: [&[&str]; 12] = [
        &["train"],
        &["train", "--resume", run],
        &["eval", "--checkpoint", run],
        &["bench", "step"],
        &["bench", "gemm"],
        &["bench", "mlp", "--widths", "8"],
        &["bench", "embedding"],
        &["bench", "roofline"],
        &["calibrate", "--quick"],
        &["pace"],
        &["train", "--compute", "paced"],
        &["affinity", "--checkpoint", run, "--out", scores.to_str().unwrap()],
    ];
    for command in commands {
        for device in ["cuda", "cuda:3"] {
            let (code, said) = refusal(&[command, &["--device", device]].concat());
            let message = said.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
            assert_eq!(code, Some(1), "{command:?}: {said}");
            let expected = format!("train.device (--device): {device} cannot be used here: ");
            assert!(message.contains(&expected), "{command:?}: {said}");
            assert!(message.contains("install") || message.contains("doctor"), "{command:?}: {said}");
            assert!(!said.contains("panicked"), "{said}");
        }
    }
    assert!(!scores.exists());
    // Nothing of the folder of a new run is left that a second attempt would stumble over.
    let new = folder.path().join("new");
    refusal(&["train", "--device", "cuda", "--out", new.to_str().unwrap()]);
    assert!(!new.exists(), "a run that never began left its folder");
    let (_, said) = refusal(&["train", "--device", "auto", "--precision", "tf32"]);
    assert!(said.contains("--device auto is the CPU here") && said.contains("not in tf32"), "{said}");
}

#[test]
fn bad_devices_and_precisions_are_refused() {
    let cases: [(&[&str], i32, &[&str]); 9] = [
        (&["train", "--device", "gpu"], 2, &["gpu", "cpu, cuda, cuda:INDEX", "auto"]),
        (&["train", "--device", "cuda:one"], 2, &["cuda:one", "cuda:INDEX"]),
        (&["eval", "--checkpoint", "x", "--precision", "fp16"], 2, &["fp16", "f32, f32x3, tf32 or bf16"]),
        (&["train", "--precision", "tf32"], 1, &["--precision", "bf16, not in tf32", "--device cuda"]),
        (&["train", "--precision", "top=fp16"], 2, &["top: unknown precision", "f32, f32x3, tf32 or bf16"]),
        (
            &["train", "--precision", "bf16,cross=f32"],
            1,
            &["--precision", "no part \"cross\"", "bottom, interaction or top"],
        ),
        (&["train", "--precision", "top=tf32"], 1, &["--precision", "top: the CPU computes in"]),
        (&["calibrate", "--precision", "tf32"], 1, &["--precision", "the CPU computes in"]),
        (&["calibrate", "--optimizer", "sgd"], 1, &["--optimizer", "adam only", "--device cuda"]),
    ];
    for (args, code, expected) in cases {
        let (found, said) = refusal(args);
        assert_eq!(found, Some(code), "{args:?}: {said}");
        for part in expected {
            assert!(said.contains(part), "{args:?} should say {part:?}, said: {said}");
        }
    }
}

/// Device and precision are no part of what a run is: another device may take it over.
#[test]
fn a_run_goes_on_whatever_the_device() {
    if has_gpu() {
        return skipped("no-gpu", "this machine has a GPU: --device auto would not be the CPU");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let train = |more: &[&str]| json(&[&["train", "--json"], SMALL, more].concat());
    let whole = train(&["--steps", "4", "--lr", "0.01", "--optimizer", "sgd"]);
    assert_eq!((&whole["device"], &whole["precision"]), (&"cpu".into(), &"f32".into()));
    let run = at("run");
    train(&["--steps", "2", "--lr", "0.01", "--optimizer", "sgd", "--out", &run]);
    let resumed = json(&["train", "--resume", &run, "--steps", "4", "--device", "auto", "--json"]);
    assert_eq!(resumed["parameters_sha256"], whole["parameters_sha256"]);
    let scored = json(&["eval", "--checkpoint", &run, "--device", "auto", "--precision", "f32", "--json"]);
    assert_eq!(scored["auc"], resumed["auc"]);
    // The folder keeps what the run went on with.
    let config = std::fs::read_to_string(folder.path().join("run/config.toml")).unwrap();
    assert!(!config.contains("bf16"), "{config}");
}

/// A run in bf16 keeps its precision, part by part, until a flag says otherwise; `eval` computes in f32 unless told.
#[test]
fn a_precision_is_kept_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").to_str().unwrap().to_owned();
    let train = |more: &[&str]| json(&[&["train", "--json"], SMALL, more].concat());
    let precision = "bf16,top=f32";
    let trained = train(&["--steps", "1", "--precision", precision, "--out", &run]);
    assert_eq!(trained["precision"], precision);
    let config = std::fs::read_to_string(folder.path().join("run/config.toml")).unwrap();
    assert!(config.contains("precision = \"bf16,top=f32\""), "{config}");
    let resume = |steps: &str, more: &[&str]| {
        json(&[&["train", "--resume", &run, "--json", "--steps", steps], more].concat())
    };
    assert_eq!(resume("2", &[])["precision"], precision);
    assert_eq!(resume("3", &["--precision", "bottom=f32x3"])["precision"], "bf16,bottom=f32x3,top=f32");
    let last = resume("4", &["--precision", "f32"]);
    assert_eq!((&last["precision"], &last["steps"]), (&"f32".into(), &4.into()));
    let score = |more: &[&str]| json(&[&["eval", "--checkpoint", &run, "--json"], more].concat());
    assert_eq!(score(&[])["auc"], last["auc"], "eval computes in f32");
    let rounded = score(&["--precision", "bf16"])["auc"].as_f64().unwrap();
    assert!((rounded - last["auc"].as_f64().unwrap()).abs() < 0.02, "{rounded}");

    // A table of a file says the same as a flag.
    let file = folder.path().join("run.toml");
    std::fs::write(&file, "[train]\nprecision = { all = \"bf16\", top = \"f32\" }\n").unwrap();
    let from_file = train(&["--steps", "1", file.to_str().unwrap()]);
    assert_eq!(from_file["parameters_sha256"], trained["parameters_sha256"]);
    let step = ["bench", "step", "--batch", "64", "--steps", "2", "--precision", "bf16,top=f32", "--json"];
    assert_eq!(json(&step)["precision"], precision);
}

#[test]
fn a_step_is_measured_on_tables_of_any_size() {
    let step = ["bench", "step", "--batch", "128", "--steps", "3", "--warm-up", "1", "--digest", "--json"];
    let measured = json(&[&step[..], &["--rows-each", "1000", "--zipf", "1.05"]].concat());
    assert_eq!(measured["table_rows"], 26_000);
    assert_eq!((&measured["device"], &measured["precision"]), (&"cpu".into(), &"f32".into()));
    assert_eq!((&measured["zipf"], &measured["distinct_batches"]), (&1.05.into(), &8.into()));
    assert_eq!(measured["step_ms"], measured["ms_per_step"]);
    assert!(measured["parameters_sha256"].as_str().is_some_and(|digest| digest.len() == 64), "{measured}");
    let again = json(&[&step[..], &["--rows-each", "1000", "--zipf", "1.05"]].concat());
    assert_eq!(again["parameters_sha256"], measured["parameters_sha256"]);
    let uniform = json(&[&step[..], &["--rows-each", "1000"]].concat());
    assert_ne!(uniform["parameters_sha256"], measured["parameters_sha256"]);
    for (more, says) in [(["--rows-each", "0"], "--rows-each"), (["--zipf", "-1"], "zipf")] {
        let (_, said) = refusal(&[&step[..], &more].concat());
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn nccl_is_refused_where_it_has_nothing_to_do() {
    let (code, said) = refusal(&[&["train", "--transport", "nccl", "--device", "cpu"], SMALL].concat());
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(
            "--transport: nccl moves memory of GPUs, but the ranks compute on the CPU; use --device cuda"
        ),
        "{said}"
    );
    for transport in ["in-process", "nccl"] {
        let asked = ["train", "--transport", transport, "--all-reduce", "nccl"];
        let said = refusal(&[&asked[..], SMALL].concat()).1;
        let expected = match transport {
            "nccl" => "--transport: nccl moves memory of GPUs",
            _ => {
                "train.all_reduce (--all-reduce): nccl adds gradients only where NCCL joins the ranks; use --transport nccl"
            }
        };
        assert!(said.contains(expected), "{said}");
    }
    for command in [&["bench", "collectives"][..], &["calibrate"]] {
        let said = refusal(&[command, &["--transport", "nccl"]].concat()).1;
        assert!(said.contains("--transport nccl joins ranks on GPUs, and this command measures"), "{said}");
        let said = refusal(&[command, &["--all-reduce", "nccl"]].concat()).1;
        assert!(said.contains("--all-reduce nccl needs ranks on GPUs"), "{said}");
    }
    let told = json(&["describe", "--all-reduce", "nccl", "--json"]);
    assert_eq!(told["all_reduce"], "nccl");
}

#[test]
fn nccl_can_be_asked_for() {
    if !has_gpu() || json(&["doctor", "--json"])["cuda"]["nccl"]["found"] != true {
        skipped("nccl", "this machine has no GPU, or no NCCL");
        return;
    }
    let digest = |transport: &[&str]| {
        let asked = [&["train", "--device", "cuda", "--json"], transport, SMALL].concat();
        let told = json(&asked);
        (told["parameters_sha256"].clone(), told["all_reduce"].clone())
    };
    // One rank sends nothing, so that all ways to send give the same bits.
    let alone = digest(&[]);
    assert_eq!(digest(&["--transport", "nccl"]), alone);
    let (sha256, all_reduce) = digest(&["--transport", "nccl", "--all-reduce", "nccl"]);
    assert_eq!((sha256, all_reduce), (alone.0, "nccl".into()));
    let said = refusal(
        &[&["train", "--device", "cuda:0", "--transport", "nccl", "--ranks-per-host", "2"], SMALL].concat(),
    )
    .1;
    assert!(said.contains("ranks 0 and 1 both use GPU 0"), "{said}");
}
