//! Golden timelines: five small steps as text, in `tests/golden`. After a deliberate change, write them again with
//! `CAMPANILE_BLESS=1 cargo test -p campanile-planning --test it timelines::`, and read the difference.

use planning::cost::{Constants, CostModel, Hierarchical, MadMax};
use planning::simulator::Simulation;
use planning::step::StepGraph;
use planning::system::System;
use planning::text::render;
use planning::workload::{Convention, Job, Layered, LayeredKind, Parallel, Sparse, Strategies, Strategy};
use spec::dataflow::DataflowKind;
use spec::run::Config;
use spec::schedule::Task;
use std::path::Path;

/// Compares a step with its golden file.
fn golden(name: &str, model: &dyn CostModel, step: &StepGraph, system: &System) -> Simulation {
    let simulation = Simulation::new(model, step, system);
    let text = render(step, &simulation);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name).with_extension("txt");
    if std::env::var_os("CAMPANILE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "{} says\n\n{expected}\nbut the step is now\n\n{text}\nIf that is right, write it again with \
         CAMPANILE_BLESS=1 cargo test -p campanile-planning --test it timelines::",
        path.display()
    );
    simulation
}

/// When an operation begins and ends, in ms.
fn span(step: &StepGraph, simulation: &Simulation, name: &str) -> (f64, f64) {
    let found = step.operations.iter().position(|op| op.label.to_string() == name);
    let span = simulation.timeline.spans[found.unwrap_or_else(|| panic!("no operation is called {name}"))];
    (1e3 * span.begin_s, 1e3 * span.end_s)
}

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-9 * expected.abs().max(1.0), "{got} ms for {expected} ms");
}

/// Two bottom and two top layers of 4000 × 4000 floats, and 50 tables of 100 halves with 10 lookups in each.
fn small() -> Layered {
    Layered {
        name: "small".into(),
        kind: LayeredKind::Dlrm,
        dense_bytes: 4.0,
        embedding_bytes: 2.0,
        bottom_layers: 2,
        top_layers: 2,
        mlp_dim: 4000,
        sparse: Some(Sparse { tables: 50.0, rows: 1e6, dim: 100.0, pooling: 10.0 }),
        experts: None,
        transformer: None,
    }
}

/// 512 samples a device on two nodes of eight.
fn step(mlp: impl Fn(&System) -> Strategy) -> (StepGraph, System) {
    let (model, system) = (small(), System::named("zionex:16").unwrap());
    let strategies = Strategies::default_for(&model, &system).with_mlp(&model, mlp(&system));
    let job = Job::pre_training(&model, &strategies, 512, &system);
    (job.step(&model, &system, Convention::MadMax).unwrap(), system)
}

/// What everything takes by MAD-Max's rules, in ms.
///
/// - A layer has 2 · 4000² = 32 MFLOPs a sample, so 16.384 GFLOPs for 512, at 156 · 0.705 = 109.98 TFLOP/s.
/// - A device looks up 50 · 10 · 100 · 2 bytes for each of 512 · 16 samples, and has a 16th of the tables: 51.2 MB, at
///   1555 · 0.836 = 1299.98 GB/s.
/// - It sends 2/16 of that at 12.5 · 0.56 = 7 GB/s.
/// - A layer's gradient has 64 MB, at 0.2746 · 200.01 + 0.7254 · 7 = 60.000546 GB/s; a gather or a scatter takes half as long.
mod ms {
    pub const FORWARD: f64 = 16.384 / 109.98;
    pub const BACKWARD: f64 = 2.0 * FORWARD;
    pub const LOOKUP: f64 = 51.2 / 1299.98;
    pub const EXCHANGE: f64 = 51.2 * 2.0 / 16.0 / 7.0;
    pub const REDUCE: f64 = 64.0 / (0.2746 * 200.01 + 0.7254 * 7.0);
    pub const GATHER: f64 = REDUCE / 2.0;
}

/// Replicas. Forward, 0.039 + 2 · 0.149 ms of computation lie beside the vectors' 0.914 ms, so the first top layer begins when
/// they are there, at 0.039 + 0.914 = 0.954. The forward pass ends 2 · 0.149 later, at 1.252, the first backward at 1.550: only
/// then can the first all-reduce begin. From there on collectives are one queue that never waits, as a layer's backward
/// (0.298) is shorter than an all-reduce (1.067): two of them, the gradients' all-to-all, two more. Tables are updated as
/// soon as their gradients have come.
#[test]
fn replicas() {
    let (step, system) = step(|system| Strategy::flat(Parallel::Ddp, system));
    let simulation = golden("dlrm-ddp", &MadMax, &step, &system);
    let at = |name: &str| span(&step, &simulation, name);
    let vectors = ms::LOOKUP + ms::EXCHANGE;
    close(at("vectors all-to-all").1, vectors);
    close(at("top 0 forward").0, vectors);
    let first = vectors + 2.0 * ms::FORWARD + ms::BACKWARD;
    close(at("top 1 all-reduce").0, first);
    close(at("gradients all-to-all").0, first + 2.0 * ms::REDUCE);
    close(at("update tables").0, first + 2.0 * ms::REDUCE + ms::EXCHANGE);
    close(at("bottom 0 all-reduce").1, first + 4.0 * ms::REDUCE + ms::EXCHANGE);
    close(1e3 * simulation.iteration_s(), first + 4.0 * ms::REDUCE + ms::EXCHANGE);
}

/// Full shards. The vectors are first in the queue of collectives; the bottom's first two layers are gathered behind them, and
/// each of the top's when the layer two before it has computed: one layer ahead. A gather (0.533) takes longer than a layer
/// (0.149), so layers wait for gathers. Layer 0 is there at 0.954 + 0.533 = 1.487 and has computed at 1.636; the second gather
/// goes on until 2.020, so the third (top 0) follows at once, and ends at 2.554; the fourth at 3.087, and its layer at 3.236.
/// Backward begins there, with the last layer's gather.
#[test]
fn full_shards() {
    let (step, system) = step(|system| Strategy::flat(Parallel::Fsdp, system));
    let simulation = golden("dlrm-fsdp", &MadMax, &step, &system);
    let at = |name: &str| span(&step, &simulation, name);
    let vectors = ms::LOOKUP + ms::EXCHANGE;
    close(at("bottom 0 gather").0, vectors);
    close(at("bottom 0 forward").0, vectors + ms::GATHER);
    // Ahead: bottom 1 is gathered while bottom 0 computes.
    close(at("bottom 1 gather").0, at("bottom 0 forward").0);
    for (i, name) in ["bottom 0", "bottom 1", "top 0", "top 1"].into_iter().enumerate() {
        let (gathered, begins) = (at(&format!("{name} gather")).1, at(&format!("{name} forward")).0);
        close(gathered, vectors + (i + 1) as f64 * ms::GATHER);
        close(begins, gathered);
    }
    let half = vectors + 4.0 * ms::GATHER + ms::FORWARD;
    close(at("top 1 gather again").0, half);
    close(at("top 1 backward").0, half + ms::GATHER);
    // Backward, a layer's scatter is issued before the next one's gather, and nothing is left to hide: each of four layers
    // takes its gather, its backward and its scatter, and before the bottom's the gradients travel.
    let layer = 2.0 * ms::GATHER + ms::BACKWARD;
    close(at("top 0 gather again").0, half + layer);
    close(at("gradients all-to-all").0, half + 2.0 * layer);
    close(1e3 * simulation.iteration_s(), half + 4.0 * layer + ms::EXCHANGE);
}

/// Tensor parallelism of 8 inside nodes, replicas between them. A layer takes as long as before (8 times the samples, an 8th
/// of the layer). Activations of 8 · 512 samples, 65.5 MB, are summed at 200 GB/s (0.328 ms) after every second layer: the odd
/// ones forward, the even ones backward, and the next layer waits.
#[test]
fn tensors_inside_nodes() {
    let (step, system) = step(|system| Strategy::nested(Parallel::Tp, Parallel::Ddp, system));
    let simulation = golden("dlrm-tp-ddp", &MadMax, &step, &system);
    let at = |name: &str| span(&step, &simulation, name);
    let sum = 4096.0 * 4000.0 * 4.0 / 200.01e6;
    let vectors = ms::LOOKUP + ms::EXCHANGE;
    close(at("bottom 1 sum activations").0, vectors);
    close(at("top 0 forward").0, vectors + sum);
    close(at("top 1 sum activations").1, vectors + 2.0 * sum + 2.0 * ms::FORWARD);
    // Backward begins when the last sum is there.
    close(at("top 1 backward").0, vectors + 2.0 * sum + 2.0 * ms::FORWARD);
    // Level 1 of 2 is between nodes, and reduces whole layers.
    close(at("top 1 all-reduce").1 - at("top 1 all-reduce").0, ms::REDUCE);
}

/// Two nodes of two devices that are slow enough for a small model to show something.
fn two_by_two() -> System {
    let mut system = System::named("v100:2").unwrap();
    system.name = "2 × 2".into();
    (system.nodes, system.devices_per_node) = (2, 2);
    system.device.f32_flops = 50e9;
    system.device.memory_bytes_per_s = 10e9;
    (system.intra.bytes_per_s, system.inter.bytes_per_s) = (5e9, 1e9);
    system.checked().unwrap()
}

/// Constants that stay as they are when those of the model are tuned.
const CONSTANTS: Constants = Constants {
    launch_s: 5e-6,
    latency_s: (10e-6, 30e-6),
    message_s: 1e-6,
    long_message: 0.84,
    crowd: 256.0,
    unhidden: 1.0,
};

/// The demonstration model on 2 × 2 ranks, trained by 1024 samples a step.
fn trained(change: impl Fn(&mut Config)) -> StepGraph {
    let mut config = Config::default();
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(2), Some(2));
    config.train.batch = Some(1024);
    change(&mut config);
    StepGraph::of_schedule(&planning::check(&config).unwrap().schedule(Task::Train), 1024)
}

#[test]
fn trained_flat() {
    let step = trained(|config| config.train.dataflow = Some(DataflowKind::Flat));
    golden("trained-flat", &Hierarchical { constants: CONSTANTS }, &step, &two_by_two());
}

#[test]
fn trained_with_towers() {
    let step = trained(|config| {
        config.train.dataflow = Some(DataflowKind::Sptt);
        config.model.towers = Some("strided:2".parse().unwrap());
        config.model.tower_module = Some("dlrm:c=1,p=0,d=8".parse().unwrap());
    });
    golden("trained-towers", &Hierarchical { constants: CONSTANTS }, &step, &two_by_two());
}
