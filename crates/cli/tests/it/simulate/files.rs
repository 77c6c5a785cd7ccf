//! Models, systems and tasks from files.

use super::{Files, json};
use serde_json::{Value, json};

/// ZionEX as MAD-Max's files have it.
pub fn zionex(devices: usize) -> Value {
    json!({
        "name": "zionex", "type": "gpu", "num_devices": devices, "num_nodes": devices / 8,
        "f64_flops": 9.7, "f32_flops": 156, "f16_flops": 312, "i8_ops": 624, "flops_util": 0.705,
        "mem_cap": 40, "mem_bw": 1555, "mem_bw_util": 0.836,
        "num_nvlinks": 12, "bw_per_nvlink": 50, "nvlink_util": 0.6667,
        "num_ibroce_ports": 8, "ibroce_bw": 25, "ibroce_util": 0.56, "ar_perc_intra": 0.2746,
    })
}

/// DLRM-A as MAD-Max's files have it.
pub fn dlrm_a() -> Value {
    json!({
        "name": "dlrm-a", "type": "dlrm", "bytes_per_nonemb_param": 4, "bytes_per_emb_param": 2,
        "num_bot_mlp_layers": 10, "num_top_mlp_layers": 10, "mlp_dim": 3994,
        "num_tables": 4096, "entries_per_table": 2080000, "emb_dim": 94, "pooling_size": 15,
    })
}

/// Levels of a strategy, with their degrees.
type Levels<'a> = &'a [(&'a str, usize)];

/// A pre-training task with 512 samples a device.
pub fn task(devices: usize, mlp: Levels) -> Value {
    let (names, degrees): (Vec<&str>, Vec<usize>) = mlp.iter().copied().unzip();
    let tp: usize = mlp.iter().filter(|(name, _)| *name == "TP").map(|(_, degree)| degree).product();
    json!({
        "name": "pretrain", "type": "pretraining",
        "mlp_parallel": names, "mlp_parallel_degree": degrees,
        "emb_parallel": ["MP"], "emb_parallel_degree": [devices],
        "local_mlp_bs": 512 * tp, "local_emb_bs": 512 * devices,
    })
}

/// What MAD-Max's tool prints, in ms: GEMM, embeddings, all-to-all, all-reduce, all-gather, reduce-scatter, exposed, iteration.
#[test]
fn its_rows_through_its_files() {
    let rows: [(usize, Levels, [f64; 8]); 7] = [
        // What is exposed is the tool's iteration less its computations.
        (128, &[("DDP", 8), ("TP", 16)], [8.91, 9.10, 26.40, 44.024, 0.0, 0.0, 67.15, 85.163]),
        (128, &[("DDP", 128)], [8.91, 9.10, 26.40, 21.27, 0.0, 0.0, 35.99, 54.00]),
        (8, &[("DDP", 8)], [8.91, 9.10, 14.78, 6.38, 0.0, 0.0, 10.85, 28.86]),
        (128, &[("FSDP", 128)], [8.91, 9.10, 26.40, 0.0, 21.27, 10.63, 54.95, 72.96]),
        (128, &[("TP", 8), ("DDP", 16)], [8.91, 9.10, 26.40, 27.81, 0.0, 0.0, 45.35, 63.36]),
        (128, &[("TP", 128)], [8.91, 9.10, 26.40, 349.0, 0.0, 0.0, 369.96, 387.97]),
        (128, &[("FSDP", 8), ("DDP", 16)], [8.91, 9.10, 26.40, 21.27, 6.38, 3.19, 53.20, 71.21]),
    ];
    let keys = "gemm embedding all_to_all all_reduce all_gather reduce_scatter exposed iteration";
    let files = Files::new();
    let model = files.write("model.json", &dlrm_a().to_string());
    for (devices, mlp, expected) in rows {
        let system = files.write("system.json", &zionex(devices).to_string());
        let task = files.write("task.json", &task(devices, mlp).to_string());
        let one = json(&["--model", &model, "--system", &system, "--task", &task, "--cost", "madmax"]);
        for (key, expected) in keys.split_whitespace().zip(expected) {
            let got = one[format!("{key}_ms")].as_f64().unwrap();
            assert!((got - expected).abs() <= 0.005 * expected, "{mlp:?}: {key} is {got}, not {expected}");
        }
    }
}

/// Vision and language models as MAD-Max's files have them. Its vision tasks gather layers early, whatever their files call that.
#[test]
fn transformers_through_its_files() {
    let files = Files::new();
    let system = files.write("system.json", &zionex(128).to_string());
    let vision = |layers: usize, dim: usize, patch: usize| {
        json!({
            "name": "vit", "type": "vit", "bytes_per_nonemb_param": 2, "num_transformer_layers": layers,
            "num_transformer_heads": 16, "attention_dim": dim, "transformer_fc_dim": 4 * dim, "image_size": 224,
            "patch_dim": patch,
        })
    };
    let task = json!({
        "name": "pretrain", "type": "pretrain", "transformer_parallel": ["fsdp"], "transformer_parallel_degree": [128],
        "emb_parallel": ["ddp"], "emb_parallel_degree": [128], "local_transformer_bs": 16, "local_emb_bs": 16,
    });
    let task = files.write("task.json", &task.to_string());
    let run = |model: &Value, system: &str, task: &str| {
        let model = files.write("model.json", &model.to_string());
        json(&["--model", &model, "--system", system, "--task", task, "--cost", "madmax"])
    };
    let near = |one: &Value, key: &str, expected: f64| {
        let got = one[format!("{key}_ms")].as_f64().unwrap();
        assert!((got - expected).abs() <= 0.005 * expected, "{key} is {got}, not {expected}");
    };
    let large = run(&vision(24, 1024, 16), &system, &task);
    for (key, expected) in [
        ("iteration", 27.751),
        ("gemm", 25.833),
        ("embedding", 0.0198),
        ("all_reduce", 0.2141),
        ("all_gather", 10.066),
        ("reduce_scatter", 5.033),
        ("exposed", 1.8986),
    ] {
        near(&large, key, expected);
    }
    let larger = run(&vision(32, 5120, 14), &system, &task);
    for (key, expected) in
        [("iteration", 1133.158), ("exposed", 8.324), ("all_gather", 335.541), ("reduce_scatter", 167.771)]
    {
        near(&larger, key, expected);
    }
    // Without layers that are gathered early, and with them where nobody asked for a file of MAD-Max.
    let by_name = |strategy: &str| {
        json(&[
            "--model",
            "vit-l",
            "--system",
            &system,
            "--batch",
            "16",
            "--cost",
            "madmax",
            "--transformer",
            strategy,
        ])
    };
    near(&by_name("fsdp+prefetch"), "iteration", 27.751);
    near(&by_name("fsdp"), "exposed", 10.825);

    let mut system = zionex(2048);
    (system["mem_cap"], system["mem_bw"]) = (json!(80), json!(1935));
    let system = files.write("system.json", &system.to_string());
    let language = json!({
        "name": "llama-7b", "type": "llm", "bytes_per_nonemb_param": 2, "bytes_per_emb_param": 2,
        "num_transformer_layers": 32, "num_transformer_heads": 32, "attention_dim": 4096, "transformer_fc_dim": 10923,
        "transformer_seq_len": 2048, "entries_per_table": 32000,
    });
    let task = json!({
        "name": "pretrain", "type": "pretrain", "transformer_parallel": ["fsdp"], "transformer_parallel_degree": [2048],
        "emb_parallel": ["ddp"], "emb_parallel_degree": [2048], "local_transformer_bs": 1, "local_emb_bs": 1,
    });
    let small = run(&language, &system, &files.write("task.json", &task.to_string()));
    for (key, expected) in [("all_reduce", 0.5592), ("iteration", 456.424), ("exposed", 176.426)] {
        near(&small, key, expected);
    }
    // Layers from the 17th on stay as they are: they are neither scattered nor, for their weights, computed.
    let mut some = task.clone();
    some["type"] = json!("finetune");
    (some["freeze_emb"], some["freeze_transformer"], some["min_frozen_layer"]) =
        (json!(false), json!(false), json!(16));
    let some = run(&language, &system, &files.write("some.json", &some.to_string()));
    let ms = |one: &Value, key: &str| one[format!("{key}_ms")].as_f64().unwrap();
    near(&some, "reduce_scatter", ms(&small, "reduce_scatter") / 2.0);
    near(&some, "gemm", ms(&small, "gemm") * (1.0 + 2.0 * 0.5 + 0.5) / 3.0);
    assert!(some["task"].as_str().unwrap().contains("transformer>=16"), "{}", some["task"]);
}

/// Bottom MLP, top MLP and experts may each have a strategy of their own.
#[test]
fn a_strategy_for_each_class() {
    let files = Files::new();
    let system = files.write("system.json", &zionex(128).to_string());
    let mut moe = dlrm_a();
    (moe["type"], moe["num_experts"], moe["num_active_experts"]) = (json!("dlrm_moe"), json!(16), json!(2));
    let moe = files.write("moe.json", &moe.to_string());
    let mut job = task(128, &[("TP", 8), ("DDP", 16)]);
    (job["expert_parallel"], job["expert_parallel_degree"]) = (json!(["DDP", "TP"]), json!([8, 16]));
    // For experts, 16 devices share their samples.
    job["local_mlp_bs"] = json!(512 * 16);
    let task = files.write("task.json", &job.to_string());
    let cost = ["--system", &system, "--cost", "madmax"];
    let by_file = json(&[&["--model", &moe, "--task", &task], &cost[..]].concat());
    let flags = ["--model", "dlrm-a-moe", "--mlp", "tp,ddp", "--experts", "ddp,tp"];
    let by_flags = json(&[&flags, &cost[..]].concat());
    assert_eq!(by_file["iteration_ms"], by_flags["iteration_ms"]);
    assert_eq!(by_flags["spread"], "bottom MLP (TP 8, DDP 16), experts (DDP 8, TP 16), tables (MP 128)");
    let apart = ["--model", "dlrm-a", "--mlp", "fsdp", "--bottom", "ddp", "--top", "fsdp+prefetch,ddp"];
    let apart = json(&[&apart, &cost[..]].concat());
    assert_eq!(apart["spread"], "bottom MLP (DDP 128), top MLP (FSDP+prefetch 8, DDP 16), tables (MP 128)");
}

#[test]
fn toml_has_the_same_fields_and_names_the_same_numbers() {
    let files = Files::new();
    let toml = |value: Value| toml::to_string(&value).unwrap();
    let model = files.write("model.toml", &toml(dlrm_a()));
    let system = files.write("system.toml", &toml(zionex(128)));
    let job = files.write("task.toml", &toml(task(128, &[("TP", 8), ("DDP", 16)])));
    // By its rules; its files say less of the network than the built-in system knows.
    let by_rules = |args: [&str; 6]| json(&[&args[..], &["--cost", "madmax"]].concat());
    let from_files = by_rules(["--model", &model, "--system", &system, "--task", &job]);
    let by_name = by_rules(["--model", "dlrm-a", "--system", "zionex:128", "--mlp", "tp,ddp"]);
    for key in ["iteration_ms", "exposed_ms", "memory_gb"] {
        let (a, b) = (from_files[key].as_f64().unwrap(), by_name[key].as_f64().unwrap());
        assert!((a / b - 1.0).abs() < 1e-9, "{key}: {a} and {b}");
    }
    // Plain units: FLOP/s, bytes and bytes a second.
    let mut plain = zionex(128);
    for (field, unit) in [("f32_flops", 1e12), ("mem_cap", 1e9), ("mem_bw", 1e9), ("ibroce_bw", 1e9)] {
        plain[field] = (plain[field].as_f64().unwrap() * unit).into();
    }
    let plain = files.write("plain.json", &plain.to_string());
    let in_plain = by_rules(["--model", &model, "--system", &plain, "--task", &job]);
    assert_eq!(in_plain["iteration_ms"], from_files["iteration_ms"]);
}

#[test]
fn our_own_files_too() {
    let files = Files::new();
    let system = "name = \"mine\"\nnodes = 2\ndevices_per_node = 4\n\
                  [device]\nf32_flops = 1e14\nflops_util = 0.5\nmemory_bytes = 4e10\nmemory_bytes_per_s = 1e12\nmemory_util = 0.8\n\
                  [intra]\nbytes_per_s = 1e11\nutil = 0.7\n[inter]\nbytes_per_s = 1e10\nutil = 0.6\n";
    let system = files.write("mine.toml", system);
    let run = "[model]\npreset = \"kaggle\"\nkind = \"dcn\"\ntowers = \"strided:2\"\ntower_module = \"dcn:d=16\"\n\
               [train]\nbatch = 4096\n[wire]\nvectors = \"f16\"\n";
    let run = files.write("run.toml", run);
    let one = json(&["--model", &run, "--system", &system]);
    assert_eq!((&one["model"], &one["system"], &one["devices"]), (&"run".into(), &"mine".into(), &8.into()));
    // 4096 samples on the 2 × 2 ranks that a run has by default are 1024 each.
    assert_eq!(one["samples_per_step"], 8192.0);
    assert_eq!(json(&["--model", &run, "--system", &system, "--batch", "10"])["samples_per_step"], 80.0);
    let spread = one["spread"].as_str().unwrap();
    assert!(spread.contains("2 towers of dcn:d=16") && spread.contains("vectors=f16"), "{spread}");
}

#[test]
fn a_single_node_needs_no_network() {
    let files = Files::new();
    let mut system = zionex(8);
    system["num_ibroce_ports"] = 0.into();
    let system = files.write("node.json", &system.to_string());
    assert!(json(&["--model", "dlrm-a", "--system", &system])["iteration_ms"].as_f64().unwrap() > 0.0);
}

/// The files that the README sends people to.
#[test]
fn examples_are_read() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let (model, system) = (format!("{examples}/layered-dlrm.json"), format!("{examples}/cluster.toml"));
    let told = json(&["--model", &model, "--system", &system, "--mlp", "tp,ddp", "--batch", "256"]);
    assert_eq!(
        (told["devices"].as_u64(), told["fits"].as_bool()),
        (Some(128), Some(true)),
        "{}",
        told["too_big"]
    );
    let trained = json(&["--model", &format!("{examples}/multi-hot.toml"), "--system", &system]);
    assert!(trained["iteration_ms"].as_f64().unwrap() > 0.0);
}
