//! Tasks and what they keep: fine-tuning, latency of inference, activations, uneven lookups.

use super::{campanile, json, refusal};
use serde_json::Value;

fn ms(one: &Value, key: &str) -> f64 {
    one[format!("{key}_ms")].as_f64().unwrap_or_else(|| panic!("{key}_ms of {one}"))
}

#[test]
fn fine_tuning_of_trained_models() {
    for model in ["dlrm", "dcn", "8t-dlrm", "8t-dcn", "deepfm"] {
        for cost in ["madmax", "roofline", "hierarchical"] {
            let of = |task: &str| json(&["--model", model, "--cost", cost, "--task", task]);
            let (all, none) = (of("pretrain"), of("finetune"));
            assert_eq!(ms(&all, "iteration"), ms(&none, "iteration"), "{model} {cost}");
            let top = of("finetune:bot,emb");
            assert!(ms(&top, "serial") < ms(&all, "serial"), "{model} {cost}");
            assert!(top["memory_gb"].as_f64() < all["memory_gb"].as_f64(), "{model} {cost}");
            assert_eq!(top["task"], "fine-tuning (bottom, tables frozen)");
            let names = |one: &Value| -> Vec<String> {
                one["operations"].as_array().unwrap().iter().map(|op| op["name"].to_string()).collect()
            };
            assert!(!names(&top).iter().any(|name| name.contains("update tables")));
        }
    }
    let towers = json(&["--model", "8t-dcn", "--task", "finetune:towers"]);
    assert_eq!(towers["task"], "fine-tuning (towers frozen)");
}

#[test]
fn latency_of_inference() {
    for (model, system) in
        [("dlrm", "h100:64"), ("8t-dlrm", "h100:512"), ("llama2-70b", "llm-a100"), ("dlrm-a", "zionex:128")]
    {
        let one = json(&["--model", model, "--system", system, "--task", "inference"]);
        let (latency, step) = (ms(&one, "latency"), ms(&one, "iteration"));
        assert!(
            latency >= step && latency <= ms(&one, "serial") * (1.0 + 1e-9),
            "{model}: {latency} of {step}"
        );
        let text = String::from_utf8(
            campanile(&["--model", model, "--system", system, "--task", "inference"]).stdout,
        )
        .unwrap();
        assert!(text.contains("ms from the arrival of a batch at idle devices to its predictions"), "{text}");
    }
    assert!(json(&[])["latency_ms"].is_null());
}

/// A layer that is computed again costs its forward pass once more, and keeps its output alone.
#[test]
fn activations() {
    let of = |choice: &str| {
        json(&["--model", "gpt-3", "--system", "llm-a100", "--cost", "madmax", "--activations", choice])
    };
    let (keep, again) = (of("keep"), of("recompute"));
    assert!((ms(&again, "gemm") / ms(&keep, "gemm") - 4.0 / 3.0).abs() < 1e-9);
    assert_eq!((&keep["fits"], &again["fits"]), (&Value::Bool(false), &Value::Bool(true)));
    assert!(again["spread"].as_str().unwrap().ends_with("activations recomputed"));
    let text = String::from_utf8(campanile(&["--model", "gpt-3", "--system", "llm-a100"]).stdout).unwrap();
    assert!(text.contains("--activations recompute"), "{text}");
}

/// All wait for the device that looks up most.
#[test]
fn uneven_lookups() {
    let of = |loads: &[&str]| {
        json(
            &[&["--model", "dlrm-a", "--system", "zionex:128", "--cost", "madmax", "--mlp", "ddp"], loads]
                .concat(),
        )
    };
    let (even, uneven) = (of(&[]), of(&["--lookup-loads", "1,1,1,5"]));
    assert!(even["lookup_loads"].is_null());
    assert_eq!(uneven["lookup_loads"], serde_json::json!([0.5, 0.5, 0.5, 2.5]));
    assert!((ms(&uneven, "embedding") / ms(&even, "embedding") - 2.5).abs() < 1e-9);
}

#[test]
fn refusals() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["--task", "finetune:head"],
            "unknown part of a model \"head\"; the known ones are bot, top, experts",
        ),
        (&["--task", "finetune:bot,bot"], "bot is named twice"),
        (&["--task", "finetune:transformer"], "the model has no transformer layers that could be frozen"),
        (&["--task", "finetune:towers"], "the model has no tower modules that could be frozen"),
        (&["--model", "dlrm-a", "--activations", "recompute"], "dlrm-a has no transformer layers"),
        (&["--model", "dlrm-a", "--activations", "half"], "the known ones are keep and recompute"),
        (&["--model", "dlrm-a", "--lookup-loads", "0,0"], "a proportion of lookup_loads is 0; it must be"),
        (&["--model", "dlrm-a", "--lookup-loads", "1,-1"], "a proportion of lookup_loads is -1; it must be"),
        (
            &["--model", "dlrm-a", "--system", "zionex:128", "--lookup-loads", "1,2,3"],
            "lookup_loads has 3 proportions for 128 devices",
        ),
        (
            &["--model", "dlrm-a", "--task", "finetune:towers"],
            "dlrm-a has no tower modules that could be frozen",
        ),
        (&["--model", "dlrm-a", "--task", "finetune:experts"], "dlrm-a has no experts that could be frozen"),
        (
            &["--model", "gpt-3", "--task", "finetune:transformer>=96"],
            "gpt-3 has 96 transformer layers, counted from 0",
        ),
        (&["--model", "dlrm-a", "--experts", "ddp"], "dlrm-a has no such layers"),
        (&["--model", "gpt-3", "--mlp", "ddp"], "gpt-3 has no such layers"),
        (&["--model", "dlrm-a", "--mlp", "fsdp,fsdp+prefetch"], "both levels are FSDP"),
        (&["--model", "dlrm", "--lookup-loads", "1,2"], "dlrm is a model that is trained"),
        (&["--model", "dlrm-a", "--embedding", "fsdp+prefetch"], "tables are mp or ddp, not FSDP+prefetch"),
    ];
    for (args, message) in cases {
        let said = refusal(args);
        assert!(said.contains(message), "{args:?}: {said}");
    }
}

/// Rows of tables larger than memory are priced on a lane of their own, under every cost model: a faster disk never slows a step, and
/// tables take less memory.
#[test]
fn tables_larger_than_memory() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let model = "[model]\npreset = \"kaggle\"\nrows_cap = 200000\n[train]\nbatch = 1024\n";
    let whole = write("whole.toml", model.into());
    let cached = write("cached.toml", format!("{model}[tables]\nmemory = \"20MiB\"\nstore = \"rows\"\n"));
    for cost in ["madmax", "roofline", "hierarchical"] {
        for system in ["h100:1", "h100:8", "h100:64"] {
            let of = |model: &str| json(&["--model", model, "--system", system, "--cost", cost]);
            let (whole, cached) = (of(&whole), of(&cached));
            let on_disks = |one: &Value| {
                let all = one["operations"].as_array().unwrap().iter();
                all.filter(|op| op["lane"] == "storage")
                    .map(|op| op["seconds"].as_f64().unwrap())
                    .sum::<f64>()
            };
            assert_eq!(on_disks(&whole), 0.0, "{cost} {system}");
            if system == "h100:1" {
                assert!(on_disks(&cached) > 0.0, "{cost}: {cached}");
                assert!(cached["memory_gb"].as_f64() < whole["memory_gb"].as_f64(), "{cost}");
            }
        }
    }
}
