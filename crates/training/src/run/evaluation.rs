//! Scores a model on samples it has not seen: exact metrics over the predictions of all ranks.
//!
//! After each batch the predictions of all ranks go to rank 0. Shares of a batch lie in rank order, so they come out in
//! the order of the log.

use crate::Error;
use crate::metrics::{Evaluation, calibration_bins};
use crate::run::event::Event;
use crate::run::scores::Scores;
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
use spec::run::Run;
use spec::schedule::Task;
use std::ops::ControlFlow;

/// Bins of the calibration diagram.
const BINS: usize = 20;

/// Receives labels and probabilities, batch by batch in the order of the log.
pub type Receiver<'a> = dyn FnMut(&[f32], &[f32]) -> Result<(), Error> + Send + 'a;

/// Receives probabilities, batch by batch in the order of the log.
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
    let (mut predictions, mut labels, mut best) = (Vec::new(), Vec::new(), Vec::new());
    let whole = pass(run, communicators, rank, sources, observe, between, &mut |batch| {
        receive(&batch.labels, &batch.predictions)?;
        predictions.extend(batch.predictions);
        labels.extend(batch.labels);
        best.extend(batch.truth);
        Ok(())
    })?;
    if communicators.world().rank() != 0 || !whole {
        return Ok(None);
    }
    Ok(Some(Scores {
        evaluation: Evaluation::of(&predictions, &labels)?,
        bins: calibration_bins(&predictions, &labels, BINS)?,
        best_auc: if best.is_empty() { None } else { Evaluation::of(&best, &labels)?.auc },
    }))
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

/// One batch, as rank 0 sees it.
struct Scored {
    labels: Vec<f32>,
    predictions: Vec<f32>,
    /// True probabilities, where they are known.
    truth: Vec<f32>,
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
    take: &mut dyn FnMut(Scored) -> Result<(), Error>,
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
            let predictions = to_first(world, &label, &rank.predictions, &counts)?;
            let labels = to_first(world, &label, &rank.labels, &counts)?;
            let mut batch = Scored { labels, predictions, truth: Vec::new() };
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
