//! Whatever stands in a file, it is priced or refused, and never ends in a panic.

use super::files::{dlrm_a, task, zionex};
use planning::cost::CostKind;
use planning::memory::Memory;
use planning::simulator::Simulation;
use planning::system::{System, SystemFile};
use planning::workload::{Convention, Job, JobFile, Layered, ModelFile};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A value for a field: of the right kind, of the wrong kind, or of the right kind and absurd.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3i64..300).prop_map(Value::from),
        prop::sample::select(vec![0.0, 1e-300, 1e15, 1e16, 1e24, 1e300, f64::MAX]).prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "dlrm",
            "llm",
            "vit",
            "llm_moe",
            "dlrm_moe",
            "dlrm_transformer",
            "inference",
            "finetuning"
        ])
        .prop_map(Value::from),
        prop::collection::vec(prop::sample::select(vec!["TP", "DDP", "FSDP", "MP", "?"]), 0..4)
            .prop_map(Value::from),
        prop::collection::vec(prop_oneof![0u64..200, any::<u64>()], 0..4).prop_map(Value::from),
        Just(json!({ "a": [1, { "b": null }] })),
    ]
}

/// A file's fields with some changed.
fn changed(base: Value, fields: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::collection::vec((prop::sample::select(fields), value()), 0..6).prop_map(move |changes| {
        let mut changed = base.clone();
        for (field, to) in changes {
            changed[field] = to;
        }
        changed
    })
}

const MODEL: &[&str] = &[
    "name",
    "type",
    "bytes_per_nonemb_param",
    "bytes_per_emb_param",
    "num_bot_mlp_layers",
    "num_top_mlp_layers",
    "mlp_dim",
    "num_tables",
    "entries_per_table",
    "emb_dim",
    "pooling_size",
    "num_experts",
    "num_active_experts",
    "num_transformer_layers",
    "num_transformer_heads",
    "attention_dim",
    "transformer_fc_dim",
    "transformer_seq_len",
    "image_size",
    "patch_dim",
    "other",
];
const SYSTEM: &[&str] = &[
    "name",
    "type",
    "num_devices",
    "num_nodes",
    "f64_flops",
    "f32_flops",
    "f16_flops",
    "i8_ops",
    "flops_util",
    "mem_cap",
    "mem_bw",
    "mem_bw_util",
    "num_nvlinks",
    "bw_per_nvlink",
    "nvlink_util",
    "num_ibroce_ports",
    "ibroce_bw",
    "ibroce_util",
    "ar_perc_intra",
];
const TASK: &[&str] = &[
    "type",
    "mlp_parallel",
    "mlp_parallel_degree",
    "emb_parallel",
    "emb_parallel_degree",
    "transformer_parallel",
    "transformer_parallel_degree",
    "local_mlp_bs",
    "local_emb_bs",
    "local_transformer_bs",
    "freeze_top_mlp",
    "freeze_bot_mlp",
    "freeze_emb",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn files_never_end_in_a_panic(
        model in changed(dlrm_a(), MODEL),
        system in changed(zionex(16), SYSTEM),
        task in changed(task(16, &[("TP", 8), ("DDP", 2)]), TASK),
    ) {
        let parsed = (
            serde_json::from_value::<ModelFile>(model),
            serde_json::from_value::<SystemFile>(system),
            serde_json::from_value::<JobFile>(task),
        );
        let model = parsed.0.ok().and_then(|file| Layered::from_file(&file).ok()).unwrap_or(Layered::named("dlrm-b").unwrap());
        // A system that was refused gives way to one that is not, so that the rest is tried as well.
        let system = parsed.1.ok().and_then(|file| System::from_file(&file).ok()).unwrap_or(System::named("zionex:16").unwrap());
        let Ok(file) = parsed.2 else { return Ok(()) };
        let Ok(job) = Job::from_file(&file, &model, &system) else { return Ok(()) };
        prop_assume!(model.bottom_layers + model.top_layers + model.transformer.map_or(0, |t| t.layers) < 400);
        for convention in [Convention::MadMax, Convention::Pooled] {
            let Ok(step) = job.step(&model, &system, convention) else { return Ok(()) };
            for cost in CostKind::ALL {
                let simulation = Simulation::new(cost.model().as_ref(), &step, &system);
                prop_assert!(simulation.iteration_s() >= 0.0 || simulation.iteration_s().is_nan());
            }
        }
        let _ = Memory::of_job(&job, &model, &system).fits(&system);
    }
}
