//! Ranks as processes.

use crate::launch::{chain, panic_message};
use crate::progress::Rank;
use crate::transport::mpi::{Started, start};
use crate::{CollectiveError, Communicator, Failure, Options};
use kernels::{Device, KernelError};
use spec::topology::Topology;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What only ranks that are processes need to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiOptions {
    /// Whether hosts of the topology must be what MPI finds: processes that share memory. Without this check several
    /// hosts may be pretended on one machine.
    pub check_hosts: bool,
    /// The longest message in bytes, at most and by default 1 GiB: MPI counts in 31 bits. Longer ones go in pieces.
    pub piece: usize,
    /// What must be the same on all ranks, besides the topology and this crate's version: say, the configuration and the
    /// program's version, readable, because it is shown where it differs.
    pub identity: String,
}

impl Default for MpiOptions {
    /// Hosts are checked.
    fn default() -> Self {
        Self { check_hosts: true, piece: 1 << 30, identity: String::new() }
    }
}

/// Runs `body` as one rank of `topology`, and gives what it returned. All processes of an MPI job call this, once in
/// their lives; which rank each of them is MPI says, and `device` is called with it.
///
/// The first rank to fail ends all others, as in [`launch`](crate::launch()), and each of them gives the failure, with
/// where every rank was that answered. MPI is then left unfinished, since not all may be there to finish it: report the
/// failure and exit with an error, upon which the launcher (`mpirun`) ends whatever processes still run. A rank that
/// does not notice for five seconds that the run has ended is ended with all others (`MPI_Abort`).
pub fn launch_mpi<R, E>(
    topology: Topology,
    options: &Options,
    mpi: &MpiOptions,
    device: impl FnOnce(usize) -> Result<Device, KernelError>,
    body: impl FnOnce(Communicator) -> Result<R, E>,
) -> Result<R, Failure>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let started = start(topology, options.wait_limit, mpi);
    let started = started.map_err(|cause| Failure { cause, ranks: Vec::new() })?;
    let Started { rank, transport, .. } = &started;
    let rank = *rank;
    let all = || -> Result<R, Box<dyn Error + Send + Sync>> {
        let device = device(rank)?;
        let this = Arc::new(Rank::new(rank, topology, device, transport.clone(), options.wait_limit));
        let result = body(Communicator::world(this.clone())).map_err(Into::into)?;
        this.drain()?;
        transport.leave()?;
        Ok(result)
    };
    // Nothing that the panic may have left half-done is looked at again: the run ends.
    let outcome = match catch_unwind(AssertUnwindSafe(all)) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => {
            let message = chain(&*error);
            Err(transport.fail(|host, phase| CollectiveError::Failed { rank, host, phase, message }))
        }
        Err(panic) => {
            let message = panic_message(&*panic);
            Err(transport.fail(|host, phase| CollectiveError::Panicked { rank, host, phase, message }))
        }
    };
    started.close();
    outcome
}
