//! Small things of all ranks, brought together on every rank.

use crate::Error;
use crate::metrics::Histogram;
use collectives::{Communicator, Label};
use kernels::{Buffer, Element};
use spec::placement::share;

/// Room that a rank takes for numbers to be added up.
pub(crate) const ADDED_BYTES: usize = 1 << 20;

/// Gathers the values of all ranks on every rank, in rank order.
pub(crate) fn gathered<T: Element>(
    world: &Communicator,
    label: &Label,
    mine: &[T],
    counts: &[usize],
) -> Result<Vec<T>, Error> {
    let mine = Buffer::from_slice(world.device().host(), mine)?;
    let (_, all) = world.all_gather(label, mine, counts, Buffer::new(world.device().host()))?;
    Ok(all.to_vec()?)
}

/// Gathers the values of all ranks on rank 0, in rank order; other ranks get nothing. All ranks know `counts`.
pub(crate) fn to_first<T: Element>(
    world: &Communicator,
    label: &Label,
    mine: &[T],
    counts: &[usize],
) -> Result<Vec<T>, Error> {
    let mine = Buffer::from_slice(world.device().host(), mine)?;
    let mut to = vec![0; world.size()];
    to[0] = mine.len();
    let nothing = vec![0; world.size()];
    let from = if world.rank() == 0 { counts } else { &nothing };
    let (_, all) = world.all_to_all(label, mine, &to, Buffer::new(world.device().host()), from)?;
    Ok(all.to_vec()?)
}

/// The histograms of all ranks together, on rank 0; an empty one elsewhere. Every rank adds up its share of the bins of
/// all, so that none needs room for the histograms of all ranks.
pub(crate) fn merged(world: &Communicator, label: &Label, mine: &Histogram) -> Result<Histogram, Error> {
    let (size, bins) = (world.size(), 2 * Histogram::BINS);
    let counts = Buffer::from_slice(world.device().host(), &mine.counts())?;
    let shares: Vec<usize> = (0..size).map(|rank| share(bins, size, rank).len()).collect();
    let own = shares[world.rank()];
    let (_, parts) =
        world.all_to_all(label, counts, &shares, Buffer::new(world.device().host()), &vec![own; size])?;
    let mut sums = vec![0u64; own];
    for part in parts.to_vec()?.chunks_exact(own.max(1)) {
        sums.iter_mut().zip(part).for_each(|(sum, count)| *sum += count);
    }
    let mut merged = Histogram::default();
    merged.add_counts(&to_first(world, label, &sums, &shares)?);
    Ok(merged)
}

/// Adds up `values` over all ranks, on every rank: in parts, because a sum takes room for the numbers of all ranks.
pub(crate) fn add_up(world: &Communicator, label: &Label, values: &mut [f64]) -> Result<(), Error> {
    let part = (ADDED_BYTES / size_of::<f64>() / world.size()).max(1);
    for part in values.chunks_mut(part) {
        world.all_reduce_f64(label, part)?;
    }
    Ok(())
}
