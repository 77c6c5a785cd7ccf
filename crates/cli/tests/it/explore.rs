//! `campanile explore`: its JSON, its tables, its page, its refusals.

use crate::support::command::{Folder, campanile, has, json, refused_with};

const DLRM_A: [&str; 7] = ["explore", "--model", "dlrm-a", "--systems", "zionex:128", "--cost", "madmax"];

#[test]
fn json_has_what_tables_have() {
    let told = json(&[&DLRM_A[..], &["--what-if", "inter=2,10", "--what-if", "all=10", "--json"]].concat());
    has(&told, "points evaluated stopped seconds points_per_s task cost best as_is what_if changed_hardware");
    assert_eq!((told["points"].as_u64(), told["stopped"].as_bool()), (Some(4 * 784), Some(false)));
    let best = &told["best"][0];
    has(
        best,
        "model system batch baseline within_memory within_memory_speedup memory_free memory_free_speedup",
    );
    let strategy = "bottom MLP (DDP), top MLP (TP, DDP), tables (MP)";
    assert_eq!(best["within_memory"]["strategy"], strategy);
    // With one strategy for both MLPs, 1.15.
    assert!((best["within_memory_speedup"].as_f64().unwrap() - 1.274).abs() < 0.01, "{best}");
    assert!((best["memory_free_speedup"].as_f64().unwrap() - 1.35).abs() < 0.01);
    has(&told["as_is"], "evaluated too_big too_big_by impossible top front front_thinned cumulative_ms");
    has(
        &told["as_is"]["top"][0],
        "index strategy iteration_ms samples_per_s exposed_ms memory_gb fits hardware",
    );
    let what_if = told["what_if"].as_array().unwrap();
    let hardware: Vec<&str> = what_if.iter().map(|row| row["hardware"].as_str().unwrap()).collect();
    assert_eq!(hardware, ["inter ×2", "inter ×10", "all ×10"]);
    let speedups: Vec<f64> = what_if.iter().map(|row| row["speedup"].as_f64().unwrap()).collect();
    assert!(1.0 < speedups[0] && speedups[0] < speedups[1] && speedups[1] < speedups[2], "{speedups:?}");
}

#[test]
fn tables_and_a_page() {
    let folder = Folder::new();
    let page = folder.path("explored.html");
    let output = campanile(&[&DLRM_A[..], &["--what-if", "flops=2", "--html", &page]].concat());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "within memory: dlrm-a bottom MLP (DDP), top MLP (TP, DDP)",
        "1.27 ×",
        "1.35 ×",
        "flops ×2",
        "slowest",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    for part in ["Exploring dlrm-a", "Throughput against memory", "What more would bring"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn trained_models_are_compared_with_the_first() {
    let args = ["explore", "--models", "dlrm,8t-dlrm", "--systems", "h100:64", "--json"];
    let told = json(&args);
    assert_eq!(told["points"], 2);
    assert_eq!(told["best"][1]["baseline"]["model"], "dlrm");
    assert!(told["best"][1]["memory_free_speedup"].as_f64().unwrap() > 1.0);
    assert!(told.to_string().contains("as it is trained, two-level all-reduce, bf16 on the wire"), "{told}");
    let direct = json(&[&args[..], &["--all-reduce", "direct"]].concat());
    assert!(direct.to_string().contains("as it is trained, direct all-reduce"), "{direct}");
}

#[test]
fn what_cannot_be_is_refused() {
    for (args, part) in [
        (&["--model", "dlrm-z"][..], "dlrm-z"),
        (&["--systems", "zionex:13"], "zionex"),
        (&["--batches", "0"], "a batch of 0 samples"),
        (&["--what-if", "speed=2"], "memory-bandwidth"),
        (&["--what-if", "inter"], "inter=2,10"),
        (&["--what-if", "inter=fast"], "inter=2,10"),
        (&["--what-if", "inter=0"], "more than 0"),
        (&["--task", "play"], "pretrain"),
        (&["--cost", "free"], "madmax"),
        (&["--combine"], "--what-if"),
        (&["--all-reduce", "ring"], "dlrm-a is only simulated; leave --all-reduce out"),
    ] {
        refused_with(&[&["explore"], args].concat(), &[part]);
    }
}
