//! The launch of a run's ranks, once the run is known to fit into the machine.

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::checkpoint::state::{self, Restore};
use crate::run::cluster::Cluster;
use crate::run::devices::{Devices, free_memory, gpus_of};
use crate::run::memory::{MemoryNeed, MemoryUse, available_memory, gpu};
use crate::samples::logs::{Logs, SharedLogs};
use crate::step::communicators::Communicators;
use crate::step::rank_state::RankState;
use collectives::{Communicator, Options};
use data::Split;
use kernels::{Device, KernelError};
use spec::run::{Run, RunError};
use spec::schedule::Task;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most ranks that one process runs as threads: every pair of them has a place in every exchange.
const MAX_RANKS: usize = 1024;

/// Refuses a run that cannot be trained or cannot fit into this process or machine, before anything is allocated. Gives what the run needs.
pub fn check_size(run: &Run, cluster: &Cluster, purpose: MemoryUse) -> Result<MemoryNeed, Error> {
    run.model.check_trainable().map_err(|error| RunError::new(error.field, error.problem))?;
    let here = cluster.ranks_here(run.topology()).len();
    if cluster.is_one_process() && here > MAX_RANKS {
        return Err(Error::Ranks { ranks: here, most: MAX_RANKS });
    }
    let need = MemoryNeed::of(run, cluster, purpose);
    // A run that computes nothing is on no GPU.
    let gpus = if purpose.computing > 0 { gpus_of(run, cluster) } else { BTreeMap::new() };
    if !gpus.is_empty()
        && let Some(need) = gpu::shortage(run, cluster, purpose, &gpus, &free_memory())
    {
        return Err(Error::GpuMemory(Box::new(need)));
    }
    // A dry run may be made on a machine without the GPUs that it is for.
    let on_gpus = !gpus.is_empty() || run.device.is_cuda();
    let on_host = match on_gpus {
        false => need,
        true => {
            let ranks = cluster.ranks_here(run.topology()).into_iter();
            let tables = ranks.map(|rank| gpu::mapped_bytes(run, rank)).sum();
            MemoryNeed { tables, ..gpu::of_host(&need) }
        }
    };
    match available_memory() {
        Some(available) if on_host.total() > available => {
            Err(Error::Memory { need: Box::new(on_host), ranks: here, available })
        }
        _ => Ok(need),
    }
}

/// Runs `body` on every rank of `run` that lives in this process, each on the device that `devices` makes for it.
pub(crate) fn on_ranks<T: Send>(
    run: &Run,
    cluster: &Cluster,
    devices: impl Fn(usize) -> Result<Device, KernelError> + Sync,
    body: impl Fn(Communicator) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let options = Options { wait_limit: Duration::from_secs_f64(run.wait_limit_s) };
    let results =
        cluster.launch(run.topology(), &options, devices, |world| body(world).map_err(Error::of_rank));
    Ok(results?)
}

/// Runs `body` on the ranks of `run` that live in this process, each with its shards of `checkpoint` and the samples of
/// `split`.
pub(crate) fn on_checkpoint<T: Send>(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    cluster: &Cluster,
    split: Split,
    body: impl Fn(&Communicators, &mut RankState) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    check_size(run, cluster, MemoryUse::EVALUATION)?;
    let devices = Devices::new(run, cluster)?;
    let shared = SharedLogs::new(run, logs);
    on_ranks(
        run,
        cluster,
        |rank| devices.of(rank),
        |world| {
            let schedule = run.schedule(Task::Evaluate);
            let source = shared.source(split)?;
            let mut rank = RankState::new(world.device().clone(), run, &schedule, world.rank(), source)?;
            state::restore(run, world.rank(), &mut rank, checkpoint, Restore::Parameters)?;
            body(&Communicators::new(&world, &run.dataflow)?, &mut rank)
        },
    )
}
