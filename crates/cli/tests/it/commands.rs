//! The commands other programs rely on: their names, their JSON, their errors.

use crate::support::command::{campanile, has, json, refusal};
use crate::support::skipped::skipped;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const SMALL: &[&str] = &["--samples", "4096", "--eval-samples", "1000", "--batch", "512"];

#[test]
fn train_gives_its_keys_and_repeats_itself() {
    let args = [&["train", "--json"], SMALL].concat();
    let one = json(&args);
    has(&one, "auc logloss ne accuracy samples_per_s steps parameters_sha256 best_auc");
    assert_eq!(one["steps"], 8);
    assert_eq!(one["parameters_sha256"], json(&args)["parameters_sha256"]);
    let other = json(&[&args[..], &["--seed", "3"]].concat());
    assert_ne!(one["parameters_sha256"], other["parameters_sha256"]);
}

#[test]
fn train_prints_a_summary() {
    let run = [&["train", "--model", "dcn", "--hosts", "1", "--steps", "3"], SMALL].concat();
    let summary = |more: &[&str]| {
        let output = campanile(&[&run[..], more].concat());
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let (short, verbose) = (summary(&[]), summary(&["--verbose"]));
    for part in ["Trained dcn", "best possible AUC", "Throughput", "sha256"] {
        assert!(short.contains(part), "{part:?} is missing in\n{short}");
        assert!(verbose.contains(part), "{part:?} is missing in\n{verbose}");
    }
    for part in ["Where the time went", "What ran where", "sent a step"] {
        assert!(!short.contains(part), "{part:?} is for --verbose\n{short}");
        assert!(verbose.contains(part), "{part:?} is missing in\n{verbose}");
    }
    let told = short.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(told <= 10, "{told} lines in\n{short}");
}

#[test]
fn the_version_has_a_commit() {
    let output = campanile(&["--version"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let commit = text.trim().strip_suffix(')').and_then(|text| text.rsplit_once("(commit ")).unwrap().1;
    assert!(commit == "unknown" || commit.chars().all(|c| c.is_ascii_hexdigit()), "{text}");
}

/// Results go to standard output, everything else to standard error, and with `--quiet` nothing else is told.
#[test]
fn quiet_commands_tell_results_alone() {
    let output = campanile(&[&["train", "--quiet", "--json"], SMALL].concat());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}

/// A terminal of 20 columns: no line of the progress is longer.
#[test]
fn progress_fits_a_narrow_terminal() {
    let run = format!(
        "stty cols 20 rows 24 && {} train --json --samples 200000 --eval-samples 64",
        env!("CARGO_BIN_EXE_campanile")
    );
    // `script` gives the command a terminal.
    let script = Command::new("script").args(["-qec", &run, "/dev/null"]).env("TERM", "xterm").output();
    let Some(output) = script.ok().filter(|output| output.status.success()) else {
        skipped("terminal", "there is no `script` on this machine, or no terminal for it to make");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown = text.split(['\r', '\n']).map(without_escapes).filter(|line| line.contains('%'));
    let lines: Vec<String> = shown.collect();
    assert!(!lines.is_empty(), "no progress in {text:?}");
    for line in lines {
        assert!(line.chars().count() <= 20, "{line:?} is longer than 20 columns");
    }
}

/// Names come from files and paths: none of them reaches a terminal as it is.
#[test]
fn control_characters_are_escaped_wherever_names_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, schema, run) = (path("log.csv"), path("schema.toml"), path("run"));
    let mut text = String::from("clicked,us\u{1b}[31mer\n");
    (0..300).for_each(|i| text += &format!("{},u{}\n", i % 2, i % 7));
    fs::write(&log, &text).unwrap();
    let column = "label = { column = \"clicked\" }\n[[sparse]]\ncolumn = \"us\\u001b[31mer\"\nrows = 10\n";
    fs::write(&schema, column).unwrap();
    let data = ["--data", &log, "--format", "csv", "--schema", &schema, "--split", "0.2"];
    let model = ["--preset", "demo", "--batch", "32", "--hosts", "1", "--ranks-per-host", "1"];
    let train = [&["train", "--verbose", "--out", &run], &data[..], &model[..]].concat();
    let missing = path("no\u{1b}[2Jthing.csv");
    let bad = [&["train", "--strict"], &["--data", &missing], &data[2..6], &model[..]].concat();
    let inspected = ["checkpoint", "inspect", &run];
    let affinity = path("affinity.json");
    let measured = ["affinity", "--checkpoint", &run, "--out", &affinity];
    for args in [&train[..], &bad, &inspected, &measured, &["data", "inspect", "--data", &log]] {
        let output = campanile(args);
        for told in [output.stdout, output.stderr] {
            assert!(!told.contains(&0x1b), "{args:?}: {}", String::from_utf8_lossy(&told).escape_debug());
        }
    }
}

/// Whoever reads the help of a flag learns what happens without it.
#[test]
fn help_states_defaults() {
    // Flags whose absence needs no words: what they name is simply not there.
    let plain = "--schema --out --resume --trace --split --loads --groups";
    for command in ["train", "schedule", "describe", "pace", "towers"] {
        let help = String::from_utf8(campanile(&[command, "--help"]).stdout).unwrap();
        for text in help.split("\n      --").skip(1) {
            let flag = format!("--{}", text.split_whitespace().next().unwrap());
            let has_value = text.lines().next().unwrap().contains('<');
            let stated = text.contains("[default") || plain.split(' ').any(|name| name == flag);
            assert!(stated || !has_value, "{command} {flag} states no default:\n{text}");
        }
    }
}

/// What a terminal would show of a line.
fn without_escapes(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Nothing overlaps, and the bits are the same.
#[test]
fn overlap_can_be_turned_off() {
    let args = [&["train", "--json"], SMALL].concat();
    let serial = json(&[&args[..], &["--no-overlap"]].concat());
    assert_eq!((&serial["overlap"], &serial["compute"]), (&Value::from(false), &Value::from("real")));
    assert_eq!(serial["parameters_sha256"], json(&args)["parameters_sha256"]);
    has(&serial["step_time"], "step_s compute_s communication_s exposed_s exposed_share");
    has(&serial["phases"][0], "busy_s communication_s exposed_s ranks");
    let schedule = campanile(&["schedule", "--no-overlap"]);
    assert!(String::from_utf8(schedule.stdout).unwrap().contains("nothing overlaps"));
}

/// Measured, then paced by what was measured: everything says so, and nothing else is claimed.
#[test]
fn a_paced_run_says_so_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, out, trace) = (path("pace.json"), path("run"), path("trace.json"));
    let measured = json(&[&["pace", "--steps", "2", "--out", &file, "--json"], SMALL].concat());
    assert_eq!(measured["pace"]["phases"]["lookup"].as_array().unwrap().len(), 4);
    let compute = format!("paced:{file}");
    let run = ["train", "--steps", "6", "--compute", &compute];
    let result = json(&[&run[..], &["--out", &out, "--trace", &trace, "--json"], SMALL].concat());
    assert_eq!(result["compute"], "paced");
    for absent in ["auc", "logloss", "final_loss", "parameters_sha256"] {
        assert!(result[absent].is_null(), "{absent}: {}", result[absent]);
    }
    let read = |path: &str| fs::read_to_string(path).unwrap();
    let events: Value = serde_json::from_str(&read(&trace)).unwrap();
    assert!(events["traceEvents"].as_array().unwrap().len() > 100);
    let metrics = read(&path("run/metrics.jsonl"));
    let start: Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
    let end: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert_eq!((&start["compute"], &end["parameters_sha256"]), (&Value::from("paced"), &Value::Null));
    has(&end["step_time"], "step_s exposed_share");
    let page = read(&path("run/report.html"));
    assert!(page.contains("(paced)") && page.contains("Compute and exposed communication"));
    assert!(!page.contains("id=\"loss\""), "a loss curve of nothing");
    assert_eq!(fs::read_dir(path("run/checkpoints")).unwrap().count(), 0);
    let text = campanile(&[&run[..], SMALL].concat());
    assert!(String::from_utf8(text.stdout).unwrap().contains("Paced dlrm"));

    let refused = refusal(&[&run[..], &["--checkpoint-every", "2"], SMALL].concat());
    assert!(refused.contains("--checkpoint-every with --compute paced"), "{refused}");
    let refused = refusal(&[&run[..], &["--model", "dcn"], SMALL].concat());
    assert!(refused.contains("pace.json") && refused.contains("the pace has no time for"), "{refused}");
    assert!(refusal(&["train", "--compute", "quickly"]).contains("paced:FILE"));
}

/// The first steps may be left out of all times; the result is the same.
#[test]
fn warm_up_is_not_timed() {
    let args = [&["train", "--json", "--steps", "6"], SMALL].concat();
    let (all, later) = (json(&args), json(&[&args[..], &["--warm-up", "2"]].concat()));
    assert_eq!(all["parameters_sha256"], later["parameters_sha256"]);
    assert_eq!(
        (&all["timed_steps"], &later["timed_steps"], &later["steps"]),
        (&6.into(), &4.into(), &6.into())
    );
    let step_s = later["step_time"]["step_s"].as_f64().unwrap();
    assert!((step_s - later["seconds"].as_f64().unwrap() / 4.0).abs() < 1e-9);
    let refused = refusal(&[&args[..], &["--warm-up", "6"]].concat());
    assert!(refused.contains("none of the 6 steps to be timed"), "{refused}");
}

/// DMT, Tables 3 and 4.
#[test]
fn describe_counts_the_terabyte_models_without_allocating_them() {
    let dlrm = json(&["describe", "--preset", "terabyte", "--model", "dlrm", "--json"]);
    assert!((dlrm["mflops_per_sample"].as_f64().unwrap() - 14.74).abs() < 0.01);
    assert!((dlrm["parameters"].as_f64().unwrap() / 1e9 - 22.78).abs() < 0.005);
    let dcn = json(&["describe", "--preset", "terabyte", "--model", "dcn", "--json"]);
    assert!((dcn["mflops_per_sample"].as_f64().unwrap() - 96.2).abs() < 0.1);
    assert!((dcn["parameters"].as_f64().unwrap() / 1e9 - 22.79).abs() < 0.005);
}

/// Embeddings of 4 to 384, and a table of 10 G rows: described, scheduled and simulated; trained once it is small enough.
#[test]
fn mixed_dims_and_huge_tables_are_described_scheduled_and_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("run.toml");
    let features = [("a", 10_000_000_000u64, 4), ("b", 50, 16), ("c", 70, 384)].map(|(name, rows, dim)| {
        format!("[[model.features]]\nname = \"{name}\"\nrows = {rows}\ndim = {dim}\n")
    });
    let synthetic =
        "[data.synthetic]\ngroups = 1\nwithin = 0.0\nacross = 0.0\nsamples = 2000\neval_samples = 100\n";
    std::fs::write(&config, format!("{}{synthetic}", features.concat())).unwrap();
    let config = config.to_str().unwrap();
    let described = json(&["describe", config, "--json"]);
    assert_eq!(described["dims"], serde_json::json!([4, 16, 384]));
    assert_eq!(described["table_parameters"], 10_000_000_000u64 * 4 + 50 * 16 + 70 * 384);
    let text = String::from_utf8(campanile(&["describe", config]).stdout).unwrap();
    assert!(
        text.starts_with("dlrm with 3 tables of dimensions 4 to 384,") && text.contains("project"),
        "{text}"
    );
    let schedule = String::from_utf8(campanile(&["schedule", config, "--hosts", "2"]).stdout).unwrap();
    assert!(schedule.contains("project forward") && schedule.contains("project backward"), "{schedule}");
    let simulated = json(&["simulate", "--model", config, "--system", "a100:16", "--json"]);
    assert!(simulated["iteration_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{simulated}");
    let refused = refusal(&["train", config, "--steps", "2"]);
    assert!(refused.contains("model.features[0].rows (a): 10000000000 rows can be planned"), "{refused}");
    let trained = json(&["train", config, "--steps", "2", "--rows-cap", "100", "--hosts", "2", "--json"]);
    has(&trained, "parameters_sha256 auc");
}

/// DeepFM from flags to predictions: a linear weight in every row, three terms of a logit.
#[test]
fn deepfm_is_described_scheduled_and_trained() {
    let described = json(&["describe", "--model", "deepfm", "--json"]);
    assert_eq!((described["dim"].as_u64(), described["row_width"].as_u64()), (Some(16), Some(17)));
    let text = String::from_utf8(campanile(&["describe", "--model", "deepfm"]).stdout).unwrap();
    assert!(text.starts_with("deepfm with 26 tables of dimension 16 and a linear weight"), "{text}");
    for block in ["linear", "deep", "fm", "logit"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(block)), "{block}: {text}");
    }
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/deepfm.toml");
    assert_eq!(json(&["describe", example, "--json"])["row_width"], 9);
    let schedule = String::from_utf8(campanile(&["schedule", "--model", "deepfm"]).stdout).unwrap();
    assert!(schedule.contains("fm backward") && schedule.contains("logit forward"), "{schedule}");
    let simulated = json(&["simulate", "--model", "deepfm", "--system", "a100:16", "--json"]);
    assert!(simulated["iteration_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{simulated}");
    let run = [&["train", "--model", "deepfm", "--hosts", "2", "--steps", "3", "--json"], SMALL].concat();
    has(&json(&run), "parameters_sha256 auc");
    let refused = refusal(
        &[&["train", "--model", "deepfm", "--towers", "strided:2", "--tower-module", "dcn:d=8"], SMALL]
            .concat(),
    );
    assert!(refused.contains("their last column is the linear weight of an id"), "{refused}");
}

#[test]
fn benches_give_their_keys() {
    let step = json(&["bench", "step", "--batch", "128", "--steps", "3", "--warm-up", "1", "--json"]);
    has(&step, "ms_per_step samples_per_s phases");
    let embedding =
        ["bench", "embedding", "--gigabytes", "0.01", "--batch", "256", "--rounds", "2", "--json"];
    has(
        &json(&embedding),
        "lookup_gbs update_gbs memory_gbs gather_gbs read_modify_write_gbs lookup_of_gather",
    );
    let of_kind =
        ["--zipf", "1.05", "--hotness", "3", "--mean", "--weighted", "--optimizer", "adam", "--dim", "20"];
    has(
        &json(&[&embedding[..], &of_kind].concat()),
        "zipf pooling weighted update_without_sort_of_read_modify_write",
    );
    let gemm = json(&["bench", "gemm", "--batch", "64", "--rounds", "1", "--squares", "32,64", "--json"]);
    has(&gemm, "layers threads device device_name precision peak_gflops");
    has(&gemm["layers"][0], "forward_gflops backward_gflops product_gflops forward_of_peak");
    assert_eq!((&gemm["squares"][1]["size"], &gemm["squares"][2]), (&64.into(), &Value::Null));
    let mlp = ["bench", "mlp", "--batch", "64", "--rounds", "1", "--precision", "bf16", "--json"];
    let of_model = json(&mlp);
    has(&of_model, "mlps threads batch device");
    assert_eq!((&of_model["precision"], &of_model["mlps"][0]["precision"]), (&"bf16".into(), &"bf16".into()));
    let stacks = json(&[&mlp[..], &["--widths", "8,24", "--layers", "3", "--batches", "4,5"]].concat());
    let sizes: Vec<_> =
        stacks["stacks"].as_array().unwrap().iter().map(|of| (&of["width"], &of["batch"])).collect();
    let [eight, wide, four, five] = [8, 24, 4, 5].map(Value::from);
    assert_eq!(sizes, [(&eight, &four), (&eight, &five), (&wide, &four), (&wide, &five)]);
    has(&stacks["stacks"][0], "forward_ms backward_ms update_ms gflops of_peak");
    let codecs = json(&["bench", "codecs", "--megabytes", "0.1", "--rounds", "2", "--json"]);
    has(&codecs, "copy_gbs codecs instructions");
    let bytes: Vec<_> = codecs["codecs"].as_array().unwrap().iter().map(|codec| &codec["bytes"]).collect();
    assert_eq!(bytes, [512, 256, 256, 132, 132, 136, 72, 40]);
    has(&codecs["codecs"][6], "codec encode_gbs decode_gbs both_gbs narrow");
}

/// Shares, groups and phases of a roofline as a run of the binary gives them; unit tests have the arithmetic.
#[test]
fn a_roofline_holds_every_phase_against_a_peak() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("roofline.html");
    let flags = ["--batch", "64", "--steps", "1", "--rounds", "2", "--warm-up", "1", "--gigabytes", "0.002"];
    let command = ["bench", "roofline", "--threads", "1", "--html", page.to_str().unwrap(), "--json"];
    let result = json(&[&command[..], &flags].concat());
    let schedule = json(&["schedule", "--hosts", "1", "--ranks-per-host", "1", "--batch", "64", "--json"]);
    let names = |of: &Value| -> Vec<String> {
        of["phases"].as_array().unwrap().iter().map(|phase| phase["name"].to_string()).collect()
    };
    assert_eq!(names(&result), names(&schedule));
    let number = |of: &Value| of.as_f64().unwrap();
    let sum: f64 = result["groups"].as_array().unwrap().iter().map(|group| number(&group["ms"])).sum();
    assert!((sum / number(&result["ms_of_phases"]) - 1.0).abs() < 1e-9, "{result}");
    for phase in result["phases"].as_array().unwrap().iter().filter(|phase| !phase["share"].is_null()) {
        let share = number(&phase["reached"]) / number(&phase["peak"]);
        assert!((share / number(&phase["share"]) - 1.0).abs() < 1e-9, "{phase}");
    }
    for peak in [&result["peaks"]["products"]["f32"], &result["peaks"]["gather"], &result["peaks"]["stream"]]
    {
        assert!(number(&peak["best"]) >= number(&peak["median"]) && number(&peak["median"]) > 0.0, "{peak}");
    }
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("products in f32") && html.contains("top forward"));
}

/// A readable golden file: the step of a small run. After a deliberate change, write it again with
/// `CAMPANILE_BLESS=1 cargo test -p campanile-cli --test it commands::`.
#[test]
fn schedule_prints_the_step() {
    let output = campanile(&["schedule", "--preset", "mlperf", "--rows-cap", "1000", "--batch", "8192"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/schedule-mlperf-2x2.txt");
    if std::env::var_os("CAMPANILE_BLESS").is_some() {
        fs::write(path, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(path).unwrap());
    let value = json(&["schedule", "--json"]);
    has(&value, "phases buckets batch");
    assert!(value["phases"].as_array().unwrap().len() > 15);
}

#[test]
fn mistakes_are_refused_with_what_to_do() {
    let folder = std::env::temp_dir().join(format!("campanile-commands-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let unknown = file("unknown.toml", "[train]\nbatch = 64\nbach = 3\n");
    let broken = file("broken.toml", "[train\nbatch = 64\n");
    let wrong = file("wrong.toml", "[topology]\nhosts = \"two\"\n");
    let compensated = file("compensated.toml", "[wire]\ngradients = \"u4+ec\"\n");
    let cases: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (vec!["train", &unknown], vec!["unknown.toml", "line 3", "bach"]),
        (vec!["train", &broken], vec!["broken.toml", "line 1"]),
        (vec!["train", &wrong], vec!["wrong.toml", "line 2", "two"]),
        (vec!["train", "/nowhere/at/all.toml"], vec!["/nowhere/at/all.toml", "cannot be read"]),
        (vec!["train", "--batch", "0"], vec!["train.batch", "at least 1"]),
        (vec!["train", "--hosts", "0"], vec!["topology", "at least 1"]),
        (vec!["train", "--preset", "criteo"], vec!["criteo", "kaggle, mlperf or terabyte"]),
        (vec!["train", "--model", "resnet"], vec!["resnet", "dlrm, dcn or deepfm"]),
        (vec!["train", "--format", "xml"], vec!["xml", "synthetic"]),
        (vec!["train", "--wire", "dense=int4"], vec!["dense", "int4", "bf16, fp8", "u4 or u2"]),
        (vec!["train", "--wire", "vectors=u4+ec"], vec!["vectors", "other samples in every step", "use u4"]),
        (vec!["train", &compensated], vec!["compensated.toml", "line 2", "other samples in every step"]),
        (vec!["train", "--wire-rounding", "up"], vec!["up", "nearest or stochastic"]),
        (vec!["train", "--all-reduce", "fast"], vec!["fast", "auto, direct", "two-level"]),
        (vec!["train", "--preset", "terabyte", "--dim", "4096"], vec!["GB are free", "rows_cap"]),
        (vec!["train", "--hosts", "1025", "--ranks-per-host", "1"], vec!["1025 ranks", "1024"]),
        (vec!["train", "--epochs", "18446744073709551615", "--lr", "1e20"], vec!["loss of step"]),
        (vec!["train", "--preset", "kaggle", "--batch", "60000000"], vec!["GB are free", "train.batch"]),
        (vec!["bench", "step", "--steps", "0"], vec!["--steps 0"]),
        (vec!["bench", "embedding", "--gigabytes", "100000"], vec!["--gigabytes"]),
        (vec!["bench", "embedding", "--rows", "4000000000"], vec!["do not fit", "--rows"]),
        (vec!["bench", "mlp", "--widths", "100000"], vec!["do not fit", "--widths"]),
        (vec!["bench", "mlp", "--widths", "8", "--layers", "0"], vec!["--layers 0", "between 1 and 1000"]),
        (vec!["bench", "mlp", "--layers", "3"], vec!["--widths"]),
        (vec!["bench", "gemm", "--squares", "200000"], vec!["--squares 200000", "131072"]),
        (vec!["bench", "roofline", "--steps", "0"], vec!["--steps 0", "between 1 and 1000"]),
        (vec!["bench", "roofline", "--gigabytes", "-1"], vec!["--gigabytes -1", "above 0"]),
        (vec!["bench", "roofline", "--hosts", "2"], vec!["--hosts", "one rank"]),
        (vec!["bench", "codecs", "--megabytes", "0"], vec!["--megabytes 0", "0.01 to 10000"]),
        (vec!["train", "--lr", "1e20", "--steps", "20"], vec!["rank", "loss of step", "learning rate"]),
    ];
    for (args, expected) in cases {
        let message = refusal(&args);
        for part in expected {
            assert!(message.contains(part), "{args:?} should say {part:?}, said: {message}");
        }
        assert!(!message.contains("panicked"), "{args:?}: {message}");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A file, flags over it, and what neither says.
#[test]
fn flags_override_the_file() {
    let path = std::env::temp_dir().join(format!("campanile-flags-{}.toml", std::process::id()));
    fs::write(&path, include_str!("../../../../examples/multi-hot.toml")).unwrap();
    let from_file = json(&["describe", path.to_str().unwrap(), "--json"]);
    assert_eq!((&from_file["features"], &from_file["dim"]), (&Value::from(6), &Value::from(8)));
    let file = path.to_str().unwrap();
    let with_flags =
        json(&["train", file, "--batch", "256", "--steps", "4", "--eval-samples", "500", "--json"]);
    // The file says 1024 samples a step.
    assert_eq!(with_flags["samples"], 4 * 256);
    fs::remove_file(path).unwrap();
}

/// How values travel, as it was requested and with `auto` resolved, wherever a run is described.
#[test]
fn wire_and_all_reduce_are_told() {
    let wire = "vectors=u4,gradients=fp8,dense=u4+ec,towers=bf16";
    let flags =
        ["--wire", wire, "--wire-rounding", "stochastic", "--all-reduce", "auto", "--hosts", "1", "--json"];
    let explicit = json!({
        "vectors": "u4", "gradients": "fp8-e5m2", "dense": "u4+ec", "towers": "bf16", "rounding": "stochastic"
    });
    for command in [&["describe"][..], &["schedule"], &["train", "--dry-run"]] {
        let told = json(&[command, &flags].concat());
        assert_eq!((&told["wire"], &told["all_reduce"]), (&explicit, &json!("direct")), "{command:?}");
    }
    let plan = json(&[&["train", "--dry-run"], &flags[..]].concat());
    assert_eq!(
        (&plan["config"]["wire"], &plan["config"]["train"]["all_reduce"]),
        (&explicit, &json!("direct"))
    );
    let usual = json(&[&["train", "--json", "--steps", "1"], SMALL].concat());
    let wire = json!({ "vectors": "f32", "gradients": "f32", "dense": "f32", "rounding": "nearest" });
    assert_eq!((&usual["wire"], &usual["all_reduce"]), (&wire, &json!("direct")));
}

/// Completions and manual pages come from the command line's own description.
#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(campanile(&["completions", shell]).stdout).unwrap();
        assert!(script.contains("hosts-per-tower") && script.contains("planted-groups"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    let write = ["man", "--out", out.to_str().unwrap()];
    assert!(campanile(&write).status.success());
    let page = std::fs::read_to_string(out.join("campanile-data-prepare.1")).unwrap();
    assert!(page.contains("vocabularies") && !page.contains('\u{1b}'), "{page}");
    assert!(!out.join("campanile-docs.1").exists(), "a tool of the repository has no manual page");
    let refused = campanile(&write);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--force"));
    assert!(campanile(&[&write[..], &["--force"]].concat()).status.success());
    let printed = campanile(&["man"]).stdout;
    assert!(String::from_utf8(printed).unwrap().contains("too large for one machine"));
}
