//! Memory need of one rank, buffer by buffer, and of all ranks together.

use super::sizes::{exactly, floats, grown};
use super::{HISTOGRAM, MemoryUse, PHASE, Parts, RANK, REPORTED};
use kernels::{
    ColumnCopy, LinearShape, Segment, linear_scratch, packed_bytes, packed_bytes_on_card, resident,
};
use spec::device::DeviceChoice;
use spec::feature::Hotness;
use spec::memory::{Buffers, Rounding};
use spec::model::{BlockName, LinearLayer, TowerModule};
use spec::placement::{CopyUpdate, Shard};
use spec::program::Move;
use spec::program::{Program, Units};
use spec::run::{CheckpointKind, Run};
use spec::schedule::{Bucket, Schedule, Slot, Task};
use spec::table_cache::{self, CachedShard, SLOT_BYTES};

/// Batches of samples on the host: three read ahead, two on their way.
const BATCHES: f64 = 5.0;
/// Room of records that come or go, for what is in it.
const MOVED: f64 = 1.25;
/// Batches on their way through the dataflow.
const INPUTS: f64 = 2.0;
/// Bytes of the vectors of a sample that travel between two ranks: the value, and its rows.
const SAMPLE: f64 = 40.0 + 32.0;
/// Bytes of the widths of these vectors while a leg is made.
const LISTED: f64 = 24.0 + 32.0;
/// Bytes of a range of an exchange.
const SPAN: f64 = 16.0;
/// Room of a vector that elements were pushed to, for what is in it.
const PUSHED: f64 = 1.125;

/// Losses of steps that a rank makes room for at once: a run may have any number of steps, to be stopped by hand.
const LOSSES: u64 = 1 << 20;
/// Bytes of a thread that writes a checkpoint, and the most that it buffers.
const WRITER: f64 = 120e3;
const WRITTEN: f64 = 1048576.0;

/// What all ranks have in common. Sizes are counted in floating point: none is too large for it, whatever a config says.
pub(super) struct Shape<'a> {
    run: &'a Run,
    threads: usize,
    purpose: MemoryUse,
    schedule: &'a Schedule,
    phases: f64,
    buffers: Buffers<'a>,
    sample: Sample,
}

/// Linear layer of a rank.
struct MappedLayer<'a> {
    layer: &'a LinearLayer,
    /// Rows that the layer maps in a step.
    rows: usize,
    /// Part of the network whose precision the layer has.
    part: BlockName,
}

/// What one sample brings.
struct Sample {
    /// Numbers on the host: its label, dense inputs, lengths of bags, ids and weights.
    numbers: f64,
    /// Ids that leave for the holders of tables.
    ids: f64,
    /// Lengths of bags that leave with them.
    lengths: f64,
    /// Numbers that travel for each id: itself, and its weight.
    travelling: f64,
}

impl Sample {
    fn new(run: &Run) -> Self {
        let (model, placement) = (&run.model, &run.placement);
        let (mut all, mut ids, mut lengths) = (0.0, 0.0, 0.0);
        for (f, feature) in model.features().iter().enumerate() {
            // An id goes to the holder of its row, or to all holders of a slice of it or a copy.
            let first = &placement.shards_of(f)[0].holders;
            let copies =
                if first.copy_update() == Some(CopyUpdate::Samples) { first.ranks().len() } else { 1 };
            let holders = placement.column_pieces(f) * copies;
            let (mean, pieces) = (feature.hotness.mean() as f64, placement.row_pieces(f));
            all += mean;
            ids += mean * holders as f64;
            // Lengths of bags go to the holders of all rows, where they must be told.
            if feature.hotness != Hotness::One || pieces > 1 {
                lengths += (holders * pieces) as f64;
            }
        }
        let targets = model.outputs() + usize::from(run.sample_weights);
        let inputs = targets + model.dense_features() + model.features().len();
        let weights = if model.weighted() { all } else { 0.0 };
        let travelling = if placement.weights_travel(model) { 2.0 } else { 1.0 };
        Self { numbers: inputs as f64 + all + weights, ids, lengths, travelling }
    }
}

impl<'a> Shape<'a> {
    /// The ranks of a run; `schedule` is the step that trains it.
    pub(super) fn new(run: &'a Run, schedule: &'a Schedule, threads: usize, purpose: MemoryUse) -> Self {
        let phases = run.schedule(Task::Evaluate).phases().len()
            + if purpose.trains { schedule.phases().len() } else { 0 };
        let rounding = Rounding { grown, exact: |bytes| resident(bytes as u64, false) as f64 };
        let buffers = Buffers::of_schedule(schedule, run.batch, purpose.trains, rounding);
        Self { run, threads, purpose, schedule, phases: phases as f64, buffers, sample: Sample::new(run) }
    }

    /// What `rank` needs.
    pub(super) fn of_rank(&self, rank: usize) -> Parts {
        let mut need = Parts {
            batches: self.batches(rank),
            activations: self.buffers.vectors(rank) + self.buffers.activations(rank),
            pairs: self.pairs(),
            ranks: RANK + HISTOGRAM + self.phases * PHASE + self.scratch(rank),
            evaluation: if self.purpose.trains { 8.0 * self.run.steps.min(LOSSES) as f64 } else { 0.0 },
            ..Parts::default()
        };
        self.add_dense(rank, &mut need);
        need.dense += self.emulated() + self.packed(rank);
        if rank < self.purpose.computing {
            self.add_tables(rank, &mut need);
        }
        if self.purpose.saves {
            need.checkpoint = need.checkpoint.min(self.run.copied_bytes() as f64) + self.row_numbers(rank);
            // What is written goes through a buffer.
            need.checkpoint += WRITER + need.checkpoint.min(WRITTEN);
        }
        need
    }

    /// Numbers of the rows that an increment has, at most all of them.
    fn row_numbers(&self, rank: usize) -> f64 {
        if self.run.checkpoints.kind == CheckpointKind::Full || rank >= self.purpose.computing {
            return 0.0;
        }
        let kept =
            self.run.placement.with_rows_by(rank).iter().filter(|shard| shard.holders.ranks()[0] == rank);
        kept.map(|shard| (size_of::<u32>() * shard.rows.len()) as f64).sum()
    }

    fn add_tables(&self, rank: usize, need: &mut Parts) {
        let rule = &self.run.table_optimizer.update;
        let limited = self.run.table_cache.as_ref();
        let cache = limited.filter(|cache| cache.shards.any());
        let owned = self.run.placement.owned_by(rank).len();
        for (i, shard) in self.run.placement.with_rows_by(rank).iter().enumerate() {
            let (mut rows, columns) = (shard.rows.len() as f64, shard.columns.len());
            // Copies have the format of their table, whatever that of rows in memory.
            let of_cache = limited.and_then(|cache| cache.format).filter(|_| i < owned);
            let format = of_cache.unwrap_or(self.run.model.table_format(shard.feature));
            if let Some(cache) = cache
                && let Some(CachedShard { slots, row_bytes }) = cache.shards.of_rank(rank)[i]
            {
                need.tables += shard.rows.len() as f64 / 8.0;
                need.tables += ((slots + table_cache::scratch(slots)) * SLOT_BYTES) as f64;
                // Rows of a batch that come, and rows that leave for them.
                let ids =
                    self.run.batch as f64 * self.run.model.features()[shard.feature].hotness.mean() as f64;
                need.batches += 2.0 * MOVED * ids.min(rows) * row_bytes as f64;
                rows = (slots + table_cache::scratch(slots)) as f64;
            }
            let state = rows * rule.state_per_row(columns) as f64;
            let stored = rows * format.row_bytes(columns) as f64;
            need.tables += exactly(stored / 4.0);
            need.optimizer += exactly(state);
            // Copies are written once, by their first holder. Of what is larger than memory, as much is copied as there is memory for copies.
            if self.purpose.saves && shard.holders.ranks()[0] == rank {
                let all = shard.rows.len() as f64;
                need.checkpoint += all * self.run.model.table_format(shard.feature).row_bytes(columns) as f64;
                need.checkpoint += 4.0 * all * rule.state_per_row(columns) as f64;
                if self.run.checkpoints.kind == CheckpointKind::Incremental {
                    // A bit for each row.
                    need.tables += all / 8.0;
                }
            }
        }
    }

    /// Dense layers: weights, gradients, state, and the room in which gradients are added up.
    fn add_dense(&self, rank: usize, need: &mut Parts) {
        let rule = &self.run.dense_optimizer.update;
        let mut add = |index: usize, bucket: &Bucket, kept: bool| {
            let elements = bucket.elements as f64;
            let state = rule.state_per_row(bucket.elements) as f64;
            need.dense += 2.0 * exactly(elements);
            let reduction = self.schedule.reduction_of(Slot::BucketGradient(index));
            let program = reduction.and_then(|c| c.program(self.schedule.deployment(), rank));
            if let Some(program) = program.filter(|_| self.purpose.trains) {
                // Encoded parts of this rank and of others, and errors that are carried.
                let [first, second] = program.scratch();
                let errors = program.error_len() as f64;
                need.dense += exactly(first as f64 / 4.0) + exactly(second as f64 / 4.0) + exactly(errors);
                need.checkpoint += if self.purpose.saves { 4.0 * errors } else { 0.0 };
                // What goes to and comes from every other member, in a vector that grew.
                need.pairs += (program.moves().len().next_power_of_two() * size_of::<Move>()) as f64;
            }
            need.optimizer += exactly(state);
            if self.purpose.saves && kept {
                need.checkpoint += 4.0 * (elements + state);
            }
        };
        let buckets = self.schedule.buckets();
        buckets.iter().enumerate().for_each(|(index, bucket)| add(index, bucket, rank == 0));
        if let Some(sptt) = self.run.dataflow.sptt() {
            let groups = sptt.groups();
            let bucket = &self.schedule.tower_buckets()[groups.group_of(rank)];
            add(buckets.len(), bucket, groups.index_of(rank) == 0);
        }
    }

    /// Gradients of the nodes that are emulated, their scratch and the errors that they carry.
    fn emulated(&self) -> f64 {
        let Some(emulation) = self.run.emulation.filter(|_| self.purpose.trains) else { return 0.0 };
        let (dense, hosts) = (self.run.wire.dense, emulation.hosts());
        let of_node = |bucket: usize| {
            let elements = self.schedule.buckets()[bucket].elements;
            let units = Units::of_tensors(dense.codec, elements, std::slice::from_ref(&(0..elements)));
            let program = Program::all_reduce(self.run.all_reduce, &units, &hosts, 0, dense.compensation);
            let scratch: f64 = program.scratch().iter().map(|&bytes| exactly(bytes as f64 / 4.0)).sum();
            exactly(elements as f64) + exactly(program.error_len() as f64) + scratch
        };
        emulation.nodes as f64 * self.schedule.emulated_buckets().map(of_node).sum::<f64>()
    }

    /// Samples of `rank`, and the ids of all samples that come to it.
    fn batches(&self, rank: usize) -> f64 {
        let Run { model, placement, batch, .. } = self.run;
        let &Sample { numbers, ids, lengths, travelling } = &self.sample;
        let (samples, batch) = (self.buffers.samples(rank) as f64, *batch as f64);
        let held = placement.held_by(rank);
        let served = self.buffers.served(rank);
        let of_shard = |shard: &Shard| {
            let feature = &model.features()[shard.feature];
            let some = matches!(shard.holders.copy_update(), Some(CopyUpdate::Rows | CopyUpdate::Cores));
            let batch = if some { served } else { batch };
            batch * feature.hotness.mean() as f64 * shard.rows.len() as f64 / feature.rows.max(1) as f64
        };
        let arriving: f64 = held.iter().map(of_shard).sum();
        let varying = held.iter().filter(|shard| placement.lengths_vary(model, shard)).count();
        let (arriving_lengths, bags) = (batch * varying as f64, batch * held.len() as f64);
        let sorted = if self.purpose.trains { arriving } else { 0.0 };
        let (ids, lengths) = (samples * ids, samples * lengths);
        let of_input = [
            travelling * (PUSHED * 4.0 * ids + floats(ids) + floats(arriving)),
            // Bag lengths as they leave, arrive, and are looked at on the host.
            PUSHED * 4.0 * lengths + floats(lengths) + floats(arriving_lengths) + 4.0 * arriving_lengths,
            2.0 * floats(bags),
            floats(2.0 * sorted) + floats(sorted),
            floats(samples * (self.run.loss_numbers() + model.dense_features()) as f64),
            (held.len() * self.run.topology().ranks() * size_of::<Segment>()) as f64,
        ];
        BATCHES * PUSHED * 4.0 * samples * numbers + INPUTS * of_input.iter().sum::<f64>()
    }

    /// Vectors of one rank that are as long as there are ranks.
    fn pairs(&self) -> f64 {
        let ranks = self.run.topology().ranks() as f64;
        // Spans, pairs to copy, members; shares of the batch and counts of the exchanges of ids; counts of those of vectors.
        let each = 2.0 * SPAN + 72.0 + 8.0 + INPUTS * (16.0 + 3.0 * 16.0) + 4.0 * 16.0;
        // Vectors of a sample of every member of a leg, there and back, while they are listed too, and the counts of what is encoded.
        let (members, summing) = self.run.dataflow.sptt().map_or((ranks, ranks), |sptt| {
            let groups = sptt.groups();
            ((groups.size() + groups.count()) as f64, groups.size() as f64)
        });
        // Counts of the rows of copies that a batch touches, of their numbers and of their sums; samples and shares of partial sums
        // and of their gradients.
        let summed = INPUTS * 2.0 * 16.0 + 16.0 + 2.0 * (8.0 + SPAN);
        ranks * each + 2.0 * members * (SAMPLE + LISTED + 16.0) + summing * summed + self.listed()
    }

    /// What a rank lists of all others in the flat dataflow: where the columns of each go.
    fn listed(&self) -> f64 {
        if self.run.dataflow.sptt().is_some() {
            return 0.0;
        }
        let placement = &self.run.placement;
        let shards = |rank| placement.held_by(rank).len() + placement.owned_by(rank).len();
        let copies = (0..self.run.topology().ranks()).map(|rank| shards(rank) as f64).sum::<f64>();
        copies * size_of::<ColumnCopy>() as f64
    }

    /// Matrices as products read them fastest, beside the weights.
    fn packed(&self, rank: usize) -> f64 {
        let of_layer = |MappedLayer { layer, part, .. }: MappedLayer| {
            let shape = LinearShape { rows: 0, inputs: layer.inputs, outputs: layer.outputs };
            let (precision, backward) = (self.run.precision.of(part), layer.input_gradient);
            let bytes = match self.run.device {
                DeviceChoice::Cpu => packed_bytes(shape, precision, backward),
                _ => packed_bytes_on_card(shape, precision, backward),
            };
            grown(bytes as f64)
        };
        self.layers(rank).into_iter().map(of_layer).sum()
    }

    /// Linear layers of a rank.
    fn layers(&self, rank: usize) -> Vec<MappedLayer<'a>> {
        let (run, network) = (self.run, self.run.model.network());
        let samples = self.buffers.samples(rank);
        let mut layers = Vec::new();
        for block in network.blocks() {
            let (rows, part) = (samples, block.name);
            layers.extend(block.layers.maps().into_iter().map(|layer| MappedLayer { layer, rows, part }));
        }
        if let Some(sptt) = run.dataflow.sptt() {
            let (rows, part) = (self.buffers.peer_samples(rank), BlockName::TOWERS);
            for &tower in &sptt.plan(sptt.groups().group_of(rank)).towers {
                let tower = &run.model.towers()[tower];
                match &tower.module {
                    TowerModule::PassThrough => {}
                    TowerModule::Projection { all, each } => {
                        layers.extend(all.iter().map(|layer| MappedLayer { layer, rows, part }));
                        let rows = |layer| rows.saturating_mul(tower.members_of(layer));
                        let mapped = |layer| MappedLayer { layer, rows: rows(layer), part };
                        layers.extend(each.iter().map(mapped));
                    }
                    TowerModule::Cross { layer, map } => {
                        layers.extend(layer.maps().chain(map).map(|layer| MappedLayer { layer, rows, part }));
                    }
                }
            }
        }
        layers
    }

    /// Room in which products are packed and ids are sorted.
    fn scratch(&self, rank: usize) -> f64 {
        let run = self.run;
        let packed = self.layers(rank).into_iter().map(|MappedLayer { layer, rows, part }| {
            let shape = LinearShape { rows, inputs: layer.inputs, outputs: layer.outputs };
            linear_scratch(run.precision.of(part), self.threads, shape, self.purpose.trains) as f64
        });
        let packed = packed.fold(0.0, f64::max);
        let held = run.placement.held_by(rank);
        let mean = |shard: &Shard| run.model.features()[shard.feature].hotness.mean() as f64;
        let keys = run.batch as f64 * held.iter().map(mean).fold(0.0, f64::max);
        let sorted = if self.purpose.trains { 8.0 * keys } else { 0.0 };
        // Each thread packs in a piece of its own; tables are divided more finely.
        let pieces = if self.threads == 1 { 1 } else { held.len().min(4 * self.threads) };
        let shared = self.threads.min(pieces) as f64;
        let (threads, pieces) = (self.threads as f64, pieces as f64);
        shared * grown(packed.max(sorted))
            + (threads - shared) * grown(packed)
            + (pieces - shared) * grown(sorted)
    }

    /// Where ranks of one process leave their memory for each other: for every two members of a group, in every exchange
    /// that may be under way.
    pub(super) fn meetings(&self) -> f64 {
        let of_groups = |count: usize, size: usize| {
            let exchanges = (512 / size.max(1)).clamp(8, 32) as f64;
            let (count, size) = (count as f64, size as f64);
            count * exchanges * size * (size * 2.0 * SPAN + 256.0)
        };
        let divided = self
            .buffers
            .groups()
            .map_or(0.0, |(count, size)| of_groups(count, size) + of_groups(size, count));
        of_groups(1, self.run.topology().ranks()) + divided
    }

    /// What rank 0 brings together: predictions and labels of all evaluation samples, and times of all phases and ranks.
    pub(super) fn gathered(&self) -> f64 {
        let (samples, batch) = (self.run.data.eval_samples() as f64, self.run.batch as f64);
        // Labels, predictions and true probabilities; then keys to sort them by.
        let outputs = self.run.model.outputs() as f64;
        let numbers = samples * outputs * (3.0 * 4.0 + 8.0) + samples.min(batch) * outputs * 3.0 * 9.0;
        let weights = if self.run.weighs_losses() { samples * (4.0 + 16.0) } else { 0.0 };
        // Keys of every sample, and the order of samples by key.
        let columns = self.run.breakdown.slices.len() + usize::from(self.run.breakdown.group.is_some());
        let broken_down = if columns > 0 { samples * (8.0 * columns as f64 + 16.0) } else { 0.0 };
        let numbers = numbers + weights + broken_down;
        numbers + self.phases * REPORTED * self.run.topology().ranks() as f64
    }
}
