//! Whatever a config says, `check` answers: it gives a run that can be scheduled, or says what is wrong.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use spec::Pooling;
use spec::codec::Rounding;
use spec::dataflow::{DataflowKind, PeerPermute};
use spec::feature::{Feature, Hotness};
use spec::placement::{Cut, HostCut, Layout};
use spec::plan::PlanChoice;
use spec::presets::ModelKind;
use spec::run::{Config, ModelConfig, PlacementConfig, Run, TopologyConfig};
use spec::schedule::{PhaseId, Task};
use spec::synthetic::Synthetic;
use spec::towers::{Assignment, DcnOutput, Module};
use spec::volume::BatchSizes;
use spec::wire::WireConfig;
use std::cell::Cell;
use std::collections::BTreeMap;

fn features() -> impl Strategy<Value = Vec<Feature>> {
    let rows = prop_oneof![1 => Just(0), 19 => 1..20usize];
    let feature = (rows, 0..7u32, any::<bool>(), any::<bool>());
    proptest::collection::vec(feature, 0..6).prop_map(|all| {
        let feature = |(i, (rows, hotness, mean, weighted)): (usize, _)| Feature {
            name: format!("C{i}"),
            rows,
            pooling: if mean { Pooling::Mean } else { Pooling::Sum },
            // 6 stands for a mean of 0, which cannot be.
            hotness: if hotness < 3 { Hotness::One } else { Hotness::Many { mean: hotness % 6 } },
            weighted,
            dim: None,
            format: None,
            cache: None,
            tt_rank: None,
        };
        all.into_iter().enumerate().map(feature).collect()
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..6usize).prop_map(|i| format!("C{i}")),
        2 => (0..6usize, 0..9usize, 0..9usize).prop_map(|(i, a, b)| format!("C{i}[{a}..{b}]")),
        1 => "[C0-9\\[\\].]{0,8}",
    ]
}

fn assignment() -> impl Strategy<Value = Assignment> {
    // Lists that name every feature once, in two towers, are likely to be accepted; others are not.
    let sound = (1..6usize, 0..6usize, any::<bool>()).prop_map(|(count, cut, sliced)| {
        let name = |i: usize| match sliced {
            true => vec![format!("C{i}[0..2]"), format!("C{i}[2..4]")],
            false => vec![format!("C{i}")],
        };
        let names: Vec<String> = (0..count).flat_map(name).collect();
        let (a, b) = names.split_at(cut.min(names.len()));
        Assignment::Lists(vec![a.to_vec(), b.to_vec()])
    });
    prop_oneof![
        2 => Just(Assignment::Each),
        4 => (0..6usize).prop_map(Assignment::Strided),
        2 => sound,
        1 => proptest::collection::vec(proptest::collection::vec(name(), 0..4), 0..4).prop_map(Assignment::Lists),
    ]
}

fn module() -> impl Strategy<Value = Module> {
    let out = select(vec![DcnOutput::Tower, DcnOutput::Features]);
    prop_oneof![
        1 => Just(Module::None),
        2 => (0..3usize, 0..3usize, 0..6usize).prop_map(|(c, p, d)| Module::Dlrm { c, p, d }),
        2 => (0..6usize, proptest::option::of(0..3usize), out)
            .prop_map(|(d, rank, out)| Module::Dcn { d, rank, out }),
    ]
}

fn layout() -> impl Strategy<Value = Layout> {
    let ranks = || proptest::collection::vec(0..9usize, 0..5);
    prop_oneof![
        2 => (0..9usize).prop_map(|rank| Layout::TableWise { rank }),
        1 => ranks().prop_map(|ranks| Layout::RowWise { ranks }),
        1 => (0..4usize, 1..4usize).prop_map(|(first, count)| Layout::RowWise { ranks: (first..first + count).collect() }),
        2 => ranks().prop_map(|ranks| Layout::ColumnWise { ranks }),
        1 => Just(Layout::Replicated),
        1 => (1..4usize, 1..4usize, ranks()).prop_map(|(rows, columns, ranks)| Layout::Grid { rows, columns, ranks }),
        1 => (0..4usize).prop_map(|host| Layout::Hierarchical { host, cut: HostCut::Columns }),
    ]
}

fn model() -> impl Strategy<Value = ModelConfig> {
    let widths = || proptest::option::weighted(0.1, proptest::collection::vec(0..6usize, 0..3));
    let shape = (0..9usize, 0..3usize, widths(), widths(), widths(), proptest::option::of(0..3usize));
    let kind = select(ModelKind::ALL.to_vec());
    let towers = (proptest::option::weighted(0.8, assignment()), proptest::option::weighted(0.6, module()));
    (kind, features(), shape, towers, 0..5usize).prop_map(|(kind, features, shape, towers, cross)| {
        let (dim, dense, bottom, top, deep, rank) = shape;
        ModelConfig {
            kind: Some(kind),
            features: Some(features),
            dim: Some(dim),
            dense_features: Some(dense),
            bottom,
            top: top.map(|widths| widths.into_iter().chain([1]).collect()),
            deep: deep.map(|widths| widths.into_iter().chain([1]).collect()),
            cross_layers: Some(cross),
            cross_rank: rank,
            towers: towers.0,
            tower_module: towers.1,
            ..Default::default()
        }
    })
}

fn config() -> impl Strategy<Value = Config> {
    let counts = || prop_oneof![1 => Just(0), 9 => 1..5usize];
    let topology = (counts(), counts(), proptest::option::weighted(0.4, 0..4usize));
    let cut = proptest::option::of(select(vec![Cut::Whole, Cut::Columns, Cut::Rows, Cut::Hotness]));
    let tables = proptest::collection::btree_map((0..6usize).prop_map(|i| format!("C{i}")), layout(), 0..3);
    let no_tables = Just(BTreeMap::new());
    let plan = proptest::option::weighted(0.2, Just(PlanChoice::Auto));
    let placement =
        (proptest::option::weighted(0.2, 0..9usize), cut, prop_oneof![1 => tables, 2 => no_tables], plan);
    let dataflow = proptest::option::weighted(0.3, select(vec![DataflowKind::Flat, DataflowKind::Sptt]));
    let permute =
        proptest::option::of(select(vec![PeerPermute::Vectors, PeerPermute::Ids, PeerPermute::None]));
    let train = (dataflow, permute, 0..50usize, 0..100usize);
    let wires =
        ["f32", "bf16", "fp8", "u2", "u4+ec", "vectors=u8,gradients=fp8-e4m3,dense=f16+ec-paper,towers=u4"];
    let rounding = proptest::option::of(select(vec![Rounding::Nearest, Rounding::Stochastic]));
    let all_reduces = ["auto", "direct", "ring", "recursive-doubling", "two-level"];
    let wire = (select(wires.to_vec()), rounding, proptest::option::of(select(all_reduces.to_vec())));
    (model(), topology, placement, train, wire).prop_map(|(model, topology, placement, train, wire)| {
        let mut config = Config { model, ..Config::default() };
        let (hosts, ranks, per_tower) = topology;
        config.topology =
            TopologyConfig { hosts: Some(hosts), ranks_per_host: Some(ranks), hosts_per_tower: per_tower };
        config.placement = PlacementConfig {
            replicate_rows: placement.0,
            cut: placement.1,
            tables: placement.2,
            plan: placement.3,
        };
        (config.train.dataflow, config.train.peer_permute) = (train.0, train.1);
        config.wire = WireConfig { rounding: wire.1, ..wire.0.parse().unwrap() };
        config.train.all_reduce = wire.2.map(|text| text.parse().unwrap());
        (config.train.batch, config.train.bucket_bytes) = (Some(train.2), Some(train.3));
        let quiet = Synthetic { groups: 1, within: 0.0, across: 0.0, dense: 0.0, ..Default::default() };
        config.data.synthetic = Some(quiet);
        config
    })
}

/// Everything that follows from a run without running it.
fn use_up(run: &Run) {
    let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
    for task in [Task::Train, Task::Evaluate] {
        let schedule = run.schedule(task);
        for phase in (0..schedule.phases().len()).map(PhaseId) {
            schedule.sent(phase, &sizes, 0);
            schedule.flops(phase, &sizes, 0);
            schedule.memory(phase, &sizes, 0);
        }
        assert!(schedule.table(run.batch).contains("restore order"));
    }
    assert!(run.model.compression_ratio() > 0.0);
}

#[test]
fn no_config_panics() {
    let (tried, accepted, with_modules) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig { cases: 12_000, ..Default::default() });
    let result = runner.run(&config(), |config| {
        tried.set(tried.get() + 1);
        match planning::check(&config) {
            Ok(run) => {
                accepted.set(accepted.get() + 1);
                with_modules.set(with_modules.get() + usize::from(run.model.has_tower_modules()));
                use_up(&run);
                let explicit = config.explicit(&run);
                prop_assert_eq!(&planning::check(&explicit).expect("what ran, runs again"), &run);
            }
            Err(error) => prop_assert!(!error.field.is_empty() && !error.problem.is_empty()),
        }
        Ok(())
    });
    result.unwrap_or_else(|e| panic!("{e}"));
    // The test is of little use if hardly anything is accepted.
    assert!(accepted.get() * 50 > tried.get(), "{} of {} accepted", accepted.get(), tried.get());
    assert!(with_modules.get() * 500 > tried.get(), "{} of {} with modules", with_modules.get(), tried.get());
}

/// Numbers as large as they come: products must not overflow on the way to a refusal, or to a schedule.
#[test]
fn no_number_is_too_large() {
    const NUMBERS: [usize; 7] = [0, 1, 3, 1 << 16, 1 << 20, 1 << 40, usize::MAX];
    let check = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        if let Ok(run) = planning::check(&config) {
            use_up(&run);
        }
    };
    for kind in ModelKind::ALL {
        for number in NUMBERS {
            for other in NUMBERS {
                check(&|c| {
                    c.model.kind = Some(kind);
                    c.model.dim = Some(number);
                    c.model.towers = Some(Assignment::Strided(2));
                    c.model.tower_module = Some(Module::Dlrm { c: other, p: 1, d: number });
                    c.train.batch = Some(1 << 26);
                });
                check(&|c| {
                    c.model.kind = Some(kind);
                    c.model.towers = Some(Assignment::Strided(other));
                    c.model.tower_module =
                        Some(Module::Dcn { d: number, rank: Some(other), out: DcnOutput::Features });
                });
                check(&|c| {
                    c.model.kind = Some(kind);
                    (c.topology.hosts, c.topology.ranks_per_host) = (Some(2), Some(3));
                    c.topology.hosts_per_tower = Some(number);
                    c.model.dim = Some(other);
                    c.train.dataflow = Some(DataflowKind::Sptt);
                });
            }
            let layouts = [
                Layout::TableWise { rank: number },
                Layout::RowWise { ranks: vec![number] },
                Layout::ColumnWise { ranks: vec![0, number] },
                Layout::Hierarchical { host: number, cut: HostCut::Rows },
                Layout::DataParallel { ranks: Some(vec![number]) },
                Layout::Grid { rows: number, columns: number, ranks: vec![0; 4] },
            ];
            for layout in layouts {
                for dataflow in [DataflowKind::Flat, DataflowKind::Sptt] {
                    check(&|c| {
                        c.placement.tables.insert("C3".into(), layout.clone());
                        c.train.dataflow = Some(dataflow);
                    });
                }
            }
        }
    }
    // The widest model there may be, of full rank, over the largest batch.
    check(&|c| {
        c.model.kind = Some(ModelKind::Dcn);
        c.model.dim = Some(65_536);
        c.model.cross_rank = Some(0);
        c.model.towers = Some(Assignment::Strided(1));
        c.model.tower_module = Some(Module::Dcn { d: 1 << 20, rank: None, out: DcnOutput::Tower });
        (c.topology.hosts, c.topology.ranks_per_host) = (Some(1), Some(1));
        c.train.batch = Some(1 << 26);
    });
}

proptest! {
    #[test]
    fn no_text_panics(text in "(none|dlrm|dcn|strided|each)?:?([cpd]|rank|out)?=?[0-9a-z,=:.\\-]{0,24}", any in ".{0,16}") {
        for text in [text, any] {
            if let Ok(module) = text.parse::<Module>() {
                prop_assert_eq!(module.to_string().parse(), Ok(module));
            }
            if let Ok(assignment) = text.parse::<Assignment>() {
                prop_assert_eq!(assignment.to_string().parse(), Ok(assignment));
            }
            let _ = (text.parse::<Cut>(), text.parse::<DataflowKind>(), text.parse::<PeerPermute>());
        }
    }
}
