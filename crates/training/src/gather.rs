//! Small things of all ranks, brought together on every rank.

use crate::Error;
use crate::metrics::Histogram;
use collectives::{Communicator, Label};
use kernels::{Buffer, Element};

/// What all ranks have, in rank order.
pub(crate) fn gathered<T: Element>(
    world: &Communicator,
    label: &Label,
    mine: &[T],
    counts: &[usize],
) -> Result<Vec<T>, Error> {
    let mine = Buffer::from_slice(world.device(), mine)?;
    let (_, all) = world.all_gather(label, mine, counts, Buffer::empty())?;
    Ok(all.to_vec())
}

/// What all ranks have, in rank order, on rank 0; nothing elsewhere. `counts` are known to all.
pub(crate) fn to_first<T: Element>(
    world: &Communicator,
    label: &Label,
    mine: &[T],
    counts: &[usize],
) -> Result<Vec<T>, Error> {
    let mine = Buffer::from_slice(world.device(), mine)?;
    let mut to = vec![0; world.size()];
    to[0] = mine.len();
    let nothing = vec![0; world.size()];
    let from = if world.rank() == 0 { counts } else { &nothing };
    let (_, all) = world.all_to_all(label, mine, &to, Buffer::empty(), from)?;
    Ok(all.to_vec())
}

/// The histograms of all ranks together.
pub(crate) fn merged(world: &Communicator, label: &Label, mine: &Histogram) -> Result<Histogram, Error> {
    let counts = vec![2 * Histogram::BINS; world.size()];
    let all = gathered(world, label, &mine.counts(), &counts)?;
    let mut merged = Histogram::default();
    for counts in all.chunks_exact(2 * Histogram::BINS) {
        merged.add_counts(counts);
    }
    Ok(merged)
}
