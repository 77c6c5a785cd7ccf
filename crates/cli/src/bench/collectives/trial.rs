//! One collective of one size on one rank: its buffers, its call, and its expected result.

use anyhow::{Result, bail};
use collectives::{Communicator, Label, Lossy, Prepared};
use kernels::Buffer;
use spec::codec::{Codec, Compensation};
use spec::placement::share;
use spec::program::{Algorithm, Units};
use spec::schedule::CollectiveKind;
use std::sync::Arc;

/// A collective that is called repeatedly.
pub struct Trial<'a> {
    kind: CollectiveKind,
    group: &'a Communicator,
    elements: usize,
    /// Elements that each member receives, and in an all-gather sends.
    counts: Vec<usize>,
    /// Elements that an all-to-all brings from each member.
    from: Vec<usize>,
    /// Program of an all-reduce.
    prepared: Arc<Prepared>,
    send: Buffer<f32>,
    recv: Buffer<f32>,
}

/// Values repeat after so many elements and so many ranks; their sums over 65536 ranks are exact.
const PERIOD: usize = 251;

/// What world rank `rank` sends at `index`.
fn value(rank: usize, index: usize) -> f32 {
    ((31 * rank + index) % PERIOD) as f32
}

impl<'a> Trial<'a> {
    /// A trial of `elements` floats a rank, each a value that identifies its rank.
    pub fn new(
        group: &'a Communicator,
        kind: CollectiveKind,
        algorithm: Algorithm,
        elements: usize,
    ) -> Result<Self> {
        let counts: Vec<usize> = (0..group.size()).map(|i| share(elements, group.size(), i).len()).collect();
        let sent = match kind {
            CollectiveKind::AllGather => counts[group.rank()],
            _ => elements,
        };
        let values: Vec<f32> = (0..sent).map(|index| value(group.world_rank(), index)).collect();
        let send = Buffer::from_slice(group.device(), &values)?;
        let from = vec![counts[group.rank()]; group.size()];
        let prepared = match kind {
            CollectiveKind::AllReduce => {
                let units = Units::of_tensors(Codec::F32, elements, &[]);
                group.prepare_all_reduce(units, algorithm, Compensation::None)
            }
            _ => Prepared::default(),
        };
        let (prepared, recv) = (Arc::new(prepared), Buffer::new(group.device()));
        Ok(Self { kind, group, elements, counts, from, prepared, send, recv })
    }

    /// Number of messages that this rank sends in an all-reduce, and the size of the longest, in bytes; `None` for other
    /// collectives.
    pub fn sent(&self) -> Option<(usize, usize)> {
        let all_reduces = self.kind == CollectiveKind::AllReduce;
        let lengths = || self.prepared.program.sent().map(|sent| sent.len);
        all_reduces.then(|| (lengths().count(), lengths().max().unwrap_or(0)))
    }

    /// Calls the collective once.
    pub fn call(&mut self, label: &Label) -> Result<()> {
        let (group, counts) = (self.group, &self.counts);
        let (send, recv) = (self.send.take(), self.recv.take());
        (self.send, self.recv) = match self.kind {
            CollectiveKind::AllToAll => group.all_to_all(label, send, counts, recv, &self.from)?,
            CollectiveKind::ReduceScatter => group.reduce_scatter(label, send, counts, recv)?,
            CollectiveKind::AllGather => group.all_gather(label, send, counts, recv)?,
            CollectiveKind::AllReduce => {
                let none = Lossy::none(group.device());
                let (_, sums) = group.start_all_reduce_by(label, &self.prepared, send, none)?.wait()?;
                (sums, recv)
            }
        };
        Ok(())
    }

    /// Refuses a wrong result of the first call.
    pub fn verify(&mut self) -> Result<()> {
        let got = match self.kind {
            CollectiveKind::AllReduce => self.send.to_vec()?,
            _ => self.recv.to_vec()?,
        };
        let expected = self.expected();
        if let Some((index, got, expected)) = first_wrong(&got, &expected) {
            bail!(
                "rank {}: {} of {} bytes among {} ranks returned {got} at element {index}, expected {expected}; please \
                 report this",
                self.group.world_rank(),
                self.kind,
                4 * self.elements,
                self.group.size()
            );
        }
        if self.kind == CollectiveKind::AllReduce {
            // Sums of sums would grow without bounds.
            self.send.write(0, &vec![0.0; self.elements])?;
        }
        Ok(())
    }

    /// Result that this rank must have.
    fn expected(&self) -> Vec<f32> {
        let (members, me) = (self.group.members(), self.group.rank());
        let own = share(self.elements, self.group.size(), me);
        // Sums repeat as values do.
        let sums: Vec<f32> =
            (0..PERIOD).map(|index| members.iter().map(|&rank| value(rank, index)).sum()).collect();
        match self.kind {
            CollectiveKind::AllToAll => {
                let from = |&rank: &usize| own.clone().map(move |index| value(rank, index));
                members.iter().flat_map(from).collect()
            }
            CollectiveKind::AllReduce => (0..self.elements).map(|index| sums[index % PERIOD]).collect(),
            CollectiveKind::ReduceScatter => own.map(|index| sums[index % PERIOD]).collect(),
            CollectiveKind::AllGather => {
                let of = |(&rank, &count): (&usize, &usize)| (0..count).map(move |index| value(rank, index));
                members.iter().zip(&self.counts).flat_map(of).collect()
            }
        }
    }
}

/// The first element that is not as expected, or is missing or too many: its index, what it is, and what it should be.
fn first_wrong(got: &[f32], expected: &[f32]) -> Option<(usize, f32, f32)> {
    let differs = |i: &usize| got.get(*i) != expected.get(*i);
    let at = |values: &[f32], i: usize| values.get(i).copied().unwrap_or(f32::NAN);
    (0..got.len().max(expected.len())).find(differs).map(|i| (i, at(got, i), at(expected, i)))
}

#[cfg(test)]
mod tests;
