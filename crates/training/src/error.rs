//! What can go wrong on a rank.

use crate::data::DataError;
use crate::metrics::MetricError;
use collectives::{CollectiveError, Failure};
use kernels::KernelError;

/// Why a rank, and with it the run, stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Data that does not fit the model.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An operation was refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A collective failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// Predictions that cannot be scored.
    #[error(transparent)]
    Metrics(#[from] MetricError),
    /// The loss is no longer a number: the learning rate is too high, or the data is broken.
    #[error("the loss of step {step} is {loss}; lower the learning rates (optimizer.*.rate.peak), or check the data")]
    Diverged {
        /// The step, from 0.
        step: u64,
        /// Its loss.
        loss: f64,
    },
    /// A run that the machine has no room for.
    #[error(
        "tables and optimizer state need {needed_gb:.1} GB and {available_gb:.1} GB are free; \
         lower model.rows_cap or model.dim, or choose an optimizer with less state"
    )]
    Memory {
        /// What the run needs.
        needed_gb: f64,
        /// What there is.
        available_gb: f64,
    },
    /// A rank failed; all stopped.
    #[error(transparent)]
    Failure(#[from] Box<Failure>),
}
