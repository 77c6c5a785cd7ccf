//! Tables that are tensor trains: the same run on any cluster, with the bytes that its schedule says, stopped and resumed.

use crate::common::metered::{Epoch, check_run};
use crate::common::{ADAM, config, optimizer, tolerance, train, train_session};
use spec::placement::{Cut, Layout};
use spec::presets::ModelKind;
use spec::run::{CheckpointKind, Config, Every, Run};
use spec::towers::Assignment;
use std::sync::atomic::{AtomicBool, Ordering};
use training::checkpoint::{Checkpoint, locate};
use training::{Event, Logs, Saving, Session};

/// Tensor trains among the features: of a single id, a mean, and weighted ones.
const TRAINS: [&str; 3] = ["C0", "C2", "C4"];

/// The config with some tables as tensor trains, or all of them.
fn with_trains(mut config: Config, all: bool) -> Config {
    for feature in config.model.features.iter_mut().flatten() {
        feature.tt_rank = (all || TRAINS.contains(&feature.name.as_str())).then_some(4);
    }
    config
}

/// Three towers on tower groups of one host each, with or without modules.
fn in_towers(mut config: Config, module: &str) -> Config {
    let towers = [vec!["C4", "C0"], vec!["C1"], vec!["C5", "C2", "C3"]];
    let names = towers.map(|tower| tower.into_iter().map(String::from).collect());
    config.model.towers = Some(Assignment::Lists(names.into()));
    config.model.tower_module = Some(module.parse().unwrap());
    config.model.bottom = Some(vec![16, if module == "none" { 8 } else { 4 }]);
    config.placement.cut = Some(Cut::Hotness);
    config
}

fn checked(config: &Config) -> Run {
    planning::check(config).unwrap_or_else(|error| panic!("{error}"))
}

/// Losses of two runs whose sums are in another order.
fn same_curve(one: &[f64], other: &[f64], what: &str) {
    assert_eq!(one.len(), other.len(), "{what}");
    for (step, (a, b)) in one.iter().zip(other).enumerate() {
        assert!((a - b).abs() <= tolerance(1e-5) * a.abs(), "{what}, step {step}: {a} and {b}");
    }
}

/// On one rank, on several, and in tower groups, with towers that pass through.
#[test]
fn the_same_run_on_any_cluster() {
    for (kind, all) in [(ModelKind::Dlrm, false), (ModelKind::DeepFm, true), (ModelKind::Dcn, false)] {
        let on = |hosts, ranks, towers: bool| {
            let mut config = with_trains(config(kind, true, hosts, ranks), all);
            config.train.steps = Some(30);
            config.train.clip_norm = Some(0.5);
            config.optimizer.dense = Some(optimizer(ADAM, 0.002));
            let config = if towers { in_towers(config, "none") } else { config };
            train(&checked(&config)).losses
        };
        let alone = on(1, 1, false);
        for (hosts, ranks) in [(1, 4), (2, 2)] {
            same_curve(&alone, &on(hosts, ranks, false), &format!("{kind:?} on {hosts} × {ranks}"));
        }
        if kind == ModelKind::Dlrm {
            same_curve(&alone, &on(2, 2, true), "in tower groups");
            // A group with C1 alone has no parameters of its own.
            same_curve(&alone, &on(3, 1, true), "in groups without tensor trains");
        }
    }
}

/// Whatever the cut of tables of rows over groups, every rank serves its own samples in the flat dataflow.
#[test]
fn beside_tables_that_are_cut() {
    for cut in [Cut::Rows, Cut::Columns] {
        let mut config = with_trains(config(ModelKind::Dlrm, true, 2, 2), false);
        config.placement.cut = Some(cut);
        let run = checked(&config);
        check_run(&run, &Epoch::of(&run), &format!("{cut:?}"));
    }
}

/// Tower modules and cores are reduced together inside their group.
#[test]
fn beside_tower_modules() {
    let on = |hosts, ranks| {
        let config = with_trains(config(ModelKind::Dlrm, true, hosts, ranks), false);
        let mut config = in_towers(config, "dlrm:c=1,p=1,d=4");
        config.train.steps = Some(30);
        config.train.clip_norm = Some(0.5);
        train(&checked(&config)).losses
    };
    let alone = on(1, 1);
    [(2, 2), (3, 1)].iter().for_each(|&(hosts, ranks)| same_curve(&alone, &on(hosts, ranks), "in groups"));
}

/// Beside tables of rows with copies, the sums of which travel by rows.
#[test]
fn beside_data_parallel_tables() {
    let on = |copied: bool| {
        let mut config = with_trains(config(ModelKind::Dlrm, true, 2, 2), false);
        config.train.steps = Some(20);
        if copied {
            config.placement.tables.insert("C1".into(), Layout::DataParallel { ranks: None });
        }
        checked(&config)
    };
    let run = on(true);
    check_run(&run, &Epoch::of(&run), "with copies");
    same_curve(&train(&on(false)).losses, &train(&run).losses, "with copies");
}

#[test]
fn metered_bytes() {
    for (hosts, ranks) in [(1, 1), (2, 2)] {
        for all in [false, true] {
            let flat = with_trains(config(ModelKind::Dlrm, true, hosts, ranks), all);
            let towers = in_towers(flat.clone(), "none");
            let modules = in_towers(flat.clone(), "dlrm:c=1,p=1,d=4");
            for config in [flat, towers, modules] {
                let run = checked(&config);
                check_run(&run, &Epoch::of(&run), &format!("on {hosts} × {ranks}, all {all}"));
            }
        }
    }
}

/// Stops after a third and goes on, on the same cluster or on another one, from full checkpoints or increments.
#[test]
fn stopped_and_resumed() {
    for kind in [CheckpointKind::Full, CheckpointKind::Incremental] {
        let on = |hosts, ranks, towers| {
            let mut config = with_trains(config(ModelKind::Dlrm, true, hosts, ranks), false);
            config.train.epochs = Some(12);
            config.checkpoint.every = Some(Every::Steps(10));
            config.checkpoint.kind = Some(kind);
            config.optimizer.dense = Some(optimizer(ADAM, 0.002));
            checked(&if towers { in_towers(config, "none") } else { config })
        };
        for (first, second) in [(on(1, 2, false), on(1, 2, false)), (on(2, 2, true), on(1, 1, false))] {
            let whole = train(&first);
            let root = tempfile::tempdir().unwrap();
            let sitting = |run: &Run, until: u64| {
                let checkpoint = locate(root.path()).ok().map(|path| Checkpoint::open(path).unwrap());
                let stop = AtomicBool::new(false);
                let session = Session {
                    observe: &|event| {
                        if let Event::Training(progress) = event {
                            stop.fetch_or(progress.step >= until, Ordering::Relaxed);
                        }
                    },
                    stop: Some(&stop),
                    checkpoints: Some(Saving { root: root.path().to_owned(), run: serde_json::Value::Null }),
                    resume: checkpoint.as_ref(),
                    ..Session::default()
                };
                train_session(run, &Logs::Synthetic, &session).unwrap_or_else(|error| panic!("{error}"))
            };
            let steps = first.steps;
            assert!(sitting(&first, steps / 3).interrupted);
            let resumed = sitting(&second, u64::MAX);
            assert_eq!(resumed.steps, steps);
            if first.topology() == second.topology() {
                assert_eq!(whole.parameters_sha256, resumed.parameters_sha256, "{kind:?}");
            }
            let all = &whole.losses[whole.losses.len() - resumed.losses.len()..];
            same_curve(all, &resumed.losses, &format!("{kind:?}, resumed"));
        }
    }
}

/// What cannot be is refused by name, with what to do.
#[test]
fn refusals() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = with_trains(config(ModelKind::Dlrm, true, 2, 2), false);
        change(&mut config);
        planning::check(&config).unwrap_err().to_string()
    };
    let text = refused(&|config| {
        config.placement.tables.insert("C0".into(), Layout::TableWise { rank: 1 });
    });
    assert!(text.contains("placement of C0: a tensor train (tt_rank) is small"), "{text}");
    let text = refused(&|config| {
        let features = config.model.features.as_mut().unwrap();
        features[0].format = Some(spec::table_format::TableFormat::F16);
    });
    assert!(text.contains("model.features[0].format (C0): the cores of a tensor train are f32"), "{text}");
    let text = refused(&|config| config.model.features.as_mut().unwrap()[2].tt_rank = Some(1000));
    assert!(text.contains("model.features[2].tt_rank (C2): 1000 is no rank"), "{text}");
    let text = refused(&|config| {
        (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(1));
        config.emulation.nodes = Some(4);
    });
    assert!(text.contains("leave tt_rank out"), "{text}");
    let text = refused(&|config| config.tables.tt_rows = Some(10));
    assert!(
        text.contains("tables.tt_rows (--tt-rows): is of use with tables.tt_rank (--tt-rank) only"),
        "{text}"
    );
}

/// `tables.tt_rank` is for large tables, unless a feature says something else.
#[test]
fn large_tables_alone() {
    let mut config = config(ModelKind::Dlrm, true, 1, 1);
    (config.tables.tt_rank, config.tables.tt_rows) = (Some(2), Some(50));
    config.model.features.as_mut().unwrap()[2].tt_rank = Some(0);
    config.model.features.as_mut().unwrap()[3].tt_rank = Some(5);
    let run = checked(&config);
    let ranks: Vec<_> = run.model.tensor_trains().map(|(feature, train)| (feature, train.rank)).collect();
    // Rows are 50, 20, 100, 7, 33, 64.
    assert_eq!(ranks, [(0, 2), (3, 5), (5, 2)]);
}
