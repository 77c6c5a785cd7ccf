//! Data-parallel tables: with copies on all ranks, or on those of a tower group, a model trains as with every table on one rank.

use crate::common::{ADAM, config, device, optimizer, training_source};
use spec::dataflow::{DataflowKind, PeerPermute};
use spec::optimizer::UpdateRule;
use spec::placement::{Cut, Layout};
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::schedule::{CopyReduction, Schedule, StepOptions, Task};
use spec::towers::Assignment;
use std::ops::ControlFlow;
use training::{Execution, RankState};

/// Past the short batch, which is the 17th.
const STEPS: u64 = 19;
/// Features with copies: single-hot, multi-hot, mean-pooled and weighted ones.
const COPIED: [&str; 4] = ["C0", "C1", "C2", "C4"];

/// What a run came to.
struct Trained {
    /// Sum of the losses of all ranks, by step.
    losses: Vec<f64>,
    /// Weights and optimizer state of each feature's table, from every holder.
    tables: Vec<Vec<[Vec<f32>; 2]>>,
}

/// Options of a training step for a typical batch of `batch` samples.
fn options(batch: usize) -> StepOptions {
    let (task, bucket_bytes) = (Task::Train, 1024);
    StepOptions { task, bucket_bytes, norm: false, batch, fuse_pairs: false, in_place: false }
}

/// Trains with a schedule for a typical batch of `batch` samples; all tables must be whole.
fn train(run: &Run, batch: usize) -> Trained {
    let options = options(batch);
    let ranks = collectives::launch(
        run.topology(),
        &Default::default(),
        |_| device(),
        |world| {
            let schedule = Schedule::with_options(&run.deployment(), options);
            let device = world.device().clone();
            let mut rank = RankState::new(device, run, &schedule, world.rank(), training_source(run))?;
            let communicators = training::Communicators::new(&world, &run.dataflow)?;
            let mut losses = Vec::new();
            Execution::new(schedule).run(
                &mut rank,
                &communicators,
                STEPS,
                |step| run.batches().at(step),
                |rank, _| {
                    losses.append(&mut rank.losses);
                    Ok(ControlFlow::Continue(()))
                },
            )?;
            losses.append(&mut rank.losses);
            let tables = rank.tables.iter().map(|t| [t.weights.to_vec().unwrap(), t.state.to_vec().unwrap()]);
            Ok::<_, training::Error>((losses, tables.collect::<Vec<_>>()))
        },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let mut tables = vec![Vec::new(); run.model.features().len()];
    for (rank, (_, held)) in ranks.iter().enumerate() {
        for (shard, table) in run.placement.held_by(rank).iter().zip(held) {
            tables[shard.feature].push(table.clone());
        }
    }
    let of_step = |step: usize| ranks.iter().map(|(losses, _)| losses[step]).sum();
    Trained { losses: (0..STEPS as usize).map(of_step).collect(), tables }
}

fn close(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (g, e) in got.iter().zip(expected) {
        assert!((g - e).abs() <= 1e-6 * (1.0 + e.abs()), "{g}, expected {e}: {what}");
    }
}

/// With copies on `ranks`, a config trains as with whole tables: within rounding, with the same bits in all copies, and with the
/// same bits whether gradients are reduced densely or by rows.
fn check(mut config: Config, ranks: Option<Vec<usize>>, what: &str) {
    let holder = ranks.as_ref().map_or(0, |ranks| ranks[0]);
    let mut with = |layout: Layout| {
        for name in COPIED {
            config.placement.tables.insert(name.into(), layout.clone());
        }
        planning::check(&config).unwrap_or_else(|e| panic!("{e}: {what}"))
    };
    let (single, copied) = (with(Layout::TableWise { rank: holder }), with(Layout::DataParallel { ranks }));
    let expected = train(&single, 0);
    let [by_rows, dense] = [0, 1 << 40].map(|batch| train(&copied, batch));
    for (got, expected) in by_rows.losses.iter().zip(&expected.losses) {
        assert!((got - expected).abs() <= 1e-6 * expected.abs(), "{got}, expected {expected}: {what}");
    }
    assert_eq!(by_rows.losses, dense.losses, "{what}");
    for (feature, holders) in by_rows.tables.iter().enumerate() {
        let what = format!("feature {feature}, {what}");
        let copies = copied.placement.shards_of(feature)[0].holders.ranks().len();
        assert_eq!(holders.len(), copies, "{what}");
        for (i, (of_copy, of_dense)) in holders.iter().zip(&dense.tables[feature]).enumerate() {
            assert!(of_copy == &holders[0], "copy {i} differs: {what}");
            assert!(of_copy == of_dense, "copy {i} differs if reduced densely: {what}");
        }
        for (got, expected) in holders[0].iter().zip(&expected.tables[feature][0]) {
            close(got, expected, &what);
        }
    }
}

fn on(kind: ModelKind, (hosts, ranks, per_group): (usize, usize, usize), rule: UpdateRule) -> Config {
    let mut config = config(kind, true, hosts, ranks);
    config.topology.hosts_per_tower = Some(per_group);
    config.placement.cut = Some(Cut::Whole);
    config.optimizer.tables = Some(optimizer(rule, 0.02));
    config
}

const ROW_WISE: UpdateRule = UpdateRule::RowWiseAdagrad { eps: 1e-4 };

#[test]
fn flat() {
    for (kind, cluster, rule) in [
        (ModelKind::Dlrm, (1, 1, 1), UpdateRule::Sgd),
        (ModelKind::Dcn, (1, 3, 1), ROW_WISE),
        (ModelKind::DeepFm, (2, 2, 1), UpdateRule::Adagrad { eps: 1e-4 }),
        // More ranks than the last batch has samples.
        (ModelKind::Dlrm, (4, 2, 1), ROW_WISE),
    ] {
        let mut config = on(kind, cluster, rule);
        (config.train.dataflow, config.train.clip_value) = (Some(DataflowKind::Flat), Some(0.01));
        config.optimizer.table_weight_decay = Some(0.01);
        check(config, None, &format!("{kind:?} on {cluster:?}"));
    }
}

#[test]
fn in_towers() {
    for (cluster, permute, module, group) in [
        ((2, 2, 1), PeerPermute::Ids, "none", vec![2, 3]),
        ((2, 2, 1), PeerPermute::None, "none", vec![1, 3]),
        ((4, 1, 2), PeerPermute::Vectors, "none", vec![0, 1]),
        ((4, 2, 2), PeerPermute::Vectors, "dlrm:c=1,p=0,d=4", vec![4, 5, 6, 7]),
    ] {
        let mut config = on(ModelKind::Dlrm, cluster, ROW_WISE);
        // Features with copies and features without in each tower.
        let names: [&[&str]; 2] = if module == "none" {
            [&["C0", "C3"], &["C1", "C2", "C4", "C5"]]
        } else {
            [&["C3"], &["C0", "C1", "C2", "C4", "C5"]]
        };
        let names = names.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        config.model.towers = Some(Assignment::Lists(names.to_vec()));
        config.model.tower_module = Some(module.parse().unwrap());
        config.model.bottom = Some(vec![16, if module == "none" { 8 } else { 4 }]);
        if module != "none" {
            let whole = |rank| Layout::TableWise { rank };
            config.placement.tables.insert("C3".into(), whole(0));
            config.placement.tables.insert("C5".into(), whole(5));
        }
        (config.train.dataflow, config.train.peer_permute) = (Some(DataflowKind::Sptt), Some(permute));
        check(config, Some(group), &format!("{module} on {cluster:?}, permuting {permute}"));
    }
}

/// Copies belong to the ranks that can use them, and few touched rows are not worth a vector of all rows.
#[test]
fn copies_are_where_they_can_serve_and_are_reduced_by_what_sends_less() {
    let mut config = on(ModelKind::Dlrm, (2, 2, 1), ADAM);
    config.train.dataflow = Some(DataflowKind::Flat);
    let copies = |ranks: &[usize]| Layout::DataParallel { ranks: Some(ranks.to_vec()) };
    config.placement.tables.insert("C2".into(), copies(&[0, 1]));
    let refused = planning::check(&config).unwrap_err().to_string();
    assert!(refused.contains("placement.tables.C2") && refused.contains("leave ranks out"), "{refused}");
    config.train.dataflow = Some(DataflowKind::Sptt);
    config.placement.tables.insert("C2".into(), copies(&[1, 2]));
    let refused = planning::check(&config).unwrap_err().to_string();
    assert!(refused.contains("[1, 2]") && refused.contains("[0, 1]"), "{refused}");

    config.train.dataflow = Some(DataflowKind::Flat);
    config.placement.tables.insert("C2".into(), Layout::DataParallel { ranks: None });
    let run = planning::check(&config).unwrap();
    let reduction = |batch| Schedule::with_options(&run.deployment(), options(batch)).copies()[0].reduction;
    assert_eq!([4, 4000].map(reduction), [CopyReduction::Rows, CopyReduction::Dense]);
    let text = run.schedule(Task::Train).table(run.batch);
    assert!(text.contains("data-parallel tables, reduced by rows: C2"), "{text}");
}
