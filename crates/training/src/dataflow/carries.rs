//! What a collective of a schedule carries, and the buffers that it works on.

use super::{Exchange, Reduction, Sums};
use crate::Error;
use collectives::{Communicator, Completion, Label};
use kernels::{Buffer, Round};
use spec::schedule::{Collective, CollectiveKind, Phase, Slot};
use spec::volume::{CopyItem, Item, Leg, Traffic};
use std::fmt;

/// What a collective carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Lengths of bags, to the holders of tables.
    Lengths,
    /// Ids, to the holders of tables.
    Ids,
    /// Weights of ids, to the holders of tables.
    Weights,
    /// Vectors or their gradients on a leg of the way, by its only exchange or by the second of two levels.
    Vectors(Leg),
    /// Vectors or their gradients on a leg of the way, by the first of two levels.
    VectorsInHost(Leg),
    /// Partial sums of tables cut by rows, to the members of the group.
    PartialSums,
    /// Gradients of partial sums, to the holders of the rows.
    SumGradients,
    /// Numbers of rows that copies of tables touch, to all copies.
    RowCounts,
    /// Rows that copies of tables touch, to all copies.
    TouchedRows,
    /// Sums of the gradients of these rows, to all copies.
    RowSums,
    /// Sums of the gradients of all rows of tables with copies.
    RowVector,
    /// The gradient of a bucket of dense parameters.
    BucketGradient(usize),
    /// The square of the norm of the towers' gradients.
    TowerNorm,
}

impl Carries {
    /// What the collective of a phase carries.
    pub fn of(phase: &Phase, collective: &Collective) -> Result<Self, Error> {
        let unknown = || Error::Payload { phase: phase.name.clone(), collective: collective.kind };
        let leg = |traffic: &Traffic| leg(traffic).ok_or_else(unknown);
        Ok(match &collective.traffic {
            Traffic::ToHolders { item: Item::Length, .. } => Carries::Lengths,
            Traffic::ToHolders { item: Item::Id, .. } => Carries::Ids,
            Traffic::ToHolders { item: Item::Weight, .. } => Carries::Weights,
            Traffic::PartialSums { .. } => Carries::PartialSums,
            Traffic::SumGradients { .. } => Carries::SumGradients,
            Traffic::ToCopies { item: CopyItem::Count, .. } => Carries::RowCounts,
            Traffic::ToCopies { item: CopyItem::Row, .. } => Carries::TouchedRows,
            Traffic::ToCopies { item: CopyItem::Sum, .. } => Carries::RowSums,
            Traffic::AllReduce { .. } | Traffic::GroupAllReduce { .. }
                if phase.writes.contains(&Slot::RowVector) =>
            {
                Carries::RowVector
            }
            Traffic::AllReduce { .. } | Traffic::GroupAllReduce { .. } => {
                let bucket = |slot: &Slot| match slot {
                    Slot::BucketGradient(bucket) => Some(*bucket),
                    _ => None,
                };
                Carries::BucketGradient(phase.writes.iter().find_map(bucket).ok_or_else(unknown)?)
            }
            Traffic::PeerAllReduce { .. } => Carries::TowerNorm,
            Traffic::InHost { of } => Carries::VectorsInHost(leg(of)?),
            Traffic::BetweenHosts { of } => Carries::Vectors(leg(of)?),
            vectors => Carries::Vectors(leg(vectors)?),
        })
    }
}

/// The leg whose vectors some traffic moves.
fn leg(traffic: &Traffic) -> Option<Leg> {
    Some(match traffic {
        Traffic::ToSamples { item: Item::Vector, .. } => Leg::Pooled,
        Traffic::ToHolders { item: Item::Vector, .. } => Leg::Gradient,
        Traffic::ToGroup { .. } => Leg::Group,
        Traffic::ToPeers { .. } => Leg::Peer,
        Traffic::FromPeers { .. } => Leg::PeerGradient,
        Traffic::FromGroup { .. } => Leg::GroupGradient,
        _ => return None,
    })
}

impl fmt::Display for Carries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Carries::Lengths => f.pad("lengths"),
            Carries::Ids => f.pad("ids"),
            Carries::Weights => f.pad("weights"),
            Carries::Vectors(leg) => write!(f, "{leg} vectors"),
            Carries::VectorsInHost(leg) => write!(f, "{leg} vectors in a host"),
            Carries::PartialSums => f.pad("partial sums"),
            Carries::SumGradients => f.pad("gradients of partial sums"),
            Carries::RowCounts => f.pad("counts of touched rows"),
            Carries::TouchedRows => f.pad("touched rows"),
            Carries::RowSums => f.pad("sums of touched rows"),
            Carries::RowVector => f.pad("sums of all rows"),
            Carries::TowerNorm => f.pad("the norm of the towers' gradients"),
            Carries::BucketGradient(bucket) => write!(f, "the gradient of bucket {bucket}"),
        }
    }
}

/// Buffers that a collective works on. A collective is started and finished on the same payload, which keeps it while it is
/// under way.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Ids, or lengths of bags.
    Words(&'a mut Exchange<u32>),
    /// Weights of ids, vectors, or their gradients.
    Floats(&'a mut Exchange<f32>),
    /// Vectors or their gradients, encoded.
    Encoded(&'a mut Exchange<u8>),
    /// Partial sums of vectors, or their gradients.
    Sums(&'a mut Sums),
    /// The gradient of a bucket, or the square of the norm of some.
    Gradient {
        /// The gradient; elsewhere while it is being reduced.
        gradient: &'a mut Buffer<f32>,
        /// Program, error state, and the reduction while it is under way.
        reduction: &'a mut Reduction,
    },
}

impl Payload<'_> {
    /// Starts a collective of this kind on these buffers, among the ranks of `group`; values are rounded by `round`.
    pub fn start(
        self,
        kind: CollectiveKind,
        group: &Communicator,
        label: &Label,
        round: Round,
    ) -> Result<(), Error> {
        match (self, kind) {
            (Payload::Words(words), CollectiveKind::AllToAll) => words.start(group, label)?,
            (Payload::Encoded(encoded), CollectiveKind::AllToAll) => encoded.start(group, label)?,
            (Payload::Floats(floats), CollectiveKind::AllToAll) => floats.start(group, label)?,
            (Payload::Words(words), CollectiveKind::AllGather) => words.start_all_gather(group, label)?,
            (Payload::Floats(floats), CollectiveKind::AllGather) => floats.start_all_gather(group, label)?,
            (Payload::Sums(sums), CollectiveKind::ReduceScatter) => {
                sums.start_reduce_scatter(group, label, round)?;
            }
            (Payload::Sums(sums), CollectiveKind::AllGather) => {
                sums.start_all_gather(group, label, round)?;
            }
            (Payload::Gradient { gradient, reduction }, CollectiveKind::AllReduce) => {
                reduction.start(group, label, gradient, round)?;
            }
            (_, kind) => {
                return Err(Error::Payload { phase: label.as_str().into(), collective: kind });
            }
        }
        Ok(())
    }

    /// Waits for the collective under way, puts the buffers back, and says when it was done; `None` where none is.
    pub fn finish(self) -> Result<Option<Completion>, Error> {
        match self {
            Payload::Words(words) => words.finish(),
            Payload::Floats(floats) => floats.finish(),
            Payload::Encoded(encoded) => encoded.finish(),
            Payload::Sums(sums) => sums.finish(),
            Payload::Gradient { gradient, reduction } => reduction.finish(gradient),
        }
    }
}
