//! The phases that every dataflow has: input and updates here, the dense network in [`network`](super::network).

use super::*;
use crate::model::Parameter;
use crate::volume::{Item, Quantity};

/// Bytes of an id, a length or a float, in memory and, but for floats of another format, on the wire.
pub(super) const WORD: u64 = 4;

/// A schedule in the making.
pub(super) struct Build<'a> {
    pub deployment: &'a Deployment,
    pub task: Task,
    pub(super) buckets: Vec<Bucket>,
    pub(super) tower_buckets: Vec<Bucket>,
    pub(super) parameters: Vec<Parameter>,
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

    fn push_ahead(&mut self, phase: Phase) {
        self.phases.push(Phase { ahead: true, ..phase });
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
        let memory = Volume::of(2 * WORD, Quantity::Ids);
        self.push_ahead(compute("read batch", Operation::ReadBatch, &[], &[Slot::Batch]).touching(memory));
        if self.variable() {
            let traffic = Traffic::ToHolders { item: Item::Length, bytes: WORD };
            self.push_ahead(world("lengths exchange", traffic, Slot::Batch, Slot::Lengths));
        }
    }

    /// Ids set out, when their lengths are known.
    pub fn ids_ahead(&mut self) {
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
        let (name, operation) = match permuted {
            false => ("index ids", Operation::IndexIds),
            true => ("index ids in peer order", Operation::IndexIdsInPeerOrder),
        };
        let memory = Volume::of(2 * WORD, Quantity::HeldIds);
        self.push_ahead(compute(name, operation, &reads, &[Slot::Index]).touching(memory));
        if self.task == Task::Train {
            let reads = [Slot::Ids, Slot::Index];
            let memory = Volume::of(4 * WORD, Quantity::HeldIds);
            self.push_ahead(
                compute("sort ids", Operation::SortIds, &reads, &[Slot::Sorted]).touching(memory),
            );
        }
    }

    /// Every row is read once per id, every pooled vector written once.
    pub fn lookup(&mut self, writes: &[Slot]) {
        let mut reads = vec![Slot::Ids, Slot::Index, Slot::Tables];
        reads.extend(self.weighted().then_some(Slot::Weights));
        self.push(Phase {
            cost: Cost {
                flops: Volume::of(1, Quantity::LookedUpRows),
                memory: Volume::of(WORD, Quantity::LookedUpRows).and(WORD, Quantity::LookedUpVectors),
            },
            ..compute("lookup", Operation::Lookup, &reads, writes)
        });
    }

    /// Every gradient is read once per id, every row read and written once.
    pub fn update_tables(&mut self, gradients: &[Slot]) {
        let mut reads = gradients.to_vec();
        reads.extend([Slot::Sorted, Slot::Index, Slot::Tables]);
        reads.extend(self.weighted().then_some(Slot::Weights));
        self.push(Phase {
            cost: Cost {
                flops: Volume::of(2, Quantity::HeldRows),
                memory: Volume::of(3 * WORD, Quantity::HeldRows),
            },
            ..compute("update tables", Operation::UpdateTables, &reads, &[Slot::Tables])
        });
    }

    /// One update for each bucket of dense parameters.
    pub fn update_dense(&mut self) {
        for bucket in 0..self.buckets.len() {
            let elements = self.buckets[bucket].elements as u64;
            self.update_bucket(bucket, format!("update bucket {bucket}"), |each| {
                Volume::of(each * elements, Quantity::Step)
            });
        }
    }

    /// The update of the towers' parameters, in the bucket behind those of the network.
    pub fn update_towers(&mut self) {
        let volume = |each| Volume::of(each, Quantity::TowerWeights);
        self.update_bucket(self.buckets.len(), "update towers".into(), volume);
    }

    fn update_bucket(&mut self, bucket: usize, name: String, volume: impl Fn(u64) -> Volume) {
        let slots = [Slot::BucketGradient(bucket), Slot::Parameters(bucket)];
        self.push(Phase {
            cost: Cost { flops: volume(2), memory: volume(3 * WORD) },
            ..compute(&name, Operation::UpdateDense(bucket), &slots, &[Slot::Parameters(bucket)])
        });
    }
}

impl Phase {
    /// The same phase, bound by memory.
    pub(super) fn touching(self, memory: Volume) -> Self {
        Self { cost: Cost { memory, ..self.cost }, ..self }
    }
}

pub(super) fn compute(name: &str, operation: Operation, reads: &[Slot], writes: &[Slot]) -> Phase {
    phase(name, Work::Compute(operation), Lane::Compute, reads, writes)
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
