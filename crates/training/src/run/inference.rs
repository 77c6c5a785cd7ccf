//! Evaluation and prediction with the parameters of a checkpoint.

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::run::cluster::Cluster;
use crate::run::evaluation::{self, PredictionReceiver, Receiver};
use crate::run::event::Event;
use crate::run::launch::on_checkpoint;
use crate::run::scores::Scores;
use crate::samples::logs::Logs;
use data::Split;
use spec::run::Run;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// Scores `checkpoint` on the evaluation samples of `run`, over the ranks of `cluster`. The process that has rank 0 gets the
/// scores, and its `receive` the samples in the order of the log; other processes get none.
pub fn evaluate(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    cluster: &Cluster,
    observe: &(dyn Fn(Event) + Sync),
    receive: &mut Receiver,
) -> Result<Option<Scores>, Error> {
    if run.data.eval_samples() == 0 {
        return Err(Error::NoSamples);
    }
    // Rank 0 alone calls it.
    let receive = Mutex::new(receive);
    let scores = on_checkpoint(run, logs, checkpoint, cluster, Split::Eval, |communicators, rank| {
        let receive: &mut Receiver = &mut |labels, probabilities| {
            let mut receive = receive.lock().unwrap_or_else(PoisonError::into_inner);
            receive(labels, probabilities)
        };
        let sources = |split| logs.source(run, split);
        evaluation::evaluate(run, communicators, rank, &sources, observe, receive, &mut || {
            Ok(ControlFlow::Continue(()))
        })
    })?;
    Ok(scores.into_iter().next().flatten())
}

/// Gives `receive` what `checkpoint` predicts for the evaluation samples of `run`, in the order of the log, on ranks that are
/// threads. Labels of the samples are not looked at.
pub fn predict(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    observe: &(dyn Fn(Event) + Sync),
    receive: &mut PredictionReceiver,
) -> Result<(), Error> {
    // Rank 0 alone calls it.
    let receive = Mutex::new(receive);
    on_checkpoint(run, logs, checkpoint, &Cluster::Threads, Split::Eval, |communicators, rank| {
        let receive: &mut PredictionReceiver = &mut |probabilities| {
            let mut receive = receive.lock().unwrap_or_else(PoisonError::into_inner);
            receive(probabilities)
        };
        evaluation::predict(run, communicators, rank, &|split| logs.source(run, split), observe, receive)
    })?;
    Ok(())
}
