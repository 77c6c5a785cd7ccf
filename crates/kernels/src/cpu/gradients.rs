//! Dense gradients before an update: clipped, scaled and measured; weights decay in the same pass.
#![allow(unsafe_code)]

use super::Cpu;
use super::elementwise::pass;
use super::shared::Shared;
use crate::Update;
use crate::op::optimizer::clipped;
use ground::share;

/// Parts of a gradient that are summed apart and then added in order, so that no bit depends on the number of threads.
const PARTS: usize = 64;
/// Sums of a part that run side by side.
const LANES: usize = 16;
/// Elements that are worth a thread of their own.
const GRAIN: usize = 16 << 10;

/// What comes before every rule: gradients are clipped and scaled, weights decay. A pass of its own, and none where nothing is
/// to be done.
pub(crate) fn before_the_rule(cpu: &Cpu, update: Update, weights: &mut [f32], gradient: &mut [f32]) {
    let (decay, changes) = (update.decay(), update.changes_gradients());
    if decay == 0.0 && !changes {
        return;
    }
    let (len, weights, gradient) = (weights.len(), Shared::new(weights), Shared::new(gradient));
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // SAFETY: the pieces of one pass do not overlap.
            let (w, g) = unsafe { (weights.piece(range.clone()), gradient.piece(range)) };
            if changes {
                g.iter_mut().for_each(|g| *g = update.changed(*g));
            }
            if decay != 0.0 {
                w.iter_mut().for_each(|w| *w -= decay * *w);
            }
        },
    );
}

/// Squares of a gradient in parts, each in sums side by side, which are then added in order.
pub(crate) fn sum_of_squares(cpu: &Cpu, gradient: &[f32], limit: f32) -> f64 {
    let mut sums = [0f64; PARTS];
    let of_parts = Shared::new(&mut sums);
    cpu.divide(PARTS, PARTS.min((GRAIN * PARTS).div_ceil(gradient.len().max(1))), &|_, parts| {
        cpu.level.run(
            #[inline(always)]
            || {
                for part in parts {
                    // SAFETY: no two pieces share a part.
                    let sum = unsafe { of_parts.piece(part..part + 1) };
                    let (lines, rest) = gradient[share(gradient.len(), PARTS, part)].as_chunks::<LANES>();
                    let mut sums = [0f64; LANES];
                    for line in lines {
                        let line = line.map(
                            #[inline(always)]
                            |g| clipped(g, limit),
                        );
                        for i in 0..LANES {
                            sums[i] += f64::from(line[i]) * f64::from(line[i]);
                        }
                    }
                    sum[0] = sums.iter().sum();
                    rest.iter().for_each(|&g| sum[0] += f64::from(clipped(g, limit)).powi(2));
                }
            },
        )
    });
    sums.iter().sum()
}
