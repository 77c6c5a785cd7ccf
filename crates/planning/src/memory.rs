//! Memory that a device needs.

use crate::system::System;
use crate::workload::{Activations, Convention, Job, Layered, Parallel, TaskKind};
use spec::memory::{Buffers, Rounding};
use spec::optimizer::UpdateRule;
use spec::placement::Shard;
use spec::schedule::{Operation, Phase, Schedule};
use spec::table_cache::scratch;

/// Bytes of a device; of devices that differ, each part on the one that needs most of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Tables.
    pub tables: f64,
    /// State of the tables' optimizer.
    pub table_state: f64,
    /// Dense weights.
    pub weights: f64,
    /// Gradients of dense weights.
    pub gradients: f64,
    /// State of their optimizer.
    pub state: f64,
    /// Activations of the forward pass that the backward pass needs.
    pub activations: f64,
    /// Send and receive buffers of collectives.
    pub buffers: f64,
}

/// Bytes of a float that an optimizer keeps.
const STATE: f64 = 4.0;

impl Memory {
    /// Bytes of all parts together.
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Parts by name.
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

    /// Fails if the memory does not fit on a device of `system`; the error names the largest part.
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
        let (trains, frozen) = (job.task != TaskKind::Inference, job.frozen());
        let mut memory = Self::default();
        let shards = job.strategies.embedding.shards() as f64;
        let tables = model.table_parameters() / shards;
        memory.tables = tables * model.embedding_bytes;
        if trains && !frozen.embedding {
            memory.table_state = tables * STATE;
            let replicas = job.strategies.embedding.degree(|parallel| parallel == Parallel::Ddp) as f64;
            if replicas > 1.0 {
                // Replicas reduce the rows that any of them looked up.
                let touched = model.looked_up() * job.per_device * job.loads.busiest();
                memory.gradients += model.replicated_gradient(job).min(replicas * touched);
            }
        }
        let layers = model.layers(Convention::Pooled);
        let (mut gathered, mut whole_gradient, mut inside, mut largest) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
        // The gradient of a layer is whole until it is scattered; where layers are gathered early, while the next one computes.
        let mut whole_at_once = 1.0;
        for (i, layer) in layers.iter().enumerate() {
            let (strategy, batch) = (job.strategies.of(layer.group), job.batch(layer.group));
            let share = layer.parameters / strategy.shards() as f64;
            let trained = trains && !layer.is_frozen(frozen);
            memory.weights += share * model.dense_bytes;
            if trained {
                let copy = if model.dense_bytes < 4.0 { 4.0 } else { 0.0 };
                memory.gradients += share * model.dense_bytes;
                memory.state += share * (2.0 * STATE + copy);
            }
            if let Some(level) = strategy.0.iter().find(|level| level.parallel.is_fsdp()) {
                let whole = share * level.degree as f64 * model.dense_bytes;
                gathered = gathered.max(whole);
                if level.parallel == Parallel::FsdpPrefetch {
                    whole_at_once = 2.0;
                }
                if trained {
                    whole_gradient = whole_gradient.max(whole);
                }
            }
            // What tensor parallelism has not summed is cut like the layer.
            let tp = strategy.degree(|parallel| parallel == Parallel::Tp) as f64;
            let cut = if layer.sums_activations(false) { 1.0 } else { tp };
            let outputs = batch * layer.outputs * model.dense_bytes / cut;
            largest = largest.max(outputs);
            if trains && job.backward_times(model, &layers, i) > 0.0 {
                memory.activations += outputs;
                let of_layer = batch * layer.inside * model.dense_bytes / tp;
                match job.activations {
                    Activations::Keep => memory.activations += of_layer,
                    // Of one layer at a time.
                    Activations::Recompute => inside = inside.max(of_layer),
                }
            }
        }
        // What no backward pass needs is there only until the next layer has read it.
        memory.activations = (memory.activations + inside).max(largest);
        let vectors = model.pooled() * job.per_device;
        // A layer is gathered while the one before it is at work.
        memory.buffers = 2.0 * gathered + whole_at_once * whole_gradient;
        // Sent and received.
        memory.buffers += if system.devices() > 1 { 2.0 * vectors } else { vectors };
        memory
    }

    /// What a rank needs to run a schedule: each part on the rank that needs most of it.
    pub fn of_schedule(schedule: &Schedule, batch: usize, tables: &UpdateRule, dense: &UpdateRule) -> Self {
        // Where all is frozen, nothing goes back.
        let backward = |phase: &Phase| matches!(phase.operation(), Some(Operation::Backward(..)));
        let (placement, trains) = (schedule.placement(), schedule.phases().iter().any(backward));
        let float = 4.0;
        let most = |of: &dyn Fn(usize) -> f64| (0..placement.topology().ranks()).map(of).fold(0.0, f64::max);
        let model = &schedule.deployment().model;
        let held = |rank: usize, row_bytes: &dyn Fn(usize, usize) -> usize| -> f64 {
            let cached = schedule.deployment().cached.as_ref().map(|cached| cached.of_rank(rank));
            let bytes = |(i, shard): (usize, &Shard)| {
                // Slots, where memory does not hold all rows.
                let slots =
                    cached.and_then(|cached| cached[i]).map(|shard| shard.slots + scratch(shard.slots));
                let rows = slots.unwrap_or(shard.rows.len());
                rows as f64 * row_bytes(shard.feature, shard.columns.len()) as f64
            };
            placement.with_rows_by(rank).iter().enumerate().map(bytes).sum()
        };
        let elements = |of: &dyn Fn(usize) -> bool| -> f64 {
            let buckets = schedule.buckets().iter().enumerate().filter(|(index, _)| of(*index));
            let network: f64 = buckets.map(|(_, bucket)| bucket.elements as f64).sum();
            let towers = schedule.tower_buckets().iter().filter(|_| of(schedule.buckets().len()));
            network + towers.map(|bucket| bucket.elements as f64).fold(0.0, f64::max)
        };
        let (weights, trained) = (elements(&|_| true), elements(&|bucket| schedule.trains_bucket(bucket)));
        let buffers = Buffers::of_schedule(schedule, batch, trains, Rounding::NONE);
        Self {
            tables: most(&|rank| {
                held(rank, &|feature, columns| model.table_format(feature).row_bytes(columns))
            }),
            table_state: match schedule.trains_tables() {
                true => most(&|rank| held(rank, &|_, columns| 4 * tables.state_per_row(columns))),
                false => 0.0,
            },
            weights: weights * float,
            gradients: trained * float,
            state: trained * dense.state_per_row(1) as f64 * float,
            activations: most(&|rank| buffers.activations(rank)),
            buffers: most(&|rank| buffers.vectors(rank)),
        }
    }
}

/// More than a device has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "{:.1} GB are needed, but a device has {:.1} GB; the largest part is {part} with {:.1} GB",
    need / 1e9, have / 1e9, bytes / 1e9
)]
pub struct TooBig {
    /// Bytes that are needed.
    pub need: f64,
    /// Bytes that there are.
    pub have: f64,
    /// The largest part.
    pub part: &'static str,
    /// Bytes of the largest part.
    pub bytes: f64,
}
