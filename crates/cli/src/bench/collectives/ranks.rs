//! Runs a function on every rank, and combines its results.

use crate::cluster::report_once;
use anyhow::{Result, ensure};
use collectives::{Communicator, Label, Options};
use kernels::{Buffer, Device};
use spec::topology::Topology;
use training::Cluster;

/// Most ranks that run as threads of one process.
const MAX_RANKS: usize = 1024;

/// Runs `body` on every rank, and returns the result of rank 0 in the process that has rank 0, `None` in others. Each rank needs
/// about `bytes` of memory. Ranks share nothing but their communicators.
pub fn on_ranks<R: Send>(
    cluster: &Cluster,
    topology: Topology,
    bytes: u64,
    body: impl Fn(&Communicator) -> Result<R> + Sync,
) -> Result<Option<R>> {
    let ranks = cluster.ranks_here(topology).len().max(1);
    ensure!(
        ranks <= MAX_RANKS,
        "{topology} ranks: at most {MAX_RANKS} ranks run as threads of one process; use fewer"
    );
    let needed = bytes.saturating_mul(ranks as u64);
    if let Some(available) = training::available_memory() {
        ensure!(
            needed <= available,
            "{ranks} ranks need about {} of buffers, but {} are free; use smaller sizes or fewer ranks",
            crate::text::bytes(needed),
            crate::text::bytes(available)
        );
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let device = |_| Device::cpu((cores / ranks).max(1));
    let results = cluster.launch(topology, &Options::default(), device, |world| body(&world));
    let results = results.map_err(|failure| report_once(cluster, failure.into()))?;
    Ok(results.into_iter().next().filter(|_| cluster.has_first_rank()))
}

/// Largest of each value over all ranks: the slowest rank counts.
pub fn slowest(world: &Communicator, label: &Label, values: &[f64]) -> Result<Vec<f64>> {
    let mine = Buffer::from_slice(world.device(), values)?;
    let counts = vec![values.len(); world.size()];
    let all = world.all_gather(label, mine, &counts, Buffer::new(world.device()))?.1.to_vec()?;
    let largest = |i: usize| all.iter().skip(i).step_by(values.len()).copied().fold(f64::MIN, f64::max);
    Ok((0..values.len()).map(largest).collect())
}
