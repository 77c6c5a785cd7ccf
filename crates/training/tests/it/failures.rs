//! What is wrong on one rank ends them all, with the cause.

use crate::common::{self, config};
use data::Batch;
use kernels::Device;
use spec::presets::ModelKind;
use spec::run::Run;
use spec::schedule::Task;
use spec::towers::Assignment;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use training::{Execution, Logs, RankState, Session, Source, train_on};

/// Batches in memory, one of them with an id past the end of its table.
fn broken(run: &spec::run::Run) -> Source {
    let mut log = common::training_source(run);
    let batches = (0..4).map(|i| {
        let mut batch = Batch::default();
        log.fill(i * 96..(i + 1) * 96, &mut batch).unwrap();
        if i == 2 {
            // Sample 40 belongs to rank 1 of 4; feature C3 has 7 rows.
            let at = batch.feature_starts[3] + 40;
            batch.values[at] = 7;
        }
        batch
    });
    Source::resident(batches.collect())
}

#[test]
fn a_bad_id_ends_all_ranks_and_is_named() {
    let mut config = config(ModelKind::Dlrm, false, 2, 2);
    config.train.steps = Some(10);
    let run = planning::check(&config).unwrap();
    let began = Instant::now();
    let error = train_on(&run, |_| Device::cpu(1), &|_| Ok(broken(&run)), &Session::default());
    let error = error.unwrap_err().to_string();
    assert!(began.elapsed().as_secs() < 5);
    for part in ["rank 1 on host 0, phase `read batch`", "C3", "sample 16", "id 7", "7 rows"] {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
    // Where the others were is of no interest: the data is at fault.
    assert!(!error.contains("rank 3") && error.lines().count() == 1, "{error}");
}

/// Batches have ids of 32 bits. Nothing is allocated, drawn or read before that is said.
#[test]
fn tables_beyond_32_bits_are_not_trained() {
    let mut config = config(ModelKind::Dlrm, false, 2, 2);
    config.model.features.as_mut().unwrap()[2].rows = 10_000_000_000;
    let run = planning::check(&config).unwrap();
    let error = training::train(&run, &Logs::Synthetic, &Session::default()).unwrap_err().to_string();
    for part in
        ["model.features[2].rows (C2): 10000000000 rows", "simulated, but not trained", "at most 4294967295"]
    {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn a_diverging_run_says_so() {
    let mut config = config(ModelKind::Dcn, false, 1, 2);
    config.optimizer.dense = Some(common::optimizer(spec::optimizer::UpdateRule::Sgd, 1e30));
    let run = planning::check(&config).unwrap();
    let sources = |split| Logs::Synthetic.source(&run, split);
    let error = train_on(&run, |_| Device::cpu(1), &sources, &Session::default()).unwrap_err().to_string();
    assert!(error.contains("the loss of step") && error.contains("lower the learning rates"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// Eight ranks on four hosts, a tower with a module on each.
fn in_towers() -> Run {
    let mut config = config(ModelKind::Dlrm, true, 4, 2);
    config.model.towers = Some(Assignment::Strided(4));
    config.model.tower_module = Some("dlrm:d=8".parse().unwrap());
    planning::check(&config).unwrap()
}

/// Trains in towers. After the third step rank 3 pauses, so that the others come to wait for it, and is changed. Gives how
/// all ranks ended.
fn with_change(wait_limit: Duration, pause: Duration, change: impl Fn(&mut RankState) + Sync) -> String {
    let run = &in_towers();
    let began = Instant::now();
    let options = collectives::Options { wait_limit };
    let mut log = common::training_source(run);
    let mut batch = Batch::default();
    log.fill(0..96, &mut batch).unwrap();
    let ended = collectives::launch(
        run.topology(),
        &options,
        |_| Device::cpu(1),
        |world| {
            let schedule = run.schedule(Task::Train);
            let source = Source::resident(vec![batch.clone()]);
            let mut rank = RankState::new(world.device().clone(), run, &schedule, world.rank(), source)?;
            let communicators = training::Communicators::new(&world, &run.dataflow)?;
            let after = |rank: &mut RankState, step| {
                if step == 2 && world.rank() == 3 {
                    std::thread::sleep(pause);
                    change(rank);
                }
                Ok(ControlFlow::Continue(()))
            };
            let mut execution = Execution::new(schedule);
            execution.run(&mut rank, &communicators, 100, |step| step * 96..(step + 1) * 96, after)
        },
    );
    let error = ended.expect_err("a rank was broken").to_string();
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    // Where every rank was is told.
    (0..8).for_each(|rank| assert!(error.contains(&format!("rank {rank} on host {}", rank / 2)), "{error}"));
    error
}

const PATIENT: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);

fn says(error: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(error.contains(part), "{part:?} is missing in: {error}"));
}

/// Its tables are gone: the other rank of its group waits for its vectors, and by then all others for their towers.
#[test]
fn a_rank_that_fails_before_the_group_exchange_ends_all() {
    let error = with_change(PATIENT, SHORT, |rank| rank.tables.clear());
    says(&error, &["rank 3 on host 1 failed in phase `lookup`", "(`group exchange`)"]);
}

/// Its tower's weights are gone: its peers wait for what leaves its group.
#[test]
fn a_rank_that_fails_before_the_peer_exchange_ends_all() {
    let error = with_change(PATIENT, SHORT, |rank| {
        rank.parameters.buckets.last_mut().unwrap().weights.change().take();
    });
    says(&error, &["rank 3 on host 1 failed in phase `towers forward`", "(`peer exchange`)"]);
}

/// It panics between two steps.
#[test]
fn a_rank_that_panics_ends_all() {
    let error = with_change(PATIENT, SHORT, |_| panic!("no more"));
    says(&error, &["rank 3 on host 1 panicked", "no more"]);
}

/// It pauses longer than the others wait.
#[test]
fn a_rank_that_is_late_ends_all() {
    let error = with_change(Duration::from_secs(1), Duration::from_millis(1500), |_| ());
    // Who gave up first may have waited for a rank that waits itself; of all ranks one alone does not wait.
    says(
        &error,
        &["waited 1.0s, the limit, in all_to_all", "rank 3 on host 1, phase `update towers`: computing"],
    );
    assert_eq!(error.matches("computing").count(), 1, "{error}");
}

/// An id past the end of its table, read while vectors travel in the groups.
#[test]
fn a_bad_id_ends_all_towers() {
    let mut config = config(ModelKind::Dlrm, false, 2, 2);
    config.model.towers = Some(Assignment::Strided(2));
    config.model.tower_module = Some("dlrm:d=8".parse().unwrap());
    let run = planning::check(&config).unwrap();
    let began = Instant::now();
    let ended = train_on(&run, |_| Device::cpu(1), &|_| Ok(broken(&run)), &Session::default());
    says(&ended.unwrap_err().to_string(), &["rank 1 on host 0, phase `read batch`", "C3", "id 7"]);
    assert!(began.elapsed().as_secs() < 5);
}
