//! One training step as a value: phases in issue order on their lanes, with their dependencies, bytes and FLOPs.
//!
//! The trainer executes a schedule, the simulator prices it, `campanile schedule` prints it. There is no other step.
//!
//! The schedule is periodic. A phase may work *ahead*, on the batch of the next step (ids of batch i + 1 are sent during
//! step i); a dependency may reach back to the previous step. Running the ahead phases alone is the prologue, leaving
//! them out of the last step the epilogue.

mod buckets;
mod build;
mod collective;
mod copies;
mod dependencies;
mod flat;
mod frozen;
mod fused;
mod legs;
mod network;
mod operation;
mod part;
mod sptt;
mod table;
mod tensor_trains;

pub use collective::{Collective, CollectiveKind, Group};
pub use copies::{CopiedTable, CopyReduction};
pub use frozen::FrozenParameters;
pub use operation::{Description, Operation};
pub use part::Part;

use crate::codec::Codec;
use crate::dataflow::{Dataflow, Deployment, PeerPermute};
use crate::model::{BlockName, Model};
use crate::placement::Placement;
use crate::volume::{BatchSizes, Leg, LinkBytes, Traffic, Volume};
use build::Build;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Index of a phase in its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PhaseId(pub usize);

/// A unit of a step: a computation on every rank, or a collective.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase<O = Operation> {
    /// Name of the phase, unique in its schedule. Meters, traces and errors print it.
    pub name: String,
    /// Computation or collective.
    pub work: Work<O>,
    /// Lane in which the phase queues.
    pub lane: Lane,
    /// Whether the phase works on the batch of the next step.
    pub ahead: bool,
    /// Phases that this phase waits for, and how many steps back they are.
    pub after: Vec<(PhaseId, Distance)>,
    /// Slots that the phase reads.
    pub reads: Vec<Slot>,
    /// Slots that the phase writes.
    pub writes: Vec<Slot>,
    /// Cost of the phase on one rank.
    pub cost: Cost,
}

/// Distance of a dependency: number of steps back, from 0.
pub type Distance = u32;

/// A computation on one rank, or a collective over a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work<O> {
    /// Computation on one rank.
    Compute(O),
    /// Collective over a group of ranks.
    Collective(Collective),
}

/// A queue of phases. A lane works through its phases in issue order; lanes run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Lane of computations.
    Compute,
    /// Lane of the exchanges of ids and vectors.
    Exchange,
    /// Lane of the reductions of dense gradients, so that no exchange on the critical path queues behind them. Both share
    /// the network.
    Gradients,
    /// Lane of rows of tables between files and memory.
    Storage,
}

/// Slot: a value that phases read and write. Dependencies follow from slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// Samples of this rank, and their ids laid out by holder.
    Batch,
    /// Bag lengths of the world's samples.
    Lengths,
    /// Numbers of ids that arrive from each rank.
    Counts,
    /// Ids of the world's samples.
    Ids,
    /// Weights of the ids of the world's samples.
    Weights,
    /// Position of each bag.
    Index,
    /// Ids of the world's samples, grouped by row.
    Sorted,
    /// Weights and optimizer state of the tables.
    Tables,
    /// Rows that ids name and that are not in memory, and rows that leave memory for them.
    Moving,
    /// Rows that arrived in memory.
    Fetched,
    /// Files of rows, without those that leave memory.
    Stored,
    /// Pooled vectors as they were looked up.
    Pooled,
    /// Partial sums, looked up in tables cut by rows.
    Partial,
    /// Pooled vectors in peer order.
    PeerPooled,
    /// Partial sums in peer order.
    PeerPartial,
    /// Vectors of the peers' samples, as they arrived from the group.
    Gathered,
    /// Sums of the peers' samples, as they arrived from the group.
    Summed,
    /// Input of the towers of the group.
    TowerInput,
    /// Columns that leave the group for the samples.
    Leaving,
    /// Vectors of this rank's samples, as they arrived.
    Arrived,
    /// All vectors of a sample, in the order of the interaction.
    Features,
    /// Output of a block.
    Output(BlockName),
    /// Gradient of a block's output or, below the last block, of the block's input.
    Gradient(BlockName),
    /// Gradient of the vectors that arrived, laid out by the rank that sent them.
    PooledGradient,
    /// Gradient of the columns that left the group.
    LeavingGradient,
    /// Gradient of the input of the towers.
    TowerInputGradient,
    /// Gradient of the vectors that arrived from the group, by holder.
    GatheredGradient,
    /// Gradient of the sums that arrived from the group.
    SummedGradient,
    /// Gradient of the vectors that were looked up, as it arrived at the holder.
    ArrivedGradient,
    /// Gradient of the partial sums, as it arrived at the holder.
    ArrivedSumGradient,
    /// Gradient of the vectors that were looked up, in rank order.
    OrderedGradient,
    /// Gradient of the partial sums, in rank order.
    OrderedSumGradient,
    /// Pooled vectors of data-parallel tables, looked up for the samples that the copy serves.
    CopyPooled,
    /// Gradient of the vectors that were looked up in data-parallel tables.
    CopyGradient,
    /// Rows of data-parallel tables that the ids name.
    TouchedRows,
    /// Numbers of rows that each copy touches.
    RowCounts,
    /// Sums of gradients by row, for the rows that this copy touches.
    RowSums,
    /// Sums of gradients by row with a place for every row, of this copy, then of all copies.
    RowVector,
    /// Rows that all copies touch, copy after copy.
    CopyRows,
    /// Sums of gradients of the rows that all copies touch.
    CopySums,
    /// Weights of a bucket.
    Parameters(usize),
    /// Gradient of a bucket.
    BucketGradient(usize),
    /// Square of the norm of the towers' gradients: of this rank's group, then of all groups.
    TowerNorm,
    /// Norm of all dense gradients.
    GradientNorm,
    /// Predicted probabilities and, in training, the loss.
    Predictions,
    /// Vectors of a leg, encoded in the wire format.
    Encoded(Leg),
    /// Encoded vectors that arrived on a leg.
    Arriving(Leg),
    /// Vectors from ranks of this host for all ranks of this rank's index: the result of the first level of a hierarchical
    /// all-to-all.
    InHost(Leg),
    /// Vectors of the ranks of this host for all ranks of this rank's index, by host.
    Regrouped(Leg),
}

/// Cost of a phase on one rank, as symbolic volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Number of floating-point operations.
    pub flops: Volume,
    /// Bytes of memory that must be touched, for phases bound by it.
    pub memory: Volume,
}

/// Task of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Training: forward pass, backward pass and update.
    Train,
    /// Evaluation: forward pass only.
    Evaluate,
}

/// Dense parameters whose gradients are reduced together, by index into [`Model::dense_parameter_list`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Indices of the parameters, in backward order.
    pub parameters: Vec<usize>,
    /// Start of each parameter in the bucket.
    pub starts: Vec<usize>,
    /// Number of elements of the bucket.
    pub elements: usize,
}

/// Schedule: the phases of one step of a model on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    deployment: Deployment,
    task: Task,
    buckets: Vec<Bucket>,
    tower_buckets: Vec<Bucket>,
    copies: Vec<CopiedTable>,
    phases: Vec<Phase>,
}

/// Options of a step, besides its deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOptions {
    /// Task of the step.
    pub task: Task,
    /// Size of the buckets in which dense gradients are reduced, in bytes.
    pub bucket_bytes: usize,
    /// Whether updates wait for the norm of all dense gradients.
    pub norm: bool,
    /// Number of samples of a typical global batch. It decides how the gradients of data-parallel tables are reduced: in the way
    /// that sends fewer bytes.
    pub batch: usize,
    /// Whether lookups and dot products of vectors that stay on their rank are one phase, and gradients of dot products and updates
    /// of tables too.
    pub fuse_pairs: bool,
    /// Whether vectors that stay on their rank are looked up where the network reads them, and tables updated from where it leaves
    /// their gradients.
    pub in_place: bool,
}

impl<O> Phase<O> {
    /// Operation of the phase; `None` for a collective.
    pub fn operation(&self) -> Option<&O> {
        match &self.work {
            Work::Compute(operation) => Some(operation),
            Work::Collective(_) => None,
        }
    }
}

impl Phase {
    /// Whether the host needs values that the device computes in this phase: see [`Operation::reads_back`].
    pub fn reads_back(&self) -> bool {
        self.operation().is_some_and(Operation::reads_back)
    }
}

impl Schedule {
    /// Builds the hybrid-parallel step: tables are model-parallel, the dense network is data-parallel, and its gradients are
    /// reduced in buckets of about `bucket_bytes`. Vectors are exchanged by the dataflow of the deployment: flat as in Neo,
    /// or SPTT. Gradients of data-parallel tables are reduced by the rows touched; [`with_options`](Self::with_options) chooses.
    pub fn new(deployment: &Deployment, task: Task, bucket_bytes: usize) -> Self {
        Self::with_options(
            deployment,
            StepOptions { task, bucket_bytes, norm: false, batch: 0, fuse_pairs: false, in_place: false },
        )
    }

    /// Builds the step of a training that clips dense gradients by their norm: the norm of all buckets is computed before the
    /// first of them is updated. Otherwise as [`new`](Self::new).
    pub fn with_norm(deployment: &Deployment, bucket_bytes: usize) -> Self {
        let task = Task::Train;
        let options =
            StepOptions { task, bucket_bytes, norm: true, batch: 0, fuse_pairs: false, in_place: false };
        Self::with_options(deployment, options)
    }

    /// Builds the step of a deployment with these options.
    pub fn with_options(deployment: &Deployment, options: StepOptions) -> Self {
        let build = Build::new(deployment, options);
        match &build.deployment.dataflow {
            Dataflow::Flat(_) => flat::build(build),
            Dataflow::Sptt(plan) => sptt::build(build, plan),
        }
    }

    /// Returns the schedule in which every phase waits for all that were issued before it, so that nothing overlaps.
    ///
    /// A phase waits for the nearest before it that works ahead and for the nearest that does not: one of the two is the
    /// phase just before it, and the prologue and the last step each leave the other kind out.
    pub fn serialised(mut self) -> Self {
        let ahead: Vec<bool> = self.phases.iter().map(|phase| phase.ahead).collect();
        let nearest = |i: usize, kind: bool| {
            let earlier = ahead[..i].iter().rposition(|&ahead| ahead == kind).map(|id| (PhaseId(id), 0));
            earlier.or_else(|| ahead.iter().rposition(|&ahead| ahead == kind).map(|id| (PhaseId(id), 1)))
        };
        for (i, phase) in self.phases.iter_mut().enumerate() {
            phase.after = [true, false].into_iter().filter_map(|kind| nearest(i, kind)).collect();
            phase.after.sort_by_key(|&(id, distance)| (distance, id));
        }
        self
    }

    /// Names of the phases that a phase replaces, where it is fused of others; none elsewhere.
    pub fn replaces(&self, phase: &Phase) -> Vec<String> {
        let replaced =
            phase.operation().map(|operation| operation.replaces(self.model())).unwrap_or_default();
        replaced.iter().map(|operation| operation.describe(&self.deployment, &self.buckets).name).collect()
    }

    /// Whether vectors are looked up where the network reads them.
    pub fn looks_up_in_place(&self) -> bool {
        self.phases.iter().any(|phase| phase.operation() == Some(&Operation::LookupInPlace))
    }

    /// Phases in issue order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Buckets of the network's parameters, which are reduced over the world.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Buckets whose gradients are reduced among emulated nodes.
    pub fn emulated_buckets(&self) -> impl Iterator<Item = usize> {
        self.phases.iter().filter_map(|phase| match phase.work {
            Work::Compute(Operation::ReduceEmulated(bucket)) => Some(bucket),
            _ => None,
        })
    }

    /// Bucket of the parameters of each group, of its towers and its tensor trains, which is reduced inside the group. On a rank, the bucket of its group
    /// follows [`buckets`](Self::buckets).
    pub fn tower_buckets(&self) -> &[Bucket] {
        &self.tower_buckets
    }

    /// Data-parallel tables of rows, by feature, and how the sums of their gradients are added up.
    pub fn copies(&self) -> &[CopiedTable] {
        &self.copies
    }

    /// Phase that reduces the value of a slot to all members of a group; `None` if there is none.
    pub fn reduced_in(&self, slot: Slot) -> Option<PhaseId> {
        let reduces = |phase: &Phase| match &phase.work {
            Work::Collective(collective) => {
                collective.kind == CollectiveKind::AllReduce && phase.writes.contains(&slot)
            }
            Work::Compute(_) => false,
        };
        self.phases.iter().position(reduces).map(PhaseId)
    }

    /// Collective that reduces the value of a slot to all members of its group; `None` if there is none.
    pub fn reduction_of(&self, slot: Slot) -> Option<&Collective> {
        match &self.phases[self.reduced_in(slot)?.0].work {
            Work::Collective(collective) => Some(collective),
            Work::Compute(_) => None,
        }
    }

    /// Deployment that the schedule follows from.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Model that the schedule trains or evaluates.
    pub fn model(&self) -> &Model {
        &self.deployment.model
    }

    /// Placement of the tables.
    pub fn placement(&self) -> &Placement {
        &self.deployment.placement
    }

    /// Task of the step.
    pub fn task(&self) -> Task {
        self.task
    }

    /// Bytes that `rank` sends in a phase.
    pub fn sent(&self, id: PhaseId, sizes: &BatchSizes, rank: usize) -> LinkBytes {
        match &self.phases[id.0].work {
            Work::Compute(_) => LinkBytes::default(),
            Work::Collective(c) => c.sent(&self.deployment, sizes, rank),
        }
    }

    /// FLOPs that `rank` spends in a phase.
    pub fn flops(&self, id: PhaseId, sizes: &BatchSizes, rank: usize) -> u64 {
        self.phases[id.0].cost.flops.bind(&self.deployment, sizes, rank)
    }

    /// Bytes of memory that `rank` must touch in a phase.
    pub fn memory(&self, id: PhaseId, sizes: &BatchSizes, rank: usize) -> u64 {
        self.phases[id.0].cost.memory.bind(&self.deployment, sizes, rank)
    }

    /// Name, class, part and cost of an operation in this step.
    pub fn describe(&self, operation: &Operation) -> Description {
        operation.describe(&self.deployment, &self.buckets)
    }

    /// Part of a step that a phase belongs to. Phases that work ahead all belong to the input.
    pub fn part(&self, phase: &Phase) -> Part {
        match &phase.work {
            _ if phase.ahead => Part::Input,
            Work::Compute(operation) => self.describe(operation).part,
            Work::Collective(collective) => collective.part(),
        }
    }

    /// Table of the schedule for people, with the volumes of a typical global batch of `batch` samples.
    pub fn table(&self, batch: usize) -> String {
        table::render(self, batch)
    }
}

impl Lane {
    /// All lanes, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Compute, Self::Exchange, Self::Gradients, Self::Storage];
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Lane::Compute => "compute",
            Lane::Exchange => "exchange",
            Lane::Gradients => "gradients",
            Lane::Storage => "storage",
        })
    }
}
