//! Paced runs move every byte that real ones move, take the time they are given, and claim nothing else.

use crate::common::{self, config};
use kernels::Device;
use spec::pace::{Pace, Seconds};
use spec::placement::{Cut, Layout};
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::schedule::{Task, Work};
use spec::towers::Assignment;
use std::collections::BTreeMap;
use training::checkpoint::{Checkpoint, locate};
use training::pace::measure;
use training::{Compute, Error, Logs, Outcome, Saving, Session, train, train_on};

/// All computations of a step of `run` take so many seconds.
fn pace(run: &Run, seconds: f64) -> Pace {
    let schedule = run.schedule(Task::Train);
    let computations = schedule.phases().iter().filter(|phase| matches!(phase.work, Work::Compute(_)));
    let phases: BTreeMap<_, _> =
        computations.map(|phase| (phase.name.clone(), Seconds::Everywhere(seconds))).collect();
    Pace { threads: None, scale: 1.0, phases }
}

fn paced(run: &Run, pace: &Pace) -> Result<Outcome, Error> {
    train(run, &Logs::Synthetic, &Session { compute: Compute::Paced(pace), ..Session::default() })
}

fn with_steps(mut config: Config, steps: u64) -> Run {
    config.train.steps = Some(steps);
    planning::check(&config).unwrap()
}

/// SPTT with tower modules, tables cut, ids of any number.
fn towers() -> Config {
    let mut config = config(ModelKind::Dlrm, true, 2, 2);
    config.model.towers = Some(Assignment::Strided(4));
    config.model.tower_module = Some("dlrm:c=1,p=1,d=8".parse().unwrap());
    config.placement.cut = Some(Cut::Hotness);
    config
}

#[test]
fn all_bytes_cross_the_wire_and_nothing_is_claimed() {
    let mut weighted = config(ModelKind::Dcn, true, 2, 2);
    weighted.train.overlap = Some(false);
    // Two batches are read and used again: beyond them ids must be as many in every batch. The 17th batch is short.
    let mut copied = config(ModelKind::Dlrm, true, 2, 2);
    for name in ["C1", "C2", "C4"] {
        copied.placement.tables.insert(name.into(), Layout::DataParallel { ranks: None });
    }
    // Few of the rows of a large table are touched, so that these are brought together.
    copied.model.features.as_mut().unwrap()[2].rows = 1000;
    let plain = config(ModelKind::Dlrm, false, 2, 2);
    for (config, steps) in [(plain, 19), (towers(), 2), (weighted, 2), (copied, 2)] {
        let run = with_steps(config, steps);
        let real = common::train(&run);
        let idle = paced(&run, &pace(&run, 0.0)).unwrap();
        assert_eq!(idle.phases.len(), real.phases.len());
        for (real, idle) in real.phases.iter().zip(&idle.phases) {
            assert_eq!((&real.name, real.sent), (&idle.name, idle.sent));
        }
        assert!(real.phases.iter().any(|phase| phase.sent.network > 0));
        assert_eq!((idle.trained, idle.samples), (steps, real.samples));
        assert!(idle.paced && idle.losses.is_empty() && idle.scores.is_none());
        assert_eq!(idle.parameters_sha256, None);
        assert!(!real.paced && real.parameters_sha256.is_some());
    }
}

#[test]
fn a_step_takes_at_least_the_time_of_its_computations() {
    let (steps, each) = (3, 0.002);
    let run = with_steps(towers(), steps);
    let mut pace = pace(&run, each / 2.0);
    pace.scale = 2.0;
    // One slow rank holds all of them up.
    pace.phases.insert("towers forward".into(), Seconds::ByRank(vec![0.0, 0.0, 0.0, 0.02]));
    let outcome = paced(&run, &pace).unwrap();
    let computations = pace.phases.len() as f64 - 1.0;
    // In the last step the others may run ahead of it, but not past its towers.
    let least = (steps - 1) as f64 * (computations * each + 0.04) + 0.04;
    assert!(outcome.seconds >= least, "{} s, at least {least} s were given", outcome.seconds);
    let total = outcome.step_time().unwrap();
    assert!(total.compute_s >= computations * each, "{total:?}");
    // The others wait for it.
    let waited = |rank: usize| outcome.phases.iter().map(|phase| phase.ranks[rank].exposed_s).sum::<f64>();
    assert!(waited(0) > 0.0 && outcome.phases.iter().all(|phase| phase.ranks.len() == 4));
}

#[test]
fn what_does_not_fit_is_refused() {
    let run = with_steps(config(ModelKind::Dlrm, false, 2, 2), 2);
    let mut missing = pace(&run, 0.0);
    missing.phases.remove("top forward");
    let refused = paced(&run, &missing).unwrap_err().to_string();
    assert!(refused.contains("\"top forward\""), "{refused}");
    let mut unknown = pace(&run, 0.0);
    unknown.phases.insert("towers forward".into(), Seconds::Everywhere(1.0));
    assert!(
        paced(&run, &unknown).unwrap_err().to_string().contains("\"towers forward\" is not a computation")
    );

    // Files from before lengths were read by a phase of their own go on working.
    let run_of_towers = with_steps(towers(), 2);
    let mut older = pace(&run_of_towers, 0.0);
    assert!(older.phases.remove("read lengths").is_some());
    assert_eq!(paced(&run_of_towers, &older).unwrap().trained, 2);

    let folder = tempfile::tempdir().unwrap();
    let saving = Saving { root: folder.path().into(), run: serde_json::json!({}) };
    let idle = pace(&run, 0.0);
    let compute = Compute::Paced(&idle);
    let saves = Session { compute, checkpoints: Some(saving.clone()), ..Session::default() };
    assert!(matches!(train(&run, &Logs::Synthetic, &saves), Err(Error::PacedState)));
    let real = Session { checkpoints: Some(saving), ..Session::default() };
    train(&run, &Logs::Synthetic, &real).unwrap();
    let checkpoint = Checkpoint::open(locate(folder.path()).unwrap()).unwrap();
    let resumes = Session { compute, resume: Some(&checkpoint), ..Session::default() };
    assert!(matches!(train(&run, &Logs::Synthetic, &resumes), Err(Error::PacedState)));
}

/// Tables have no memory: these would be 768 GB.
#[test]
fn paced_tables_may_be_of_any_size() {
    let mut config = config(ModelKind::Dlrm, false, 2, 2);
    for feature in config.model.features.as_mut().unwrap() {
        feature.rows = 4_000_000_000;
    }
    let run = with_steps(config, 2);
    // The log's tables of ids are not at issue here.
    let batches: Vec<data::Batch> = {
        let small = with_steps(common::config(ModelKind::Dlrm, false, 2, 2), 2);
        let mut log = common::training_source(&small);
        let fill = |i: u64| {
            let mut batch = data::Batch::default();
            log.fill(i * 96..(i + 1) * 96, &mut batch).unwrap();
            batch
        };
        (0..2).map(fill).collect()
    };
    let idle = pace(&run, 0.0);
    let session = Session { compute: Compute::Paced(&idle), ..Session::default() };
    let sources = |_| Ok(training::Source::resident(batches.clone()));
    let outcome = train_on(&run, |_| Ok(Device::Reference), &sources, &session).unwrap();
    assert_eq!(outcome.trained, 2);
}

#[test]
fn every_computation_is_measured_on_every_rank() {
    for config in [config(ModelKind::Dlrm, false, 2, 2), towers()] {
        let run = with_steps(config, 5);
        let measured = measure(&run, &Logs::Synthetic, 2, run.topology().ranks()).unwrap();
        measured.check(&run.schedule(Task::Train)).unwrap();
        assert_eq!(measured.threads, Some(1));
        for rank in 0..4 {
            assert!(measured.seconds("top forward", rank).unwrap() > 0.0);
        }
        assert_eq!(paced(&run, &measured).unwrap().trained, 5);
    }
}
