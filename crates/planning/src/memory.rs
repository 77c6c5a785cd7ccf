//! What a device must have room for.

use crate::system::System;
use crate::workload::{Convention, Job, Layered, Parallel, TaskKind};
use spec::model::{Block, Layers};
use spec::optimizer::UpdateRule;
use spec::schedule::{Schedule, Task};
use spec::volume::{BatchSizes, Quantity, Volume};

/// Bytes of a device; of devices that differ, each part on the one that needs most of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Tables.
    pub tables: f64,
    /// State of the tables' optimizer.
    pub table_state: f64,
    /// All other weights.
    pub weights: f64,
    /// Their gradients.
    pub gradients: f64,
    /// State of their optimizer.
    pub state: f64,
    /// What the backward pass needs of the forward pass.
    pub activations: f64,
    /// What collectives send from and receive into.
    pub buffers: f64,
}

/// Bytes of a float that an optimizer keeps.
const STATE: f64 = 4.0;

impl Memory {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Its parts by name.
    pub fn parts(&self) -> [(&'static str, f64); 7] {
        [
            ("tables", self.tables),
            ("table optimizer state", self.table_state),
            ("dense weights", self.weights),
            ("dense gradients", self.gradients),
            ("dense optimizer state", self.state),
            ("activations", self.activations),
            ("buffers", self.buffers),
        ]
    }

    /// Whether it fits; if not, what is largest.
    pub fn fits(&self, system: &System) -> Result<(), TooBig> {
        let (need, have) = (self.total(), system.device.memory_bytes);
        if need <= have {
            return Ok(());
        }
        let parts = self.parts();
        let (part, bytes) = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("nothing", 0.0));
        Err(TooBig { need, have, part, bytes })
    }

    /// What a job needs. Tables keep an f32 of state for each parameter (Adagrad), as Neo's model A does: 2 + 4 bytes × 793 G
    /// come close to the 5 TB of 128 devices, as it says. Other parameters keep two (Adam), and an f32 copy of themselves
    /// where they have fewer bytes.
    pub fn of_job(job: &Job, model: &Layered, system: &System) -> Self {
        let trains = job.task != TaskKind::Inference;
        let frozen = match job.task {
            TaskKind::FineTuning(frozen) => frozen,
            _ => crate::workload::Frozen::default(),
        };
        let mut memory = Self::default();
        let shards = job.strategies.embedding.shards() as f64;
        let tables = model.table_parameters() / shards;
        memory.tables = tables * model.embedding_bytes;
        if trains && !frozen.embedding {
            memory.table_state = tables * STATE;
            if job.strategies.embedding.0.iter().any(|level| level.parallel == Parallel::Ddp) {
                // Replicas are reduced whole.
                memory.gradients += tables * model.embedding_bytes;
            }
        }
        let mut gathered = 0.0f64;
        for layer in model.layers(Convention::Pooled) {
            let (strategy, batch) = match layer.is_transformer() {
                true => (&job.strategies.transformer, job.transformer_batch),
                false => (&job.strategies.mlp, job.mlp_batch),
            };
            let share = layer.parameters / strategy.shards() as f64;
            let trained = trains && !layer.is_frozen(frozen);
            memory.weights += share * model.dense_bytes;
            if trained {
                let copy = if model.dense_bytes < 4.0 { 4.0 } else { 0.0 };
                memory.gradients += share * model.dense_bytes;
                memory.state += share * (2.0 * STATE + copy);
            }
            if let Some(level) = strategy.0.iter().find(|level| level.parallel == Parallel::Fsdp) {
                gathered = gathered.max(share * level.degree as f64 * model.dense_bytes);
            }
            // What tensor parallelism has not summed is cut like the layer.
            let tp = strategy.degree(|parallel| parallel == Parallel::Tp) as f64;
            let cut = if layer.sums_activations(false) { 1.0 } else { tp };
            let outputs = batch * layer.outputs * model.dense_bytes / cut;
            // Outputs only, as if what lies inside a layer were computed again; the time of that is not counted.
            memory.activations =
                if trains { memory.activations + outputs } else { memory.activations.max(outputs) };
        }
        let vectors = model.pooled() * job.embedding_batch / shards;
        // A layer is gathered while the one before it is at work.
        memory.buffers = 2.0 * gathered;
        // Sent and received.
        memory.buffers += if system.devices() > 1 { 2.0 * vectors } else { vectors };
        memory
    }

    /// What a rank needs to run a schedule.
    pub fn of_schedule(schedule: &Schedule, batch: usize, tables: &UpdateRule, dense: &UpdateRule) -> Self {
        let (model, placement) = (schedule.model(), schedule.placement());
        let deployment = schedule.deployment();
        let sizes = BatchSizes::typical(model, placement, batch);
        let float = 4.0;
        let most = |of: &dyn Fn(usize) -> f64| (0..placement.topology().ranks()).map(of).fold(0.0, f64::max);
        let held = |rank: usize, each: &dyn Fn(usize, usize) -> f64| -> f64 {
            placement.held_by(rank).iter().map(|shard| each(shard.rows.len(), shard.columns.len())).sum()
        };
        let bound =
            |quantity: Quantity, rank: usize| Volume::of(1, quantity).bind(deployment, &sizes, rank) as f64;
        let towers = most(&|rank| bound(Quantity::TowerWeights, rank));
        let network: f64 = schedule.buckets().iter().map(|bucket| bucket.elements as f64).sum();
        let weights = network + towers;
        let trains = schedule.task() == Task::Train;
        let samples = most(&|rank| sizes.samples[rank] as f64);
        let network = model.network();
        let kept = |block: &Block| -> usize {
            let joined = if network.reads_whole(block) { 0 } else { block.layers.input_width() };
            let outputs = match &block.layers {
                // A sum is what was joined.
                Layers::Sum { .. } => 0,
                Layers::Dot { .. } | Layers::Fm { .. } => block.layers.output_width(),
                Layers::Mlp(_) | Layers::Cross { .. } => {
                    block.layers.maps().iter().map(|layer| layer.outputs).sum()
                }
            };
            joined + outputs
        };
        let kept = network.features_width() + network.blocks().iter().map(kept).sum::<usize>();
        let vectors = most(&|rank| bound(Quantity::OwnedVectors, rank))
            + 2.0 * most(&|rank| bound(Quantity::GatheredVectors, rank))
            + most(&|rank| bound(Quantity::LeavingVectors, rank));
        Self {
            tables: most(&|rank| held(rank, &|rows, columns| rows as f64 * columns as f64 * float)),
            table_state: match trains {
                true => most(&|rank| {
                    held(rank, &|rows, columns| rows as f64 * tables.state_per_row(columns) as f64 * float)
                }),
                false => 0.0,
            },
            weights: weights * float,
            gradients: if trains { weights * float } else { 0.0 },
            state: if trains { weights * dense.state_per_row(1) as f64 * float } else { 0.0 },
            activations: samples * kept as f64 * float * if trains { 2.0 } else { 1.0 },
            buffers: 2.0 * vectors * float,
        }
    }
}

/// More than a device has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "{:.1} GB are needed and a device has {:.1} GB; the largest part are {part} with {:.1} GB",
    need / 1e9, have / 1e9, bytes / 1e9
)]
pub struct TooBig {
    /// Bytes that are needed.
    pub need: f64,
    /// Bytes that there are.
    pub have: f64,
    /// The largest part.
    pub part: &'static str,
    /// Its bytes.
    pub bytes: f64,
}
