//! Factorization machines: sums over the vectors of a sample, some columns at a time.
//!
//! A sample fits the first-level cache, so walking down its vectors once for each few columns costs nothing but arithmetic, and
//! needs no scratch.
#![allow(unsafe_code)]

use super::Cpu;
use super::shared::Shared;
use crate::FmShape;

/// Columns that are summed at once: four vectors of the narrowest kind, two registers of the widest.
const LANES: usize = 16;

/// Floats of samples that are worth a thread of their own.
const GRAIN: usize = 16 << 10;

pub(crate) fn forward(cpu: &Cpu, shape: FmShape, vectors: &[f32], out: &mut [f32]) {
    let width = shape.width();
    let out = Shared::new(&mut out[..shape.rows]);
    divide(
        cpu,
        shape,
        #[inline(always)]
        |r| {
            // SAFETY: no two pieces share a sample.
            let out = unsafe { out.piece(r..r + 1) };
            out[0] = sample(shape, &vectors[r * width..][..width]);
        },
    );
}

pub(crate) fn backward(cpu: &Cpu, shape: FmShape, vectors: &[f32], dout: &[f32], dvectors: &mut [f32]) {
    let width = shape.width();
    let dvectors = Shared::new(&mut dvectors[..shape.rows * width]);
    divide(
        cpu,
        shape,
        #[inline(always)]
        |r| {
            // SAFETY: no two pieces share a sample.
            let to = unsafe { dvectors.piece(r * width..(r + 1) * width) };
            sample_backward(shape, &vectors[r * width..][..width], dout[r], to);
        },
    );
}

/// Runs `work` on every sample, compiled for the machine's vectors.
#[inline(always)]
fn divide(cpu: &Cpu, shape: FmShape, work: impl Fn(usize) + Sync) {
    let grain = (GRAIN / shape.width().max(1)).max(1);
    cpu.divide(shape.rows, grain, &|_, range| {
        cpu.level.run(
            #[inline(always)]
            || {
                for r in range {
                    work(r);
                }
            },
        )
    });
}

#[inline(always)]
fn sample(FmShape { count, dim, .. }: FmShape, vectors: &[f32]) -> f32 {
    let mut pairs = [0.0f32; LANES];
    for first in (0..dim).step_by(LANES) {
        let lanes = LANES.min(dim - first);
        let (mut sums, mut squares) = ([0.0f32; LANES], [0.0f32; LANES]);
        for f in 0..count {
            let v = &vectors[f * (dim + 1) + first..][..lanes];
            for ((sum, square), v) in sums.iter_mut().zip(&mut squares).zip(v) {
                *sum += v;
                *square += v * v;
            }
        }
        for ((pair, sum), square) in pairs.iter_mut().zip(sums).zip(squares) {
            *pair += sum * sum - square;
        }
    }
    let linear: f32 = (0..count).map(|f| vectors[f * (dim + 1) + dim]).sum();
    linear + 0.5 * pairs.iter().sum::<f32>()
}

#[inline(always)]
fn sample_backward(FmShape { count, dim, .. }: FmShape, vectors: &[f32], dout: f32, to: &mut [f32]) {
    for first in (0..dim).step_by(LANES) {
        let lanes = LANES.min(dim - first);
        let mut sums = [0.0f32; LANES];
        for f in 0..count {
            let v = &vectors[f * (dim + 1) + first..][..lanes];
            sums.iter_mut().zip(v).for_each(|(sum, v)| *sum += v);
        }
        for f in 0..count {
            let at = f * (dim + 1) + first;
            let all = to[at..][..lanes].iter_mut().zip(&vectors[at..][..lanes]).zip(&sums);
            all.for_each(|((to, v), sum)| *to = dout * (sum - v));
        }
    }
    (0..count).for_each(|f| to[f * (dim + 1) + dim] = dout);
}
