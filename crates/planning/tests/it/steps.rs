//! Steps of schedules: each operation has the volumes of the rank that is busiest in it, whatever ranks are looked at.

use planning::step::{Reduction, StepGraph, Work};
use planning::system::System;
use planning::trained::Trained;
use spec::feature::{Feature, Hotness};
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::schedule::{Collective, CollectiveKind, PhaseId, Schedule, Task};
use spec::topology::LinkClass;
use spec::towers::Assignment;
use spec::volume::{BatchSizes, LinkBytes};

/// Holds the stages of a reduction against what all ranks send: at least what the busiest sends, and no more than the sum of
/// what the busiest in each stage sends.
fn check_reduction(run: &Run, schedule: &Schedule, collective: &Collective, reduction: &Reduction) {
    assert_ne!(collective.kind, CollectiveKind::AllToAll);
    let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
    let sent = (0..run.topology().ranks()).map(|rank| collective.sent(schedule.deployment(), &sizes, rank));
    let sent: Vec<LinkBytes> = sent.collect();
    let host: u64 = reduction.stages.iter().map(|stage| stage.sent.host).sum();
    let network: u64 = reduction.stages.iter().map(|stage| stage.sent.network).sum();
    let most = |of: &dyn Fn(&LinkBytes) -> u64| sent.iter().map(of).max().unwrap_or(0);
    for (ours, most) in [(host, most(&|sent| sent.host)), (network, most(&|sent| sent.network))] {
        // Shares differ by a float, or a row of vectors.
        assert!(most <= ours && ours as f64 <= 1.02 * most as f64 + 2048.0, "{collective:?}: {ours} {most}");
    }
}

/// Holds a step against all ranks, and all pairs of them.
fn check(run: &Run) {
    let schedule = run.schedule(Task::Train);
    let step = StepGraph::of_schedule(&schedule, run.batch);
    let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
    let (deployment, topology) = (schedule.deployment(), run.topology());
    let ranks = topology.ranks();
    for (i, (phase, op)) in schedule.phases().iter().zip(&step.operations).enumerate() {
        let most = |of: &dyn Fn(usize) -> u64| (0..ranks).map(of).max().unwrap() as f64;
        match (&phase.work, &op.work) {
            (spec::schedule::Work::Compute(_), Work::Compute(compute)) => {
                let flops = most(&|rank| schedule.flops(PhaseId(i), &sizes, rank));
                let bytes = most(&|rank| schedule.memory(PhaseId(i), &sizes, rank));
                assert_eq!((compute.flops, compute.bytes), (flops, bytes), "{}", phase.name);
            }
            (spec::schedule::Work::Collective(collective), Work::Transfer(transfer)) => {
                let pair = |from, to| collective.traffic.between(deployment, &sizes, from, to);
                let all = |from: usize, to: usize| pair(from, to);
                let between = |from: usize, to: usize| match topology.link(from, to) {
                    LinkClass::Network => pair(from, to),
                    LinkClass::Local | LinkClass::Host => 0,
                };
                let busiest = |of: &dyn Fn(usize, usize) -> u64| {
                    let out = most(&|rank| (0..ranks).map(|to| of(rank, to)).sum());
                    let into = most(&|rank| (0..ranks).map(|from| of(from, rank)).sum());
                    out.max(into)
                };
                let expected = (busiest(&all), busiest(&between));
                assert_eq!((transfer.bytes, transfer.between_nodes), expected, "{}", phase.name);
            }
            (spec::schedule::Work::Collective(collective), Work::Reduction(reduction)) => {
                check_reduction(run, &schedule, collective, reduction);
            }
            _ => panic!("{} became something else", phase.name),
        }
    }
}

/// Multi-hot features with means and weights, of tables with few and many rows.
fn features() -> Vec<Feature> {
    let feature = |i: usize| Feature {
        name: format!("F{i}"),
        rows: 10 + 1000 * i,
        pooling: Default::default(),
        hotness: if i.is_multiple_of(3) { Hotness::One } else { Hotness::Many { mean: 1 + i as u32 } },
        weighted: i == 4,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    };
    (0..9).map(feature).collect()
}

#[test]
fn volumes_are_those_of_the_busiest_of_all_ranks() {
    for (hosts, per_host, batch) in [(1, 1, 64), (2, 2, 101), (3, 2, 600), (4, 4, 1030)] {
        let mut config = Config::default();
        config.topology.hosts = Some(hosts);
        config.topology.ranks_per_host = Some(per_host);
        config.train.batch = Some(batch);
        check(&planning::check(&config).unwrap());
        config.model.features = Some(features());
        check(&planning::check(&config).unwrap());
        config.placement.replicate_rows = Some(1500);
        config.train.all_to_all = Some("hierarchical".parse().unwrap());
        check(&planning::check(&config).unwrap());
        config.placement.replicate_rows = None;
        config.train.all_to_all = None;
        for cut in ["whole", "columns", "rows", "hotness"] {
            config.placement.cut = Some(cut.parse().unwrap());
            config.model.towers = None;
            config.model.tower_module = None;
            check(&planning::check(&config).unwrap());
            config.model.towers = Some(Assignment::Strided(3));
            check(&planning::check(&config).unwrap());
            config.model.kind = Some(ModelKind::Dcn);
            config.model.tower_module = Some("dcn:d=16".parse().unwrap());
            check(&planning::check(&config).unwrap());
            config.model.kind = None;
        }
    }
}

#[test]
fn trained_models_on_systems_too() {
    for name in ["dlrm", "sptt-dcn", "8t-dlrm", "16t-dcn"] {
        for system in ["h100:8", "h100:32", "h100:128"] {
            let system = System::named(system).unwrap();
            check(&Trained::named(name).unwrap().run(&system, 100, &Default::default()).unwrap());
        }
    }
}
