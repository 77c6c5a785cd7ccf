//! One collective of a step on one rank: buffers of its sizes, to be sent over and over.

use super::file::ReplayedStep;
use anyhow::{Result, bail};
use collectives::{Communicator, Label, Pending};
use kernels::{Buffer, Element};
use spec::codec::Codec;
use spec::dataflow::Sptt;
use spec::schedule::{Collective, CollectiveKind};
use spec::volume::Traffic;

type Pair<T> = (Buffer<T>, Buffer<T>);

/// A collective that is started and waited for like that of a step. Elements are bytes where they are only moved, and floats
/// where they are added or encoded on the way.
pub struct Flight<'a> {
    pub label: Label,
    kind: CollectiveKind,
    wire: Codec,
    group: &'a Communicator,
    /// Elements sent to each member.
    to: Vec<usize>,
    /// Elements received from each member.
    from: Vec<usize>,
    bytes: Pair<u8>,
    floats: Pair<f32>,
    pending: Option<UnderWay>,
}

enum UnderWay {
    Bytes(Pending<Pair<u8>>),
    Floats(Pending<Pair<f32>>),
    Sum(Pending<Buffer<f32>>),
}

impl<'a> Flight<'a> {
    /// The collective of a step under the name of its phase.
    pub fn new(
        step: &ReplayedStep,
        name: &str,
        collective: &Collective,
        group: &'a Communicator,
    ) -> Result<Self> {
        let (deployment, traffic) = (step.schedule.deployment(), &collective.traffic);
        let me = group.world_rank();
        let block = |from, to| traffic.block(deployment, &step.sizes, from, to) as usize;
        let mut to: Vec<usize> = group.members().iter().map(|&member| block(me, member)).collect();
        let mut from: Vec<usize> = group.members().iter().map(|&member| block(member, me)).collect();
        let (mut bytes, mut floats) = (0, 0);
        match collective.kind {
            CollectiveKind::AllToAll => bytes = to.iter().sum(),
            CollectiveKind::AllGather => {
                from.iter_mut().for_each(|count| *count /= traffic.scalar_bytes() as usize);
                floats = from[group.rank()];
            }
            CollectiveKind::ReduceScatter => {
                to.iter_mut().for_each(|count| *count /= traffic.scalar_bytes() as usize);
                floats = to.iter().sum();
            }
            CollectiveKind::AllReduce => {
                floats = match (traffic, deployment.dataflow.sptt().map(Sptt::groups)) {
                    (Traffic::AllReduce { elements, .. } | Traffic::PeerAllReduce { elements, .. }, _) => {
                        *elements
                    }
                    (Traffic::GroupAllReduce { elements, .. }, Some(groups)) => elements[groups.group_of(me)],
                    (traffic, _) => bail!("{name}: {traffic} is not a reduction that can be replayed"),
                }
            }
        }
        // Memory that nobody wrote to would be one page of zeros, read from the cache.
        fn written<T: Element>(group: &Communicator, zero: T, len: usize) -> Result<Pair<T>> {
            Ok((Buffer::from_slice(group.device(), &vec![zero; len])?, Buffer::new(group.device())))
        }
        let (bytes, floats) = (written(group, 0u8, bytes)?, written(group, 0f32, floats)?);
        let Collective { kind, wire, .. } = *collective;
        Ok(Self { label: name.into(), kind, wire, group, to, from, bytes, floats, pending: None })
    }

    /// Starts the collective.
    pub fn start(&mut self) -> Result<()> {
        let Self { group, label, to, from, wire, .. } = self;
        let (bytes, floats) = (&mut self.bytes, &mut self.floats);
        self.pending = Some(match self.kind {
            CollectiveKind::AllToAll => {
                let (send, recv) = (bytes.0.take(), bytes.1.take());
                UnderWay::Bytes(group.start_all_to_all(label, send, to, recv, from)?)
            }
            CollectiveKind::AllGather => {
                let (send, recv) = (floats.0.take(), floats.1.take());
                UnderWay::Floats(group.start_all_gather_as(label, *wire, send, from, recv)?)
            }
            CollectiveKind::ReduceScatter => {
                let (send, recv) = (floats.0.take(), floats.1.take());
                UnderWay::Floats(group.start_reduce_scatter_as(label, *wire, send, to, recv)?)
            }
            CollectiveKind::AllReduce => {
                UnderWay::Sum(group.start_all_reduce_as(label, *wire, floats.0.take())?)
            }
        });
        Ok(())
    }

    /// Waits for the collective, if it is under way.
    pub fn wait(&mut self) -> Result<()> {
        match self.pending.take() {
            None => {}
            Some(UnderWay::Bytes(pending)) => self.bytes = pending.wait()?,
            Some(UnderWay::Floats(pending)) => self.floats = pending.wait()?,
            Some(UnderWay::Sum(pending)) => self.floats.0 = pending.wait()?,
        }
        Ok(())
    }
}
