//! Memory need of a process for its ranks, by use, computed before anything is allocated.
//!
//! ```
//! use spec::presets::Preset;
//! use spec::run::Config;
//! use training::{Cluster, MemoryNeed, MemoryUse};
//! let mut config = Config::default();
//! config.model.preset = Some(Preset::Kaggle);
//! let run = planning::check(&config).unwrap();
//! let need = MemoryNeed::of(&run, &Cluster::Threads, MemoryUse::TRAINING);
//! assert_eq!(need.total(), need.parts().iter().map(|part| part.bytes).sum::<u64>());
//! assert!(need.to_string().contains("tables"), "the largest part is named: {need}");
//! ```
//!
//! A prepared log is mapped: its pages are the system's to drop, and are not counted.
//!
//! Buffers are counted as the code behind them sizes them. What the allocator, stacks and small values take was measured;
//! `crates/cli/tests/it/durability/need.rs` holds the sum against the resident memory of real runs.

mod available;
pub(crate) mod gpu;
mod rank;
mod sizes;

pub use available::available_memory;
pub use gpu::GpuNeed;

use crate::run::cluster::{Cluster, threads};
use rank::Shape;
use serde::Serialize;
use spec::run::{Data, Run};
use spec::schedule::Task;
use std::fmt;

/// Bytes that a process needs at most, by what takes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryNeed {
    /// Weights of the tables, replicas included.
    pub tables: u64,
    /// Optimizer state of tables and dense layers.
    pub optimizer: u64,
    /// Dense weights of every rank, their gradients, and the room in which these are added up.
    pub dense: u64,
    /// Samples and ids: read ahead, on their way, and sorted.
    pub batches: u64,
    /// Vectors, outputs of layers and towers, and the gradients of all.
    pub activations: u64,
    /// Tables that say what goes between every two ranks.
    pub pairs: u64,
    /// Other memory of each rank: stack, schedule, counts of predictions, scratch.
    pub ranks: u64,
    /// Predictions and losses, brought together on rank 0.
    pub evaluation: u64,
    /// The copy of the state that is written as a checkpoint.
    pub checkpoint: u64,
    /// The program itself, and the tables of a synthetic log.
    pub process: u64,
}

/// One part of a [`MemoryNeed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// Use of the memory.
    pub name: &'static str,
    /// Size of the memory, in bytes.
    pub bytes: u64,
    /// Setting to lower so that less memory is needed.
    pub remedy: &'static str,
}

/// Use of a run for which memory is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Whether the run is trained; otherwise it is only evaluated.
    pub trains: bool,
    /// Whether the run saves checkpoints, which needs a copy of its state.
    pub saves: bool,
    /// Ranks that hold tables; those after them compute nothing.
    pub computing: usize,
}

impl MemoryUse {
    /// Training on all ranks, without checkpoints.
    pub const TRAINING: Self = Self { trains: true, saves: false, computing: usize::MAX };
    /// An evaluation on all ranks.
    pub const EVALUATION: Self = Self { trains: false, ..Self::TRAINING };
}

/// Bytes of the program before it has any rank, without the pages of its own file: the system can drop those.
const PROCESS: f64 = 3e6;
/// Bytes of every rank whatever the run: stacks, caches of the allocator, small values.
const RANK: f64 = 300e3;
/// Bytes of a rank's counts of predictions.
const HISTOGRAM: f64 = 16.0 * crate::metrics::Histogram::BINS as f64;
/// Bytes of a phase of a schedule on one rank: the phase, its label, its times.
const PHASE: f64 = 1e3;
/// Bytes of the times of one phase on one rank, in the result.
const REPORTED: f64 = 1e3;
/// Rows up to which a synthetic log keeps tables of a feature, and their bytes for each row.
const TABLED: (usize, f64) = (1 << 14, 40.0);

/// What a [`MemoryNeed`] is added up from, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    tables: f64,
    optimizer: f64,
    dense: f64,
    batches: f64,
    activations: f64,
    pairs: f64,
    ranks: f64,
    evaluation: f64,
    checkpoint: f64,
}

impl Parts {
    fn add(&mut self, other: &Self) {
        self.tables += other.tables;
        self.optimizer += other.optimizer;
        self.dense += other.dense;
        self.batches += other.batches;
        self.activations += other.activations;
        self.pairs += other.pairs;
        self.ranks += other.ranks;
        self.evaluation += other.evaluation;
        self.checkpoint += other.checkpoint;
    }

    /// All parts, with `process` bytes besides. A cast keeps what is too large at the largest number.
    fn with(&self, process: f64) -> MemoryNeed {
        MemoryNeed {
            tables: self.tables as u64,
            optimizer: self.optimizer as u64,
            dense: self.dense as u64,
            batches: self.batches as u64,
            activations: self.activations as u64,
            pairs: self.pairs as u64,
            ranks: self.ranks as u64,
            evaluation: self.evaluation as u64,
            checkpoint: self.checkpoint as u64,
            process: process as u64,
        }
    }
}

impl MemoryNeed {
    /// Memory that the ranks of `cluster` on this machine need for `run`.
    pub fn of(run: &Run, cluster: &Cluster, purpose: MemoryUse) -> Self {
        let here = cluster.ranks_here(run.topology());
        let schedule = run.schedule(Task::Train);
        let shape = Shape::new(run, &schedule, threads(run, cluster), purpose);
        let mut parts = Parts::default();
        here.iter().for_each(|&rank| parts.add(&shape.of_rank(rank)));
        let in_process = cluster.is_one_process();
        if in_process {
            parts.pairs += shape.meetings();
        }
        if cluster.has_first_rank() {
            parts.evaluation += shape.gathered();
        }
        let processes = if in_process { 1 } else { here.len() };
        parts.with(processes as f64 * (PROCESS + synthetic(run)))
    }

    /// Memory that the largest rank needs in training, in bytes.
    pub fn of_largest_rank(run: &Run) -> u64 {
        let schedule = run.schedule(Task::Train);
        let shape = Shape::new(run, &schedule, run.threads.unwrap_or(1), MemoryUse::TRAINING);
        let ranks = 0..run.topology().ranks();
        ranks.map(|rank| shape.of_rank(rank).with(0.0).total()).max().unwrap_or(0)
    }

    /// Sum of all parts, in bytes.
    pub fn total(&self) -> u64 {
        self.parts().iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// All parts, the largest first.
    pub fn parts(&self) -> [MemoryPart; 10] {
        let part = |name, bytes, remedy| MemoryPart { name, bytes, remedy };
        let fewer = "topology.hosts or topology.ranks_per_host";
        let mut parts = [
            part("tables", self.tables, "model.rows_cap or model.dim"),
            part("optimizer state", self.optimizer, "model.rows_cap, or choose an optimizer with less state"),
            part("dense layers", self.dense, fewer),
            part("batches", self.batches, "train.batch"),
            part("activations", self.activations, "train.batch"),
            part("pairs of ranks", self.pairs, fewer),
            part("each rank", self.ranks, fewer),
            part("evaluation", self.evaluation, "the evaluation samples or train.batch"),
            part(
                "checkpoint copy",
                self.checkpoint,
                "checkpoint.memory (--checkpoint-memory), or train without --out",
            ),
            part("process", self.process, fewer),
        ];
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        parts
    }
}

impl fmt::Display for MemoryNeed {
    /// The parts that matter, the largest first: `tables 12.0 GB, activations 3.1 GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let matter = self.parts().into_iter().filter(|part| part.bytes >= total / 50);
        for (i, part) in matter.enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}", part.name, size(part.bytes))?;
        }
        Ok(())
    }
}

/// Bytes as a person reads them.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{:.0} GB", bytes as f64 / 1e9),
    }
}

/// Bytes of the tables of a synthetic log, which all ranks share: one set for each split.
fn synthetic(run: &Run) -> f64 {
    let Data::Synthetic(_) = run.data else { return 0.0 };
    let rows = run.model.features().iter().map(|feature| feature.rows).filter(|&rows| rows <= TABLED.0);
    let splits = if run.data.eval_samples() > 0 { 2.0 } else { 1.0 };
    splits * TABLED.1 * rows.sum::<usize>() as f64
}

#[cfg(test)]
mod tests;
