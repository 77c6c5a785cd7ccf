//! MAD-Max's rules against what its public tool predicts.

use planning::cost::MadMax;
use planning::memory::Memory;
use planning::simulator::Simulation;
use planning::system::System;
use planning::workload::{Convention, Job, Layered, Parallel, Strategies, Strategy};

fn simulate(model: &str, system: &System, mlp: Strategy) -> (Simulation, f64) {
    let model = Layered::named(model).unwrap();
    let strategies = Strategies { mlp, ..Strategies::default_for(&model, system) };
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
        let strategies = Strategies { transformer: strategy.clone(), ..Strategies::default_for(&gpt, &llm) };
        let job = Job::pre_training(&gpt, &strategies, 1, &llm);
        let memory = Memory::of_job(&job, &gpt, &llm);
        assert_eq!(memory.fits(&llm).is_ok(), fits, "{strategy}: {memory:?}");
    }
}

#[test]
fn llama() {
    let system = System::named("llm-a100").unwrap();
    let model = Layered::named("llama-65b").unwrap();
    // Sharded inside nodes, replicated between them. The paper does not say which strategy it validated.
    let transformer = Strategy::nested(Parallel::Fsdp, Parallel::Ddp, &system);
    let strategies = Strategies { transformer, ..Strategies::default_for(&model, &system) };
    let job = Job::pre_training(&model, &strategies, 1, &system);
    let step = job.step(&model, &system, Convention::MadMax).unwrap();
    let seconds = Simulation::new(&MadMax, &step, &system).iteration_s();
    let days = seconds * 1.4e12 / (step.samples * 2048.0) / 86400.0;
    let hours = seconds * 306e3 * 2048.0 / 3600.0;
    assert!((days / 19.21 - 1.0).abs() < 0.02, "{days} days");
    assert!((hours / 863_397.0 - 1.0).abs() < 0.02, "{hours} hours");
}
