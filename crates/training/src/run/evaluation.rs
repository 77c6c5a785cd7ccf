//! Scores a model on samples it has not seen: exact metrics over the predictions of all ranks.
//!
//! After each batch the predictions of all ranks go to rank 0. Shares of a batch lie in rank order, so they come out in
//! the order of the log.

use crate::Error;
use crate::run::event::Event;
use crate::run::scores::{Columns, Gathered, Scores};
use crate::run::session::Sources;
use crate::samples::source::Prefetch;
use crate::samples::source::Source;
use crate::step::communicators::Communicators;
use crate::step::gather::to_first;
use crate::step::interpreter::Execution;
use crate::step::rank_state::RankState;
use collectives::Label;
use data::Split;
use spec::placement::share;
use spec::run::{Breakdown, Run};
use spec::schedule::Task;
use std::ops::ControlFlow;

/// Receives labels and probabilities, batch by batch in the order of the log: samples × labels of each.
pub type Receiver<'a> = dyn FnMut(&[f32], &[f32]) -> Result<(), Error> + Send + 'a;

/// Receives probabilities, batch by batch in the order of the log: samples × labels.
pub type PredictionReceiver<'a> = dyn FnMut(&[f32]) -> Result<(), Error> + Send + 'a;

/// Called by all ranks after each batch of an evaluation; may end it there.
pub(crate) type Between<'a> = dyn FnMut() -> Result<ControlFlow<()>, Error> + 'a;

/// Runs the evaluation log through the model. Rank 0 gets the scores, and calls `receive`; there are none without
/// evaluation samples, or when `between` ends the evaluation.
pub(crate) fn evaluate(
    run: &Run,
    communicators: &Communicators,
    rank: &mut RankState,
    sources: &Sources,
    observe: &(dyn Fn(Event) + Sync),
    receive: &mut Receiver,
    between: &mut Between,
) -> Result<Option<Scores>, Error> {
    let mut all = Gathered::default();
    let first = communicators.world().rank() == 0;
    // A column that is not there is told before the samples are scored.
    let mut columns = Columns::default();
    if first && run.breakdown != Breakdown::default() {
        let Source::Prepared { log, .. } = sources(Split::Eval)? else { return Err(Error::NoColumns) };
        columns = Columns::read(&log, &run.breakdown)?;
    }
    let whole = pass(run, communicators, rank, sources, observe, between, &mut |batch| {
        receive(&batch.labels, &batch.predictions)?;
        all.predictions.extend(batch.predictions);
        all.labels.extend(batch.labels);
        all.weights.extend(batch.weights);
        all.truth.extend(batch.truth);
        Ok(())
    })?;
    if !first || !whole {
        return Ok(None);
    }
    Ok(Some(Scores::of(run, &all, &columns)?))
}

/// Runs the evaluation log through the model, and gives `receive` the probabilities of every batch, on rank 0. Labels are not
/// looked at, and nothing is kept.
pub(crate) fn predict(
    run: &Run,
    communicators: &Communicators,
    rank: &mut RankState,
    sources: &Sources,
    observe: &(dyn Fn(Event) + Sync),
    receive: &mut PredictionReceiver,
) -> Result<(), Error> {
    let go_on: &mut Between = &mut || Ok(ControlFlow::Continue(()));
    pass(run, communicators, rank, sources, observe, go_on, &mut |batch| receive(&batch.predictions))?;
    Ok(())
}

/// Runs the evaluation log through the model; rank 0 gives every batch to `take`. Tells whether it came to the end of a log
/// that has samples.
fn pass(
    run: &Run,
    communicators: &Communicators,
    rank: &mut RankState,
    sources: &Sources,
    observe: &(dyn Fn(Event) + Sync),
    between: &mut Between,
    take: &mut dyn FnMut(Gathered) -> Result<(), Error>,
) -> Result<bool, Error> {
    let world = communicators.world();
    let batches = run.eval_batches();
    if batches.samples == 0 {
        return Ok(false);
    }
    if world.rank() == 0 {
        observe(Event::Evaluating { samples: batches.samples });
    }
    let truth = match sources(Split::Eval)? {
        Source::Synthetic(log) => Some(log),
        _ => None,
    };
    let steps = batches.per_epoch();
    let ahead = Prefetch::of_rank(world, sources(Split::Eval)?, run, batches, 0..steps);
    let training = std::mem::replace(&mut rank.source, Source::Ahead(ahead));
    let label = Label::from("evaluation");
    let mut execution = Execution::new(run.schedule(Task::Evaluate));
    let (mut true_share, mut ended) = (Vec::new(), false);
    let result = execution.run(
        rank,
        communicators,
        steps,
        |step| batches.at(step),
        |rank, step| {
            let positions = batches.at(step);
            let rows = (positions.end - positions.start) as usize;
            let counts: Vec<usize> = (0..world.size()).map(|r| share(rows, world.size(), r).len()).collect();
            let outputs = run.model.outputs();
            let of_labels: Vec<usize> = counts.iter().map(|samples| samples * outputs).collect();
            let predictions = to_first(world, &label, &rank.predictions, &of_labels)?;
            let labels = to_first(world, &label, &rank.labels, &of_labels)?;
            let mut batch = Gathered { labels, predictions, ..Gathered::default() };
            if run.sample_weights {
                batch.weights = to_first(world, &label, &rank.sample_weights, &counts)?;
            }
            if let Some(log) = &truth {
                let own = share(rows, world.size(), world.rank());
                true_share.clear();
                true_share.extend(own.map(|i| log.probability(positions.start + i as u64) as f32));
                batch.truth = to_first(world, &label, &true_share, &counts)?;
            }
            if world.rank() == 0 {
                take(batch)?;
            }
            let flow = between()?;
            ended = flow.is_break();
            Ok(flow)
        },
    );
    rank.source = training;
    result?;
    Ok(!ended)
}
