//! The phases that every dataflow has: input, dense network, loss, updates.

use super::operation::WORD;
use super::*;
use crate::model::Parameter;
use crate::volume::Item;
use std::ops::Range;

/// A schedule in the making.
pub(super) struct Build<'a> {
    pub deployment: &'a Deployment,
    pub task: Task,
    buckets: Vec<Bucket>,
    tower_buckets: Vec<Bucket>,
    parameters: Vec<Parameter>,
    phases: Vec<Phase>,
}

impl<'a> Build<'a> {
    pub fn new(deployment: &'a Deployment, task: Task, bucket_bytes: usize) -> Self {
        let parameters = deployment.model.network().parameters();
        let buckets = buckets::of_network(&parameters, bucket_bytes);
        let tower_buckets = buckets::of_towers(deployment, parameters.len());
        Self { deployment, task, buckets, tower_buckets, parameters, phases: Vec::new() }
    }

    pub fn finish(self) -> Schedule {
        let Self { deployment, task, buckets, tower_buckets, mut phases, .. } = self;
        dependencies::derive(&mut phases);
        Schedule { deployment: deployment.clone(), task, buckets, tower_buckets, phases }
    }

    pub fn push(&mut self, phase: Phase) {
        self.phases.push(phase);
    }

    /// Adds a computation, with the name and the cost of the operation.
    pub fn compute(&mut self, operation: Operation, reads: &[Slot], writes: &[Slot]) {
        let phase = self.computation(operation, reads, writes);
        self.push(phase);
    }

    fn computation(&self, operation: Operation, reads: &[Slot], writes: &[Slot]) -> Phase {
        let Description { name, cost, .. } = operation.describe(self.deployment, &self.buckets);
        Phase { cost, ..phase(&name, Work::Compute(operation), Lane::Compute, reads, writes) }
    }

    fn push_ahead(&mut self, phase: Phase) {
        self.phases.push(Phase { ahead: true, ..phase });
    }

    pub fn has_bottom(&self) -> bool {
        !self.deployment.model.network().bottom.is_empty()
    }

    /// Whether lengths of bags travel.
    fn variable(&self) -> bool {
        let Deployment { model, placement, .. } = self.deployment;
        let mut held = (0..placement.topology().ranks()).flat_map(|rank| placement.held_by(rank));
        held.any(|shard| placement.lengths_vary(model, shard))
    }

    fn weighted(&self) -> bool {
        self.deployment.placement.weights_travel(&self.deployment.model)
    }

    /// The next batch is read, and its lengths set out.
    pub fn read_ahead(&mut self) {
        self.push_ahead(self.computation(Operation::ReadBatch, &[], &[Slot::Batch]));
        if self.variable() {
            let traffic = Traffic::ToHolders { item: Item::Length, bytes: WORD };
            self.push_ahead(world("lengths exchange", traffic, Slot::Batch, Slot::Lengths));
        }
    }

    /// Ids set out, when their lengths are known.
    fn ids_ahead(&mut self) {
        let exchange = |name, item, to, variable: bool| {
            let mut phase = world(name, Traffic::ToHolders { item, bytes: WORD }, Slot::Batch, to);
            phase.reads.extend(variable.then_some(Slot::Lengths));
            phase
        };
        self.push_ahead(exchange("ids exchange", Item::Id, Slot::Ids, self.variable()));
        if self.weighted() {
            self.push_ahead(exchange("weights exchange", Item::Weight, Slot::Weights, self.variable()));
        }
    }

    /// Bags are found in the ids that arrived; for training, ids are sorted by row.
    pub fn index_ahead(&mut self) {
        let reads = if self.variable() { vec![Slot::Ids, Slot::Lengths] } else { vec![Slot::Ids] };
        let permuted = self.deployment.dataflow.sptt().is_some_and(|sptt| sptt.permute() == PeerPermute::Ids);
        let index = if permuted { Operation::IndexIdsInPeerOrder } else { Operation::IndexIds };
        self.push_ahead(self.computation(index, &reads, &[Slot::Index]));
        if self.task == Task::Train {
            let reads = [Slot::Ids, Slot::Index];
            self.push_ahead(self.computation(Operation::SortIds, &reads, &[Slot::Sorted]));
        }
    }

    /// The lookup of all tables that a rank holds.
    pub fn lookup(&mut self, writes: &[Slot]) {
        let mut reads = vec![Slot::Ids, Slot::Index, Slot::Tables];
        reads.extend(self.weighted().then_some(Slot::Weights));
        self.compute(Operation::Lookup, &reads, writes);
    }

    /// From the vectors that arrived, through the network, to the gradients that go back; for an evaluation, to predictions.
    pub fn network(&mut self, arrived: &[Slot]) {
        self.restore_order(arrived);
        self.forward(Block::Interaction);
        // Ids travel beside the top MLP.
        self.ids_ahead();
        self.forward(Block::Top);
        let output = Slot::Output(Block::Top);
        if self.task == Task::Evaluate {
            self.compute(Operation::Predict, &[output], &[Slot::Predictions]);
            return;
        }
        let gradient = [Slot::Gradient(Block::Top)];
        self.compute(Operation::Loss, &[output, Slot::Batch], &gradient);
        self.backward(Block::Top);
        self.backward(Block::Interaction);
        self.split_gradients();
    }

    /// All vectors of a sample in the order in which the interaction sees them.
    fn restore_order(&mut self, arrived: &[Slot]) {
        let mut reads = arrived.to_vec();
        reads.extend(self.has_bottom().then_some(Slot::Output(Block::Bottom)));
        self.compute(Operation::RestoreOrder, &reads, &[Slot::Features]);
    }

    /// Their gradients, laid out for the way back.
    fn split_gradients(&mut self) {
        let mut writes = vec![Slot::PooledGradient];
        writes.extend(self.has_bottom().then_some(Slot::Gradient(Block::Bottom)));
        self.compute(Operation::SplitGradients, &[Slot::Gradient(Block::Interaction)], &writes);
    }

    /// The backward pass of the lookup, with the update of the tables.
    pub fn update_tables(&mut self, gradients: &[Slot]) {
        let mut reads = gradients.to_vec();
        reads.extend([Slot::Sorted, Slot::Index, Slot::Tables]);
        reads.extend(self.weighted().then_some(Slot::Weights));
        self.compute(Operation::UpdateTables, &reads, &[Slot::Tables]);
    }

    /// One update for each bucket of dense parameters.
    pub fn update_dense(&mut self) {
        (0..self.buckets.len()).for_each(|bucket| self.update_bucket(bucket));
    }

    /// The update of the towers' parameters, in the bucket behind those of the network.
    pub fn update_towers(&mut self) {
        self.update_bucket(self.buckets.len());
    }

    fn update_bucket(&mut self, bucket: usize) {
        let slots = [Slot::BucketGradient(bucket), Slot::Parameters(bucket)];
        self.compute(Operation::UpdateDense(bucket), &slots, &[Slot::Parameters(bucket)]);
    }

    pub fn forward(&mut self, block: Block) {
        let mut reads = vec![input_of(block)];
        let buckets = buckets::of_block(&self.buckets, &self.parameters, block);
        reads.extend(buckets.iter().map(|(i, _)| Slot::Parameters(*i)));
        self.compute(Operation::Forward(block), &reads, &[Slot::Output(block)]);
    }

    /// The backward phases of a block, one per bucket, each followed by the reduction of its bucket.
    pub fn backward(&mut self, block: Block) {
        let parts = buckets::of_block(&self.buckets, &self.parameters, block);
        if parts.is_empty() {
            // The dot interaction has no parameters.
            let layers = 0..self.deployment.model.network().layers(block);
            self.backward_part(block, layers, None);
        }
        for (bucket, layers) in parts {
            self.backward_part(block, layers, Some(bucket));
            let (elements, wire) = (self.buckets[bucket].elements, self.deployment.wire.dense);
            let traffic = Traffic::AllReduce { elements, bytes: wire.bytes() };
            self.push(reduction(&format!("reduce bucket {bucket}"), Group::World, traffic, wire, bucket));
        }
    }

    fn backward_part(&mut self, block: Block, layers: Range<usize>, bucket: Option<usize>) {
        let mut reads = vec![Slot::Gradient(block), Slot::Output(block), input_of(block)];
        let mut writes = vec![Slot::Gradient(block)];
        if block == Block::Top && layers.start == 0 {
            // The last of the top MLP's backward phases leaves the gradient of the interaction's output.
            writes.push(Slot::Gradient(Block::Interaction));
        }
        if let Some(bucket) = bucket {
            reads.push(Slot::Parameters(bucket));
            writes.push(Slot::BucketGradient(bucket));
        }
        self.compute(Operation::Backward(block, layers), &reads, &writes);
    }

    pub fn towers_forward(&mut self) {
        let (reads, writes) = ([Slot::TowerInput, Slot::Parameters(self.buckets.len())], [Slot::Leaving]);
        self.compute(Operation::Forward(Block::Towers), &reads, &writes);
    }

    /// The towers' backward pass, and the reduction of their gradients inside each group.
    pub fn towers_backward(&mut self) {
        let bucket = self.buckets.len();
        let reads = [Slot::LeavingGradient, Slot::TowerInput, Slot::Parameters(bucket)];
        let writes = [Slot::TowerInputGradient, Slot::BucketGradient(bucket)];
        let towers = 0..self.deployment.model.towers().len();
        self.compute(Operation::Backward(Block::Towers, towers), &reads, &writes);
        let elements = self.tower_buckets.iter().map(|bucket| bucket.elements).collect();
        let wire = self.deployment.wire.dense;
        let traffic = Traffic::GroupAllReduce { elements, bytes: wire.bytes() };
        self.push(reduction("reduce tower gradients", Group::Tower, traffic, wire, bucket));
    }
}

fn input_of(block: Block) -> Slot {
    match block {
        Block::Bottom => Slot::Batch,
        Block::Interaction => Slot::Features,
        Block::Top => Slot::Output(Block::Interaction),
        Block::Towers => Slot::TowerInput,
    }
}

/// An all-to-all over the world of what is never encoded.
fn world(name: &str, traffic: Traffic, from: Slot, to: Slot) -> Phase {
    exchange(name, CollectiveKind::AllToAll, Group::World, traffic, Format::F32, from, to)
}

/// A collective on the exchange lane.
pub(super) fn exchange(
    name: &str,
    kind: CollectiveKind,
    group: Group,
    traffic: Traffic,
    wire: Format,
    from: Slot,
    to: Slot,
) -> Phase {
    let collective = Collective { kind, group, traffic, wire };
    phase(name, Work::Collective(collective), Lane::Exchange, &[from], &[to])
}

/// The reduction of a bucket's gradient.
fn reduction(name: &str, group: Group, traffic: Traffic, wire: Format, bucket: usize) -> Phase {
    let collective = Collective { kind: CollectiveKind::AllReduce, group, traffic, wire };
    let slot = [Slot::BucketGradient(bucket)];
    phase(name, Work::Collective(collective), Lane::Gradients, &slot, &slot)
}

/// A phase of this batch that costs nothing yet and waits for nothing yet.
fn phase(name: &str, work: Work<Operation>, lane: Lane, reads: &[Slot], writes: &[Slot]) -> Phase {
    Phase {
        name: name.into(),
        work,
        lane,
        ahead: false,
        after: Vec::new(),
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        cost: Cost::default(),
    }
}
