//! Pairwise dot products of vectors in bf16, in blocks of 32 × 32, by matrix units or by the vector instructions for bf16.
//!
//! Operands are laid out in [`panels`](crate::cpu::panels). The vectors of a sample are rounded once: tiles of the right operand
//! `Vᵀ` are those of the left one, transposed. Blocks of `Z = V·Vᵀ` above the diagonal are left out. Backwards, `dV = S·V` goes
//! by way of scratch, from where it is written past the caches if there is much of it.
#![allow(unsafe_code)]

mod tiles;

use super::{LINE, copy_overlapping, grain, mirror};
use crate::DotShape;
use crate::cpu::Cpu;
use crate::cpu::amx::{BLOCK, Block};
use crate::cpu::level::prefetch;
use crate::cpu::matrix::Kernel;
use crate::cpu::panels::Form;
use crate::cpu::shared::Shared;
use crate::cpu::stream;

/// Forward, with operands of the form `form`, whose terms are those of a vector.
pub(crate) fn forward(cpu: &Cpu, form: Form, shape: DotShape, vectors: &[f32], out: &mut [f32]) {
    let (DotShape { rows, count, dim }, width) = (shape, shape.width());
    let out = Shared::new(&mut out[..rows * width]);
    let (stride, panels) = (count.next_multiple_of(BLOCK), floats(form.panels(count)));
    cpu.divide(rows, grain(count, dim), &|piece, range| {
        let bytes = (2 * panels + stride * stride + LINE) * size_of::<f32>();
        let mut scratch = cpu.scratch(piece, bytes).expect("room for one sample");
        let (left, rest) = scratch.of::<f32>().split_at_mut(panels);
        let (right, products) = rest.split_at_mut(panels);
        left.fill(0.0);
        let kernel = Kernel::new(cpu.units);
        for r in range {
            let sample = &vectors[r * count * dim..][..count * dim];
            // SAFETY: a form is only made where there are the instructions.
            unsafe {
                tiles::lines(sample, dim, form, left);
                tiles::turn(left, right);
            }
            for (i, j) in (0..stride / BLOCK).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                let to = &mut products[i * BLOCK * stride + j * BLOCK..];
                run(&kernel, form, [left, right], [i, j], to, stride);
            }
            // SAFETY: no two pieces share a row.
            let out = unsafe { out.piece(r * width..(r + 1) * width) };
            cpu.level.run(
                #[inline(always)]
                || {
                    out[..dim].copy_from_slice(&sample[..dim]);
                    let mut at = dim;
                    for i in 1..count {
                        copy_overlapping(i, &products[i * stride..], &mut out[at..]);
                        at += i;
                    }
                },
            );
        }
    });
}

/// Backward, with operands of the form `form`, whose terms are the vectors of a sample.
pub(crate) fn backward(
    cpu: &Cpu,
    form: Form,
    shape: DotShape,
    vectors: &[f32],
    dout: &[f32],
    dvectors: &mut [f32],
) {
    let (DotShape { rows, count, dim }, width) = (shape, shape.width());
    let (tall, wide) = (count.next_multiple_of(BLOCK), dim.next_multiple_of(BLOCK));
    // Whole lines, which another sample's computation can copy.
    let streamed =
        stream::pays(rows * count * dim) && wide == dim && dvectors.as_ptr().addr().is_multiple_of(64);
    let dvectors = Shared::new(&mut dvectors[..rows * count * dim]);
    let [for_left, for_right] = [count, dim].map(|indices| floats(form.panels(indices)));
    cpu.divide(rows, grain(count, dim), &|piece, range| {
        let square = count * tall + LINE;
        let bytes = (for_left + for_right + 2 * tall * wide + square) * size_of::<f32>();
        let mut scratch = cpu.scratch(piece, bytes).expect("room for one sample");
        let (left, rest) = scratch.of::<f32>().split_at_mut(for_left);
        let (right, rest) = rest.split_at_mut(for_right);
        let (first, rest) = rest.split_at_mut(tall * wide);
        let (second, symmetric) = rest.split_at_mut(tall * wide);
        left.fill(0.0);
        right.fill(0.0);
        // One is computed while the other is copied.
        let (mut result, mut earlier) = (first, second);
        let kernel = Kernel::new(cpu.units);
        let (begin, end) = (range.start, range.end);
        // SAFETY: no two pieces share a row.
        let place = |r: usize| unsafe { dvectors.piece(r * count * dim..(r + 1) * count * dim) };
        for r in range {
            prefetch(dout, (r + 1) * width, width);
            let dout = &dout[r * width..][..width];
            mirror(cpu.level, count, tall, &dout[dim..], symmetric);
            let copied = (streamed && r > begin).then(|| (&earlier[..count * dim], place(r - 1)));
            // SAFETY: a form is only made where there are the instructions.
            unsafe {
                tiles::lines(&symmetric[..count * tall], tall, form, left);
                tiles::pairs(&vectors[r * count * dim..][..count * dim], dim, form, right, copied);
            }
            for (i, j) in (0..tall / BLOCK).flat_map(|i| (0..wide / BLOCK).map(move |j| (i, j))) {
                let to = &mut result[i * BLOCK * wide + j * BLOCK..];
                run(&kernel, form, [left, right], [i, j], to, wide);
            }
            for (dv, &dout) in result[..dim].iter_mut().zip(dout) {
                *dv += dout;
            }
            if streamed {
                std::mem::swap(&mut result, &mut earlier);
            } else {
                let lines = place(r).chunks_exact_mut(dim).zip(result.chunks_exact(wide));
                lines.for_each(|(to, from)| to.copy_from_slice(&from[..dim]));
            }
        }
        if streamed && begin < end {
            stream::copy_lines(cpu.level, &earlier[..count * dim], place(end - 1));
        }
        stream::fence();
    });
}

/// Block (i, j) of the product of two operands' panels; `to` begins with the block.
fn run(kernel: &Kernel, form: Form, panels: [&[f32]; 2], at: [usize; 2], to: &mut [f32], stride: usize) {
    let panel = floats(form.panel());
    let [a, b] = [0, 1].map(|side| panels[side][at[side] * panel..][..panel].as_ptr().cast::<u16>());
    assert!(to.len() >= (BLOCK - 1) * stride + BLOCK);
    let (from, to) = (std::ptr::null(), to.as_mut_ptr());
    let (steps, split) = (form.steps(), form.split);
    let block = Block { a, b, steps, near: steps, from, from_stride: BLOCK, to, stride, split };
    // SAFETY: both panels have all steps, and `to` has room for a block, as just checked.
    unsafe { kernel.run(&block, || ()) };
}

/// Floats that have room for so many bf16 numbers of whole tiles.
fn floats(numbers: usize) -> usize {
    numbers / 2
}
