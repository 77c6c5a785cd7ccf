//! Ranks as threads.

use crate::progress::Rank;
use crate::transport::in_process::{InProcess, World};
use crate::{CollectiveError, Communicator, Failure, Label, Reason};
use kernels::{Device, KernelError};
use spec::topology::Topology;
use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How ranks behave towards each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a rank waits in one collective before it declares the run failed.
    pub wait_limit: Duration,
}

impl Default for Options {
    /// Five minutes of patience.
    fn default() -> Self {
        Self { wait_limit: Duration::from_secs(300) }
    }
}

/// Runs `body` on every rank of `topology`, each a thread of this process on the device that `devices` makes for it,
/// and gives what the ranks returned, in rank order.
///
/// The first rank to fail ends all others: those that are in a collective at once, those that compute at their next
/// one. The failure names that rank; errors of other ranks that follow from it are not reported.
pub fn launch<R, E>(
    topology: Topology,
    options: &Options,
    devices: impl Fn(usize) -> Result<Device, KernelError> + Sync,
    body: impl Fn(Communicator) -> Result<R, E> + Sync,
) -> Result<Vec<R>, Failure>
where
    R: Send,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let world = Arc::new(World::new(topology));
    let run = |rank: usize| {
        let transport = Arc::new(InProcess::new(world.clone(), rank, options.wait_limit));
        let all = || -> Result<R, Box<dyn Error + Send + Sync>> {
            let device = devices(rank)?;
            let this = Arc::new(Rank::new(rank, topology, device, transport.clone(), options.wait_limit));
            let result = body(Communicator::world(this.clone())).map_err(Into::into)?;
            this.drain()?;
            transport.leave()?;
            Ok(result)
        };
        // Nothing that the panic may have left half-done is looked at again: the run ends.
        match catch_unwind(AssertUnwindSafe(all)) {
            Ok(Ok(result)) => return Some(result),
            Ok(Err(error)) => {
                world.fail_rank(rank, |host, phase| failed(rank, host, phase, &*error));
            }
            Err(panic) => {
                let message = panic_message(&*panic);
                world.fail_rank(rank, |host, phase| CollectiveError::Panicked { rank, host, phase, message });
            }
        }
        None
    };
    let results: Vec<Option<R>> = thread::scope(|scope| {
        let start = |rank: usize| {
            let thread = thread::Builder::new().name(format!("rank {rank}"));
            let run = &run;
            let started = thread.spawn_scoped(scope, move || run(rank));
            if let Err(error) = &started {
                world.fail(CollectiveError::Spawn { rank, message: error.to_string() });
            }
            started.ok()
        };
        let threads: Vec<_> = (0..topology.ranks()).map(start).collect();
        threads.into_iter().map(|thread| thread.and_then(|t| t.join().ok().flatten())).collect()
    });
    match world.failure() {
        Some(failure) => Err(Failure::clone(&failure)),
        None => {
            Ok(results.into_iter().map(|result| result.expect("a rank without result has failed")).collect())
        }
    }
}

/// How the error of a rank ends the run.
pub(crate) fn failed(
    rank: usize,
    host: usize,
    phase: Label,
    error: &(dyn Error + Send + Sync + 'static),
) -> CollectiveError {
    match error.downcast_ref::<Reason>() {
        Some(Reason(reason)) => CollectiveError::GaveUp { rank, host, phase, message: chain(&**reason) },
        None => CollectiveError::Failed { rank, host, phase, message: chain(error) },
    }
}

/// An error and what it came from, on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let inner = error.to_string();
        // Many errors already print what they came from.
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        source = error.source();
    }
    text
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)").to_owned()
}
