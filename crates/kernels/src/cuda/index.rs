//! Index of bags: `kernels/index.cu`.
//!
//! Segments and bag lengths are the host's, so segments are checked before anything is queued, and the number of ids of each table is
//! known without reading it back. Each segment gets a place for its keys among sorted ids, so that keys are in the order of their
//! values before they are sorted by row.

use super::Cuda;
use super::memory::Pointer;
use super::tables::BLOCK;
use crate::op::{Result, need};
use crate::{BagIndex, IndexBags, Segment};

/// Bags of a block, where all bags have one id.
const BAGS: usize = 4 * BLOCK;

/// Stands for bags of one id each.
const SINGLE: u32 = u32::MAX;

/// A segment, as `struct SegmentCall` of `kernels/index.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::NoUninit)]
struct SegmentCall {
    bag: u32,
    samples: u32,
    value: u32,
    place: u32,
    lengths: u32,
}

pub(super) fn index_bags(cuda: &Cuda, args: IndexBags) -> Result {
    let IndexBags { tables, samples, segments, lengths, values, index } = args;
    need("index_bags", "32-bit bags", tables.saturating_mul(samples), u32::MAX as usize)?;
    let count = |segment: &Segment| match segment.lengths_at {
        None => segment.samples,
        Some(at) => lengths[at..at + segment.samples].iter().map(|&length| length as usize).sum(),
    };
    let counts: Vec<usize> = segments.iter().map(count).collect();
    for (segment, count) in segments.iter().zip(&counts) {
        need("index_bags", "values", segment.first_value.saturating_add(*count), values)?;
    }
    let Some(places) = places(tables, segments, &counts) else {
        return overlapping(samples, tables, segments, lengths, index);
    };
    index.resize(tables, samples)?;
    index.places.firsts.resize(tables * samples)?;
    index.places.counts.clear();
    index.places.counts.resize(tables, 0);
    for (segment, count) in segments.iter().zip(&counts) {
        index.places.counts[segment.table] += count;
    }
    let vary = segments.iter().any(|segment| segment.lengths_at.is_some());
    (index.places.ordered, index.places.vary) = (true, vary);
    if segments.iter().map(|segment| segment.samples).sum::<usize>() < tables * samples {
        // Bags that no segment covers are empty.
        let bytes = tables * samples * size_of::<u32>();
        for buffer in [&index.starts, &index.lengths, &index.places.firsts] {
            cuda.stream().fill(buffer.card_address().0, 0, bytes)?;
        }
    }
    let call = |(segment, place): (&Segment, &usize)| SegmentCall {
        bag: (segment.table * samples + segment.first_sample) as u32,
        samples: segment.samples as u32,
        value: segment.first_value as u32,
        place: *place as u32,
        lengths: segment.lengths_at.map_or(SINGLE, |at| at as u32),
    };
    let calls: Vec<_> = segments.iter().zip(&places).map(call).collect();
    // The larger array first: more room for it would move the other.
    let given = if vary { cuda.transient(lengths)? } else { Pointer::NULL };
    let on_card = cuda.array(vary, &calls)?;
    let singles = segments.iter().filter(|segment| segment.lengths_at.is_none());
    let most = singles.map(|segment| segment.samples).max().unwrap_or(0);
    let BagIndex { starts, lengths, places, .. } = index;
    let single = cuda.kernel("index_single").grid3([calls.len(), most.div_ceil(BAGS), 1]).arg(on_card);
    single.arg(&mut *starts).arg(&mut *lengths).arg(&mut places.firsts).launch()?;
    if vary {
        let scanned = cuda.kernel("index_lengths").block(1024).grid(calls.len()).arg(on_card).arg(given);
        scanned.arg(starts).arg(lengths).arg(&mut places.firsts).launch()?;
    }
    Ok(())
}

/// Place of the first key of each segment, table after table, in the order of the values; `None` where segments share values or
/// bags, and the order of their keys is not that of the segments.
pub fn places(tables: usize, segments: &[Segment], counts: &[usize]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..segments.len()).filter(|&i| segments[i].samples > 0).collect();
    order.sort_unstable_by_key(|&i| (segments[i].table, segments[i].first_sample));
    let meet = |a: usize, b: usize| {
        let (a, b) = (&segments[a], &segments[b]);
        a.table == b.table && a.first_sample + a.samples > b.first_sample
    };
    if order.windows(2).any(|pair| meet(pair[0], pair[1])) {
        return None;
    }
    order.retain(|&i| counts[i] > 0);
    order.sort_unstable_by_key(|&i| segments[i].first_value);
    let ends_in = |a: usize, b: usize| segments[a].first_value + counts[a] > segments[b].first_value;
    if order.windows(2).any(|pair| ends_in(pair[0], pair[1])) {
        return None;
    }
    let mut next = vec![0; tables + 1];
    for (segment, count) in segments.iter().zip(counts) {
        next[segment.table + 1] += count;
    }
    for table in 0..tables {
        next[table + 1] += next[table];
    }
    let mut places = vec![0; segments.len()];
    for i in order {
        places[i] = next[segments[i].table];
        next[segments[i].table] += counts[i];
    }
    Some(places)
}

/// Index of segments that share values or bags, as no batch has them: found on the host, the last segment of a bag being the one.
fn overlapping(
    samples: usize,
    tables: usize,
    segments: &[Segment],
    lengths: &[u32],
    index: &mut BagIndex,
) -> Result {
    let (mut starts, mut bag_lengths) = (vec![0; tables * samples], vec![0; tables * samples]);
    for segment in segments {
        let mut start = segment.first_value as u32;
        for s in 0..segment.samples {
            let bag = segment.table * samples + segment.first_sample + s;
            starts[bag] = start;
            bag_lengths[bag] = segment.lengths_at.map_or(1, |at| lengths[at + s]);
            start += bag_lengths[bag];
        }
    }
    index.write(tables, samples, &starts, &bag_lengths)
}
