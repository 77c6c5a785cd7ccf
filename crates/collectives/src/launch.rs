//! Launches ranks as threads of one process.

use crate::progress::Endpoint;
use crate::transport::Transport;
use crate::transport::in_process::{InProcess, World};
use crate::transport::nccl::{Fabric, NcclMover, Seat};
use crate::{CollectiveError, Communicator, ExternalError, Failure, Label};
use kernels::{Device, KernelError, Nccl};
use spec::topology::Topology;
use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Options of a launch, for every transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Longest time that a rank waits in one collective before the run fails with
    /// [`CollectiveError::WaitLimit`]. Default: 300 s.
    pub wait_limit: Duration,
}

impl Default for Options {
    /// Options with a wait limit of 300 s.
    fn default() -> Self {
        Self { wait_limit: Duration::from_secs(300) }
    }
}

/// Runs `body` on every rank of `topology` and returns the results in rank order. Each rank is a thread of this process,
/// on the device that `devices` makes for it.
///
/// The first rank to fail ends all others: at once those that wait in a collective, and those that compute at their next
/// collective. The failure names the rank that failed first; errors of other ranks that follow from it are not reported.
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
    launch_over(topology, options, devices, body, Transport::of)
}

/// Launches ranks as [`launch`] does, each on a GPU of its own, between which NCCL moves memory and adds what is left to it.
/// Fails at once where NCCL is missing.
pub fn launch_over_nccl<R, E>(
    topology: Topology,
    options: &Options,
    devices: impl Fn(usize) -> Result<Device, KernelError> + Sync,
    body: impl Fn(Communicator) -> Result<R, E> + Sync,
) -> Result<Vec<R>, Failure>
where
    R: Send,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let nccl = Nccl::load().map_err(|error| Failure { cause: error.into(), ranks: Vec::new() })?;
    let fabric: Arc<dyn Fabric> = Arc::new(nccl);
    launch_over(topology, options, devices, body, |transport| {
        let seat = Seat { rank: transport.rank(), ranks: topology.ranks(), wait_limit: options.wait_limit };
        let mover = NcclMover::new(transport.clone(), transport.clone(), fabric.clone(), seat);
        Transport { control: transport.clone(), mover: Arc::new(mover) }
    })
}

/// Launches ranks as [`launch`] does, over the transport that `connect` makes of the one between threads.
pub(crate) fn launch_over<R, E>(
    topology: Topology,
    options: &Options,
    devices: impl Fn(usize) -> Result<Device, KernelError> + Sync,
    body: impl Fn(Communicator) -> Result<R, E> + Sync,
    connect: impl Fn(&Arc<InProcess>) -> Transport + Sync,
) -> Result<Vec<R>, Failure>
where
    R: Send,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let world = Arc::new(World::new(topology));
    let run = |rank: usize| {
        let transport = Arc::new(InProcess::new(world.clone(), rank, options.wait_limit));
        // Kept until the cause of a failure is known to all: other ranks may notice when this one lets go of its transport.
        let mut kept = None;
        let all = || -> Result<R, Box<dyn Error + Send + Sync>> {
            let device = devices(rank)?;
            let connection = connect(&transport);
            let endpoint = Arc::new(Endpoint::new(rank, topology, device, connection, options.wait_limit));
            kept = Some(endpoint.clone());
            let result = body(Communicator::world(endpoint.clone())).map_err(Into::into)?;
            endpoint.drain()?;
            transport.leave()?;
            Ok(result)
        };
        // Values that the panic may have left half-changed are not used again: the run ends.
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

/// Runs the conformance suite on clusters of two to eight ranks, over the transport that `connect` makes.
#[cfg(test)]
pub(crate) fn conform(connect: impl Fn(&Arc<InProcess>) -> Transport + Sync) {
    use crate::suite::{self, Case};
    let cases: [Case; 19] = [
        suite::meter,
        suite::all_to_all,
        suite::all_gather,
        suite::broadcast,
        suite::barrier,
        suite::reduce_scatter,
        suite::all_reduce,
        suite::all_reduce_f64,
        suite::encoded_all_reduce,
        suite::algorithms,
        suite::encoded_scatter_and_gather,
        suite::outstanding,
        suite::queues,
        suite::crossed,
        suite::progress,
        suite::split,
        suite::disjoint,
        |world| suite::stress(world, 300),
        suite::abandoned,
    ];
    let options = Options { wait_limit: Duration::from_secs(20) };
    for (hosts, per_host) in [(1, 2), (3, 1), (4, 2)] {
        let topology = Topology::new(hosts, per_host).expect("a cluster");
        for (number, case) in cases.iter().enumerate() {
            if let Err(failure) = launch_over(topology, &options, |_| Ok(Device::Reference), case, &connect) {
                panic!("case {number} on {topology}: {failure}");
            }
        }
    }
}

/// The error with which the run ends when the body of a rank returns `error`.
pub(crate) fn failed(
    rank: usize,
    host: usize,
    phase: Label,
    error: &(dyn Error + Send + Sync + 'static),
) -> CollectiveError {
    match error.downcast_ref::<ExternalError>() {
        Some(ExternalError(error)) => CollectiveError::GaveUp { rank, host, phase, message: chain(&**error) },
        None => CollectiveError::Failed { rank, host, phase, message: chain(error) },
    }
}

/// Text of an error and of the chain of its sources, on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let inner = error.to_string();
        // Many errors already print their source.
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        source = error.source();
    }
    text
}

/// Message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)").to_owned()
}
