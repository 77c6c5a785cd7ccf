//! Which operations a step has, and with which numbers, for a model that is small enough to count by hand; and the sizes of
//! the built-in models.

use planning::memory::Memory;
use planning::step::{Op, StepGraph, Transfer, Work};
use planning::system::System;
use planning::workload::{
    Convention, Experts, Frozen, Job, Layered, LayeredKind, Parallel, Sparse, Strategies, Strategy, TaskKind,
    Transformer,
};
use spec::schedule::PhaseId;

/// Two nodes of eight devices.
fn system() -> System {
    System::named("zionex:16").unwrap()
}

/// 2 + 2 layers of 10 × 10 floats, and 4 tables × 100 rows × 8 halves with 3 lookups each.
fn tiny() -> Layered {
    Layered {
        name: "tiny".into(),
        kind: LayeredKind::Dlrm,
        dense_bytes: 4.0,
        embedding_bytes: 2.0,
        bottom_layers: 2,
        top_layers: 2,
        mlp_dim: 10,
        sparse: Some(Sparse { tables: 4.0, rows: 100.0, dim: 8.0, pooling: 3.0 }),
        experts: None,
        transformer: None,
    }
}

/// Two layers: attention of 4 · 6² = 144 parameters, feed-forward of 2 · 6 · 10 = 120; 5 tokens, 100 words.
fn tiny_llm() -> Layered {
    Layered {
        kind: LayeredKind::Llm,
        dense_bytes: 2.0,
        bottom_layers: 0,
        top_layers: 0,
        mlp_dim: 0,
        sparse: Some(Sparse { tables: 1.0, rows: 100.0, dim: 6.0, pooling: 1.0 }),
        transformer: Some(Transformer {
            layers: 2,
            heads: 2,
            kv_heads: 2,
            dim: 6.0,
            fc_dim: 10.0,
            sequence: 5.0,
            gated: false,
        }),
        ..tiny()
    }
}

/// A step of 4 samples a device; all layers are spread the same way.
fn step(model: &Layered, task: TaskKind, layers: &[Parallel], convention: Convention) -> StepGraph {
    let system = system();
    let spread = match layers {
        [inside, between] => Strategy::nested(*inside, *between, &system),
        _ => Strategy::flat(layers[0], &system),
    };
    let default = Strategies::default_for(model, &system);
    let strategies = Strategies::new(model, spread.clone(), spread, default.embedding);
    Job::new(model, task, &strategies, 4.0, &system).step(model, &system, convention).unwrap()
}

fn names(step: &StepGraph) -> Vec<String> {
    step.operations.iter().map(|op| op.label.to_string()).collect()
}

fn find<'a>(step: &'a StepGraph, name: &str) -> &'a Op {
    let found = step.operations.iter().find(|op| op.label.to_string() == name);
    found.unwrap_or_else(|| panic!("no {name:?} in {:?}", names(step)))
}

/// FLOPs and bytes of a computation.
fn work(step: &StepGraph, name: &str) -> (f64, f64) {
    match &find(step, name).work {
        Work::Compute(compute) => (compute.flops, compute.bytes),
        Work::Transfer(_) | Work::Reduction(_) => panic!("{name} is a collective"),
    }
}

fn transfer(step: &StepGraph, name: &str) -> Transfer {
    let transfer = find(step, name).work.transfer();
    *transfer.unwrap_or_else(|| panic!("{name} is a computation"))
}

/// Members, nodes and bytes.
fn sent(step: &StepGraph, name: &str) -> (usize, usize, f64) {
    let Transfer { members, nodes, bytes, .. } = transfer(step, name);
    (members, nodes, bytes)
}

/// What an operation waits for in its step.
fn waits(step: &StepGraph, name: &str) -> Vec<String> {
    let after = find(step, name).after.iter().filter(|(_, distance)| *distance == 0);
    after.map(|&(PhaseId(other), _)| step.operations[other].label.to_string()).collect()
}

const FORWARD: [&str; 6] = [
    "lookup",
    "vectors all-to-all",
    "bottom 0 forward",
    "bottom 1 forward",
    "top 0 forward",
    "top 1 forward",
];
const BACKWARD: [&str; 10] = [
    "top 1 backward",
    "top 1 all-reduce",
    "top 0 backward",
    "top 0 all-reduce",
    "gradients all-to-all",
    "bottom 1 backward",
    "bottom 1 all-reduce",
    "bottom 0 backward",
    "bottom 0 all-reduce",
    "update tables",
];

/// What is left of a step if some parts are frozen, and the FLOPs of each backward over those of its forward.
#[test]
fn frozen_parts_are_left_out() {
    let replicas = [Parallel::Ddp];
    let frozen =
        |bottom, top, embedding| TaskKind::FineTuning(Frozen { bottom, top, embedding, ..Frozen::default() });
    let all_reduces = ["top 1 all-reduce", "top 0 all-reduce", "bottom 1 all-reduce", "bottom 0 all-reduce"];
    let bottom = ["bottom 1 backward", "bottom 1 all-reduce", "bottom 0 backward", "bottom 0 all-reduce"];
    let tables = ["gradients all-to-all", "update tables"];
    // Backward of top 1, top 0, bottom 1 and bottom 0: once for weights that are trained, once for what lies below.
    let cases: [(TaskKind, Vec<&str>, [f64; 4]); 8] = [
        // MAD-Max takes twice for every layer.
        (TaskKind::PreTraining, vec![], [2.0, 2.0, 2.0, 2.0]),
        (frozen(false, false, false), vec![], [2.0, 2.0, 2.0, 1.0]),
        (frozen(false, false, true), tables.to_vec(), [2.0, 2.0, 2.0, 1.0]),
        (frozen(true, false, false), bottom.to_vec(), [2.0, 2.0, 0.0, 0.0]),
        (frozen(true, false, true), [&bottom[..], &tables].concat(), [2.0, 1.0, 0.0, 0.0]),
        (frozen(false, true, false), all_reduces[..2].to_vec(), [1.0, 1.0, 2.0, 1.0]),
        (frozen(true, true, false), [&all_reduces[..2], &bottom].concat(), [1.0, 1.0, 0.0, 0.0]),
        (frozen(true, true, true), BACKWARD.to_vec(), [0.0; 4]),
    ];
    for (task, without, times) in cases {
        let step = step(&tiny(), task, &replicas, Convention::MadMax);
        let left = FORWARD.iter().chain(BACKWARD.iter().filter(|name| !without.contains(*name)));
        assert_eq!(names(&step), left.copied().collect::<Vec<_>>(), "{task:?}");
        for (layer, times) in ["top 1", "top 0", "bottom 1", "bottom 0"].into_iter().zip(times) {
            if times > 0.0 {
                assert_eq!(work(&step, &format!("{layer} backward")).0, times * 800.0, "{task:?} {layer}");
            }
        }
    }
    let inference = step(&tiny(), TaskKind::Inference, &replicas, Convention::MadMax);
    assert_eq!(names(&inference), FORWARD);
}

/// Shards are gathered for inference too, and of frozen layers; they are scattered only where they change.
#[test]
fn shards_of_frozen_layers_are_gathered_and_not_scattered() {
    let count = |task, what: &str| {
        let step = step(&tiny(), task, &[Parallel::Fsdp], Convention::MadMax);
        names(&step).iter().filter(|name| name.ends_with(what)).count()
    };
    let top = TaskKind::FineTuning(Frozen { top: true, ..Frozen::default() });
    for (task, [gather, again, scatter]) in
        [(TaskKind::Inference, [4, 0, 0]), (TaskKind::PreTraining, [4, 4, 4]), (top, [4, 4, 2])]
    {
        let got = [count(task, " gather"), count(task, "gather again"), count(task, "reduce-scatter")];
        assert_eq!(got, [gather, again, scatter], "{task:?}");
    }
}

#[test]
fn numbers_by_mad_max() {
    let replicas = step(&tiny(), TaskKind::PreTraining, &[Parallel::Ddp], Convention::MadMax);
    assert_eq!(replicas.samples, 64.0);
    // 2 · 10² FLOPs for each of 4 samples.
    assert_eq!(work(&replicas, "top 0 forward"), (800.0, 0.0));
    assert_eq!(work(&replicas, "top 0 backward"), (1600.0, 0.0));
    // 4 tables · 3 rows · 8 halves for each of 64 samples, over 16 devices; and 2/16 of that on the wire.
    assert_eq!(work(&replicas, "lookup"), (0.0, 768.0));
    assert_eq!(work(&replicas, "update tables"), (0.0, 768.0));
    assert_eq!(sent(&replicas, "vectors all-to-all"), (16, 2, 96.0));
    assert_eq!(sent(&replicas, "gradients all-to-all"), (16, 2, 96.0));
    assert_eq!(sent(&replicas, "top 0 all-reduce"), (16, 2, 400.0));
    let shards = step(&tiny(), TaskKind::PreTraining, &[Parallel::Fsdp], Convention::MadMax);
    assert_eq!(sent(&shards, "top 0 gather"), (16, 2, 400.0));
    assert_eq!(sent(&shards, "top 0 reduce-scatter"), (16, 2, 400.0));
    assert_eq!(waits(&shards, "top 0 gather"), ["bottom 0 forward"]);
    assert_eq!(waits(&shards, "bottom 1 gather again"), ["top 1 backward"]);
    // Shards inside nodes, replicas between them: a device has an 8th of a layer, 50 bytes, but reduces it whole.
    let nested = step(&tiny(), TaskKind::PreTraining, &[Parallel::Fsdp, Parallel::Ddp], Convention::MadMax);
    assert_eq!(sent(&nested, "top 0 gather"), (8, 1, 400.0));
    assert_eq!(sent(&nested, "top 0 all-reduce"), (2, 2, 400.0));
    // Replicas inside nodes, shards between them: each has a half of a layer, and reduces that.
    let inverse = step(&tiny(), TaskKind::PreTraining, &[Parallel::Ddp, Parallel::Tp], Convention::MadMax);
    assert_eq!(sent(&inverse, "top 0 all-reduce"), (8, 1, 200.0));
}

/// The next layer is gathered before this one computes, in both passes, and its gradient is scattered behind that.
#[test]
fn layers_are_gathered_early() {
    let order = |convention| {
        let step = step(&tiny(), TaskKind::PreTraining, &[Parallel::FsdpPrefetch], convention);
        let mut names = names(&step);
        names.retain(|name| {
            ["gather", "forward", "backward", "scatter"].iter().any(|part| name.contains(part))
        });
        (step, names)
    };
    let (madmax, names) = order(Convention::MadMax);
    let expected = "bottom 0 gather, bottom 1 gather, bottom 0 forward, top 0 gather, bottom 1 forward, top 1 gather, top 0 forward, \
                    top 1 forward, top 1 gather again, top 0 gather again, top 1 backward, top 1 reduce-scatter, bottom 1 gather again, \
                    top 0 backward, top 0 reduce-scatter, bottom 0 gather again, bottom 1 backward, bottom 1 reduce-scatter, \
                    bottom 0 backward, bottom 0 reduce-scatter";
    assert_eq!(names.join(", "), expected);
    assert_eq!(waits(&madmax, "top 0 gather"), ["bottom 0 forward"]);
    assert_eq!(waits(&madmax, "bottom 1 gather again"), ["top 1 backward"]);
    // Ours keeps the last layer of the forward pass, and gathers the one below it while the last one computes.
    let (pooled, names) = order(Convention::Pooled);
    assert_eq!(names.join(", "), expected.replace("top 1 gather again, ", ""));
    assert_eq!(waits(&pooled, "top 0 gather again"), ["top 1 forward"]);
}

#[test]
fn numbers_of_pooled_vectors() {
    let replicas = step(&tiny(), TaskKind::PreTraining, &[Parallel::Ddp], Convention::Pooled);
    // Rows are read and vectors written: 4 tables · 8 halves for each of 4 samples.
    assert_eq!(work(&replicas, "lookup"), (0.0, 768.0 + 256.0));
    assert_eq!(work(&replicas, "update tables"), (0.0, 768.0 + 256.0));
    // Of 256 bytes a 16th stays, and half goes to the other node.
    let vectors = transfer(&replicas, "vectors all-to-all");
    assert_eq!((vectors.bytes, vectors.between_nodes), (240.0, 128.0));
    // 4 · 3 ids of 4 bytes for each of 4 samples.
    assert_eq!(sent(&replicas, "ids all-to-all"), (16, 2, 180.0));
    // 28 bytes for each of 400 parameters.
    assert_eq!(work(&replicas, "update dense"), (0.0, 11200.0));
    // Replicas of shards reduce the shard alone.
    let nested = step(&tiny(), TaskKind::PreTraining, &[Parallel::Tp, Parallel::Ddp], Convention::Pooled);
    assert_eq!(sent(&nested, "top 0 all-reduce"), (2, 2, 50.0));
}

/// Backward begins when the last layer's output is whole.
#[test]
fn backward_waits_for_the_prediction() {
    let layers = [Parallel::Tp, Parallel::Ddp];
    let mlp = step(&tiny(), TaskKind::PreTraining, &layers, Convention::Pooled);
    assert_eq!(waits(&mlp, "top 1 backward"), ["top 1 sum activations"]);
    let experts = Some(Experts { total: 4.0, active: 2.0 });
    let model = Layered { kind: LayeredKind::LlmMoe, experts, ..tiny_llm() };
    let llm = step(&model, TaskKind::PreTraining, &[Parallel::Ddp], Convention::Pooled);
    assert_eq!(waits(&llm, "feed-forward 1 gradients to experts"), ["feed-forward 1 from experts"]);
}

/// A lookup waits for the ids that travelled in the step before, and a gather for the update.
#[test]
fn steps_wait_for_each_other() {
    let step = step(&tiny(), TaskKind::PreTraining, &[Parallel::Fsdp], Convention::Pooled);
    let before = |name: &str| {
        let after = find(&step, name).after.iter().filter(|(_, distance)| *distance == 1);
        after.map(|&(PhaseId(other), _)| step.operations[other].label.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(before("lookup"), ["ids all-to-all"]);
    assert_eq!(before("bottom 0 gather"), ["update dense"]);
}

/// Tensor parallelism sums after every second layer of an MLP, but after both halves of a transformer layer.
#[test]
fn tensors_are_summed() {
    let layers = [Parallel::Tp, Parallel::Ddp];
    let sums = |step: &StepGraph| -> Vec<String> {
        names(step).into_iter().filter(|name| name.contains("sum")).collect()
    };
    let mlp = step(&tiny(), TaskKind::PreTraining, &layers, Convention::MadMax);
    let expected = [
        "bottom 1 sum activations",
        "top 1 sum activations",
        "top 0 sum gradients",
        "bottom 0 sum gradients",
    ];
    assert_eq!(sums(&mlp), expected);
    // 8 · 4 samples, 10 floats; the next layer waits.
    assert_eq!(sent(&mlp, "bottom 1 sum activations"), (8, 1, 1280.0));
    assert!(waits(&mlp, "top 0 forward").contains(&"bottom 1 sum activations".into()));
    // An 8th of a layer for 8 times the samples.
    assert_eq!(work(&mlp, "top 0 forward").0, 800.0);
    let llm = step(&tiny_llm(), TaskKind::PreTraining, &layers, Convention::MadMax);
    let expected = [
        "attention 0 sum activations",
        "feed-forward 0 sum activations",
        "attention 1 sum activations",
        "feed-forward 1 sum activations",
        "feed-forward 1 sum gradients",
        "attention 1 sum gradients",
        "feed-forward 0 sum gradients",
        "attention 0 sum gradients",
    ];
    assert_eq!(sums(&llm), expected);
    // 8 · 4 samples, 5 tokens of 6 halves.
    assert_eq!(sent(&llm, "attention 0 sum activations"), (8, 1, 1920.0));
}

#[test]
fn transformers_have_attention_and_feed_forward() {
    let shards = step(&tiny_llm(), TaskKind::PreTraining, &[Parallel::Fsdp], Convention::MadMax);
    // 2 · 144 and 2 · 120 FLOPs for each of 5 tokens of 4 samples; backward twice that.
    assert_eq!(work(&shards, "attention 1 forward").0, 5760.0);
    assert_eq!(work(&shards, "feed-forward 1 backward").0, 9600.0);
    assert_eq!(sent(&shards, "feed-forward 0 gather").2, 240.0);
    // One layer ahead is the same half of the neighbour.
    assert_eq!(waits(&shards, "attention 1 gather"), ["attention 0 forward"]);
    assert_eq!(waits(&shards, "feed-forward 0 gather again"), ["feed-forward 1 backward"]);
    // A word and a position of 6 halves for each of 5 tokens of 4 samples. Replicas of the table reduce what was looked up.
    assert_eq!(work(&shards, "lookup"), (0.0, 480.0));
    assert_eq!(sent(&shards, "rows all-reduce"), (16, 2, 480.0));
    assert_eq!(waits(&shards, "update tables"), ["rows all-reduce"]);
    assert!(names(&shards).iter().all(|name| !name.contains("all-to-all")));
    // Ours counts the scores: 2 · 5² · 6 for each of 4 samples.
    let pooled = step(&tiny_llm(), TaskKind::PreTraining, &[Parallel::Fsdp], Convention::Pooled);
    // 16 replicas together touch the whole table: (100 + 5) · 6 halves.
    assert_eq!(sent(&pooled, "rows all-reduce"), (16, 2, 1260.0));
    assert_eq!(work(&pooled, "attention 1 forward").0, 5760.0 + 1200.0);
}

/// Experts multiply parameters, those at work FLOPs; samples go to them and come back.
#[test]
fn experts() {
    let experts = Some(Experts { total: 4.0, active: 2.0 });
    let model = Layered { kind: LayeredKind::DlrmMoe, experts, ..tiny() };
    let dlrm = step(&model, TaskKind::PreTraining, &[Parallel::Ddp], Convention::MadMax);
    assert_eq!((model.dense_parameters(), model.forward_flops()), (200.0 + 800.0, 400.0 + 800.0));
    assert_eq!((work(&dlrm, "bottom 0 forward").0, work(&dlrm, "top 0 forward").0), (800.0, 1600.0));
    assert_eq!((sent(&dlrm, "bottom 0 all-reduce").2, sent(&dlrm, "top 0 all-reduce").2), (400.0, 1600.0));
    let travels = |step: &StepGraph| -> Vec<String> {
        names(step).into_iter().filter(|name| name.contains("experts")).collect()
    };
    let expected = [
        "top 0 to experts",
        "top 1 from experts",
        "top 1 gradients to experts",
        "top 0 gradients from experts",
    ];
    assert_eq!(travels(&dlrm), expected);
    // 10 floats for each of 2 experts and 4 samples.
    assert_eq!(sent(&dlrm, "top 0 to experts"), (16, 2, 320.0));
    assert!(waits(&dlrm, "top 0 forward").contains(&"top 0 to experts".into()));
    assert!(waits(&dlrm, "gradients all-to-all").contains(&"top 0 gradients from experts".into()));
    let model = Layered { kind: LayeredKind::LlmMoe, experts, ..tiny_llm() };
    let llm = step(&model, TaskKind::Inference, &[Parallel::Ddp], Convention::MadMax);
    let expected = [
        "feed-forward 0 to experts",
        "feed-forward 0 from experts",
        "feed-forward 1 to experts",
        "feed-forward 1 from experts",
    ];
    assert_eq!(travels(&llm), expected);
    assert_eq!(work(&llm, "feed-forward 0 forward").0, 2.0 * 4800.0);
    assert_eq!(work(&llm, "attention 0 forward").0, 5760.0);
    assert!(waits(&llm, "attention 1 forward").contains(&"feed-forward 0 from experts".into()));
}

/// Room for gathers is needed where layers of this model are sharded, and not for strategies of layers that it has not.
#[test]
fn buffers_are_those_of_vectors_and_gathers() {
    let (model, system) = (tiny(), system());
    let buffers = |parallel| {
        let mlp = Strategy::flat(parallel, &system);
        let strategies = Strategies::default_for(&model, &system).with_mlp(&model, mlp);
        Memory::of_job(&Job::pre_training(&model, &strategies, 4, &system), &model, &system).buffers
    };
    // 4 tables · 8 halves for each of 4 samples, sent and received; two layers of 400 bytes, and one or two gradients.
    assert_eq!(buffers(Parallel::Ddp), 512.0);
    assert_eq!(buffers(Parallel::Fsdp), 512.0 + 800.0 + 400.0);
    assert_eq!(buffers(Parallel::FsdpPrefetch), 512.0 + 800.0 + 800.0);
}

/// MAD-Max's Table 2: parameters, and FLOPs of a sample or a token, within 3 %. It prints parameters of the variants only
/// where they differ. LLaMA's feed-forward layers have a third matrix, and LLaMA 2's keys and values fewer heads, which its
/// files cannot say; FLOPs are then two for each parameter that our own arithmetic counts.
#[test]
fn built_in_models_have_the_sizes_of_the_paper() {
    let cases = [
        ("dlrm-a", 793e9, 638e6),
        ("dlrm-a-transformer", 793e9, 2.6e9),
        ("dlrm-a-moe", 795e9, 957e6),
        ("dlrm-b", 332e9, 60e6),
        ("dlrm-b-transformer", 332e9, 2.1e9),
        ("dlrm-b-moe", 333e9, 90e6),
        ("gpt-3", 175e9, 350e9),
        ("llama-65b", 65.2e9, 130.4e9),
        ("llama2-70b", 70e9, 140e9),
        ("llm-moe", 1.8e12, 550e9),
    ];
    for (name, parameters, flops) in cases {
        let model = Layered::named(name).unwrap();
        let tokens = if model.has_large_tables() { 1.0 } else { model.transformer.unwrap().sequence };
        let got = match model.transformer.is_some_and(|layers| layers.gated) {
            true => 2.0 * model.dense_parameters(),
            false => model.forward_flops() / tokens,
        };
        assert!((got / flops - 1.0).abs() < 0.03, "{name}: {got:e} FLOPs for {flops:e}");
        let got = model.table_parameters() + model.dense_parameters();
        assert!((got / parameters - 1.0).abs() < 0.03, "{name}: {got:e} parameters for {parameters:e}");
    }
    // Bytes that a sample looks up: the table counts 4 for a float, although the tables that it simulates have 2.
    for (name, mb) in [("dlrm-a", 22.61), ("dlrm-b", 13.19)] {
        let sparse = Layered::named(name).unwrap().sparse.unwrap();
        let got = sparse.tables * sparse.pooling * sparse.dim * 4.0 / 1e6;
        assert!((got / mb - 1.0).abs() < 0.03, "{name}: {got} MB for {mb}");
    }
}
