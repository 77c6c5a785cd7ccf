//! The phases that every dataflow has: input and updates here, the dense network in `network.rs`.

use super::fused::Fused;
use super::*;
use crate::emulation::{EmulatedLayers, Emulation};
use crate::model::Parameter;
use crate::volume::Item;

/// A schedule in the making.
pub(super) struct Build<'a> {
    pub deployment: &'a Deployment,
    pub task: Task,
    /// Whether updates wait for the norm of all dense gradients.
    pub(super) norm: bool,
    /// What the lookup and the update of the tables are fused with.
    pub(super) fused: Fused,
    /// Data-parallel tables of rows.
    pub(super) copies: Vec<CopiedTable>,
    pub(super) buckets: Vec<Bucket>,
    pub(super) tower_buckets: Vec<Bucket>,
    pub(super) parameters: Vec<Parameter>,
    phases: Vec<Phase>,
}

impl<'a> Build<'a> {
    pub fn new(deployment: &'a Deployment, options: StepOptions) -> Self {
        let StepOptions { task, bucket_bytes, norm, batch, .. } = options;
        let parameters = deployment.model.dense_parameter_list();
        let of_network = deployment.model.network().parameters().len();
        // Layers that are emulated have buckets of their own, where others are not.
        let apart = |emulation: &Emulation| emulation.layers == EmulatedLayers::Divisible;
        let bytes = if deployment.emulation.as_ref().is_some_and(apart) { 1 } else { bucket_bytes };
        let fused = Fused::new(deployment, options);
        // The only rank has nobody to reduce gradients with: one bucket for each block, so that layers that stand behind each other go back together.
        let together = !matches!(fused, Fused::Nothing) && deployment.emulation.is_none();
        let bytes = if together { usize::MAX } else { bytes };
        let mut buckets = buckets::of_network(&parameters[..of_network], bytes);
        buckets.extend(buckets::of_cores(deployment, &parameters));
        let tower_buckets = buckets::of_groups(deployment, &parameters, of_network);
        let copies = CopiedTable::list(deployment, batch);
        Self { deployment, task, norm, fused, copies, buckets, tower_buckets, parameters, phases: Vec::new() }
    }

    pub fn finish(self) -> Schedule {
        let Self { deployment, task, copies, buckets, tower_buckets, mut phases, .. } = self;
        dependencies::derive(&mut phases);
        Schedule { deployment: deployment.clone(), task, buckets, tower_buckets, copies, phases }
    }

    /// Emulation that reduces the gradient of a bucket; `None` where ranks do.
    pub(super) fn emulation_of(&self, bucket: usize) -> Option<Emulation> {
        let emulation = self.deployment.emulation;
        emulation.filter(|emulation| emulation.covers(&self.buckets[bucket], &self.parameters))
    }

    pub fn push(&mut self, phase: Phase) {
        self.phases.push(phase);
    }

    /// Adds a computation, with the name and the cost of the operation.
    pub fn compute(&mut self, operation: Operation, reads: &[Slot], writes: &[Slot]) {
        let phase = self.computation(operation, reads, writes);
        self.push(phase);
    }

    pub(super) fn computation(&self, operation: Operation, reads: &[Slot], writes: &[Slot]) -> Phase {
        let Description { name, cost, .. } = operation.describe(self.deployment, &self.buckets);
        Phase { cost, ..phase(&name, Work::Compute(operation), Lane::Compute, reads, writes) }
    }

    pub(super) fn push_ahead(&mut self, phase: Phase) {
        self.phases.push(Phase { ahead: true, ..phase });
    }

    /// Whether lengths of bags travel.
    fn variable(&self) -> bool {
        self.deployment.placement.lengths_travel(&self.deployment.model)
    }

    pub(super) fn weighted(&self) -> bool {
        self.deployment.placement.weights_travel(&self.deployment.model)
    }

    /// The next batch is read, and its lengths set out.
    pub fn read_ahead(&mut self) {
        self.push_ahead(self.computation(Operation::ReadBatch, &[], &[Slot::Batch]));
        if self.variable() {
            let traffic = Traffic::ToHolders { item: Item::Length, codec: Codec::F32 };
            self.push_ahead(world("lengths exchange", traffic, Slot::Batch, Slot::Lengths));
        }
    }

    /// Ids set out, when it is known how many there are.
    pub fn ids_ahead(&mut self) {
        if self.variable() {
            self.push_ahead(self.computation(Operation::ReadLengths, &[Slot::Lengths], &[Slot::Counts]));
        }
        let exchange = |name, item, to, variable: bool| {
            let mut phase = world(name, Traffic::ToHolders { item, codec: Codec::F32 }, Slot::Batch, to);
            phase.reads.extend(variable.then_some(Slot::Counts));
            phase
        };
        self.push_ahead(exchange("ids exchange", Item::Id, Slot::Ids, self.variable()));
        if self.weighted() {
            self.push_ahead(exchange("weights exchange", Item::Weight, Slot::Weights, self.variable()));
        }
        self.rows_ahead();
    }

    /// Whether some rank keeps some rows of a table in memory only.
    fn caches(&self) -> bool {
        self.deployment.cached.is_some()
    }

    /// Rows of the next batch that are not in memory are fetched, and those that leave are written, beside the computation.
    fn rows_ahead(&mut self) {
        if !self.caches() {
            return;
        }
        let storage = |phase: Phase| Phase { lane: Lane::Storage, ..phase };
        // Files must hold what left before before they are asked for it again.
        let reads = [Slot::Ids, Slot::Tables, Slot::Stored];
        let find = Operation::FindCachedRows(self.task);
        self.push_ahead(self.computation(find, &reads, &[Slot::Ids, Slot::Moving]));
        let fetch = self.computation(Operation::FetchRows, &[Slot::Moving], &[Slot::Fetched]);
        self.push_ahead(storage(fetch));
        let write_back = self.computation(Operation::WriteBackRows, &[Slot::Moving], &[Slot::Stored]);
        self.push_ahead(storage(write_back));
    }

    /// Rows that were fetched come into their slots, before the lookup.
    fn place_rows(&mut self) {
        if self.caches() {
            self.compute(Operation::PlaceRows, &[Slot::Fetched, Slot::Tables], &[Slot::Tables]);
        }
    }

    /// Bags are found in the ids that arrived; for training, ids are sorted by row.
    pub fn index_ahead(&mut self) {
        let mut reads = vec![Slot::Ids];
        if self.variable() {
            reads.extend([Slot::Lengths, Slot::Counts]);
        }
        let permuted = self.deployment.dataflow.sptt().is_some_and(|sptt| sptt.permute() == PeerPermute::Ids);
        let index = if permuted { Operation::IndexIdsInPeerOrder } else { Operation::IndexIds };
        self.push_ahead(self.computation(index, &reads, &[Slot::Index]));
        if self.task == Task::Train {
            let reads = [Slot::Ids, Slot::Index];
            self.push_ahead(self.computation(Operation::SortIds, &reads, &[Slot::Sorted]));
            self.find_rows_ahead();
        }
    }

    /// The lookup of all tables that a rank holds, unless it is fused.
    pub fn lookup(&mut self, writes: &[Slot]) {
        self.place_rows();
        if self.fused != Fused::Nothing {
            return;
        }
        let reads = self.ids_and_tables();
        self.compute(Operation::Lookup, &reads, writes);
    }

    /// The backward pass of the lookup, with the update of the tables, unless it is fused.
    pub fn update_tables(&mut self, gradients: &[Slot]) {
        if self.fused != Fused::Nothing {
            return;
        }
        let reads = self.sorted_and_tables(gradients);
        self.compute(Operation::UpdateTables, &reads, &[Slot::Tables]);
    }

    /// Slots that a lookup reads.
    pub(super) fn ids_and_tables(&self) -> Vec<Slot> {
        let mut reads = vec![Slot::Ids, Slot::Index, Slot::Tables];
        reads.extend(self.weighted().then_some(Slot::Weights));
        reads
    }

    /// Slots that an update of tables by these gradients reads.
    pub(super) fn sorted_and_tables(&self, gradients: &[Slot]) -> Vec<Slot> {
        let mut reads = gradients.to_vec();
        reads.extend([Slot::Sorted, Slot::Index, Slot::Tables]);
        reads.extend(self.weighted().then_some(Slot::Weights));
        reads
    }

    /// One update for each bucket of dense parameters, after the norm of all of them if updates wait for it. `towers` says whether
    /// the norm of tower modules is part of it.
    pub fn update_dense(&mut self, towers: bool) {
        if self.norm {
            let mut reads: Vec<Slot> = (0..self.buckets.len()).map(Slot::BucketGradient).collect();
            reads.extend(towers.then_some(Slot::TowerNorm));
            self.compute(Operation::GradientNorm, &reads, &[Slot::GradientNorm]);
        }
        (0..self.buckets.len()).for_each(|bucket| self.update_bucket(bucket));
    }

    /// The update of the parameters of towers and of groups' tensor trains, in the bucket behind those of the network.
    pub fn update_towers(&mut self) {
        self.update_bucket(self.buckets.len());
    }

    fn update_bucket(&mut self, bucket: usize) {
        let mut reads = vec![Slot::BucketGradient(bucket), Slot::Parameters(bucket)];
        reads.extend(self.norm.then_some(Slot::GradientNorm));
        self.compute(Operation::UpdateDense(bucket), &reads, &[Slot::Parameters(bucket)]);
    }
}

/// An all-to-all over the world of what is never encoded.
fn world(name: &str, traffic: Traffic, from: Slot, to: Slot) -> Phase {
    exchange(name, CollectiveKind::AllToAll, Group::World, traffic, from, to)
}

/// A collective on the exchange lane.
pub(super) fn exchange(
    name: &str,
    kind: CollectiveKind,
    group: Group,
    traffic: Traffic,
    from: Slot,
    to: Slot,
) -> Phase {
    let collective = Collective::new(kind, group, traffic);
    phase(name, Work::Collective(collective), Lane::Exchange, &[from], &[to])
}

/// A phase of this batch that costs nothing yet and waits for nothing yet.
pub(super) fn phase(name: &str, work: Work<Operation>, lane: Lane, reads: &[Slot], writes: &[Slot]) -> Phase {
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
