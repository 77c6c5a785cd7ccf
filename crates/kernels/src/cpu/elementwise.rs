//! Passes over memory: `out = x0 ⊙ z + x`, copies and sums of columns, ordered sums, optimizers.
//!
//! Plain loops, one pass each, compiled for the machine's vectors by [`super::level::Level::run`]; threads divide the
//! elements.
#![allow(unsafe_code)]

use super::Cpu;
use super::shared::Shared;
use crate::ColumnCopy;
use crate::reference::bias_corrections;
use spec::optimizer::UpdateRule;
use std::ops::Range;

/// Elements that are worth a thread of their own.
const GRAIN: usize = 16 << 10;

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

pub(crate) fn cross_backward(
    cpu: &Cpu,
    len: usize,
    x0: &[f32],
    z: &[f32],
    dout: &[f32],
    dz: &mut [f32],
    dx0: &mut [f32],
    accumulate: bool,
) {
    let (dz, dx0) = (Shared::new(dz), Shared::new(dx0));
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // SAFETY: pieces do not overlap.
            let (dz, dx0) = unsafe { (dz.piece(range.clone()), dx0.piece(range.clone())) };
            let (x0, z, dout) = (&x0[range.clone()], &z[range.clone()], &dout[range]);
            let all = dz.iter_mut().zip(dx0).zip(x0).zip(z).zip(dout);
            if accumulate {
                for ((((dz, dx0), x0), z), dout) in all {
                    *dz = dout * x0;
                    *dx0 += dout * z;
                }
            } else {
                for ((((dz, dx0), x0), z), dout) in all {
                    *dz = dout * x0;
                    *dx0 = dout * z;
                }
            }
        },
    );
}

pub(crate) fn copy_columns(
    cpu: &Cpu,
    copies: &[ColumnCopy],
    from: &[f32],
    from_width: usize,
    to: &mut [f32],
    to_width: usize,
) {
    each_block(cpu, copies, from, from_width, to, to_width, |from, to| to.copy_from_slice(from));
}

pub(crate) fn add_columns(
    cpu: &Cpu,
    copies: &[ColumnCopy],
    from: &[f32],
    from_width: usize,
    to: &mut [f32],
    to_width: usize,
) {
    each_block(
        cpu,
        copies,
        from,
        from_width,
        to,
        to_width,
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
    from_width: usize,
    to: &mut [f32],
    to_width: usize,
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
            },
        )
    });
}

pub(crate) fn sum_blocks(cpu: &Cpu, len: usize, blocks: &[f32], out: &mut [f32]) {
    /// Elements summed while they stay in the first-level cache.
    const BLOCK: usize = 2048;
    let count = blocks.len() / len.max(1);
    let out = Shared::new(&mut out[..len]);
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            for start in range.clone().step_by(BLOCK) {
                let range = start..(start + BLOCK).min(range.end);
                // SAFETY: pieces do not overlap, nor do blocks in them.
                let out = unsafe { out.piece(range.clone()) };
                if count == 0 {
                    out.fill(0.0);
                    continue;
                }
                out.copy_from_slice(&blocks[range.clone()]);
                for k in 1..count {
                    let block = &blocks[k * len + range.start..k * len + range.end];
                    out.iter_mut().zip(block).for_each(|(out, value)| *out += value);
                }
            }
        },
    );
}

pub(crate) fn update_dense(
    cpu: &Cpu,
    rule: &UpdateRule,
    rate: f32,
    step: u64,
    weights: &mut [f32],
    gradient: &[f32],
    state: &mut [f32],
) {
    let len = weights.len();
    let (weights, state) = (Shared::new(weights), Shared::new(state));
    // SAFETY (of the pieces below): the pieces of one pass do not overlap; the second moments lie behind all first.
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // SAFETY: as above.
            let w = unsafe { weights.piece(range.clone()) };
            let g = &gradient[range.clone()];
            match *rule {
                UpdateRule::Sgd => w.iter_mut().zip(g).for_each(|(w, g)| *w -= rate * g),
                UpdateRule::Adagrad { eps } => {
                    // SAFETY: as above.
                    let h = unsafe { state.piece(range) };
                    for ((w, h), g) in w.iter_mut().zip(h).zip(g) {
                        *h += g * g;
                        *w -= rate * g / (h.sqrt() + eps);
                    }
                }
                UpdateRule::RowWiseAdagrad { .. } => unreachable!("refused by Device::update_dense"),
                UpdateRule::Adam { beta1, beta2, eps, weight_decay } => {
                    let second = len + range.start..len + range.end;
                    // SAFETY: as above.
                    let (m, v) = unsafe { (state.piece(range), state.piece(second)) };
                    let (c1, c2) = bias_corrections(beta1, beta2, step);
                    let (scale, root) = ((rate as f64 / c1) as f32, c2.sqrt() as f32);
                    for (((w, m), v), g) in w.iter_mut().zip(m).zip(v).zip(g) {
                        *m = beta1 * *m + (1.0 - beta1) * g;
                        *v = beta2 * *v + (1.0 - beta2) * g * g;
                        *w -= rate * weight_decay * *w;
                        *w -= scale * *m / (v.sqrt() / root + eps);
                    }
                }
            }
        },
    );
}
