//! The library as a Rust user has it: errors by type, events, and runs that stop and go on.

use campanile::folder::FolderError;
use campanile::output::OutputError;
use campanile::sweep::Sweep;
use campanile::{Config, Control, Error, Evaluation, Event, Notice, Prediction, Training};
use spec::optimizer::{Decay, LearningRate, UpdateRule};
use spec::run::{Every, Optimizer};
use spec::synthetic::Synthetic;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A run of 12 small steps on two ranks.
fn config() -> Config {
    let mut config = Config::default();
    config.topology.hosts = Some(1);
    config.train.batch = Some(64);
    config.train.steps = Some(12);
    config.data.synthetic = Some(Synthetic { eval_samples: 256, ..Default::default() });
    config
}

fn log(path: &Path, bad: &str) {
    let row = |i: u32| format!("u{},i{},{}.5,{}\n", i % 7, i % 13, i % 11, u8::from(i.is_multiple_of(3)));
    let rows: String = (0..400).map(row).collect();
    fs::write(path, format!("user,item,price,clicked\n{rows}{bad}")).unwrap();
}

#[test]
fn a_run_that_was_stopped_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Training::new(config()).out(folder.path().join("whole")).run().unwrap();

    let (stop, out) = (Arc::new(AtomicBool::new(false)), folder.path().join("stopped"));
    let asked = stop.clone();
    let observe = move |event: &Event| {
        if let Event::Training { progress, .. } = event {
            asked.fetch_or(progress.step >= 4, Ordering::SeqCst);
        }
    };
    // Ranks agree on stopping before each checkpoint at the latest.
    let mut often = config();
    often.checkpoint.every = Some(Every::Steps(4));
    let stopped =
        Training::new(often).out(&out).report_every(Some(2)).observe(observe).stop_on(stop).run().unwrap();
    assert!(stopped.outcome.interrupted && stopped.outcome.steps < 12, "{:?}", stopped.outcome.steps);
    let resumed = Training::resume(&out).unwrap().run().unwrap();
    assert_eq!(resumed.outcome.steps, 12);
    assert_eq!(resumed.outcome.parameters_sha256, whole.outcome.parameters_sha256);
    assert_eq!(resumed.folder.as_deref(), Some(out.as_path()));
}

#[test]
fn errors_have_types() {
    let folder = tempfile::tempdir().unwrap();
    let (run, taken) = (folder.path().join("run"), folder.path().join("taken"));
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("mine.txt"), "").unwrap();
    let error = Training::new(config()).out(&taken).run().unwrap_err();
    assert!(matches!(&error, Error::Folder(FolderError::NotEmpty { path }) if *path == taken), "{error:?}");

    let mut wrong = config();
    wrong.train.batch = Some(0);
    let error = Training::new(wrong).described("my run").run().unwrap_err();
    assert!(matches!(&error, Error::Run { what, .. } if what == "my run"), "{error:?}");
    assert_eq!(campanile::chain(&error), "my run: train.batch: a step needs samples; use at least 1");

    assert!(matches!(Evaluation::of(&run).unwrap_err(), Error::Checkpoint(_)));
    Training::new(config()).out(&run).run().unwrap();
    let summary = run.join("summary.json");
    let error = Evaluation::of(&run).unwrap().predictions(&summary).unwrap_err();
    assert!(
        matches!(&error, Error::Output(OutputError::OfRun { path, .. }) if *path == summary),
        "{error:?}"
    );
    let keyed = Prediction::of(&run).unwrap().data("new.csv").key("probability").to("scores.csv");
    assert!(matches!(keyed.unwrap_err(), Error::Samples(_)));
}

/// A result is not lost because a file of the caller cannot be written.
#[test]
fn what_cannot_be_kept_comes_with_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::default().finish_folders(|_| Err("the page is missing".into()));
    let error = Training::new(config()).out(folder.path().join("run")).control(control).run().unwrap_err();
    let Error::NotKept { trained, source } = error else { panic!("{error:?}") };
    assert_eq!(trained.outcome.steps, 12);
    assert!(trained.outcome.auc().is_some());
    assert_eq!(source.to_string(), "the page is missing");
}

#[test]
fn an_observer_hears_of_all_that_happens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    log(&path, "u1,i1\n");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = heard.clone();
    let mut config = config();
    config.train.steps = Some(3);
    config.data.synthetic = None;
    let training = Training::new(config).data(&path).unwrap().out(folder.path().join("run"));
    training.observe(move |event| told.lock().unwrap().push(event.clone())).run().unwrap();
    let heard = heard.lock().unwrap();
    let started: Vec<&str> = heard
        .iter()
        .filter_map(|event| match event {
            Event::Started(work) => Some(work.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(started, ["reading data", "training"]);
    let finished = heard.iter().filter(|event| matches!(event, Event::Finished)).count();
    assert_eq!(finished, started.len());
    let notices: Vec<&Notice> = heard
        .iter()
        .filter_map(|event| match event {
            Event::Noticed(notice) => Some(notice),
            _ => None,
        })
        .collect();
    assert!(notices.iter().any(|notice| matches!(notice, Notice::BadLines { count: 1, .. })), "{notices:?}");
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Split { .. })), "{notices:?}");
    assert!(heard.iter().any(|event| matches!(event, Event::Saved { step: 3, .. })));
    assert!(heard.iter().any(|event| matches!(event, Event::Evaluated { step: 3, .. })));
}

#[test]
fn a_trial_that_goes_on_has_the_bits_of_one_that_was_never_halted() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config();
    // A rate that comes to 0 before the end is no hindrance.
    let rate = LearningRate { peak: 0.1, warm_up: 0, hold: 3, decay: Decay::Linear { steps: 4, floor: 0.0 } };
    config.optimizer.tables = Some(Optimizer { update: UpdateRule::Adagrad { eps: 1e-8 }, rate });
    let sweep = |out: &str| {
        let sweep = Sweep::new(config.clone(), folder.path().join(out));
        sweep.set("train.seed=0,1".parse().unwrap())
    };
    let halved = sweep("halved").run().unwrap();
    let whole = sweep("whole").halving(None).run().unwrap();
    assert_eq!((halved.rungs, whole.rungs), (2, 1));
    let best = halved.best().unwrap();
    assert_eq!(best.rungs.iter().map(|record| record.steps).collect::<Vec<_>>(), [6, 12]);
    let same = whole.tried.iter().find(|tried| tried.number == best.number).unwrap();
    assert!(best.last().parameters_sha256.is_some());
    assert_eq!(best.last().parameters_sha256, same.last().parameters_sha256);
    assert_eq!(best.last().metrics, same.last().metrics);
}

/// Rungs end at evaluations, so that patience and the best state do not depend on where a trial was halted.
#[test]
fn trials_that_are_evaluated_several_times_count_by_their_best_state() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config();
    (config.train.eval_every, config.train.patience) = (Some(8), Some(1));
    let sweep = |out: &str, halving| {
        let sweep = Sweep::new(config.clone(), folder.path().join(out)).halving(halving).judge(true);
        sweep.set("train.seed=0,1".parse().unwrap()).run().unwrap()
    };
    let (halved, whole) = (sweep("halved", Some(2)), sweep("whole", None));
    let best = halved.best().unwrap();
    assert_eq!(best.rungs.iter().map(|record| record.steps).collect::<Vec<_>>(), [8, 12]);
    let same = whole.tried.iter().find(|tried| tried.number == best.number).unwrap();
    let told = |record: &campanile::sweep::RungRecord| {
        (record.parameters_sha256.clone(), record.best_step, record.metrics.clone())
    };
    assert!(best.last().best_step.is_some());
    assert_eq!(told(best.last()), told(same.last()));
    // As many steps as the best state had, and no evaluation decides anything.
    let judged = &halved.judged.as_ref().unwrap().record;
    assert_eq!((Some(judged.steps), judged.best_step), (best.last().best_step, None));
}
