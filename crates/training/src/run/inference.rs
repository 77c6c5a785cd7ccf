//! Evaluation and prediction with the parameters of a checkpoint.

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::run::evaluation::{self, PredictionReceiver, Receiver};
use crate::run::event::Event;
use crate::run::launch::on_checkpoint;
use crate::run::scores::Scores;
use crate::samples::logs::Logs;
use data::Split;
use spec::run::Run;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// Scores `checkpoint` on the evaluation samples of `run`, which `receive` gets in the order of the log.
pub fn evaluate(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    observe: &(dyn Fn(Event) + Sync),
    receive: &mut Receiver,
) -> Result<Scores, Error> {
    // Rank 0 alone calls it.
    let receive = Mutex::new(receive);
    let scores = on_checkpoint(run, logs, checkpoint, Split::Eval, |communicators, rank| {
        let receive: &mut Receiver = &mut |labels, probabilities| {
            let mut receive = receive.lock().unwrap_or_else(PoisonError::into_inner);
            receive(labels, probabilities)
        };
        let sources = |split| logs.source(run, split);
        evaluation::evaluate(run, communicators, rank, &sources, observe, receive, &mut || {
            Ok(ControlFlow::Continue(()))
        })
    })?;
    scores.into_iter().next().flatten().ok_or(Error::NoSamples)
}

/// Gives `receive` what `checkpoint` predicts for the evaluation samples of `run`, in the order of the log. Labels of the
/// samples are not looked at.
pub fn predict(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    observe: &(dyn Fn(Event) + Sync),
    receive: &mut PredictionReceiver,
) -> Result<(), Error> {
    // Rank 0 alone calls it.
    let receive = Mutex::new(receive);
    on_checkpoint(run, logs, checkpoint, Split::Eval, |communicators, rank| {
        let receive: &mut PredictionReceiver = &mut |probabilities| {
            let mut receive = receive.lock().unwrap_or_else(PoisonError::into_inner);
            receive(probabilities)
        };
        evaluation::predict(run, communicators, rank, &|split| logs.source(run, split), observe, receive)
    })?;
    Ok(())
}
