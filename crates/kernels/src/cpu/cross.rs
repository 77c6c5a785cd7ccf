//! The element-wise half of a cross layer's backward pass: `dz = dout ⊙ x0`, `dx0 (+)= dout ⊙ z`.
//!
//! The gradient of `z` goes to two products and nothing else. Where these are made of bf16, it is stored as they read it.
#![allow(unsafe_code)]

use super::Cpu;
use super::level::Level;
#[cfg(target_arch = "x86_64")]
use super::panels::{round, round_rest};
use super::shared::Shared;
use super::stream;
use super::values::ValuesMut;
use crate::CrossBackward;
#[cfg(target_arch = "x86_64")]
use crate::buffer::{PANEL, PanelLayout};

/// Elements that are worth a thread of their own.
const GRAIN: usize = 16 << 10;
/// Elements that are computed aside before they are written past the caches.
const BLOCK: usize = 1 << 10;

pub(crate) fn cross_backward(cpu: &Cpu, args: CrossBackward) {
    let CrossBackward { len, accumulate, .. } = args;
    let (dz, dx0) = (&mut args.dz.host_mut()[..len], &mut args.dx0.host_mut()[..len]);
    plain(cpu, [args.x0.host(), args.z.host(), args.dout.host()], dz, dx0, accumulate);
}

/// `dz = dout ⊙ x0`, `dx0 (+)= dout ⊙ z`, over rows of `width` elements; operands are `x0`, `z` and `dout`.
pub(crate) fn gradients(
    cpu: &Cpu,
    width: usize,
    operands: [&[f32]; 3],
    dz: ValuesMut,
    dx0: &mut [f32],
    accumulate: bool,
) {
    match dz {
        ValuesMut::Plain(dz) => plain(cpu, operands, dz, dx0, accumulate),
        #[cfg(target_arch = "x86_64")]
        ValuesMut::Kept(dz, layout) => {
            let rows = dx0.len().checked_div(width).unwrap_or(0);
            let (dz, dx0) = (Shared::new(dz), Shared::new(dx0));
            cpu.divide(rows.div_ceil(PANEL), GRAIN.div_ceil(PANEL * width.max(1)), &|_, panels| {
                for first in panels.map(|panel| panel * PANEL) {
                    let some = first..(first + PANEL).min(rows);
                    let all = some.start * width..some.end * width;
                    // SAFETY: panels do not overlap.
                    let (dz, dx0) = unsafe {
                        (
                            dz.piece(layout.numbers(some.start)..layout.numbers(some.end)),
                            dx0.piece(all.clone()),
                        )
                    };
                    let panel =
                        Panel { width, layout, operands: operands.map(|of| &of[all.clone()]), accumulate };
                    // SAFETY: panels are only made where there are the instructions.
                    unsafe {
                        if layout.split { panel.run::<true>(dz, dx0) } else { panel.run::<false>(dz, dx0) }
                    }
                }
            });
        }
        #[cfg(not(target_arch = "x86_64"))]
        ValuesMut::Kept(..) => panic!("panels of bf16 are for matrix units"),
    }
}

/// As [`gradients`], over the elements of `dz`.
fn plain(cpu: &Cpu, [x0, z, dout]: [&[f32]; 3], dz: &mut [f32], dx0: &mut [f32], accumulate: bool) {
    let (len, streamed) = (dz.len(), stream::pays(dz.len()));
    let (dz, dx0) = (Shared::new(dz), Shared::new(dx0));
    cpu.divide(len, GRAIN, &|_, range| {
        let mut blocks = [[0f32; BLOCK]; 2];
        for first in range.clone().step_by(BLOCK) {
            let range = first..range.end.min(first + BLOCK);
            // SAFETY: pieces do not overlap.
            let (dz, dx0) = unsafe { (dz.piece(range.clone()), dx0.piece(range.clone())) };
            let (x0, z, dout) = (&x0[range.clone()], &z[range.clone()], &dout[range]);
            if !streamed {
                block(cpu.level, [x0, z, dout], accumulate, dz, dx0);
                continue;
            }
            let [dz_block, dx0_block] = blocks.each_mut().map(|block| &mut block[..dz.len()]);
            if accumulate {
                block(cpu.level, [x0, z, dout], true, dz_block, dx0);
            } else {
                block(cpu.level, [x0, z, dout], false, dz_block, dx0_block);
                stream::copy(cpu.level, dx0_block, dx0);
            }
            stream::copy(cpu.level, dz_block, dz);
        }
        stream::fence();
    });
}

/// `dz = dout ⊙ x0`, and `dx0 = dout ⊙ z` or that added to it, for some elements; inputs are `x0`, `z` and `dout`.
fn block(level: Level, [x0, z, dout]: [&[f32]; 3], accumulate: bool, dz: &mut [f32], dx0: &mut [f32]) {
    level.run(
        #[inline(always)]
        || {
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

/// At most 32 rows whose `dz` is a panel of bf16.
#[cfg(target_arch = "x86_64")]
struct Panel<'a> {
    width: usize,
    layout: PanelLayout,
    /// Rows of `x0`, `z` and `dout`.
    operands: [&'a [f32]; 3],
    accumulate: bool,
}

#[cfg(target_arch = "x86_64")]
impl Panel<'_> {
    /// Fills the panel `dz`, and `dx0` row by row. Numbers past the last row and the last column become zero.
    ///
    /// # Safety
    /// The processor must have AVX-512 with instructions for words and for bf16.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn run<const SPLIT: bool>(&self, dz: &mut [u16], dx0: &mut [f32]) {
        use std::arch::x86_64::*;
        /// Rows after which a line of `dz` is asked for: lines of a row lie apart, so that no processor sees them coming.
        const AHEAD: usize = 2;
        let &Panel { width, layout, operands: [x0, z, dout], accumulate } = self;
        assert!([x0, z, dout].iter().all(|of| of.len() == dx0.len()) && dz.len() == layout.numbers(PANEL));
        assert_eq!(layout.split, SPLIT);
        let rows = dx0.len() / width;
        for row in 0..PANEL {
            for column in (0..width).step_by(PANEL) {
                let line = layout.line(row, column);
                let [mut first, mut second] = [_mm512_setzero_ps(); 2];
                for (half, value) in [(0, &mut first), (16, &mut second)] {
                    let count = if row < rows { (width - column).saturating_sub(half).min(16) } else { 0 };
                    let (lanes, at) = (((1u32 << count) - 1) as __mmask16, row * width + column + half);
                    let (x0, z, dout) = (
                        x0.as_ptr().wrapping_add(at),
                        z.as_ptr().wrapping_add(at),
                        dout.as_ptr().wrapping_add(at),
                    );
                    let dx0 = dx0.as_mut_ptr().wrapping_add(at);
                    // SAFETY: masks stop where the row ends, and are empty where there is none.
                    unsafe {
                        let dout = _mm512_maskz_loadu_ps(lanes, dout);
                        *value = _mm512_mul_ps(dout, _mm512_maskz_loadu_ps(lanes, x0));
                        let mut share = _mm512_mul_ps(dout, _mm512_maskz_loadu_ps(lanes, z));
                        if accumulate {
                            share = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, dx0), share);
                        }
                        _mm512_mask_storeu_ps(dx0, lanes, share);
                    }
                }
                let upper = round(first, second);
                let to = &mut dz[line..];
                _mm_prefetch::<_MM_HINT_ET0>(to.as_ptr().wrapping_add(AHEAD * PANEL).cast());
                // SAFETY: a line is as large as a register.
                unsafe { _mm512_mask_storeu_epi32(to[..PANEL].as_mut_ptr().cast(), u16::MAX, upper) };
                if SPLIT {
                    let to = &mut to[PANEL * PANEL..];
                    _mm_prefetch::<_MM_HINT_ET0>(to.as_ptr().wrapping_add(AHEAD * PANEL).cast());
                    let lower = round_rest(first, second, upper);
                    // SAFETY: as above.
                    unsafe { _mm512_mask_storeu_epi32(to[..PANEL].as_mut_ptr().cast(), u16::MAX, lower) };
                }
            }
        }
    }
}
