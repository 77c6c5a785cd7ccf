//! A step with numbers: what every operation computes, touches and sends on one device, and what it waits for.
//!
//! A [`spec::schedule::Schedule`] says the same in symbols, for any rank and batch; [`StepGraph::of_schedule`] binds it to the
//! busiest rank. Models that are only simulated are built as steps at once (see [`crate::workload`]). Cost models price
//! operations, [`crate::Timeline`] lays them on their lanes.

mod alike;
mod of_schedule;
mod reduction;

pub use reduction::{Reduction, Stage};
pub use spec::schedule::Part;
use spec::schedule::{CollectiveKind, Distance, Lane, PhaseId};
use std::borrow::Cow;
use std::fmt;

/// The operations of one step, in issue order.
#[derive(Clone, Debug, PartialEq)]
pub struct StepGraph {
    /// Samples that the whole cluster takes in a step.
    pub samples: f64,
    /// How the next step follows.
    pub period: Period,
    /// The operations.
    pub operations: Vec<Op>,
}

/// How consecutive steps follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// A step begins when all of the one before has ended.
    Once,
    /// Lanes go on: an operation waits for its lane and for what it comes after, in this step or an earlier one.
    Steady,
}

/// An operation of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Name of the operation.
    pub label: OperationName,
    /// Lane in which the operation queues.
    pub lane: Lane,
    /// Operations that this one waits for: of this step, or of an earlier one.
    pub after: Vec<(PhaseId, Distance)>,
    /// Whether the operation is of the next step's batch: what it prepares is used one step later.
    pub ahead: bool,
    /// The part of a step that it belongs to.
    pub part: Part,
    /// Computation or collective.
    pub work: Work,
}

/// The name of an operation; built for every strategy that is looked at, so it allocates nothing where it need not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationName {
    /// The layer that it belongs to, by kind and index.
    pub layer: Option<(&'static str, usize)>,
    /// Action on the layer.
    pub action: Cow<'static, str>,
}

/// Work of an operation on one device.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A computation.
    Compute(Compute),
    /// A collective whose algorithm is not given: an all-to-all, or any collective of a model that is only simulated.
    Transfer(Transfer),
    /// A reduction or a gather of a schedule, by the program that its ranks execute.
    Reduction(Box<Reduction>),
}

/// A computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compute {
    /// Class of the computation in the breakdown.
    pub class: ComputeClass,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes of memory touched.
    pub bytes: f64,
    /// Bytes of an operand: 2 has the speed of f16, 4 of f32 (or TF32 where the device has it).
    pub operand: f64,
}

/// Class of a computation in the breakdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComputeClass {
    /// Matrix products.
    Gemm,
    /// Lookups in tables, and their updates.
    Embedding,
    /// Anything else: layouts, element-wise work, optimizers.
    Other,
}

/// A collective, from the point of view of one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Kind of the collective.
    pub kind: CollectiveKind,
    /// Devices that take part in it together.
    pub members: usize,
    /// Nodes that these are on.
    pub nodes: usize,
    /// Bytes of the whole vector, for reductions and gathers. For an all-to-all: bytes that the busiest device sends or
    /// receives, its own part apart.
    pub bytes: f64,
    /// Bytes that go to other nodes, for an all-to-all.
    pub between_nodes: f64,
}

impl OperationName {
    /// A name.
    pub fn of(action: &'static str) -> Self {
        Self { layer: None, action: Cow::Borrowed(action) }
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            None => f.pad(&self.action),
            Some((kind, index)) => f.pad(&format!("{kind} {index} {}", self.action)),
        }
    }
}

impl Transfer {
    /// An all-to-all in which a device has `bytes` for all members, itself included, in equal parts.
    pub fn all_to_all(members: usize, nodes: usize, bytes: f64) -> Self {
        let (all, away) = (members.max(1) as f64, members - members / nodes.max(1));
        Self {
            kind: CollectiveKind::AllToAll,
            members,
            nodes,
            bytes: bytes * (all - 1.0) / all,
            between_nodes: bytes * away as f64 / all,
        }
    }

    /// A reduction or a gather of a vector.
    pub fn of_vector(kind: CollectiveKind, members: usize, nodes: usize, bytes: f64) -> Self {
        Self { kind, members, nodes, bytes, between_nodes: 0.0 }
    }
}

impl Work {
    /// Collective from the point of view of one device; `None` for a computation.
    pub fn transfer(&self) -> Option<&Transfer> {
        match self {
            Work::Compute(_) => None,
            Work::Transfer(transfer) => Some(transfer),
            Work::Reduction(reduction) => Some(&reduction.vector),
        }
    }
}

impl Op {
    /// Whether the operation is a computation.
    pub fn computes(&self) -> bool {
        matches!(self.work, Work::Compute(_))
    }

    /// Whether the operation gathers what devices have shards of.
    pub(crate) fn gathers(&self) -> bool {
        self.work.transfer().is_some_and(|transfer| transfer.kind == CollectiveKind::AllGather)
    }
}

impl StepGraph {
    /// The step of one batch by itself, from its ids to its end: what works ahead comes first, and nothing waits for other steps. With
    /// it comes, for each of its operations, the index of that operation in this step.
    pub fn alone(&self) -> (Self, Vec<usize>) {
        let (ahead, rest): (Vec<usize>, Vec<usize>) =
            (0..self.operations.len()).partition(|&i| self.operations[i].ahead);
        let order = [ahead, rest].concat();
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| place[from] = to);
        let operation = |&from: &usize| {
            let op = &self.operations[from];
            // What works ahead for this batch did so in the step before; all else of this batch is in the same step.
            let of_batch = |&(PhaseId(other), distance): &(PhaseId, Distance)| {
                let same_batch = match (self.operations[other].ahead, op.ahead) {
                    (true, false) => distance == 1,
                    (false, true) => false,
                    _ => distance == 0,
                };
                same_batch.then(|| (PhaseId(place[other]), 0))
            };
            Op { after: op.after.iter().filter_map(of_batch).collect(), ..op.clone() }
        };
        let operations = order.iter().map(operation).collect();
        (Self { period: Period::Once, operations, ..*self }, order)
    }

    /// The step with all collectives on one lane, in issue order: two lanes, as MAD-Max has them.
    pub fn on_two_lanes(mut self) -> Self {
        for op in self.operations.iter_mut().filter(|op| op.lane == Lane::Gradients) {
            op.lane = Lane::Exchange;
        }
        self
    }
}
