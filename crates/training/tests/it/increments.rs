//! A chain of increments stands for what full checkpoints hold, to the last bit.

use crate::common::{ADAM, config, mixed, optimizer, train, train_session};
use proptest::prelude::*;
use spec::byte_size::ByteSize;
use spec::codec::Rounding;
use spec::dataflow::DataflowKind;
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{CheckpointKind, Config, Every, Run};
use spec::table_format::TableFormat;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use training::checkpoint::{Checkpoint, Folder, compact, locate};
use training::{Event, Logs, Outcome, Saving, Session};

/// The rules of tables.
const RULES: [UpdateRule; 4] =
    [UpdateRule::Sgd, UpdateRule::Adagrad { eps: 1e-8 }, UpdateRule::RowWiseAdagrad { eps: 1e-8 }, ADAM];

/// A run of 20 steps with tables of thousands of rows, saved after every third.
fn large(multi_hot: bool, hosts: usize, ranks_per_host: usize) -> Config {
    let mut config = config(ModelKind::Dlrm, multi_hot, hosts, ranks_per_host);
    let rows = [5000, 2000, 9000, 7, 3300, 6400];
    let features = config.model.features.as_mut().into_iter().flatten();
    features.zip(rows).for_each(|(feature, rows)| feature.rows = rows);
    (config.train.epochs, config.train.steps) = (Some(40), Some(20));
    config.checkpoint.every = Some(Every::Steps(3));
    config.checkpoint.keep = Some(100);
    config
}

/// The config with increments, at most so many before they are brought together.
fn incremental(config: &Config, increments: usize) -> Config {
    let mut config = config.clone();
    config.checkpoint.kind = Some(CheckpointKind::Incremental);
    config.checkpoint.increments = Some(increments);
    config
}

/// Trains with checkpoints in `root`, from the last one there, and stops soon after step `until`. Also gives the steps that were saved, each with
/// the step that it builds on.
fn sitting(run: &Run, root: &Path, until: Option<u64>) -> (Outcome, BTreeMap<u64, Option<u64>>) {
    let checkpoint = locate(root).ok().map(|path| Checkpoint::open(path).unwrap());
    if let Some(checkpoint) = &checkpoint {
        checkpoint.verify(&|_, _| ()).unwrap();
    }
    let (stop, saved) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    let session = Session {
        observe: &|event| match event {
            Event::Training(progress) => {
                // Time for the thread that writes, so that the next checkpoint is not put off.
                std::thread::sleep(Duration::from_millis(4));
                stop.store(until.is_some_and(|until| progress.step >= until), Ordering::Relaxed);
            }
            Event::Saved { step, base, .. } => {
                saved.lock().unwrap().insert(step, base);
            }
            _ => {}
        },
        stop: Some(&stop),
        checkpoints: Some(Saving { root: root.to_owned(), run: serde_json::Value::Null }),
        resume: checkpoint.as_ref(),
        ..Session::default()
    };
    let outcome = train_session(run, &Logs::Synthetic, &session).unwrap_or_else(|e| panic!("{e}"));
    (outcome, saved.into_inner().unwrap())
}

/// All tensors of a checkpoint, as bits.
fn tensors(checkpoint: &Checkpoint) -> BTreeMap<String, Vec<u32>> {
    let read = |(name, shape): (&str, &[usize])| {
        let (rows, columns) = (shape[0], shape[1..].iter().product::<usize>());
        let mut floats = vec![0.0; rows * columns];
        checkpoint.read_rows(name, 0..rows, 0..columns, &mut floats).unwrap();
        (name.to_owned(), floats.iter().map(|float| float.to_bits()).collect())
    };
    checkpoint.tensors().map(read).collect()
}

fn open(root: &Path, step: u64) -> Checkpoint {
    let checkpoint = Checkpoint::open(root.join(format!("step-{step:012}"))).unwrap();
    checkpoint.verify(&|_, _| ()).unwrap();
    checkpoint
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the optimizer, the pooling, the format, the placement, and whether tables are in memory; also once they are brought together.
    #[test]
    fn a_chain_stands_for_full_checkpoints(
        rule in prop::sample::select(RULES.to_vec()),
        multi_hot: bool,
        format in prop::sample::select(TableFormat::ALL.to_vec()),
        rounding in prop::sample::select(vec![Rounding::Nearest, Rounding::Stochastic]),
        (hosts, ranks_per_host) in prop::sample::select(vec![(1, 1), (1, 2), (2, 2)]),
        dataflow in prop::sample::select(vec![DataflowKind::Flat, DataflowKind::Sptt]),
        cut in prop::sample::select(vec![Cut::Whole, Cut::Columns, Cut::Rows]),
        replicated in prop::sample::select(vec![None, Some(20), Some(2500)]),
        widths: bool,
        overlap: bool,
        cached: bool,
        memory in prop::sample::select(vec![None, Some(0), Some(10_000)]),
    ) {
        let mut config = large(multi_hot, hosts, ranks_per_host);
        if widths {
            config = mixed(config);
        }
        config.optimizer.tables = Some(optimizer(rule, 0.02));
        (config.tables.format, config.tables.rounding) = (Some(format), Some(rounding));
        (config.train.dataflow, config.placement.cut) = (Some(dataflow), Some(cut));
        config.placement.replicate_rows = replicated.filter(|_| dataflow == DataflowKind::Flat && cut == Cut::Whole);
        config.train.overlap = Some(overlap);
        let [root, store] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let plain = config.clone();
        let mut config = incremental(&config, 100);
        config.checkpoint.memory = memory.map(ByteSize);
        if cached {
            (config.tables.memory, config.tables.store) = (Some(ByteSize(600_000)), Some(store.path().into()));
        }
        let (_, saved) = sitting(&planning::check(&config).unwrap(), root.path(), None);
        let steps: Vec<u64> = saved.keys().copied().collect();
        prop_assert!(steps.len() >= 3 && steps.last() == Some(&20), "{steps:?}");
        let bases: Vec<Option<u64>> = saved.values().copied().collect();
        prop_assert_eq!(&bases[1..], &steps.iter().copied().map(Some).collect::<Vec<_>>()[..steps.len() - 1]);
        prop_assert_eq!(bases[0], None);
        // What a full checkpoint holds after each of these steps.
        let after = |step: u64| {
            let mut config = plain.clone();
            (config.train.steps, config.checkpoint.every) = (Some(step), None);
            let root = tempfile::tempdir().unwrap();
            sitting(&planning::check(&config).unwrap(), root.path(), None);
            tensors(&open(root.path(), step))
        };
        let expected: Vec<_> = steps.iter().map(|&step| after(step)).collect();
        for (&step, expected) in steps.iter().zip(&expected) {
            prop_assert_eq!(expected, &tensors(&open(root.path(), step)), "step {} of {:?}", step, &steps);
        }
        let (folder, middle) = (Folder::open(root.path()).unwrap(), steps.len() / 2);
        for i in [middle, steps.len() - 1] {
            prop_assert!(compact(&folder, steps[i], &AtomicBool::new(false)).unwrap());
            let whole = open(root.path(), steps[i]);
            prop_assert_eq!(whole.builds_on().count(), 0);
            prop_assert_eq!(&expected[i], &tensors(&whole), "compacted step {}", steps[i]);
        }
        let before_last = steps.len() - 2;
        let builds_on: Vec<u64> = open(root.path(), steps[before_last]).builds_on().collect();
        prop_assert_eq!(&builds_on, &steps[middle.min(before_last)..before_last]);
    }
}

/// Rows that are more precise in memory change once more when they leave it: then they are in the next increment.
#[test]
fn rows_that_are_rounded_as_they_leave_memory_are_in_the_next_increment() {
    let mut config = large(false, 1, 1);
    config.train.steps = Some(40);
    config.tables.format = Some(TableFormat::Int8);
    config.tables.cache_format = Some(TableFormat::F32);
    let [root, store] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    (config.tables.memory, config.tables.store) = (Some(ByteSize(600_000)), Some(store.path().into()));
    let last = |config: &Config, root: &Path| {
        sitting(&planning::check(config).unwrap(), root, None);
        tensors(&open(root, 40))
    };
    let chain = last(&incremental(&config, 100), root.path());
    let full = tempfile::tempdir().unwrap();
    config.checkpoint.every = None;
    assert_eq!(last(&config, full.path()), chain);
}

/// A run that goes on from an increment writes further ones where tables are cut as they were; elsewhere it begins with a full checkpoint.
#[test]
fn chains_go_on_where_runs_do() {
    for (rule, (hosts, ranks)) in RULES.into_iter().zip([(1, 2), (1, 2), (2, 2), (1, 1)]) {
        let mut config = large(true, 1, 2);
        config.train.steps = Some(200);
        config.placement.cut = Some(Cut::Rows);
        config.optimizer.tables = Some(optimizer(rule, 0.02));
        let whole = train(&planning::check(&config).unwrap());
        let config = incremental(&config, 4);
        let run = planning::check(&config).unwrap();
        let mut elsewhere = config.clone();
        (elsewhere.topology.hosts, elsewhere.topology.ranks_per_host) = (Some(hosts), Some(ranks));
        let elsewhere = planning::check(&elsewhere).unwrap();
        let root = tempfile::tempdir().unwrap();
        let (first, _) = sitting(&run, root.path(), Some(20));
        assert!(first.interrupted && first.steps < 200);
        let (last, saved) = sitting(&elsewhere, root.path(), None);
        assert_eq!(last.steps, 200);
        let next = saved.values().next().unwrap();
        // Tables are cut over the two ranks of a host.
        let cut_alike = ranks == 2;
        assert_eq!(*next, cut_alike.then_some(first.steps), "{rule:?} on {hosts} × {ranks}");
        if (hosts, ranks) == (1, 2) {
            assert_eq!(last.parameters_sha256, whole.parameters_sha256, "{rule:?}");
        }
    }
}

/// Chains stay short, and only what is needed is kept.
#[test]
fn chains_stay_short() {
    let mut config = incremental(&large(false, 1, 2), 3);
    (config.train.steps, config.checkpoint.keep) = (Some(100), Some(2));
    let root = tempfile::tempdir().unwrap();
    let (_, saved) = sitting(&planning::check(&config).unwrap(), root.path(), None);
    assert!(saved.len() > 8, "{saved:?}");
    let last = open(root.path(), 100);
    let builds_on: Vec<u64> = last.builds_on().collect();
    assert!(builds_on.len() <= 6, "{builds_on:?}");
    let there = Folder::open(root.path()).unwrap().list().unwrap();
    let there: Vec<u64> = there.into_iter().map(|(step, _)| step).collect();
    assert!(there.len() <= 8, "{there:?}");
    assert!(builds_on.iter().all(|step| there.contains(step)), "{builds_on:?} of {there:?}");
}

/// Increments hold the rows that batches touched, and no others: of these, fewer bits make them smaller still.
#[test]
fn increments_are_as_large_as_what_changed() {
    let mut config = large(false, 1, 1);
    // Few of many rows.
    config.model.features.as_mut().into_iter().flatten().for_each(|feature| feature.rows *= 20);
    config.checkpoint.every = Some(Every::Steps(10));
    let mut sizes = Vec::new();
    for format in [None, Some(TableFormat::F16), Some(TableFormat::Int8)] {
        let mut config = incremental(&config, 100);
        config.checkpoint.increment_format = format;
        let run = planning::check(&config).unwrap();
        let root = tempfile::tempdir().unwrap();
        let (_, saved) = sitting(&run, root.path(), None);
        let (first, last) = (*saved.keys().next().unwrap(), *saved.keys().last().unwrap());
        let bytes =
            |step: u64| open(root.path(), step).manifest().files.iter().map(|file| file.bytes).sum::<u64>();
        let (full, increment) = (bytes(first), bytes(last));
        assert!(increment < full / 5, "{increment} of {full} bytes");
        sizes.push(increment);
        // Most rows are still those of the base.
        let [before, after] = [first, last].map(|step| tensors(&open(root.path(), step)));
        let (name, before) = before.iter().max_by_key(|(_, bits)| bits.len()).unwrap();
        let changed = before.iter().zip(&after[name]).filter(|(a, b)| a != b).count();
        assert!(0 < changed && changed < before.len() / 5, "{changed} of {} numbers of {name}", before.len());
    }
    // Rows of 8 weights: as codes with a scale and a minimum they take as much as in f16.
    assert!(sizes[1] < sizes[0] && sizes[2] == sizes[1], "{sizes:?}");
}

/// An increment without its base, or over another one, is refused, and the error names both.
#[test]
fn increments_need_their_base() {
    let run = planning::check(&incremental(&large(false, 1, 1), 100)).unwrap();
    let root = tempfile::tempdir().unwrap();
    let (_, saved) = sitting(&run, root.path(), None);
    let [first, second, third] = saved.keys().copied().collect::<Vec<_>>()[..3] else { panic!("{saved:?}") };
    let path = |step: u64| root.path().join(format!("step-{step:012}"));
    let refused = |step: u64| {
        let error = Checkpoint::open(path(step)).unwrap_err();
        assert!(error.is_damage(), "{error}");
        let said = format!("builds on the checkpoint of step {second}");
        assert!(error.to_string().contains(&said), "{error}");
    };
    let away = root.path().join("elsewhere");
    std::fs::rename(path(second), &away).unwrap();
    refused(third);
    refused(20);
    open(root.path(), first);
    std::fs::rename(&away, path(second)).unwrap();
    open(root.path(), third);
    // A checkpoint in its place that is another one.
    std::fs::rename(path(second), &away).unwrap();
    std::fs::rename(path(first), path(second)).unwrap();
    refused(third);
}
