//! A run that was stopped and resumed ends with the bits of one that never was.

mod common;

use common::{ADAM, config, optimizer};
use data::prepared::{About, PreparedLog, Writer, WriterOptions};
use data::{Bags, Samples};
use spec::optimizer::UpdateRule;
use spec::presets::ModelKind;
use spec::run::{Config, LogFacts, LogFeature, LogRows, Run};
use spec::schema::{Schema, SparseColumn};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use training::checkpoint::{Checkpoint, locate};
use training::{Event, Logs, Outcome, Saving, Session, train};

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
    config.checkpoint.every = Some(20);
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
        same_bits(&config.check().unwrap(), &Logs::Synthetic);
    }
}

#[test]
fn a_dcn_on_many_ranks_with_replicated_tables_and_evaluations() {
    let mut config = long(ModelKind::Dcn, false, 2, 2);
    config.placement.replicate_rows = Some(20);
    config.train.eval_every = Some(33);
    config.optimizer.dense = Some(optimizer(ADAM, 0.01));
    let run = config.check().unwrap();
    same_bits(&run, &Logs::Synthetic);
    // Evaluations and checkpoints on the way change nothing.
    (config.train.eval_every, config.checkpoint.every) = (None, None);
    let plain = train(&config.check().unwrap(), &Logs::Synthetic, &Session::default()).unwrap();
    let with = train(&run, &Logs::Synthetic, &Session::default()).unwrap();
    assert_eq!(plain.parameters_sha256, with.parameters_sha256);
}

#[test]
fn another_topology_takes_the_state_up() {
    let run = long(ModelKind::Dlrm, true, 2, 2).check().unwrap();
    let other = long(ModelKind::Dlrm, true, 1, 3).check().unwrap();
    let (whole, resumed) = check(&run, &other, &Logs::Synthetic);
    let end = whole.losses.len() - resumed.losses.len();
    for (a, b) in whole.losses[end..].iter().zip(&resumed.losses) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
}

/// A prepared log of 1000 samples with one single-hot and one multi-hot column.
fn prepared(folder: &Path) -> (Logs, LogFacts) {
    let mut schema = Schema::criteo();
    schema.columns = None;
    schema.dense.truncate(2);
    schema.sparse = vec![SparseColumn::hashed("A".into()), SparseColumn::hashed("B".into())];
    schema.sparse[1].separator = Some('|');
    let stream = spec::random::Stream::new(3, "resume");
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
        dense_features: 2,
        features: vec![feature("A", None), feature("B", Some(2))],
    };
    (Logs::Prepared { train: Some(log.clone()), eval: Some(log) }, facts)
}

#[test]
fn a_shuffled_log() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, facts) = prepared(folder.path());
    let mut config = long(ModelKind::Dlrm, false, 1, 2);
    (config.model.features, config.model.dense_features) = (None, None);
    config.train.epochs = Some(60);
    config.data.shuffle = Some(300);
    let run = config.check_log(&facts).unwrap();
    same_bits(&run, &logs);
    config.data.shuffle = None;
    let ordered = config.check_log(&facts).unwrap();
    let digest = |run: &Run| train(run, &logs, &Session::default()).unwrap().parameters_sha256;
    assert_ne!(digest(&run), digest(&ordered), "shuffling must change the order");
}
