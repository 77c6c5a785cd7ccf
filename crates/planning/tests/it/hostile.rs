//! Descriptions that cannot be are refused, with what is wrong; and none of them brings a simulation down.

use planning::cost::CostKind;
use planning::memory::Memory;
use planning::simulator::Simulation;
use planning::system::System;
use planning::workload::{Convention, Job, JobFile, Layered, ModelFile};
use proptest::prelude::*;
use serde_json::{Value, json};

fn system() -> System {
    System::named("zionex:16").unwrap()
}

fn dlrm() -> Value {
    json!({
        "name": "small", "type": "dlrm", "bytes_per_nonemb_param": 4.0, "bytes_per_emb_param": 2.0,
        "num_bot_mlp_layers": 2, "num_top_mlp_layers": 2, "mlp_dim": 100,
        "num_tables": 8.0, "entries_per_table": 1000.0, "emb_dim": 16.0, "pooling_size": 4.0
    })
}

fn llm() -> Value {
    json!({
        "name": "words", "type": "llm", "bytes_per_nonemb_param": 2.0, "bytes_per_emb_param": 2.0,
        "entries_per_table": 1000.0, "num_transformer_layers": 2, "num_transformer_heads": 2,
        "attention_dim": 64.0, "transformer_fc_dim": 256.0, "transformer_seq_len": 128.0
    })
}

fn vit() -> Value {
    json!({
        "name": "images", "type": "vit", "bytes_per_nonemb_param": 2.0, "num_transformer_layers": 2,
        "num_transformer_heads": 2, "attention_dim": 64.0, "transformer_fc_dim": 256.0, "image_size": 224.0,
        "patch_dim": 14.0
    })
}

fn pre_training() -> Value {
    json!({
        "name": "all", "type": "pretraining", "mlp_parallel": ["TP", "DDP"], "mlp_parallel_degree": [8, 2],
        "emb_parallel": ["MP"], "emb_parallel_degree": [16], "local_mlp_bs": 512.0
    })
}

/// The same with other values; `null` leaves a field out.
fn with(mut base: Value, changes: Value) -> Value {
    let fields = base.as_object_mut().unwrap();
    for (field, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => fields.remove(field),
            value => fields.insert(field.clone(), value.clone()),
        };
    }
    base
}

fn model(value: Value) -> Result<Layered, String> {
    let file: ModelFile = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Layered::from_file(&file).map_err(|error| error.to_string())
}

fn job(value: Value, model: &Layered) -> Result<Job, String> {
    let file: JobFile = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Job::from_file(&file, model, &system()).map_err(|error| error.to_string())
}

#[test]
fn systems_that_cannot_be() {
    let change = |field: &str, value: f64| {
        let mut system = serde_json::to_value(system()).unwrap();
        *system.pointer_mut(field).unwrap() = json!(value);
        serde_json::from_value::<System>(system)
            .unwrap()
            .checked()
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(change("/device/f32_flops", 1e12), Ok(()));
    assert_eq!(change("/device/f16_flops", 0.0), Ok(()));
    let amount = "between 1 and 1e24";
    for (field, value, message) in [
        ("/device/f32_flops", 0.0, format!("device.f32_flops is 0; it must be {amount}")),
        ("/device/f32_flops", 1e-300, format!("device.f32_flops is {}; it must be {amount}", 1e-300)),
        ("/device/memory_bytes_per_s", -3.0, format!("device.memory_bytes_per_s is -3; it must be {amount}")),
        ("/device/memory_bytes", 0.5, format!("device.memory_bytes is 0.5; it must be {amount}")),
        ("/intra/bytes_per_s", -1.0, format!("intra.bytes_per_s is -1; it must be {amount}")),
        ("/inter/bytes_per_s", 0.0, format!("inter.bytes_per_s is 0; it must be {amount}")),
        ("/device/f16_flops", -1.0, "device.f16_flops is -1; it must be 0, or between 1 and 1e24".into()),
        ("/device/flops_util", 1.5, "device.flops_util is 1.5; it must be between 1e-6 and 1".into()),
        ("/inter/util", 0.0, "inter.util is 0; it must be between 1e-6 and 1".into()),
        (
            "/all_reduce_intra_share",
            1.01,
            "all_reduce_intra_share is 1.01; it must be between 0 and 1".into(),
        ),
    ] {
        assert_eq!(change(field, value), Err(message), "{field}");
    }
    for not_a_number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for set in [
            |system: &mut System, value| system.device.memory_bytes_per_s = value,
            |system: &mut System, value| system.inter.util = value,
            |system: &mut System, value| system.device.i8_ops = value,
            |system: &mut System, value| system.all_reduce_intra_share = value,
        ] {
            let mut system = system();
            set(&mut system, not_a_number);
            assert!(system.checked().is_err());
        }
    }
    let refusal = |nodes, devices_per_node| {
        System { nodes, devices_per_node, ..system() }.checked().unwrap_err().to_string()
    };
    assert_eq!(refusal(0, 8), "nodes is 0; it must be at least 1");
    assert_eq!(refusal(8, 0), "devices_per_node is 0; it must be at least 1");
    let most = "it must be fewer: 16,777,216 devices are the most";
    assert_eq!(refusal(1 << 21, 9), format!("nodes is 2097152; {most}"));
    assert!(refusal(usize::MAX, usize::MAX).ends_with(most));
}

#[test]
fn names_that_are_not_known() {
    let refusal = |name: &str| System::named(name).unwrap_err().to_string();
    let known = planning::system::NAMES;
    assert_eq!(
        refusal("b200"),
        format!(
            "unknown system \"b200\"; the known ones are {known}, each also as NAME:GPUS, such as h100:512"
        )
    );
    let size = "use 1 to 8 devices, or a multiple of 8 up to 4096";
    for devices in ["0", "12", "4104", "-8", "8.0", "", "many", "99999999999999999999"] {
        assert_eq!(refusal(&format!("h100:{devices}")), format!("h100:{devices} is impossible; {size}"));
    }
    let refusal = Layered::named("dlrm-z").unwrap_err().to_string();
    assert_eq!(
        refusal,
        format!("unknown model \"dlrm-z\"; the known ones are {}", planning::workload::NAMES)
    );
    let refusal = "neo".parse::<CostKind>().unwrap_err();
    assert_eq!(refusal, "unknown cost model \"neo\"; use madmax, roofline or hierarchical");
}

#[test]
fn models_that_cannot_be() {
    assert!(model(dlrm()).is_ok() && model(llm()).is_ok() && model(vit()).is_ok());
    // A 0 is what a model has not.
    assert_eq!(model(with(dlrm(), json!({ "num_experts": 0.0 }))), model(dlrm()));
    assert_eq!(model(with(llm(), json!({ "num_tables": 0.0, "emb_dim": 0.0 }))), model(llm()));
    let range = "it must be more than 0 and at most 1e15";
    let experts = json!({ "type": "dlrm_moe", "num_experts": 2.0, "num_active_experts": 3.0 });
    for (value, message) in [
        (
            with(dlrm(), json!({ "type": "cnn" })),
            "unknown model type \"cnn\"; the known ones are dlrm, dlrm_transformer, dlrm_moe, llm, llm_moe and vit"
                .into(),
        ),
        (
            with(dlrm(), json!({ "mlp_dim": null })),
            "field mlp_dim is missing; a model of type dlrm needs it".into(),
        ),
        (
            with(dlrm(), json!({ "attention_dim": 64.0 })),
            "field attention_dim is given, but a model of type dlrm does not have it".into(),
        ),
        (
            with(llm(), json!({ "mlp_dim": 64 })),
            "field mlp_dim is given, but a model of type llm does not have it".into(),
        ),
        (with(dlrm(), json!({ "num_tables": -8.0 })), format!("num_tables is -8; {range}")),
        (with(dlrm(), json!({ "mlp_dim": 0 })), format!("mlp_dim is 0; {range}")),
        (with(dlrm(), json!({ "emb_dim": 1e16 })), format!("emb_dim is 10000000000000000; {range}")),
        (
            with(dlrm(), json!({ "bytes_per_nonemb_param": 0.0 })),
            format!("bytes_per_nonemb_param is 0; {range}"),
        ),
        (with(llm(), json!({ "num_tables": -1.0 })), format!("num_tables is -1; {range}")),
        (with(llm(), json!({ "emb_dim": -64.0 })), format!("emb_dim is -64; {range}")),
        (
            with(dlrm(), json!({ "num_top_mlp_layers": 10_001 })),
            "num_top_mlp_layers is 10001; it must be at most 10000".into(),
        ),
        (
            with(llm(), json!({ "num_transformer_layers": 900_000_000_000_000u64 })),
            "num_transformer_layers is 900000000000000; it must be at most 10000".into(),
        ),
        (with(dlrm(), experts), "num_active_experts is 3, but num_experts only 2".into()),
        (
            with(vit(), json!({ "patch_dim": 448.0 })),
            "image_size is 224 and patch_dim 448: 0.5 patches a side; there must be 1 to 1e6".into(),
        ),
    ] {
        assert_eq!(model(value), Err(message));
    }
    let refusal = model(with(dlrm(), json!({ "num_table": 8.0 }))).unwrap_err();
    assert!(refusal.starts_with("unknown field `num_table`, expected one of `name`, `type`,"), "{refusal}");
}

#[test]
fn jobs_that_cannot_be() {
    let dlrm = model(dlrm()).unwrap();
    assert!(job(pre_training(), &dlrm).is_ok());
    let refused = |changes: Value| job(with(pre_training(), changes), &dlrm).unwrap_err();
    for (changes, message) in [
        (
            json!({ "type": "distil" }),
            "unknown task type \"distil\"; the known ones are pretraining, finetuning and inference",
        ),
        (
            json!({ "mlp_parallel": ["PP"], "mlp_parallel_degree": [16] }),
            "unknown parallelism \"PP\"; the known ones are DDP, FSDP, FSDP+prefetch, TP, and MP for tables",
        ),
        (
            json!({ "mlp_parallel_degree": [8] }),
            "mlp_parallel has 2 levels and mlp_parallel_degree has 1; they must have the same",
        ),
        (
            json!({ "mlp_parallel_degree": null }),
            "mlp_parallel_degree is missing; give mlp_parallel and mlp_parallel_degree together, as [\"TP\", \"DDP\"] and [8, 16]",
        ),
        (
            json!({ "mlp_parallel": ["MP"], "mlp_parallel_degree": [16] }),
            "mlp_parallel has MP; tables are MP or DDP, layers DDP, FSDP or TP",
        ),
        (
            json!({ "emb_parallel": ["FSDP"] }),
            "emb_parallel has FSDP; tables are MP or DDP, layers DDP, FSDP or TP",
        ),
        (json!({ "local_mlp_bs": -512.0 }), "local_mlp_bs is -512; it must be more than 0 and at most 1e15"),
        (
            json!({ "local_mlp_bs": 1e16 }),
            "local_mlp_bs is 10000000000000000; it must be more than 0 and at most 1e15",
        ),
        (json!({ "local_mlp_bs": null }), "field local_mlp_bs is missing; a model of type dlrm needs it"),
        (
            json!({ "local_emb_bs": 512.0 }),
            "local_emb_bs is 512, for 16 devices: 32 samples a device; local_mlp_bs makes it 64",
        ),
        (
            json!({ "freeze_emb": true }),
            "the task is pre-training, and freezes parts (freeze_bot_mlp, freeze_top_mlp, freeze_experts, freeze_transformer, min_frozen_layer, freeze_emb): only fine-tuning does",
        ),
    ] {
        assert_eq!(refused(changes.clone()), message, "{changes}");
    }
    // Degrees are looked at when they meet the system.
    for (names, degrees, message) in [
        (
            json!(["TP", "DDP"]),
            json!([8, 3]),
            "mlp_parallel is (TP 8, DDP 3): its degrees make 24 devices, but the system zionex:16 has 16; the product of the degrees must be the number of devices",
        ),
        (
            json!(["DDP"]),
            json!([0]),
            "mlp_parallel is (DDP 0): its degrees make 0 devices, but the system zionex:16 has 16; the product of the degrees must be the number of devices",
        ),
        (
            json!(["DDP", "DDP"]),
            json!([8, 2]),
            "mlp_parallel is (DDP 8, DDP 2): the same twice; write it as one level",
        ),
        (json!([]), json!([]), "mlp_parallel has 0 levels; give one or two"),
        (json!(["TP", "FSDP", "DDP"]), json!([2, 4, 2]), "mlp_parallel has 3 levels; give one or two"),
    ] {
        let value = with(pre_training(), json!({ "mlp_parallel": names, "mlp_parallel_degree": degrees }));
        let refusal = job(value, &dlrm).and_then(|job| {
            job.step(&dlrm, &system(), Convention::MadMax).map_err(|error| error.to_string())
        });
        assert_eq!(refusal, Err(message.to_string()));
    }
}

/// Numbers at the edges of what a file may say.
fn number() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![-1.0, 0.0, 1e-300, 0.5, 1.0, 8.0, 1e3, 1e9, 1e15, 1e16, 1e300, f64::MAX])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is not refused is simulated, to a time that is a number.
    #[test]
    fn nothing_hangs_or_panics(
        base in prop::sample::select(vec![dlrm(), llm(), vit()]),
        of_model in prop::collection::vec((any::<prop::sample::Index>(), number()), 0..4),
        of_job in prop::collection::vec((any::<prop::sample::Index>(), number()), 0..3),
        per_device in number(),
    ) {
        let change = |mut value: Value, changes: &[(prop::sample::Index, f64)]| {
            let fields = value.as_object_mut().unwrap();
            let numbers: Vec<String> = fields.iter().filter(|f| f.1.is_number()).map(|f| f.0.clone()).collect();
            for (which, number) in changes {
                let field = &numbers[which.index(numbers.len())];
                let counts = fields[field].is_u64();
                fields[field] = if counts { json!(number.clamp(0.0, 2e4) as u64) } else { json!(number) };
            }
            value
        };
        let Ok(model) = model(change(base, &of_model)) else { return Ok(()) };
        let every = json!({
            "transformer_parallel": ["FSDP"], "transformer_parallel_degree": [16], "local_mlp_bs": null
        });
        let field = if model.mlp_dim > 0 { "local_mlp_bs" } else { "local_transformer_bs" };
        let value = with(with(pre_training(), every), json!({ field: per_device }));
        let Ok(job) = job(change(value, &of_job), &model) else { return Ok(()) };
        let system = system();
        prop_assert!(Memory::of_job(&job, &model, &system).total().is_finite());
        for convention in [Convention::MadMax, Convention::Pooled] {
            let Ok(step) = job.step(&model, &system, convention) else { return Ok(()) };
            for kind in CostKind::ALL {
                let seconds = Simulation::new(&*kind.model(), &step, &system).iteration_s();
                prop_assert!(seconds.is_finite() && seconds >= 0.0, "{kind}: {seconds}");
            }
        }
    }
}
