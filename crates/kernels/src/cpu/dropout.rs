//! Inverted dropout in place: a random word for each unit of a sample, computed where it is needed and kept nowhere.
#![allow(unsafe_code)]

use super::Cpu;
use super::shared::Shared;
use crate::Dropout;
use ground::random::word;

/// Units that are worth a thread of their own.
const GRAIN: usize = 8 << 10;

pub(crate) fn dropout(cpu: &Cpu, args: Dropout) {
    let (below, scale) = (args.below(), args.scale());
    let Dropout { rows, width, first, sequence, y, .. } = args;
    let y = Shared::new(&mut y.host_mut()[..rows * width]);
    cpu.divide(rows, GRAIN.div_ceil(width.max(1)), &|_, range| {
        cpu.level.run(
            #[inline(always)]
            || {
                for r in range {
                    // SAFETY: no two pieces share a row.
                    let y = unsafe { y.piece(r * width..(r + 1) * width) };
                    let row = sequence.bits(first + r as u64);
                    for (u, y) in y.iter_mut().enumerate() {
                        *y = if word(row, u as u32) < below { 0.0 } else { *y * scale };
                    }
                }
            },
        )
    });
}
