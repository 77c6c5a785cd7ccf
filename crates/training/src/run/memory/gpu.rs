//! Memory need of the ranks that share a GPU, by use, computed before anything is allocated there.

use super::rank::Shape;
use super::{MemoryNeed, MemoryUse, Parts, size};
use crate::run::cluster::{Cluster, threads};
use spec::run::Run;
use spec::schedule::Task;
use spec::table_cache::CachePolicy;
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of every rank on a GPU whatever the run: workspaces of products, small values.
const RANK_ON_GPU: f64 = 128e6;
/// Bytes by which a table and its state are rounded up at most.
const ROUNDING: f64 = (4 << 20) as f64;

/// Memory that the ranks on one GPU need at least, of a run that does not fit there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuNeed {
    /// Number of the GPU, as in `cuda:1`.
    pub gpu: usize,
    /// Bytes of its memory that are free.
    pub free: u64,
    /// Number of ranks of the run on the GPU.
    pub ranks: usize,
    /// Bytes that these ranks need there.
    pub need: MemoryNeed,
    /// Feature with the largest table on the GPU, and the bytes of that table and its optimizer state there.
    pub largest: Option<(String, u64)>,
    /// Largest `model.rows_cap` with which the run would fit; `None` where no cap helps.
    pub rows_cap: Option<u64>,
}

impl fmt::Display for GpuNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gpu, free, ranks, need, largest, rows_cap } = self;
        let remedy = need.parts()[0].remedy;
        write!(
            f,
            "{ranks} rank(s) on GPU {gpu} need {} of its memory, but {} are free: {need}; ",
            size(need.total()),
            size(*free)
        )?;
        if let Some((feature, bytes)) = largest {
            write!(f, "the largest table there is {feature} with {}; ", size(*bytes))?;
        }
        match rows_cap {
            Some(cap) => {
                write!(f, "--rows-cap {cap} would fit")?;
            }
            None => write!(f, "lower {remedy}")?,
        }
        write!(
            f,
            ", or use more GPUs, each with a rank of its own, tables of fewer bits (--tables), or tables larger than its memory (--table-memory)"
        )
    }
}

/// Rows of a table on a GPU, and the bytes of each with its optimizer state.
struct Held {
    feature: usize,
    rows: u64,
    row_bytes: f64,
}

/// The first GPU on which `run` does not fit. `gpu_of` gives the GPU of each rank of this machine, and `free` the bytes that are
/// free on each.
pub(crate) fn shortage(
    run: &Run,
    cluster: &Cluster,
    purpose: MemoryUse,
    gpu_of: &BTreeMap<usize, usize>,
    free: &BTreeMap<usize, u64>,
) -> Option<GpuNeed> {
    let schedule = run.schedule(Task::Train);
    let shape = Shape::new(run, &schedule, threads(run, cluster), purpose);
    let on_gpu = |gpu: usize, free: u64| {
        let ranks: Vec<usize> = gpu_of.iter().filter(|(_, on)| **on == gpu).map(|(rank, _)| *rank).collect();
        let mut parts = Parts::default();
        ranks.iter().for_each(|&rank| parts.add(&shape.of_rank(rank)));
        let need = of_device(&parts, ranks.len());
        (need.total() > free).then(|| explained(run, gpu, free, &ranks, need))
    };
    free.iter().find_map(|(&gpu, &free)| on_gpu(gpu, free))
}

/// What of the memory of `ranks` ranks lies on their device.
fn of_device(parts: &Parts, ranks: usize) -> MemoryNeed {
    let Parts { tables, optimizer, dense, batches, activations, .. } = *parts;
    let ranks = ranks as f64 * RANK_ON_GPU;
    Parts { tables, optimizer, dense, batches, activations, ranks, ..Parts::default() }.with(0.0)
}

/// What of a need lies in memory of the host, where ranks compute on GPUs.
pub(crate) fn of_host(need: &MemoryNeed) -> MemoryNeed {
    MemoryNeed { tables: 0, optimizer: 0, dense: 0, activations: 0, ..*need }
}

/// Bytes of tables and their optimizer state that a rank on a GPU has in memory of the host.
pub(crate) fn mapped_bytes(run: &Run, rank: usize) -> u64 {
    let Some(cache) = run.table_cache.as_ref().filter(|cache| cache.policy == CachePolicy::Mapped) else {
        return 0;
    };
    let held = run.placement.with_rows_by(rank).iter().zip(cache.shards.of_rank(rank));
    let mapped = held.filter(|(_, cached)| cached.is_some());
    let bytes = mapped.map(|(shard, _)| {
        let columns = shard.columns.len();
        let row = run.model.table_format(shard.feature).row_bytes(columns)
            + size_of::<f32>() * run.table_optimizer.update.state_per_row(columns);
        shard.rows.len() as u64 * row as u64
    });
    bytes.sum()
}

fn explained(run: &Run, gpu: usize, free: u64, ranks: &[usize], need: MemoryNeed) -> GpuNeed {
    let rule = &run.table_optimizer.update;
    let held: Vec<Held> = ranks
        .iter()
        .flat_map(|&rank| run.placement.with_rows_by(rank))
        .map(|shard| {
            let columns = shard.columns.len();
            let weights = run.model.table_format(shard.feature).row_bytes(columns);
            let row_bytes = weights as f64 + 4.0 * rule.state_per_row(columns) as f64;
            Held { feature: shard.feature, rows: shard.rows.len() as u64, row_bytes }
        })
        .collect();
    let mut by_feature: BTreeMap<usize, f64> = BTreeMap::new();
    held.iter()
        .for_each(|held| *by_feature.entry(held.feature).or_default() += held.rows as f64 * held.row_bytes);
    let largest = by_feature.iter().max_by(|one, other| one.1.total_cmp(other.1));
    let largest =
        largest.map(|(&feature, &bytes)| (run.model.features()[feature].name.clone(), bytes as u64));
    let tables: f64 = by_feature.values().sum();
    let room = free as f64 - (need.total() as f64 - tables) - ROUNDING * held.len() as f64;
    GpuNeed { gpu, free, ranks: ranks.len(), need, largest, rows_cap: fitting_cap(run, &held, room) }
}

/// Largest number of rows of a table with which what is held takes no more than `room` bytes. A shard of a table that is cut has its
/// share of fewer rows too.
fn fitting_cap(run: &Run, held: &[Held], room: f64) -> Option<u64> {
    let rows_of = |feature: usize| run.model.features()[feature].rows as u64;
    let bytes = |cap: u64| -> f64 {
        let share = |held: &Held| {
            let whole = rows_of(held.feature).max(1);
            held.rows as f64 * (whole.min(cap) as f64 / whole as f64) * held.row_bytes
        };
        held.iter().map(share).sum()
    };
    let (mut fits, mut too_many) = (0, held.iter().map(|held| rows_of(held.feature)).max()?);
    while too_many - fits > 1 {
        let middle = fits + (too_many - fits) / 2;
        if bytes(middle) <= room { fits = middle } else { too_many = middle }
    }
    (fits > 0).then_some(fits)
}

#[cfg(test)]
mod tests;
