//! Scores a model on samples it has not seen: exact metrics over the predictions of all ranks.

use crate::Error;
use crate::metrics::{Evaluation, Histogram};
use crate::rank::Rank;
use crate::source::Source;
use crate::step::Execution;
use crate::trainer::Event;
use collectives::{Communicator, Label};
use data::{Split, SyntheticLog};
use kernels::{Buffer, Element};
use spec::placement::share;
use spec::run::Run;
use spec::schedule::Task;

/// What an evaluation gives.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    pub evaluation: Option<Evaluation>,
    pub best_auc: Option<f64>,
}

/// Runs the evaluation log through the model.
pub(crate) fn evaluate(
    run: &Run,
    world: &Communicator,
    rank: &mut Rank,
    observe: &(dyn Fn(Event) + Sync),
) -> Result<Scores, Error> {
    let samples = run.data.eval_samples;
    if samples == 0 {
        return Ok(Scores::default());
    }
    if world.rank() == 0 {
        observe(Event::Evaluating { samples });
    }
    let model = &run.model;
    let log = SyntheticLog::new(&run.data, model.features(), model.dense_features(), Split::Eval)?;
    rank.source = Source::Synthetic(log);
    rank.predictions.clear();
    rank.labels.clear();
    let batch = run.batch as u64;
    let range = |step: u64| step * batch..((step + 1) * batch).min(samples);
    let steps = samples.div_ceil(batch);
    let mut truth = Vec::new();
    Execution::new(run.schedule(Task::Evaluate)).run(rank, world, steps, range, |rank, step| {
        let global = range(step);
        let own = share((global.end - global.start) as usize, world.size(), world.rank());
        if let Source::Synthetic(log) = &rank.source {
            let first = global.start;
            truth.extend(own.map(|i| log.probability(first + i as u64) as f32));
        }
        Ok(())
    })?;
    let label = Label::from("evaluation");
    let predictions = gathered(world, &label, &rank.predictions)?;
    let labels = gathered(world, &label, &rank.labels)?;
    let truth = gathered(world, &label, &truth)?;
    let evaluation = Evaluation::of(&predictions, &labels)?;
    let best_auc = Evaluation::of(&truth, &labels)?.auc;
    Ok(Scores { evaluation: Some(evaluation), best_auc })
}

/// What all ranks have, in rank order.
fn gathered<T: Element>(world: &Communicator, label: &Label, mine: &[T]) -> Result<Vec<T>, Error> {
    let device = world.device();
    let count = Buffer::from_slice(device, &[mine.len() as u64])?;
    let ones = vec![1; world.size()];
    let (_, counts) = world.all_gather(label, count, &ones, Buffer::empty())?;
    let counts: Vec<usize> = counts.to_vec().iter().map(|&n| n as usize).collect();
    let (_, all) = world.all_gather(label, Buffer::from_slice(device, mine)?, &counts, Buffer::empty())?;
    Ok(all.to_vec())
}

/// The histograms of all ranks together.
pub(crate) fn merged(world: &Communicator, label: &Label, mine: &Histogram) -> Result<Histogram, Error> {
    let all = gathered(world, label, &mine.counts())?;
    let mut merged = Histogram::default();
    for counts in all.chunks_exact(2 * Histogram::BINS) {
        merged.add_counts(counts);
    }
    Ok(merged)
}
