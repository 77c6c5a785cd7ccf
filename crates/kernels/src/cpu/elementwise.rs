//! Passes over memory: losses, copies and sums of columns, ordered sums.
//!
//! Plain loops, one pass each, compiled for the machine's vectors by [`super::level::Level::run`]; threads divide the
//! elements. Losses and probabilities need `exp` in double precision, which has no vector form with the same bits: there
//! only threads help.
#![allow(unsafe_code)]

use super::Cpu;
use super::shared::Shared;
use super::stream;
use crate::reference::elementwise as reference;
use crate::{ColumnCopy, KernelError};
use std::ops::Range;

/// Elements that are worth a thread of their own.
const GRAIN: usize = 16 << 10;
/// Samples whose losses or probabilities are worth a thread of their own.
const SAMPLES: usize = 1 << 10;

/// Runs `work` on pieces of `0..len`, compiled for the machine's vectors.
#[inline(always)]
pub(crate) fn pass(cpu: &Cpu, len: usize, work: impl Fn(Range<usize>) + Sync) {
    cpu.divide(len, GRAIN, &|_, range| {
        cpu.level.run(
            #[inline(always)]
            || work(range),
        )
    });
}

pub(crate) fn add(cpu: &Cpu, x: &[f32], y: &mut [f32]) {
    let len = y.len();
    let y = Shared::new(y);
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // SAFETY: pieces do not overlap.
            let y = unsafe { y.piece(range.clone()) };
            for (y, x) in y.iter_mut().zip(&x[range]) {
                *y += x;
            }
        },
    );
}

pub(crate) fn scale(cpu: &Cpu, factor: f32, y: &mut [f32]) {
    let len = y.len();
    let y = Shared::new(y);
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // SAFETY: pieces do not overlap.
            unsafe { y.piece(range) }.iter_mut().for_each(|y| *y *= factor);
        },
    );
}

pub(crate) fn relu_backward(cpu: &Cpu, y: &[f32], dy: &mut [f32]) {
    let len = dy.len();
    let dy = Shared::new(dy);
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // SAFETY: pieces do not overlap.
            let dy = unsafe { dy.piece(range.clone()) };
            for (dy, &y) in dy.iter_mut().zip(&y[range]) {
                *dy = if y <= 0.0 { 0.0 } else { *dy };
            }
        },
    );
}

/// A streaming read: wide enough that the additions hide behind the loads.
pub(crate) fn sum(cpu: &Cpu, x: &[f32]) -> f64 {
    const LANES: usize = 128;
    let total = std::sync::Mutex::new(0.0);
    pass(
        cpu,
        x.len(),
        #[inline(always)]
        |range| {
            let mut sums = [0.0f32; LANES];
            let chunks = x[range].chunks_exact(LANES);
            let rest: f64 = chunks.remainder().iter().map(|&x| f64::from(x)).sum();
            for chunk in chunks {
                for (sum, x) in sums.iter_mut().zip(chunk) {
                    *sum += x;
                }
            }
            let sum: f64 = sums.iter().map(|&x| f64::from(x)).sum();
            *total.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += sum + rest;
        },
    );
    total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Losses are written beside each other by all threads, and added in sample order by one.
pub(crate) fn bce(
    cpu: &Cpu,
    logits: &[f32],
    targets: &reference::Targets,
    dlogits: &mut [f32],
) -> Result<f64, KernelError> {
    if cpu.threads() == 1 || logits.len() <= SAMPLES {
        return Ok(reference::bce(logits, targets, dlogits));
    }
    // The pieces below need no scratch of their own, so that this thread may hold it meanwhile.
    let mut scratch = cpu.scratch(0, size_of_val(logits) * 2)?;
    let losses = &mut scratch.of::<f64>()[..logits.len()];
    let (shared_losses, dlogits) = (Shared::new(losses), Shared::new(dlogits));
    cpu.divide(logits.len(), SAMPLES, &|_, range| {
        // SAFETY: pieces do not overlap.
        let (losses, dlogits) = unsafe { (shared_losses.piece(range.clone()), dlogits.piece(range.clone())) };
        for ((i, loss), dlogit) in range.zip(losses).zip(dlogits) {
            *loss = reference::bce_of_sample(logits[i], targets, i, dlogit);
        }
    });
    Ok(losses.iter().fold(0.0, |sum, loss| sum + loss))
}

pub(crate) fn sigmoid(cpu: &Cpu, logits: &[f32], out: &mut [f32]) {
    let out = Shared::new(out);
    cpu.divide(logits.len(), SAMPLES, &|_, range| {
        // SAFETY: pieces do not overlap.
        reference::sigmoid(&logits[range.clone()], unsafe { out.piece(range) });
    });
}

pub(crate) fn copy_columns(
    cpu: &Cpu,
    copies: &[ColumnCopy],
    from: &[f32],
    to: &mut [f32],
    widths: [usize; 2],
) {
    let copied = copies.iter().map(|copy| copy.width).sum::<usize>() * (from.len() / widths[0].max(1));
    match stream::pays(copied) {
        true => each_block(
            cpu,
            copies,
            from,
            to,
            widths,
            #[inline(always)]
            |from, to| stream::copy(cpu.level, from, to),
        ),
        false => each_block(cpu, copies, from, to, widths, |from, to| to.copy_from_slice(from)),
    }
}

pub(crate) fn add_columns(
    cpu: &Cpu,
    copies: &[ColumnCopy],
    from: &[f32],
    to: &mut [f32],
    widths: [usize; 2],
) {
    each_block(
        cpu,
        copies,
        from,
        to,
        widths,
        #[inline(always)]
        |from, to| to.iter_mut().zip(from).for_each(|(to, from)| *to += from),
    );
}

/// Runs `work(from, to)` on every block of columns, row by row; threads divide the rows.
#[inline(always)]
fn each_block(
    cpu: &Cpu,
    copies: &[ColumnCopy],
    from: &[f32],
    to: &mut [f32],
    [from_width, to_width]: [usize; 2],
    work: impl Fn(&[f32], &mut [f32]) + Sync,
) {
    if from_width == 0 || to_width == 0 {
        return;
    }
    let rows = (from.len() / from_width).min(to.len() / to_width);
    let copied: usize = copies.iter().map(|copy| copy.width).sum();
    let to = Shared::new(to);
    cpu.divide(rows, GRAIN.div_ceil(copied.max(1)), &|_, range| {
        cpu.level.run(
            #[inline(always)]
            || {
                for r in range {
                    // SAFETY: no two pieces share a row.
                    let to = unsafe { to.piece(r * to_width..(r + 1) * to_width) };
                    let from = &from[r * from_width..][..from_width];
                    for copy in copies {
                        work(&from[copy.from..][..copy.width], &mut to[copy.to..][..copy.width]);
                    }
                }
                stream::fence();
            },
        )
    });
}
