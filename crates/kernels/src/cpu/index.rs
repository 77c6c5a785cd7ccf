//! Index of bags: a running sum of bag lengths for each segment.
//!
//! Threads divide the tables: the bags of a table lie together, and are written by one thread in the order of the segments.
#![allow(unsafe_code)]

use super::Cpu;
use super::shared::Shared;
use crate::reference::embedding::check_segments;
use crate::{IndexBags, KernelError, Segment};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bags that are worth a thread of their own.
const GRAIN: usize = 8 << 10;

pub(crate) fn index_bags(cpu: &Cpu, args: IndexBags) -> Result<(), KernelError> {
    let IndexBags { tables, samples, segments, lengths, values, index } = args;
    let grain = GRAIN.div_ceil(samples.max(1));
    let refused = AtomicBool::new(false);
    cpu.divide(segments.len(), grain, &|_, range| {
        if check_segments(&segments[range], lengths, values).is_err() {
            refused.store(true, Ordering::Relaxed);
        }
    });
    if refused.into_inner() {
        return check_segments(segments, lengths, values);
    }
    index.resize(tables, samples)?;
    let starts = Shared::new(index.starts.host_mut());
    let bag_lengths = Shared::new(index.lengths.host_mut());
    cpu.divide(tables, grain, &|_, which| {
        let bags = which.start * samples..which.end * samples;
        // SAFETY: the bags of different tables do not overlap.
        let (starts, bag_lengths) = unsafe { (starts.piece(bags.clone()), bag_lengths.piece(bags)) };
        starts.fill(0);
        bag_lengths.fill(0);
        for segment in segments.iter().filter(|segment| which.contains(&segment.table)) {
            let bags = (segment.table - which.start) * samples + segment.first_sample;
            let bags = bags..bags + segment.samples;
            fill(segment, lengths, &mut starts[bags.clone()], &mut bag_lengths[bags]);
        }
    });
    Ok(())
}

/// Bags of one segment.
fn fill(segment: &Segment, lengths: &[u32], starts: &mut [u32], bag_lengths: &mut [u32]) {
    let mut next = segment.first_value as u32;
    match segment.lengths_at {
        None => {
            starts.iter_mut().zip(next..).for_each(|(start, value)| *start = value);
            bag_lengths.fill(1);
        }
        Some(at) => {
            bag_lengths.copy_from_slice(&lengths[at..][..bag_lengths.len()]);
            for (start, length) in starts.iter_mut().zip(bag_lengths) {
                *start = next;
                next += *length;
            }
        }
    }
}
