//! On a GPU a step after warm-up allocates nothing on the device, and the host waits for it only in phases that read back. The
//! environment variable CAMPANILE_TEST_DEVICE names the GPU; elsewhere nothing is tested here.

use crate::common::metered::Epoch;
use crate::common::{ADAM, config, device, gpu, mixed, optimizer};
use kernels::Counts;
use spec::dataflow::AllToAll;
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::schedule::Task;
use spec::synthetic::Synthetic;
use spec::towers::Assignment;
use std::ops::ControlFlow;
use training::{Communicators, Execution, RankState};

/// Steps of an epoch, the last of which is shorter.
const EPOCH: u64 = 5;

/// What each rank of a run gives, which has its state, an execution of its schedule, and its communicators.
fn on_ranks<T: Send>(
    run: &Run,
    work: impl Fn(RankState, Execution, &Communicators) -> Result<T, training::Error> + Sync,
) -> Vec<T> {
    let log = Epoch::of(run);
    let ranks = collectives::launch(
        run.topology(),
        &Default::default(),
        |_| device(),
        |world| {
            let schedule = run.schedule(Task::Train);
            let device = world.device().clone();
            let rank = RankState::new(device, run, &schedule, world.rank(), log.source())?;
            work(rank, Execution::new(schedule), &Communicators::new(&world, &run.dataflow)?)
        },
    );
    ranks.unwrap_or_else(|e| panic!("{e}"))
}

/// What the devices of all ranks have counted after two epochs, and after five.
fn counts(run: &Run) -> Vec<[Counts; 2]> {
    on_ranks(run, |mut rank, mut execution, communicators| {
        let (device, mut marks) = (communicators.world().device().clone(), Vec::new());
        let after = |_: &mut RankState, step| {
            if [2 * EPOCH, 5 * EPOCH].contains(&(step + 1)) {
                marks.push(device.counts());
            }
            Ok(ControlFlow::Continue(()))
        };
        execution.run(&mut rank, communicators, 5 * EPOCH, |step| run.batches().at(step), after)?;
        Ok([marks[0], marks[1]])
    })
}

fn check(mut config: Config, what: &str) {
    if !gpu::is_there() {
        println!("SKIPPED: {what}: CAMPANILE_TEST_DEVICE names no GPU");
        return;
    }
    config.train.batch = Some(48);
    let samples = (EPOCH - 1) * 48 + 5;
    config.data.synthetic = Some(Synthetic { samples, eval_samples: 0, groups: 2, ..Default::default() });
    config.train.epochs = Some(5);
    let run = planning::check(&config).unwrap();
    let waits = run.schedule(Task::Train).phases().iter().filter(|phase| phase.reads_back()).count() as u64;
    for (rank, [before, after]) in counts(&run).into_iter().enumerate() {
        assert!(after.launches > before.launches, "{what}, rank {rank}: nothing was launched");
        let allocated = after.allocations - before.allocations;
        assert_eq!(allocated, 0, "{what}, rank {rank}: allocations in 15 steps");
        let waited = after.synchronisations - before.synchronisations;
        let allowed = 3 * EPOCH * waits;
        assert!(waited <= allowed, "{what}, rank {rank}: {waited} waits in 15 steps, {allowed} reads back");
    }
}

#[test]
fn flat() {
    check(config(ModelKind::Dlrm, true, 1, 1), "DLRM, alone");
    check(config(ModelKind::Dlrm, true, 2, 2), "DLRM, four ranks");
    check(mixed(config(ModelKind::DeepFm, true, 1, 2)), "DeepFM, mixed lengths");
    let mut cut = config(ModelKind::Dcn, true, 2, 2);
    cut.placement.cut = Some(Cut::Rows);
    cut.optimizer.tables = Some(optimizer(ADAM, 0.002));
    check(cut, "DCN, rows");
}

#[test]
fn towers() {
    let mut towers = config(ModelKind::Dlrm, true, 2, 2);
    towers.model.towers = Some(Assignment::Strided(4));
    check(towers.clone(), "towers that pass through");
    towers.model.tower_module = Some("dlrm:c=1,p=1,d=8".parse().unwrap());
    towers.optimizer.dense = Some(optimizer(ADAM, 0.002));
    check(towers, "towers with modules");
}

#[test]
fn encoded() {
    for wire in ["bf16", "fp8", "u4+ec"] {
        let mut config = config(ModelKind::Dlrm, true, 2, 2);
        (config.wire, config.train.all_to_all) = (wire.parse().unwrap(), Some(AllToAll::Hierarchical));
        check(config, wire);
    }
}

/// Losses, weights and counts after 40 steps of one rank whose batches are all of one size.
fn after_steps(run: &Run, traced: bool) -> (Vec<f64>, Vec<f32>, Counts) {
    let mut ranks = on_ranks(run, |mut rank, execution, communicators| {
        let mut execution = if traced { execution.traced(1) } else { execution };
        let mut losses = Vec::new();
        let after = |rank: &mut RankState, _| {
            losses.append(&mut rank.losses);
            Ok(ControlFlow::Continue(()))
        };
        execution.run(&mut rank, communicators, 40, |step| run.batches().at(step), after)?;
        losses.append(&mut rank.losses);
        let weights = rank.parameters.buckets[0].weights.to_vec()?;
        Ok((losses, weights, communicators.world().device().counts()))
    });
    ranks.swap_remove(0)
}

/// Checks that most steps of a run are replayed as graphs, with the bits of traced steps, which are queued one by one.
fn check_replayed(mut config: Config, what: &str) {
    if !gpu::is_there() {
        println!("SKIPPED: {what}: CAMPANILE_TEST_DEVICE names no GPU");
        return;
    }
    config.train.batch = Some(48);
    let samples = 40 * 48;
    config.data.synthetic = Some(Synthetic { samples, eval_samples: 0, groups: 2, ..Default::default() });
    let run = planning::check(&config).unwrap();
    let ((losses, weights, counts), (expected, expected_weights, one_by_one)) =
        (after_steps(&run, false), after_steps(&run, true));
    assert_eq!(losses.len(), 40, "{what}");
    assert_eq!((losses, weights), (expected, expected_weights), "{what}");
    assert!(counts.replays > 20, "{what}: {} of 40 steps were replayed", counts.replays);
    assert_eq!((one_by_one.replays, counts.spoiled), (0, 0), "{what}");
}

#[test]
fn steps_that_repeat_are_replayed() {
    check_replayed(config(ModelKind::Dlrm, false, 1, 1), "DLRM");
    check_replayed(config(ModelKind::Dcn, false, 1, 1), "DCN");
}

#[test]
fn steps_that_repeat_but_for_rates_and_seeds_are_replayed() {
    let mut changing = config(ModelKind::Dlrm, false, 1, 1);
    (changing.optimizer.dense, changing.optimizer.tables) =
        (Some(optimizer(ADAM, 0.002)), Some(optimizer(ADAM, 0.002)));
    check_replayed(changing, "Adam");
    let mut changing = config(ModelKind::Dcn, false, 1, 1);
    let mut warming = optimizer(UpdateRule::Sgd, 0.1);
    warming.rate.warm_up = 100;
    (changing.optimizer.dense, changing.optimizer.tables) = (Some(warming), Some(warming));
    changing.model.dropout = Some(0.2);
    check_replayed(changing, "a rate that rises, and dropout");
}
