//! A run that was stopped and resumed ends with the bits of one that never was.

use crate::common::{
    self, ADAM, config, labelled_config, labelled_log, mixed, optimizer, tolerance, train_session as train,
};
use data::prepared::{About, PreparedLog, Writer, WriterOptions};
use data::{Bags, Samples};
use spec::codec::Rounding;
use spec::dataflow::{DataflowKind, PeerPermute};
use spec::optimizer::UpdateRule;
use spec::placement::{Cut, Layout};
use spec::presets::ModelKind;
use spec::program::Algorithm;
use spec::run::{AllReduce, Config, Every, LogFacts, LogFeature, LogRows, Run};
use spec::schema::{Schema, SparseColumn};
use spec::table_format::TableFormat;
use spec::towers::Assignment;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use training::checkpoint::{Checkpoint, locate};
use training::{Cluster, Error, Event, Logs, Outcome, Receiver, Saving, Scores, Session};

/// Scores of a checkpoint.
fn evaluate(run: &Run, checkpoint: &Checkpoint, receive: &mut Receiver) -> Scores {
    let scores = training::evaluate(run, &Logs::Synthetic, checkpoint, &Cluster::Threads, &|_| (), receive);
    scores.unwrap().expect("rank 0 is here")
}

/// Other sizes of batches change no bit of a prediction on the host; on a GPU they may swap neighbours.
fn same_auc(one: Option<f64>, other: Option<f64>, what: &str) {
    let (one, other) = (one.expect("both labels are there"), other.expect("both labels are there"));
    let within = if common::gpu::is_there() { 1e-3 } else { 0.0 };
    assert!((one - other).abs() <= within, "{what}: {one} and {other}");
}

/// Trains with checkpoints in `root`, from the last one there, and stops soon after step `until`.
fn sitting(run: &Run, logs: &Logs, root: &Path, until: Option<u64>) -> Outcome {
    let checkpoint = locate(root).ok().map(|path| Checkpoint::open(path).unwrap());
    if let Some(checkpoint) = &checkpoint {
        checkpoint.verify(&|_, _| ()).unwrap();
    }
    let stop = AtomicBool::new(false);
    let session = Session {
        observe: &|event| {
            if let (Event::Training(progress), Some(until)) = (event, until)
                && progress.step >= until
            {
                stop.store(true, Ordering::Relaxed);
            }
        },
        stop: Some(&stop),
        checkpoints: Some(Saving { root: root.to_owned(), run: serde_json::Value::Null }),
        resume: checkpoint.as_ref(),
        ..Session::default()
    };
    train(run, logs, &session).unwrap_or_else(|e| panic!("{e}"))
}

/// The run in one go, and in three sittings.
fn check(run: &Run, resumed_on: &Run, logs: &Logs) -> (Outcome, Outcome) {
    let whole = train(run, logs, &Session::default()).unwrap_or_else(|e| panic!("{e}"));
    let root = tempfile::tempdir().unwrap();
    let first = sitting(run, logs, root.path(), Some(run.steps / 4));
    assert!(first.interrupted && first.steps < run.steps, "stopped after {} steps", first.steps);
    assert!(first.scores.is_none());
    let second = sitting(resumed_on, logs, root.path(), Some(run.steps / 2));
    assert!(second.steps > first.steps);
    let third = sitting(resumed_on, logs, root.path(), None);
    assert_eq!((third.steps, third.interrupted), (run.steps, false));
    (whole, third)
}

fn same_bits(run: &Run, logs: &Logs) {
    let (whole, resumed) = check(run, run, logs);
    assert_eq!(whole.parameters_sha256, resumed.parameters_sha256);
    assert_eq!(whole.losses[whole.losses.len() - resumed.losses.len()..], resumed.losses);
    assert_eq!(whole.scores.map(|s| s.evaluation), resumed.scores.map(|s| s.evaluation));
}

/// Long enough that a request to stop is seen long before the end.
fn long(kind: ModelKind, multi_hot: bool, hosts: usize, ranks_per_host: usize) -> Config {
    let mut config = config(kind, multi_hot, hosts, ranks_per_host);
    config.train.epochs = Some(40);
    config.checkpoint.every = Some(Every::Steps(20));
    config
}

#[test]
fn every_update_rule() {
    let rules = [
        (UpdateRule::Sgd, UpdateRule::Sgd),
        (UpdateRule::Adagrad { eps: 1e-8 }, UpdateRule::RowWiseAdagrad { eps: 1e-8 }),
        (UpdateRule::Adagrad { eps: 1e-8 }, UpdateRule::Adagrad { eps: 1e-8 }),
        (ADAM, ADAM),
    ];
    for (dense, tables) in rules {
        let mut config = long(ModelKind::Dlrm, true, 1, 2);
        config.optimizer.dense = Some(optimizer(dense, 0.01));
        config.optimizer.tables = Some(optimizer(tables, 0.01));
        same_bits(&planning::check(&config).unwrap(), &Logs::Synthetic);
    }
}

#[test]
fn tables_of_fewer_bits() {
    for format in [TableFormat::F16, TableFormat::Bf16, TableFormat::Int8] {
        for rounding in [Rounding::Nearest, Rounding::Stochastic] {
            let mut config = long(ModelKind::Dlrm, true, 1, 2);
            (config.tables.format, config.tables.rounding) = (Some(format), Some(rounding));
            config.optimizer.tables = Some(optimizer(UpdateRule::RowWiseAdagrad { eps: 1e-8 }, 0.01));
            same_bits(&planning::check(&config).unwrap(), &Logs::Synthetic);
        }
    }
}

#[test]
fn a_dcn_on_many_ranks_with_replicated_tables_and_evaluations() {
    let mut config = long(ModelKind::Dcn, false, 2, 2);
    config.placement.replicate_rows = Some(20);
    config.train.eval_every = Some(33);
    config.optimizer.dense = Some(optimizer(ADAM, 0.01));
    let run = planning::check(&config).unwrap();
    same_bits(&run, &Logs::Synthetic);
    // Evaluations and checkpoints on the way change nothing.
    (config.train.eval_every, config.checkpoint.every) = (None, None);
    let plain = train(&planning::check(&config).unwrap(), &Logs::Synthetic, &Session::default()).unwrap();
    let with = train(&run, &Logs::Synthetic, &Session::default()).unwrap();
    assert_eq!(plain.parameters_sha256, with.parameters_sha256);
}

/// Carried errors are part of the state. Another cluster or algorithm takes the run up with errors of zero.
#[test]
fn error_compensation() {
    for (algorithm, wire) in [
        (Algorithm::Ring, "dense=u4+ec"),
        (Algorithm::RecursiveDoubling, "u4+ec-paper"),
        (Algorithm::TwoLevel, "u2+ec"),
    ] {
        let mut config = long(ModelKind::Dlrm, false, 2, 2);
        (config.wire, config.train.all_reduce) = (wire.parse().unwrap(), Some(AllReduce::By(algorithm)));
        config.wire.rounding = (algorithm == Algorithm::TwoLevel).then_some(Rounding::Stochastic);
        same_bits(&planning::check(&config).unwrap(), &Logs::Synthetic);
    }
    // Emulated nodes carry errors, too; the CPU alone emulates.
    if !common::gpu::is_there() {
        let mut config = long(ModelKind::Dlrm, false, 1, 1);
        (config.wire, config.emulation.nodes) = ("dense=u4+ec".parse().unwrap(), Some(4));
        same_bits(&planning::check(&config).unwrap(), &Logs::Synthetic);
    }
    let mut config = long(ModelKind::Dlrm, false, 2, 2);
    config.wire = "dense=u4+ec".parse().unwrap();
    let run = planning::check(&config).unwrap();
    config.train.all_reduce = Some(AllReduce::By(Algorithm::Ring));
    let (whole, resumed) = check(&run, &planning::check(&config).unwrap(), &Logs::Synthetic);
    assert_ne!(whole.parameters_sha256, resumed.parameters_sha256);
}

#[test]
fn a_deepfm_with_tables_cut_by_columns() {
    let mut config = long(ModelKind::DeepFm, true, 2, 2);
    config.placement.cut = Some(Cut::Columns);
    config.optimizer.dense = Some(optimizer(ADAM, 0.01));
    config.optimizer.tables = Some(optimizer(ROW_WISE, 0.01));
    same_bits(&planning::check(&config).unwrap(), &Logs::Synthetic);
}

#[test]
fn another_topology_takes_the_state_up() {
    let run = planning::check(&long(ModelKind::Dlrm, true, 2, 2)).unwrap();
    let other = planning::check(&long(ModelKind::Dlrm, true, 1, 3)).unwrap();
    let (whole, resumed) = check(&run, &other, &Logs::Synthetic);
    let end = whole.losses.len() - resumed.losses.len();
    for (a, b) in whole.losses[end..].iter().zip(&resumed.losses) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
}

/// Tables get copies and lose them again: on all ranks, on those of a tower group, and on one rank.
#[test]
fn data_parallel_tables_are_taken_up_elsewhere() {
    let on = |hosts, dataflow, ranks: Option<Option<Vec<usize>>>| {
        let mut config = config(ModelKind::Dlrm, true, hosts, 2);
        (config.train.dataflow, config.placement.cut) = (Some(dataflow), Some(Cut::Whole));
        config.optimizer.tables = Some(optimizer(UpdateRule::RowWiseAdagrad { eps: 1e-4 }, 0.01));
        for name in ["C0", "C1", "C2", "C4"].into_iter().filter(|_| ranks.is_some()) {
            let ranks = ranks.clone().flatten();
            config.placement.tables.insert(name.into(), Layout::DataParallel { ranks });
        }
        config
    };
    let (flat, sptt) = (DataflowKind::Flat, DataflowKind::Sptt);
    let plans = [on(2, flat, Some(None)), on(2, sptt, Some(Some(vec![2, 3]))), on(2, flat, None)];
    for (i, from) in plans.iter().enumerate() {
        let root = tempfile::tempdir().unwrap();
        let (checkpoint, _, curve) = twenty_and_forty(from, root.path());
        for (j, to) in plans.iter().enumerate() {
            let losses = resumed(to, &checkpoint).unwrap_or_else(|e| panic!("{e}")).losses;
            assert!(i != j || losses == curve[20..], "plan {i} goes on with other bits");
            for (a, b) in curve[20..].iter().zip(&losses) {
                assert!((a - b).abs() <= 1e-6 * a, "{a} and {b}, from plan {i} to {j}");
            }
        }
    }
}

const ROW_WISE: UpdateRule = UpdateRule::RowWiseAdagrad { eps: 1e-8 };

/// A model with tower modules over 3 towers, its vectors of length `d`, by SPTT on H × L ranks in groups of K hosts.
fn dmt(
    mut config: Config,
    (module, d): (&str, usize),
    (hosts, ranks, per_group): (usize, usize, usize),
    cut: Cut,
    rule: UpdateRule,
) -> Config {
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(hosts), Some(ranks));
    config.topology.hosts_per_tower = Some(per_group);
    config.model.towers = Some(Assignment::Strided(3));
    config.model.tower_module = Some(module.parse().unwrap());
    config.model.bottom = Some(vec![16, d]);
    config.placement.cut = Some(cut);
    let dense = if rule == ROW_WISE { UpdateRule::Adagrad { eps: 1e-8 } } else { rule };
    config.optimizer.dense = Some(optimizer(dense, 0.002));
    config.optimizer.tables = Some(optimizer(rule, 0.002));
    config
}

const PROJECTION: (&str, usize) = ("dlrm:c=1,p=1,d=4", 4);
const CROSS: (&str, usize) = ("dcn:d=8", 8);

#[test]
fn towers_by_adam() {
    let config = long(ModelKind::Dlrm, true, 2, 2);
    let run = planning::check(&dmt(config, PROJECTION, (2, 2, 1), Cut::Hotness, ADAM)).unwrap();
    same_bits(&run, &Logs::Synthetic);
    let mut config = dmt(long(ModelKind::Dcn, true, 2, 1), CROSS, (2, 1, 2), Cut::Rows, ADAM);
    config.train.peer_permute = Some(PeerPermute::Vectors);
    same_bits(&planning::check(&config).unwrap(), &Logs::Synthetic);
}

#[test]
fn towers_by_row_wise_adagrad() {
    // In peer order, so that the first rank of a group is not the first of its host.
    let mut config = dmt(long(ModelKind::Dcn, false, 2, 2), CROSS, (2, 2, 1), Cut::Columns, ROW_WISE);
    config.train.peer_permute = Some(PeerPermute::None);
    same_bits(&planning::check(&config).unwrap(), &Logs::Synthetic);
    let run = dmt(long(ModelKind::Dlrm, true, 1, 2), PROJECTION, (1, 2, 1), Cut::Rows, ROW_WISE);
    same_bits(&planning::check(&run).unwrap(), &Logs::Synthetic);
}

/// A checkpoint of 20 steps in `root`, what training came to there, and the curve of 40 steps in one go.
fn twenty_and_forty(config: &Config, root: &Path) -> (Checkpoint, Outcome, Vec<f64>) {
    let until = |steps| {
        let mut config = config.clone();
        config.train.steps = Some(steps);
        planning::check(&config).unwrap()
    };
    let whole = train(&until(40), &Logs::Synthetic, &Session::default()).unwrap();
    let first = sitting(&until(20), &Logs::Synthetic, root, None);
    assert_eq!(whole.losses[..20], first.losses);
    (Checkpoint::open(locate(root).unwrap()).unwrap(), first, whole.losses)
}

fn resumed(config: &Config, checkpoint: &Checkpoint) -> Result<Outcome, Error> {
    let mut config = config.clone();
    config.train.steps = Some(40);
    let session = Session { resume: Some(checkpoint), ..Session::default() };
    train(&planning::check(&config).unwrap(), &Logs::Synthetic, &session)
}

/// Towers move to other groups, tables to other ranks and into other pieces; the curve and the scores stay.
#[test]
fn towers_are_taken_up_on_other_topologies() {
    for (kind, module, cut) in
        [(ModelKind::Dlrm, PROJECTION, Cut::Columns), (ModelKind::Dcn, CROSS, Cut::Hotness)]
    {
        let on = |cluster, cut| dmt(config(kind, true, 1, 1), module, cluster, cut, ADAM);
        let root = tempfile::tempdir().unwrap();
        let (checkpoint, first, curve) = twenty_and_forty(&on((4, 2, 1), cut), root.path());
        let auc = first.scores.unwrap().evaluation.auc.unwrap();
        for (cluster, cut) in
            [((4, 2, 2), cut), ((2, 2, 1), cut), ((2, 2, 1), Cut::Rows), ((1, 1, 1), Cut::Whole)]
        {
            let other = on(cluster, cut);
            let losses = resumed(&other, &checkpoint).unwrap_or_else(|e| panic!("{e}")).losses;
            assert_eq!(losses.len(), 20);
            for (step, (a, b)) in curve[20..].iter().zip(&losses).enumerate() {
                assert!(
                    (a - b).abs() <= tolerance(1e-5) * a,
                    "{kind:?} on {cluster:?}, step {step}: {a} and {b}"
                );
            }
            let run = planning::check(&other).unwrap();
            let mut seen = 0;
            let receive = &mut |labels: &[f32], _: &[f32]| {
                seen += labels.len();
                Ok(())
            };
            let scores = evaluate(&run, &checkpoint, receive);
            same_auc(scores.evaluation.auc, Some(auc), &format!("{kind:?} on {cluster:?}, {cut:?}"));
            assert_eq!(seen, 301);
        }
    }
}

/// Tables of several widths and the maps over them, in the network and in towers.
#[test]
fn mixed_dims_are_taken_up_on_other_topologies() {
    let flat = |(hosts, ranks, _): (usize, usize, usize), cut| {
        let mut config = config(ModelKind::Dlrm, true, hosts, ranks);
        config.placement.cut = Some(cut);
        config.optimizer.tables = Some(optimizer(ADAM, 0.002));
        mixed(config)
    };
    let towers = |cluster, cut| {
        mixed(dmt(config(ModelKind::Dlrm, true, 1, 1), PROJECTION, cluster, cut, UpdateRule::Sgd))
    };
    let configs: [(&dyn Fn(_, _) -> Config, &str); 2] =
        [(&flat, "project.C1.weight"), (&towers, "towers.0.each.12.bias")];
    for (on, map) in configs {
        let root = tempfile::tempdir().unwrap();
        let (checkpoint, first, curve) = twenty_and_forty(&on((2, 2, 1), Cut::Columns), root.path());
        assert!(checkpoint.tensors().any(|(name, _)| name == map), "no {map}");
        for (cluster, cut) in [((1, 3, 1), Cut::Rows), ((1, 1, 1), Cut::Whole)] {
            let other = on(cluster, cut);
            let losses = resumed(&other, &checkpoint).unwrap_or_else(|e| panic!("{e}")).losses;
            assert_eq!(losses.len(), 20);
            for (step, (a, b)) in curve[20..].iter().zip(&losses).enumerate() {
                assert!(
                    (a - b).abs() <= tolerance(1e-5) * a,
                    "{map} on {cluster:?}, step {step}: {a} and {b}"
                );
            }
            let ignore = &mut |_: &[f32], _: &[f32]| Ok(());
            let run = planning::check(&other).unwrap();
            let scores = evaluate(&run, &checkpoint, ignore);
            same_auc(scores.evaluation.auc, first.scores.as_ref().and_then(|s| s.evaluation.auc), "resumed");
        }
    }
}

/// Row-wise Adagrad has a number for every slice of a row. Other slices go on with the mean of what their columns had, which is
/// close; as many slices go on with the same.
#[test]
fn other_slices_take_up_row_wise_adagrad() {
    let on = |cluster, cut| dmt(config(ModelKind::Dlrm, false, 1, 1), PROJECTION, cluster, cut, ROW_WISE);
    let root = tempfile::tempdir().unwrap();
    let (checkpoint, first, curve) = twenty_and_forty(&on((1, 2, 1), Cut::Columns), root.path());
    for (other, within) in [
        (on((1, 1, 1), Cut::Whole), 2e-3),
        (on((1, 3, 1), Cut::Columns), 2e-3),
        (on((2, 1, 2), Cut::Columns), 1e-5),
    ] {
        let losses = resumed(&other, &checkpoint).unwrap_or_else(|e| panic!("{e}")).losses;
        assert_eq!(losses.len(), 20);
        for (a, b) in curve[20..].iter().zip(&losses) {
            assert!((a - b).abs() <= within * a, "{a} and {b}");
        }
        let run = planning::check(&other).unwrap();
        let ignore = &mut |_: &[f32], _: &[f32]| Ok(());
        let scores = evaluate(&run, &checkpoint, ignore);
        same_auc(scores.evaluation.auc, first.scores.as_ref().and_then(|s| s.evaluation.auc), "resumed");
    }
}

/// Other towers, or another module, are another model.
#[test]
fn a_checkpoint_of_other_towers_is_refused() {
    let on = |module| dmt(config(ModelKind::Dlrm, false, 1, 1), module, (2, 1, 1), Cut::Whole, ADAM);
    let root = tempfile::tempdir().unwrap();
    let (checkpoint, ..) = twenty_and_forty(&on(PROJECTION), root.path());
    let error = resumed(&on(("dlrm:c=2,p=1,d=4", 4)), &checkpoint).unwrap_err().to_string();
    assert!(error.contains("towers.0.each") || error.contains("top.0.weight"), "{error}");
    let mut five = on(PROJECTION);
    five.model.towers = Some(Assignment::Strided(5));
    let error = resumed(&five, &checkpoint).unwrap_err().to_string();
    assert!(error.contains("towers.") || error.contains("top.0.weight"), "{error}");
}

/// A prepared log of 1000 samples with one single-hot and one multi-hot column.
fn prepared(folder: &Path) -> (Logs, LogFacts) {
    let mut schema = Schema::criteo();
    schema.columns = None;
    schema.dense.truncate(2);
    schema.sparse = vec![SparseColumn::hashed("A".into()), SparseColumn::hashed("B".into())];
    schema.sparse[1].separator = Some('|');
    let stream = spec::random::RandomSequence::new(3, "resume");
    let mut samples = Samples { bags: vec![Bags::default(); 2], ..Samples::default() };
    for i in 0..1000u64 {
        samples.labels.push(f32::from(u8::from(stream.unit(5 * i) < 0.3)));
        samples.dense.extend([stream.unit(5 * i + 1), stream.unit(5 * i + 2)]);
        samples.bags[0].ids.push((stream.bits(5 * i + 3) % 50) << 58);
        let length = stream.bits(5 * i + 4) % 4;
        samples.bags[1].lengths.push(length as u32);
        samples.bags[1].ids.extend((0..length).map(|j| stream.bits(7 * i + j)));
    }
    let mut writer =
        Writer::create(folder, &schema, &[None, None], WriterOptions { block_samples: 64 }).unwrap();
    writer.append(&samples).unwrap();
    writer.finish(About::default()).unwrap();
    let log = Arc::new(PreparedLog::open(folder).unwrap());
    let feature = |name: &str, mean_ids| LogFeature {
        name: name.into(),
        rows: LogRows::Hashed(Some(60)),
        mean_ids,
        pooling: Default::default(),
        weighted: false,
    };
    let facts = LogFacts {
        samples: 1000,
        eval_samples: 1000,
        in_time_order: true,
        dense_features: 2,
        features: vec![feature("A", None), feature("B", Some(2))],
        labels: vec![],
        sample_weights: false,
    };
    (Logs::Prepared { train: Some(log.clone()), eval: Some(log) }, facts)
}

/// Two labels, sample weights, a weight of clicks, and an evaluation by groups.
#[test]
fn labels_and_weights() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, facts) = labelled_log(folder.path());
    let mut config = labelled_config(ModelKind::Dcn, 1, 2);
    config.train.epochs = Some(60);
    config.checkpoint.every = Some(Every::Steps(20));
    config.data.group = Some("user".into());
    let run = planning::check_log(&config, &facts).unwrap();
    let (whole, resumed) = check(&run, &run, &logs);
    assert_eq!(whole.parameters_sha256, resumed.parameters_sha256);
    let of_all = |outcome: Outcome| {
        let labels = outcome.scores.unwrap().labels;
        labels.into_iter().map(|label| (label.evaluation, label.group)).collect::<Vec<_>>()
    };
    assert_eq!(of_all(whole), of_all(resumed));
}

#[test]
fn a_shuffled_log() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, facts) = prepared(folder.path());
    let mut config = long(ModelKind::Dlrm, false, 1, 2);
    (config.model.features, config.model.dense_features) = (None, None);
    config.train.epochs = Some(60);
    config.data.shuffle = Some(300);
    let run = planning::check_log(&config, &facts).unwrap();
    same_bits(&run, &logs);
    config.data.shuffle = None;
    let ordered = planning::check_log(&config, &facts).unwrap();
    let digest = |run: &Run| train(run, &logs, &Session::default()).unwrap().parameters_sha256;
    assert_ne!(digest(&run), digest(&ordered), "shuffling must change the order");
}
