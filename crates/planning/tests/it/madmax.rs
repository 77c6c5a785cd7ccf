//! MAD-Max's rules against what its public tool predicts.

use planning::cost::MadMax;
use planning::memory::Memory;
use planning::simulator::Simulation;
use planning::system::System;
use planning::workload::{
    Activations, Convention, Job, Layered, LayeredKind, Parallel, Strategies, Strategy, Transformer,
};

fn simulate(model: &str, system: &System, mlp: Strategy) -> (Simulation, f64) {
    let model = Layered::named(model).unwrap();
    let strategies = Strategies::default_for(&model, system).with_mlp(&model, mlp);
    let job = Job::pre_training(&model, &strategies, 512, system);
    let step = job.step(&model, system, Convention::MadMax).unwrap();
    (Simulation::new(&MadMax, &step, system), Memory::of_job(&job, &model, system).total())
}

/// GEMM, embeddings, all-to-all, all-reduce, all-gather, reduce-scatter, exposed, iteration in ms, and MQPS.
type Row = [f64; 9];

fn row(simulation: &Simulation) -> Row {
    let b = &simulation.breakdown;
    let times = [b.gemm, b.embedding, b.all_to_all, b.all_reduce, b.all_gather, b.reduce_scatter];
    let [gemm, embedding, to_all, reduce, gather, scatter] = times.map(|s| 1e3 * s);
    let (exposed, iteration) = (1e3 * simulation.exposed_s(), 1e3 * simulation.iteration_s());
    [gemm, embedding, to_all, reduce, gather, scatter, exposed, iteration, simulation.samples_per_s / 1e6]
}

#[test]
fn every_row_of_the_table_within_half_a_percent() {
    use Parallel::{Ddp, Fsdp, Tp};
    let (large, small) = (System::named("zionex:128").unwrap(), System::named("zionex:8").unwrap());
    let cases: [(&str, &System, Strategy, Row); 8] = [
        (
            "dlrm-a",
            &large,
            Strategy::flat(Ddp, &large),
            [8.91, 9.10, 26.40, 21.27, 0., 0., 35.99, 54.00, 1.214],
        ),
        (
            "dlrm-a",
            &small,
            Strategy::flat(Ddp, &small),
            [8.91, 9.10, 14.78, 6.38, 0., 0., 10.85, 28.86, 0.142],
        ),
        (
            "dlrm-a",
            &large,
            Strategy::flat(Fsdp, &large),
            [8.91, 9.10, 26.40, 0., 21.27, 10.63, 54.95, 72.96, 0.898],
        ),
        (
            "dlrm-a",
            &large,
            Strategy::nested(Tp, Ddp, &large),
            [8.91, 9.10, 26.40, 27.81, 0., 0., 45.35, 63.36, 1.034],
        ),
        (
            "dlrm-a",
            &large,
            Strategy::flat(Tp, &large),
            [8.91, 9.10, 26.40, 349.0, 0., 0., 369.96, 387.97, 0.169],
        ),
        (
            "dlrm-a",
            &large,
            Strategy::nested(Fsdp, Ddp, &large),
            [8.91, 9.10, 26.40, 21.27, 6.38, 3.19, 53.20, 71.21, 0.920],
        ),
        (
            "dlrm-b",
            &large,
            Strategy::flat(Ddp, &large),
            [0.84, 5.19, 15.07, 2.00, 0., 0., 15.39, 21.42, 3.059],
        ),
        (
            "dlrm-b",
            &large,
            Strategy::flat(Fsdp, &large),
            [0.84, 5.19, 15.07, 0., 2.00, 1.00, 17.78, 23.81, 2.752],
        ),
    ];
    for (model, system, strategy, expected) in cases {
        let got = row(&simulate(model, system, strategy.clone()).0);
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() <= 0.005 * expected, "{model} {strategy}: {got} for {expected}");
        }
    }
}

#[test]
fn replicas_do_not_fit_where_the_paper_says_so() {
    use Parallel::{Ddp, Fsdp, Tp};
    let system = System::named("zionex:128").unwrap();
    let needs = |strategy: Strategy| simulate("dlrm-a", &system, strategy).1;
    let has = system.device.memory_bytes;
    assert!(needs(Strategy::flat(Ddp, &system)) > has);
    for fits in [
        Strategy::flat(Fsdp, &system),
        Strategy::nested(Tp, Ddp, &system),
        Strategy::nested(Fsdp, Ddp, &system),
    ] {
        assert!(needs(fits.clone()) <= has, "{fits}: {}", needs(fits.clone()));
    }
    let llm = System::named("llm-a100").unwrap();
    let gpt = Layered::named("gpt-3").unwrap();
    for (strategy, fits) in [
        (Strategy::flat(Fsdp, &llm), true),
        (Strategy::flat(Ddp, &llm), false),
        (Strategy::nested(Tp, Ddp, &llm), false),
        (Strategy::nested(Fsdp, Ddp, &llm), false),
    ] {
        let strategies = Strategies::default_for(&gpt, &llm).with_transformer(&gpt, strategy.clone());
        let job = Job::pre_training(&gpt, &strategies, 1, &llm);
        // The paper counts no activations.
        let recomputed = Job { activations: Activations::Recompute, ..job };
        let memory = Memory::of_job(&recomputed, &gpt, &llm);
        assert_eq!(memory.fits(&llm).is_ok(), fits, "{strategy}: {memory:?}");
    }
}

#[test]
fn days_of_llama() {
    let system = System::named("llm-a100").unwrap();
    let model = Layered::named("llama-65b").unwrap();
    // Sharded inside nodes, replicated between them. The paper does not say which strategy it validated.
    let transformer = Strategy::nested(Parallel::Fsdp, Parallel::Ddp, &system);
    let strategies = Strategies::default_for(&model, &system).with_transformer(&model, transformer);
    let job = Job::pre_training(&model, &strategies, 1, &system);
    let step = job.step(&model, &system, Convention::MadMax).unwrap();
    let seconds = Simulation::new(&MadMax, &step, &system).iteration_s();
    let days = seconds * 1.4e12 / (step.samples * 2048.0) / 86400.0;
    let hours = seconds * 306e3 * 2048.0 / 3600.0;
    assert!((days / 19.21 - 1.0).abs() < 0.02, "{days} days");
    assert!((hours / 863_397.0 - 1.0).abs() < 0.02, "{hours} hours");
}

fn transformers(model: &Layered, system: &System, parallel: Parallel, batch: usize) -> Simulation {
    let strategies =
        Strategies::default_for(model, system).with_transformer(model, Strategy::flat(parallel, system));
    let job = Job::pre_training(model, &strategies, batch, system);
    Simulation::new(&MadMax, &job.step(model, system, Convention::MadMax).unwrap(), system)
}

#[track_caller]
fn near(got: f64, expected: f64) {
    assert!((got - expected).abs() <= 0.005 * expected, "{got} for {expected}");
}

/// What the tool prints for vision models, whose layers it gathers early.
#[test]
fn layers_that_are_gathered_early() {
    let system = System::named("zionex:128").unwrap();
    let large = transformers(&Layered::named("vit-l").unwrap(), &system, Parallel::FsdpPrefetch, 16);
    let [gemm, embedding, _, reduce, gather, scatter, exposed, iteration, _] = row(&large);
    for (got, expected) in [
        (gemm, 25.833),
        (embedding, 0.0198),
        (reduce, 0.2141),
        (gather, 10.066),
        (scatter, 5.033),
        (exposed, 1.8986),
        (iteration, 27.751),
    ] {
        near(got, expected);
    }
    let larger = transformers(&Layered::named("vit-10b").unwrap(), &system, Parallel::FsdpPrefetch, 16);
    let [.., gather, scatter, exposed, iteration, _] = row(&larger);
    for (got, expected) in [(gather, 335.541), (scatter, 167.771), (exposed, 8.324), (iteration, 1133.158)] {
        near(got, expected);
    }
    // One after the other: what it was before layers could be gathered early.
    let late = transformers(&Layered::named("vit-l").unwrap(), &system, Parallel::Fsdp, 16);
    assert!(late.exposed_s() > 4.0 * large.exposed_s());
}

/// A language model of so many layers, widths and tokens.
fn llama(layers: usize, dim: f64, fc_dim: f64, sequence: f64) -> Layered {
    let transformer = Transformer { layers, heads: 32, kv_heads: 32, dim, fc_dim, sequence, gated: true };
    let mut model = Layered::named("llama-65b").unwrap();
    assert_eq!(model.kind, LayeredKind::Llm);
    model.sparse = model.sparse.map(|sparse| planning::workload::Sparse { dim, ..sparse });
    Layered { transformer: Some(transformer), ..model }
}

/// Replicas of embeddings reduce what a batch looks up: time is linear in tokens × width.
#[test]
fn replicas_reduce_what_a_batch_looks_up() {
    let system = System::named("llm-a100:2048").unwrap();
    let reduce = |model: &Layered| 1e3 * transformers(model, &system, Parallel::Fsdp, 1).breakdown.all_reduce;
    near(reduce(&llama(32, 4096.0, 11008.0, 2048.0)), 0.5592);
    near(reduce(&llama(80, 8192.0, 22016.0, 2048.0)), 1.1185);
    for (tokens, expected) in [(4096.0, 2.237), (8192.0, 4.474), (16384.0, 8.948), (32768.0, 17.896)] {
        near(reduce(&llama(80, 8192.0, 28672.0, tokens)), expected);
    }
    // All of LLaMA-7B.
    let [.., exposed, iteration, _] =
        row(&transformers(&llama(32, 4096.0, 8.0 / 3.0 * 4096.0, 2048.0), &system, Parallel::Fsdp, 1));
    near(exposed, 176.426);
    near(iteration, 456.424);
}

/// Replicas inside nodes reduce the shard that tensor parallelism between nodes has left them.
#[test]
fn replicas_of_shards() {
    let system = System::named("zionex:128").unwrap();
    let strategy = Strategy::nested(Parallel::Ddp, Parallel::Tp, &system);
    let [gemm, embedding, to_all, reduce, gather, scatter, _, iteration, _] =
        row(&simulate("dlrm-a", &system, strategy).0);
    for (got, expected) in
        [(gemm, 8.91), (embedding, 9.10), (to_all, 26.40), (reduce, 44.024), (iteration, 85.163)]
    {
        near(got, expected);
    }
    assert_eq!((gather, scatter), (0.0, 0.0));
}
