//! One training step as a value: phases in issue order on three lanes, with their dependencies, bytes and FLOPs.
//!
//! The trainer executes a schedule, the simulator prices it, `campanile schedule` prints it. There is no other step.
//!
//! The schedule is periodic. A phase may work *ahead*, on the batch of the next step (ids of batch i + 1 travel during
//! step i); a dependency may reach back to the previous step. Running the ahead phases alone is the prologue, leaving
//! them out of the last step the epilogue.

mod buckets;
mod build;
mod dependencies;
mod flat;
mod legs;
mod network;
mod sptt;
mod table;

use crate::dataflow::{Dataflow, Deployment, PeerPermute};
use crate::model::{BlockName, Model};
use crate::placement::Placement;
use crate::volume::{BatchSizes, Leg, LinkBytes, Traffic, Volume};
use crate::wire::Format;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Index of a phase in its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PhaseId(pub usize);

/// One unit of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase<O = Operation> {
    /// Unique in its schedule; what meters, traces and errors call it.
    pub name: String,
    /// What is done.
    pub work: Work<O>,
    /// Where it queues.
    pub lane: Lane,
    /// Whether it works on the batch of the next step.
    pub ahead: bool,
    /// Phases it waits for: of this step, or of an earlier one.
    pub after: Vec<(PhaseId, Distance)>,
    /// What it reads.
    pub reads: Vec<Slot>,
    /// What it writes.
    pub writes: Vec<Slot>,
    /// What it costs.
    pub cost: Cost,
}

/// Steps back.
pub type Distance = u32;

/// A computation on one rank, or a collective over a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work<O> {
    /// A computation.
    Compute(O),
    /// A collective.
    Collective(Collective),
}

/// A collective over a group of ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Collective {
    /// Which one.
    pub kind: CollectiveKind,
    /// Over whom.
    pub group: Group,
    /// What goes between whom.
    pub traffic: Traffic,
    /// The format of its floats. A reduction encodes and decodes them itself; in an all-to-all they are encoded by the phase
    /// before. Ids and lengths travel as they are.
    pub wire: Format,
}

/// The collectives a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveKind {
    /// Every rank sends every rank something else.
    AllToAll,
    /// Every rank gets the sum of all.
    AllReduce,
    /// Every rank gets its part of the sum of all.
    ReduceScatter,
    /// Every rank gets what every rank has.
    AllGather,
}

/// Ranks that take part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// All of them.
    World,
    /// Those of a tower group; all groups at once.
    Group,
    /// Those of equal index in their groups; all S such circles at once.
    Peers,
    /// Those of a host; all hosts at once.
    Host,
    /// Those of equal index on their hosts; all L such circles at once.
    Across,
}

/// Where phases queue. A lane works through its phases in issue order; lanes run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Arithmetic.
    Compute,
    /// Ids and embeddings between ranks.
    Exchange,
    /// Dense gradients between ranks, apart so that no exchange on the critical path queues behind them. They share the wire.
    Gradients,
}

/// The computations of the models we train. Training maps each to code, the simulator maps its cost to time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Read this rank's samples and lay out their ids by holder.
    ReadBatch,
    /// Find the bags in the ids that arrived.
    IndexIds,
    /// The same, with the bags brought into peer order: steps b and c of SPTT swapped.
    IndexIdsInPeerOrder,
    /// Group the ids by row, in global sample order.
    SortIds,
    /// Look up and pool the world's samples in all tables held here.
    Lookup,
    /// Step c of SPTT: bring pooled vectors from the order of ranks into peer order. The first level of a hierarchical
    /// all-to-all needs them in that order too.
    PermutePeers,
    /// Encode what a leg carries, laid out as its first exchange needs it.
    Encode(Leg),
    /// Decode what a leg brought.
    Decode(Leg),
    /// Between the levels of a hierarchical all-to-all: from what each host-mate sent to what each host gets.
    Regroup(Leg),
    /// Step e of SPTT: from features × peers to peers × features, for the towers and for what leaves as it is.
    Transpose,
    /// Bring the vectors that arrived, and the dense one, into the order in which the interaction sees them.
    RestoreOrder,
    /// A block of the network.
    Forward(BlockName),
    /// Loss and its gradient by the logits.
    Loss,
    /// Probabilities for evaluation.
    Predict,
    /// Layers of a block of the network, last first.
    Backward(BlockName, Range<usize>),
    /// Lay out the gradients of the vectors that arrived by where they came from.
    SplitGradients,
    /// Step e in reverse.
    ReverseTranspose,
    /// Step c in reverse.
    ReversePermute,
    /// Backward of the lookup fused with the tables' optimizer.
    UpdateTables,
    /// The optimizer of one bucket of dense parameters.
    UpdateDense(usize),
}

/// What phases hand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// This rank's samples, and their ids laid out by holder.
    Batch,
    /// Bag lengths of the world's samples.
    Lengths,
    /// Ids of the world's samples.
    Ids,
    /// Weights of those ids.
    Weights,
    /// Where each bag lies.
    Index,
    /// The ids by row.
    Sorted,
    /// Weights and optimizer state of the tables.
    Tables,
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
    /// What the group's towers see.
    TowerInput,
    /// What leaves the group.
    Leaving,
    /// Vectors of this rank's samples, as they arrived.
    Arrived,
    /// All vectors of a sample, as the interaction sees them.
    Features,
    /// A block's output.
    Output(BlockName),
    /// The gradient of a block's output, or, below the last block, of what it reads.
    Gradient(BlockName),
    /// The gradient of what arrived, laid out by where it came from.
    PooledGradient,
    /// The gradient of what left the group.
    LeavingGradient,
    /// The gradient of what the towers saw.
    TowerInputGradient,
    /// The gradient of the vectors that came from the group, by holder.
    GatheredGradient,
    /// The gradient of the sums that came from the group.
    SummedGradient,
    /// The gradient of what was looked up, arrived at the holder.
    ArrivedGradient,
    /// The gradient of partial sums, arrived at the holder.
    ArrivedSumGradient,
    /// The gradient of what was looked up, back in the order of ranks.
    OrderedGradient,
    /// The gradient of partial sums, back in the order of ranks.
    OrderedSumGradient,
    /// Weights of a bucket.
    Parameters(usize),
    /// Gradient of a bucket.
    BucketGradient(usize),
    /// Probabilities.
    Predictions,
    /// What a leg carries, encoded.
    Encoded(Leg),
    /// What arrived, yet to be decoded.
    Arriving(Leg),
    /// What host-mates have for ranks of this rank's index, on any host.
    InHost(Leg),
    /// The same, by host.
    Regrouped(Leg),
}

/// What a phase costs one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: Volume,
    /// Bytes of memory that must be touched, for phases bound by it.
    pub memory: Volume,
}

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Forward, backward, update.
    Train,
    /// Forward only.
    Evaluate,
}

/// Dense parameters whose gradients are reduced together, by index into [`Model::dense_parameter_list`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The parameters, in backward order.
    pub parameters: Vec<usize>,
    /// Where each begins in the bucket.
    pub starts: Vec<usize>,
    /// Length of the bucket.
    pub elements: usize,
}

/// The phases of one step of a model on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    deployment: Deployment,
    task: Task,
    buckets: Vec<Bucket>,
    tower_buckets: Vec<Bucket>,
    phases: Vec<Phase>,
}

impl Schedule {
    /// The hybrid-parallel step: tables model-parallel, the dense network data-parallel, its gradients reduced in buckets
    /// of about `bucket_bytes`. Vectors travel as the deployment's dataflow says: flat as in Neo, or by SPTT.
    pub fn new(deployment: &Deployment, task: Task, bucket_bytes: usize) -> Self {
        match &deployment.dataflow {
            Dataflow::Flat(_) => flat::build(deployment, task, bucket_bytes),
            Dataflow::Sptt(plan) => sptt::build(deployment, plan, task, bucket_bytes),
        }
    }

    /// The same phases in the same order, each waiting for all that were issued before it, so that nothing overlaps.
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

    /// The phases, in issue order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The buckets of the network's parameters, reduced over the world.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The towers' parameters by group, reduced inside it. On a rank its group's comes after [`buckets`](Self::buckets).
    pub fn tower_buckets(&self) -> &[Bucket] {
        &self.tower_buckets
    }

    /// What it follows from.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// The model it trains.
    pub fn model(&self) -> &Model {
        &self.deployment.model
    }

    /// The placement it was built for.
    pub fn placement(&self) -> &Placement {
        &self.deployment.placement
    }

    /// What it is for.
    pub fn task(&self) -> Task {
        self.task
    }

    /// Bytes that `rank` sends in a phase.
    pub fn sent(&self, id: PhaseId, sizes: &BatchSizes, rank: usize) -> LinkBytes {
        match &self.phases[id.0].work {
            Work::Compute(_) => LinkBytes::default(),
            Work::Collective(c) => c.traffic.sent(&self.deployment, sizes, rank),
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

    /// The schedule as a table a person can read, with the volumes of a typical global batch of `batch` samples.
    pub fn table(&self, batch: usize) -> String {
        table::render(self, batch)
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CollectiveKind::AllToAll => "all-to-all",
            CollectiveKind::AllReduce => "all-reduce",
            CollectiveKind::ReduceScatter => "reduce-scatter",
            CollectiveKind::AllGather => "all-gather",
        })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Group::World => "world",
            Group::Group => "group",
            Group::Peers => "peers",
            Group::Host => "host",
            Group::Across => "ranks of equal index on their hosts",
        })
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Lane::Compute => "compute",
            Lane::Exchange => "exchange",
            Lane::Gradients => "gradients",
        })
    }
}
