//! Losses that arrive a step late, as on a device whose operations are queued, are the same losses of the same steps.

use crate::common::{config, ranks_after, training_source};
use kernels::Device;
use spec::presets::ModelKind;
use spec::run::Run;
use spec::schedule::Task;
use std::ops::ControlFlow;
use training::{Execution, RankState};

const STEPS: u64 = 7;

fn run(peak: f32) -> Run {
    let mut config = config(ModelKind::Dlrm, true, 1, 2);
    config.optimizer.dense.as_mut().unwrap().rate.peak = peak;
    planning::check(&config).unwrap()
}

#[test]
fn late_losses_are_those_of_their_steps() {
    let run = run(0.05);
    let train = |prepare: fn(&mut RankState)| {
        ranks_after(&run, || Device::cpu(1), || training_source(&run), STEPS, |_, rank| prepare(rank))
    };
    let (prompt, late) = (train(|_| ()), train(RankState::arrive_late));
    for ((prompt, losses), (late, late_losses)) in prompt.iter().zip(&late) {
        assert_eq!((losses.len(), losses), (STEPS as usize, late_losses));
        assert_eq!((prompt.loss, prompt.seen.counts()), (late.loss, late.seen.counts()));
        let weights = |rank: &RankState| rank.parameters.buckets[0].weights.to_vec().unwrap();
        assert_eq!(weights(prompt), weights(late));
    }
}

/// Steps whose losses have arrived after each step, and how the run ended.
fn arrivals(run: &Run, late: bool, settled_after: u64) -> (Vec<usize>, Option<String>) {
    let ended = collectives::launch(
        run.topology(),
        &Default::default(),
        |_| Device::cpu(1),
        |world| {
            let schedule = run.schedule(Task::Train);
            let device = world.device().clone();
            let mut rank = RankState::new(device, run, &schedule, world.rank(), training_source(run))?;
            if late {
                rank.arrive_late();
            }
            let communicators = training::Communicators::new(&world, &run.dataflow)?;
            let mut arrived = Vec::new();
            let after = |rank: &mut RankState, step: u64| {
                if step == settled_after {
                    rank.settle()?;
                }
                arrived.push(rank.losses.len());
                Ok(ControlFlow::Continue(()))
            };
            let ended = Execution::new(schedule).run(
                &mut rank,
                &communicators,
                STEPS,
                |step| run.batches().at(step),
                after,
            );
            let error = match ended {
                Err(error @ training::Error::Diverged { .. }) => Some(error.to_string()),
                other => other.map(|()| None)?,
            };
            Ok::<_, training::Error>((arrived, error))
        },
    );
    ended.unwrap_or_else(|e| panic!("{e}")).swap_remove(0)
}

/// A report or a checkpoint settles: then the loss of the step itself has arrived too.
#[test]
fn settling_waits_for_the_step_itself() {
    let mut config = config(ModelKind::Dlrm, true, 1, 1);
    config.train.threads = Some(1);
    let run = planning::check(&config).unwrap();
    assert_eq!(arrivals(&run, false, 3), (vec![1; 7], None));
    assert_eq!(arrivals(&run, true, 3), (vec![0, 1, 1, 2, 0, 1, 1], None));
}

/// A loss that is no number is that of its step, in the same words, whenever it arrives.
#[test]
fn a_late_divergence_names_its_step() {
    let mut config = config(ModelKind::Dlrm, true, 1, 1);
    config.optimizer.dense.as_mut().unwrap().rate.peak = 1e30;
    let run = planning::check(&config).unwrap();
    let ((prompt, error), (late, late_error)) = (arrivals(&run, false, 100), arrivals(&run, true, 100));
    assert!(error.as_ref().is_some_and(|error| error.starts_with("the loss of step ")), "{error:?}");
    assert_eq!(error, late_error);
    assert_eq!(late.len(), prompt.len() + 1, "it arrives in the next step");
}
