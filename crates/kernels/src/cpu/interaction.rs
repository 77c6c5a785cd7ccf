//! Pairwise dot products of the vectors of a sample: `Z = V·Vᵀ`, of which the part below the diagonal is kept.
//!
//! A sample fits the first-level cache, so each is finished before the next begins. `Vᵀ` is laid out once and serves as
//! both operands of the tiles. Backwards, `dV = S·V`, where `S` is the symmetric matrix of the pairs' gradients.
//!
//! In bf16, [`blocks`] does it where there are instructions for that; elsewhere `V` and `S` are rounded to bf16 and multiplied in
//! f32, as the operands of linear layers are. Three products instead of one in f32 would not pay: each number is used too few
//! times to be split.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod blocks;

use super::Cpu;
use super::level::Level;
#[cfg(target_arch = "x86_64")]
use super::matrix;
#[cfg(target_arch = "x86_64")]
use super::pack::transposed;
use super::pack::{round, transpose};
#[cfg(target_arch = "x86_64")]
use super::panels::Form;
use super::shared::Shared;
use super::tile::{Tile, TileSize};
use crate::DotShape;
use ground::precision::Precision;

/// Floats copied at once.
const LINE: usize = 16;

pub(crate) fn forward(cpu: &Cpu, shape: DotShape, vectors: &[f32], out: &mut [f32]) {
    let (DotShape { rows, count, dim }, width) = (shape, shape.width());
    #[cfg(target_arch = "x86_64")]
    if let Some(form) = form(cpu, dim)
        && count > 0
        && dim > 0
    {
        return blocks::forward(cpu, form, shape, vectors, out);
    }
    let out = Shared::new(&mut out[..rows * width]);
    let (level, rounds) = (cpu.level, cpu.precision == Precision::Bf16);
    let stride = stride(level, count);
    let laid_out = dim * stride + LINE;
    cpu.divide(rows, grain(count, dim), &|piece, range| {
        let bytes = (laid_out + count * stride + LINE) * size_of::<f32>();
        let mut scratch = cpu.scratch(piece, bytes).expect("room for one sample");
        let (columns, products) = scratch.of::<f32>().split_at_mut(laid_out);
        for r in range {
            // SAFETY: no two pieces share a row.
            let out = unsafe { out.piece(r * width..(r + 1) * width) };
            if count == 0 || dim == 0 {
                out.fill(0.0);
                continue;
            }
            let sample = &vectors[r * count * dim..][..count * dim];
            transpose(level, sample, dim, count, dim, stride, columns);
            if rounds {
                round(level, &mut columns[..dim * stride]);
            }
            lower_products(level, count, dim, stride, columns, products);
            level.run(
                #[inline(always)]
                || {
                    out[..dim].copy_from_slice(&sample[..dim]);
                    let mut at = dim;
                    for i in 1..count {
                        // The lines overlap: what one writes too much, the next one overwrites.
                        let (from, to) = (&products[i * stride..], &mut out[at..]);
                        copy_overlapping(i, from, to);
                        at += i;
                    }
                },
            );
        }
    });
}

/// `products[i, j] = Σₖ columns[k, i]·columns[k, j]` for all j < i, and more.
fn lower_products(
    level: Level,
    count: usize,
    dim: usize,
    stride: usize,
    columns: &[f32],
    products: &mut [f32],
) {
    let TileSize { rows: tall, columns: wide } = level.tall_tile();
    assert!(columns.len() >= dim * stride + LINE && products.len() >= count * stride + LINE);
    for top in (0..count).step_by(tall) {
        let rows = tall.min(count - top);
        for left in (0..top + rows - 1).step_by(wide) {
            let tile = Tile {
                rows,
                columns: (top + rows - 1 - left).min(wide).next_multiple_of(level.lanes()),
                depth: dim,
                a: columns[top..].as_ptr(),
                a_stride: stride,
                b: columns[left..].as_ptr(),
                b_stride: stride,
                ahead: None,
                c: products[top * stride + left..].as_mut_ptr(),
                c_stride: stride,
                add: false,
                bias: std::ptr::null(),
                relu: false,
                mask: std::ptr::null(),
                cross: None,
            };
            // SAFETY: `stride` is a multiple of a tile's width and at least `count`; reading rows past `count` stays
            // inside `columns` because of the line behind its end.
            unsafe { tile.run(level) };
        }
    }
}

pub(crate) fn backward(cpu: &Cpu, shape: DotShape, vectors: &[f32], dout: &[f32], dvectors: &mut [f32]) {
    let (DotShape { rows, count, dim }, width) = (shape, shape.width());
    if count == 0 || dim == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(form) = form(cpu, count) {
        return blocks::backward(cpu, form, shape, vectors, dout, dvectors);
    }
    let dvectors = Shared::new(&mut dvectors[..rows * count * dim]);
    let (level, rounds) = (cpu.level, cpu.precision == Precision::Bf16);
    let stride = stride(level, count);
    let padded = dim.next_multiple_of(level.lanes());
    cpu.divide(rows, grain(count, dim), &|piece, range| {
        let symmetric_len = count * stride + LINE;
        let bytes = (symmetric_len + count * padded) * size_of::<f32>();
        let mut scratch = cpu.scratch(piece, bytes).expect("room for one sample");
        let (symmetric, copy) = scratch.of::<f32>().split_at_mut(symmetric_len);
        for r in range {
            let dout = &dout[r * width..][..width];
            let sample = &vectors[r * count * dim..][..count * dim];
            mirror(level, count, stride, &dout[dim..], symmetric);
            let sample = if padded == dim && !rounds {
                sample
            } else {
                for (from, to) in sample.chunks_exact(dim).zip(copy.chunks_exact_mut(padded)) {
                    to[..dim].copy_from_slice(from);
                    to[dim..].fill(0.0);
                }
                if rounds {
                    round(level, &mut symmetric[..count * stride]);
                    round(level, &mut copy[..count * padded]);
                }
                &*copy
            };
            // SAFETY: no two pieces share a row.
            let dsample = unsafe { dvectors.piece(r * count * dim..(r + 1) * count * dim) };
            let sizes = Sizes { count, dim, stride, padded };
            product(level, sizes, symmetric, sample, dsample);
            for (dv, &dout) in dsample[..dim].iter_mut().zip(dout) {
                *dv += dout;
            }
        }
    });
}

/// The symmetric matrix of the gradients of all pairs, zeros on its diagonal, in `count` rows of `stride`.
fn mirror(level: Level, count: usize, stride: usize, pairs: &[f32], symmetric: &mut [f32]) {
    match level {
        // SAFETY: a level is only made where its instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { mirror_avx512(count, stride, pairs, symmetric) },
        _ => level.run(
            #[inline(always)]
            || mirror_one_by_one(count, stride, pairs, symmetric),
        ),
    }
}

#[inline(always)]
fn mirror_one_by_one(count: usize, stride: usize, pairs: &[f32], symmetric: &mut [f32]) {
    let mut at = 0;
    for i in 1..count {
        copy_overlapping(i, &pairs[at..], &mut symmetric[i * stride..]);
        at += i;
    }
    let (mut diagonal, mut line) = (0, 0);
    for i in 0..count {
        for j in 0..i {
            symmetric[j * stride + i] = symmetric[line + j];
        }
        symmetric[diagonal] = 0.0;
        diagonal += stride + 1;
        line += stride;
    }
}

/// In blocks of 16 × 16, each written where it is and, transposed, where it is mirrored. Zeros follow the last of `count` columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn mirror_avx512(count: usize, stride: usize, pairs: &[f32], symmetric: &mut [f32]) {
    use std::arch::x86_64::*;
    let blocks = count.div_ceil(LINE);
    assert!(stride >= blocks * LINE && symmetric.len() >= count * stride);
    assert!(pairs.len() >= count * count.saturating_sub(1) / 2);
    let store = |symmetric: &mut [f32], row: usize, column: usize, line: __m512i| {
        let to = &mut symmetric[row * stride + column..][..LINE];
        // SAFETY: a line is as large as a register.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), _mm512_castsi512_ps(line)) };
    };
    for (top, left) in (0..blocks).flat_map(|top| (0..=top).map(move |left| (top * LINE, left * LINE))) {
        let rows = (count - top).min(LINE);
        let mut block = [_mm512_setzero_si512(); LINE];
        for (r, line) in block.iter_mut().enumerate().take(rows) {
            let row = top + r;
            // Row i of the triangle begins behind 0 + 1 + … + (i - 1) pairs.
            let from = &pairs[row * row.saturating_sub(1) / 2..][..row];
            let lanes = ((1u32 << (row - left).min(LINE)) - 1) as __mmask16;
            // SAFETY: the mask stops where the row ends.
            *line = unsafe {
                _mm512_castps_si512(_mm512_maskz_loadu_ps(lanes, from.as_ptr().wrapping_add(left)))
            };
        }
        let mirrored = transposed(block);
        if top == left {
            for r in 0..rows {
                store(symmetric, top + r, left, _mm512_or_si512(block[r], mirrored[r]));
            }
        } else {
            (0..rows).for_each(|r| store(symmetric, top + r, left, block[r]));
            (0..LINE).for_each(|r| store(symmetric, left + r, top, mirrored[r]));
        }
    }
}

/// Sizes of one sample's matrices.
#[derive(Clone, Copy)]
struct Sizes {
    count: usize,
    dim: usize,
    /// Distance between rows of the symmetric matrix.
    stride: usize,
    /// Distance between vectors of the sample.
    padded: usize,
}

/// `dsample[i, d] = Σⱼ symmetric[j, i]·sample[j, d]`, where rows of `sample` are `padded` apart.
fn product(level: Level, sizes: Sizes, symmetric: &[f32], sample: &[f32], dsample: &mut [f32]) {
    let Sizes { count, dim, stride, padded } = sizes;
    let TileSize { rows: tall, columns: wide } = level.tall_tile();
    assert!(symmetric.len() >= count * stride + LINE && sample.len() >= count * padded);
    assert!(padded.is_multiple_of(level.lanes()) && dim <= padded && dsample.len() >= count * dim);
    for left in (0..dim).step_by(wide) {
        for top in (0..count).step_by(tall) {
            let tile = Tile {
                rows: tall.min(count - top),
                columns: wide.min(dim - left),
                depth: count,
                a: symmetric[top..].as_ptr(),
                a_stride: stride,
                b: sample[left..].as_ptr(),
                b_stride: padded,
                ahead: None,
                c: dsample[top * dim + left..].as_mut_ptr(),
                c_stride: dim,
                add: false,
                bias: std::ptr::null(),
                relu: false,
                mask: std::ptr::null(),
                cross: None,
            };
            // SAFETY: asserted above; a tile reads whole vectors of `sample`, whose rows are padded to them, and may
            // read `symmetric` past `count`, but not past the line behind its end.
            unsafe { tile.run(level) };
        }
    }
}

/// `to[..len] = from[..len]`, in whole lines where both have room for them.
#[inline(always)]
fn copy_overlapping(len: usize, from: &[f32], to: &mut [f32]) {
    for at in (0..len).step_by(LINE) {
        match (from.get(at..at + LINE), to.get_mut(at..at + LINE)) {
            (Some(from), Some(to)) => to.copy_from_slice(from),
            _ => to[at..len].copy_from_slice(&from[at..len.min(at + LINE)]),
        }
    }
}

/// Form of operands in bf16 of so many terms; `None` where products are computed in f32.
#[cfg(target_arch = "x86_64")]
fn form(cpu: &Cpu, terms: usize) -> Option<Form> {
    matrix::form(cpu.units, cpu.precision, terms).filter(|form| !form.split)
}

/// Distance between lines of a matrix with a column per vector.
fn stride(level: Level, count: usize) -> usize {
    count.next_multiple_of(level.tall_tile().columns.max(LINE))
}

/// Samples that are worth a thread of their own.
fn grain(count: usize, dim: usize) -> usize {
    (1 << 16) / (count * count * dim + 1) + 1
}
