//! One collective of a step on one rank: buffers of its sizes, to be sent over and over.

use super::file::ReplayedStep;
use anyhow::{Context, Result};
use collectives::{Communicator, Label, Lossy, Pending, Prepared, Vectors};
use kernels::{Buffer, Element, Round};
use spec::program::{Program, Units};
use spec::schedule::{Collective, CollectiveKind};
use spec::volume::Traffic;
use std::ops::Range;
use std::sync::Arc;

type Pair<T> = (Buffer<T>, Buffer<T>);

/// A collective that is started and waited for like that of a step. Elements are bytes where they are only moved, and floats
/// where they are added or encoded on the way.
pub struct Flight<'a> {
    pub label: Label,
    kind: CollectiveKind,
    /// Whether an all-gather moves bytes as they are.
    gathers_bytes: bool,
    group: &'a Communicator,
    /// Bytes sent to each member, in an all-to-all.
    to: Vec<usize>,
    /// Bytes received from each member, in an all-to-all.
    from: Vec<usize>,
    bytes: Pair<u8>,
    /// What is sent, or the error state of an all-reduce; what is received, or the vector of an all-reduce.
    floats: Pair<f32>,
    /// Program of a collective that adds or encodes.
    prepared: Arc<Prepared>,
    /// Units of each member, in a reduce-scatter or an all-gather.
    shares: Vec<Range<usize>>,
    pending: Option<UnderWay>,
}

enum UnderWay {
    Bytes(Pending<Pair<u8>>),
    Floats(Pending<Pair<f32>>),
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
        let to: Vec<usize> = group.members().iter().map(|&member| block(me, member)).collect();
        let from: Vec<usize> = group.members().iter().map(|&member| block(member, me)).collect();
        let gathers_bytes = matches!(traffic, Traffic::ToCopies { .. });
        let (mut bytes, mut floats) = (0, [0, 0]);
        let (mut prepared, mut shares) = (Prepared::default(), Vec::new());
        match collective.kind {
            CollectiveKind::AllToAll => bytes = to.iter().sum(),
            // Every copy gets the same bytes.
            CollectiveKind::AllGather if gathers_bytes => bytes = block(me, me),
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
                let scatters = collective.kind == CollectiveKind::ReduceScatter;
                let widths = deployment.summed_by(me).iter().map(|shard| shard.columns.len());
                let widths: Vec<usize> = widths.collect();
                let sample = Units::of_vectors(traffic.codec(), &widths, 1);
                let of_sample = sample.bytes(0..sample.count()).max(1);
                let mut end = 0;
                for bytes in if scatters { &to } else { &from } {
                    let begin = end;
                    end += bytes / of_sample * sample.count();
                    shares.push(begin..end);
                }
                let units = Units::of_vectors(traffic.codec(), &widths, end / sample.count().max(1));
                prepared.program = match scatters {
                    true => Program::reduce_scatter(&units, &shares, group.rank()),
                    false => Program::all_gather(&units, &shares, group.rank()),
                };
                floats[0] =
                    units.extent(if scatters { 0..units.count() } else { shares[group.rank()].clone() });
                prepared.units = units;
            }
            CollectiveKind::AllReduce => {
                let vector = traffic.reduced(deployment, me);
                let program = collective.program(deployment, me);
                let (vector, program) = vector
                    .zip(program)
                    .with_context(|| format!("{name}: {traffic} is not a reduction that can be replayed"))?;
                floats = [program.error_len(), vector.elements];
                prepared = Prepared::new(vector.units(traffic.codec()), program);
            }
        }
        // Memory that nobody wrote to would be one page of zeros, read from the cache.
        fn written<T: Element>(group: &Communicator, zero: T, len: usize) -> Result<Buffer<T>> {
            Ok(Buffer::from_slice(group.device(), &vec![zero; len])?)
        }
        let bytes = (written(group, 0u8, bytes)?, Buffer::new(group.device()));
        let floats = (written(group, 0f32, floats[0])?, written(group, 0f32, floats[1])?);
        let (label, kind, prepared) = (name.into(), collective.kind, Arc::new(prepared));
        Ok(Self {
            label,
            kind,
            gathers_bytes,
            group,
            to,
            from,
            bytes,
            floats,
            prepared,
            shares,
            pending: None,
        })
    }

    /// Starts the collective.
    pub fn start(&mut self) -> Result<()> {
        let Self { group, label, to, from, prepared, shares, .. } = self;
        let (bytes, floats) = (&mut self.bytes, &mut self.floats);
        let mut vectors = || Vectors { send: floats.0.take(), recv: floats.1.take(), round: Round::Nearest };
        self.pending = Some(match self.kind {
            CollectiveKind::AllToAll => {
                let (send, recv) = (bytes.0.take(), bytes.1.take());
                UnderWay::Bytes(group.start_all_to_all(label, send, to, recv, from)?)
            }
            CollectiveKind::AllGather if self.gathers_bytes => {
                let (send, recv) = (bytes.0.take(), bytes.1.take());
                UnderWay::Bytes(group.start_all_gather(label, send, from, recv)?)
            }
            CollectiveKind::AllGather => {
                UnderWay::Floats(group.start_all_gather_by(label, prepared, shares, vectors())?)
            }
            CollectiveKind::ReduceScatter => {
                UnderWay::Floats(group.start_reduce_scatter_by(label, prepared, shares, vectors())?)
            }
            CollectiveKind::AllReduce => {
                let Vectors { send: error, recv: vector, round } = vectors();
                let lossy = Lossy { error, round };
                UnderWay::Floats(group.start_all_reduce_by(label, prepared, vector, lossy)?)
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
        }
        Ok(())
    }
}
