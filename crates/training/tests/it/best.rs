//! The best state of a run is kept, whatever happens on the way, and a run of little patience stops after the same step.

use crate::common::{ADAM, config, optimizer};
use spec::presets::ModelKind;
use spec::run::{Config, Every, KeepBest, Run};
use spec::synthetic::Synthetic;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use training::checkpoint::{Checkpoint, candidates, locate};
use training::{BestSoFar, Cluster, Event, Logs, Outcome, Saving, Session, train};

/// Steps of an epoch.
const EPOCH: u64 = 4;

/// A model that learns 192 samples by heart in a few epochs.
fn overfitting(hosts: usize, ranks_per_host: usize, epochs: u64) -> Config {
    let mut config = config(ModelKind::Dlrm, false, hosts, ranks_per_host);
    config.train.batch = Some(48);
    config.train.epochs = Some(epochs);
    config.optimizer.dense = Some(optimizer(ADAM, 0.02));
    config.optimizer.tables = Some(optimizer(ADAM, 0.1));
    config.data.synthetic =
        Some(Synthetic { samples: 192, eval_samples: 301, groups: 2, ..Default::default() });
    config.checkpoint.keep = Some(1);
    config
}

fn run_of(config: &Config) -> Run {
    planning::check(config).unwrap()
}

/// Trains with checkpoints in `root`, from the checkpoint `resume`, and stops soon after step `until`.
fn sitting(run: &Run, root: &Path, resume: Option<&Checkpoint>, until: Option<u64>) -> Outcome {
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
        resume,
        report_every: Some(1),
        ..Session::default()
    };
    train(run, &Logs::Synthetic, &session).unwrap_or_else(|e| panic!("{e}"))
}

fn last(root: &Path) -> Checkpoint {
    Checkpoint::open(locate(root).unwrap()).unwrap()
}

/// Steps of the checkpoints in `root`.
fn kept(root: &Path) -> Vec<u64> {
    let checkpoints = candidates(root).unwrap().into_iter().rev();
    checkpoints.map(|path| Checkpoint::open(path).unwrap().manifest().step).collect()
}

/// Scores of a checkpoint on the evaluation samples of `run`.
fn auc_of(run: &Run, path: &Path) -> Option<f64> {
    let checkpoint = Checkpoint::open(path).unwrap();
    checkpoint.verify(&|_, _| ()).unwrap();
    let ignore = &mut |_: &[f32], _: &[f32]| Ok(());
    let scores = training::evaluate(run, &Logs::Synthetic, &checkpoint, &Cluster::Threads, &|_| (), ignore);
    scores.unwrap().expect("rank 0 is here").evaluation.auc
}

#[test]
fn the_best_state_is_kept_beside_the_last() {
    let run = run_of(&overfitting(1, 1, 6));
    assert_eq!((run.eval_every, run.steps), (Some(EPOCH), 6 * EPOCH));
    let root = tempfile::tempdir().unwrap();
    let outcome = sitting(&run, root.path(), None, None);
    let best = outcome.best.clone().unwrap();
    let (step, value) = (best.evaluation.step, best.evaluation.value);
    assert!(step < run.steps && best.last.unwrap() < value, "no overfitting: {best:?}");
    assert_eq!((best.epoch, best.last), ((step / EPOCH) as f64, outcome.auc()));
    assert_eq!(kept(root.path()), [step, run.steps]);
    let path = best.checkpoint.unwrap();
    assert_eq!(auc_of(&run, &path), Some(value));
    assert_eq!(best.evaluation.metrics["auc"], Some(value));
    assert_eq!(auc_of(&run, &locate(root.path()).unwrap()), outcome.auc());
    // The last says which is best, and the best says so of itself.
    for at in [&path, &locate(root.path()).unwrap()] {
        let said = BestSoFar::of(Checkpoint::open(at).unwrap().manifest()).unwrap();
        assert_eq!(said.best(), Some(&best.evaluation));
    }
    // Without a folder the best is known, but not kept; without the option it is not looked for, and bits are the same.
    let alone = train(&run, &Logs::Synthetic, &Session::default()).unwrap();
    assert_eq!(alone.best.map(|best| (best.evaluation.step, best.checkpoint)), Some((step, None)));
    let mut plain = overfitting(1, 1, 6);
    plain.train.keep_best = Some(KeepBest::Never);
    let plain = train(&run_of(&plain), &Logs::Synthetic, &Session::default()).unwrap();
    assert!(plain.best.is_none());
    assert_eq!(plain.parameters_sha256, outcome.parameters_sha256);
    assert_eq!(
        plain.phases.iter().map(|p| p.sent).collect::<Vec<_>>(),
        outcome.phases.iter().map(|p| p.sent).collect::<Vec<_>>()
    );
}

#[test]
fn all_ranks_stop_after_the_same_step() {
    let steps: Vec<(u64, u64)> = [(1, 1), (1, 2), (2, 2)]
        .into_iter()
        .map(|(hosts, ranks_per_host)| {
            let mut config = overfitting(hosts, ranks_per_host, 30);
            config.train.patience = Some(2);
            let run = run_of(&config);
            let outcome = train(&run, &Logs::Synthetic, &Session::default()).unwrap();
            let best = outcome.best.unwrap().evaluation.step;
            assert_eq!((outcome.stopped_early, outcome.interrupted), (Some(2), false));
            assert_eq!(outcome.steps, best + 2 * EPOCH, "two evaluations after the best");
            assert!(outcome.scores.is_some());
            (outcome.steps, best)
        })
        .collect();
    assert!(steps.iter().all(|step| *step == steps[0]), "{steps:?}");
}

/// Stopped and resumed at many moments, before and after evaluations, with checkpoints at the steps of evaluations or not.
#[test]
fn a_resumed_run_has_the_same_best_and_stops_after_the_same_step() {
    let mut config = overfitting(1, 2, 30);
    (config.train.patience, config.train.eval_every) = (Some(3), Some(2));
    let whole = train(&run_of(&config), &Logs::Synthetic, &Session::default()).unwrap();
    let end = whole.steps;
    for (every, until) in [(1, end - 1), (2, 2), (2, end / 2), (5, end / 2), (5, end - 3)] {
        config.checkpoint.every = Some(Every::Steps(every));
        let run = run_of(&config);
        let root = tempfile::tempdir().unwrap();
        let first = sitting(&run, root.path(), None, Some(until));
        assert!(first.interrupted || first.steps == end);
        let second = sitting(&run, root.path(), Some(&last(root.path())), None);
        assert_eq!((second.steps, second.stopped_early), (end, Some(3)), "every {every}, until {until}");
        assert_eq!(second.parameters_sha256, whole.parameters_sha256);
        let best = second.best.unwrap();
        assert_eq!(Some(best.evaluation.clone()), whole.best.clone().map(|best| best.evaluation));
        assert_eq!(kept(root.path()), [best.evaluation.step, end]);
        assert_eq!(auc_of(&run, &best.checkpoint.unwrap()), Some(best.evaluation.value));
    }
}

/// A run that stopped early stays as it is, unless it gets more patience; its best goes with it into another folder.
#[test]
fn a_run_that_stopped_goes_on_with_more_patience() {
    let mut config = overfitting(1, 1, 30);
    config.train.patience = Some(2);
    let root = tempfile::tempdir().unwrap();
    let first = sitting(&run_of(&config), root.path(), None, None);
    let again = sitting(&run_of(&config), root.path(), Some(&last(root.path())), None);
    assert_eq!((again.steps, again.trained, again.stopped_early), (first.steps, 0, Some(2)));
    assert_eq!((again.auc(), again.best.clone()), (first.auc(), first.best.clone()));
    config.train.patience = Some(3);
    let other = tempfile::tempdir().unwrap();
    let longer = sitting(&run_of(&config), other.path(), Some(&last(root.path())), None);
    let best = longer.best.unwrap().evaluation;
    assert_eq!(longer.steps, best.step + 3 * EPOCH);
    assert_eq!(kept(other.path()), [best.step, longer.steps]);
    let whole = train(&run_of(&config), &Logs::Synthetic, &Session::default()).unwrap();
    assert_eq!((whole.steps, whole.parameters_sha256), (longer.steps, longer.parameters_sha256));
}
