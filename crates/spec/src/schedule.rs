//! One training step as a value: phases in issue order on three lanes, with their dependencies, bytes and FLOPs.
//!
//! The trainer executes a schedule, the simulator prices it, `campanile schedule` prints it. There is no other step.
//!
//! The schedule is periodic. A phase may work *ahead*, on the batch of the next step (ids of batch i + 1 travel during
//! step i); a dependency may reach back to the previous step. Running the ahead phases alone is the prologue, leaving
//! them out of the last step the epilogue.

mod flat;
mod table;

use crate::model::{Block, Model};
use crate::placement::Placement;
use crate::volume::{BatchSizes, LinkBytes, Traffic, Volume};
use serde::Serialize;
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
}

/// The collectives a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveKind {
    /// Every rank sends every rank something else.
    AllToAll,
    /// Every rank gets the sum of all.
    AllReduce,
}

/// Ranks that take part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// All of them.
    World,
}

/// Where phases queue. A lane works through its phases in issue order; lanes run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Arithmetic.
    Compute,
    /// Ids and embeddings between ranks.
    Exchange,
    /// Dense gradients between ranks, apart so that they never delay an exchange on the critical path.
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
    /// Group the ids by row, in global sample order.
    SortIds,
    /// Look up and pool the world's samples in all tables held here.
    Lookup,
    /// Bring the pooled vectors that arrived, and the dense one, into the model's feature order.
    RestoreOrder,
    /// A block of the network.
    Forward(Block),
    /// Loss and its gradient by the logits.
    Loss,
    /// Probabilities for evaluation.
    Predict,
    /// Layers of a block of the network, last first.
    Backward(Block, Range<usize>),
    /// Lay out the gradients of pooled vectors by holder.
    SplitGradients,
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
    /// Pooled vectors by holder.
    Pooled,
    /// Pooled vectors by sample.
    Arrived,
    /// All vectors of a sample in feature order.
    Features,
    /// A block's output.
    Output(Block),
    /// The gradient of a block's output, or, below the last block, of what it reads.
    Gradient(Block),
    /// The gradient of the pooled vectors, by holder.
    PooledGradient,
    /// The same, arrived.
    ArrivedGradient,
    /// Weights of a bucket.
    Parameters(usize),
    /// Gradient of a bucket.
    BucketGradient(usize),
    /// Probabilities.
    Predictions,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Forward, backward, update.
    Train,
    /// Forward only.
    Evaluate,
}

/// Dense parameters whose gradients are reduced together, by index into [`crate::model::Network::parameters`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The parameters, in backward order.
    pub parameters: Vec<usize>,
    /// Where each begins in the bucket.
    pub starts: Vec<usize>,
    /// Length of the bucket.
    pub elements: usize,
}

/// The phases of one step of a model on a placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    model: Model,
    placement: Placement,
    task: Task,
    buckets: Vec<Bucket>,
    phases: Vec<Phase>,
}

impl Schedule {
    /// The flat hybrid-parallel step of Neo: tables model-parallel over the world, the dense network data-parallel,
    /// its gradients reduced in buckets of about `bucket_bytes`.
    pub fn flat(model: &Model, placement: &Placement, task: Task, bucket_bytes: usize) -> Self {
        flat::build(model, placement, task, bucket_bytes)
    }

    /// The phases, in issue order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The buckets of dense parameters.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The model it trains.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The placement it was built for.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// What it is for.
    pub fn task(&self) -> Task {
        self.task
    }

    /// Bytes that `rank` sends in a phase.
    pub fn sent(&self, id: PhaseId, sizes: &BatchSizes, rank: usize) -> LinkBytes {
        match &self.phases[id.0].work {
            Work::Compute(_) => LinkBytes::default(),
            Work::Collective(c) => c.traffic.sent(&self.model, &self.placement, sizes, rank),
        }
    }

    /// FLOPs that `rank` spends in a phase.
    pub fn flops(&self, id: PhaseId, sizes: &BatchSizes, rank: usize) -> u64 {
        self.phases[id.0].cost.flops.bind(&self.placement, sizes, rank)
    }

    /// Bytes of memory that `rank` must touch in a phase.
    pub fn memory(&self, id: PhaseId, sizes: &BatchSizes, rank: usize) -> u64 {
        self.phases[id.0].cost.memory.bind(&self.placement, sizes, rank)
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
        })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Group::World => "world",
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

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Block::Bottom => "bottom",
            Block::Interaction => "interaction",
            Block::Top => "top",
        })
    }
}
