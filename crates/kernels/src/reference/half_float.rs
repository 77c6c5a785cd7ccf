//! Weights of 16 bits: each by itself, by way of the numbers next to it.

use crate::RowStore;
use crate::half_float::Half;
use crate::row_store::{RowRounding, StoredRows};
use half::{bf16, f16};
use spec::random::word;

/// Weight `at` of a table.
pub(super) fn weight(rows: &RowStore, at: usize) -> f32 {
    match rows.stored() {
        StoredRows::F32(floats) => floats.host()[at],
        StoredRows::Half(half, halves) => number(half, halves.host()[at]),
    }
}

/// Changes row `row` of a table in `step`, in f32.
pub(super) fn change_row(
    rows: &mut RowStore,
    row: usize,
    dim: usize,
    step: u64,
    change: impl FnOnce(&mut [f32]),
) {
    let RowRounding { bits, first_column } = rows.rounding(row, step);
    if let Some(floats) = rows.floats_mut() {
        return change(&mut floats.host_mut()[row * dim..][..dim]);
    }
    rows.change_halves(row * dim, dim, |half, stored| {
        let mut w: Vec<f32> = stored.iter().map(|&bits| number(half, bits)).collect();
        change(&mut w);
        for (column, (to, &x)) in (first_column..).zip(stored.iter_mut().zip(&w)) {
            *to = match bits {
                None => nearest(half, x),
                // 24 bits of the word: of (0, 1], so that 0 stays 0.
                Some(row) => by_chance(half, x, 1.0 - f64::from(word(row, column) >> 8) / 16_777_216.0),
            };
        }
    });
}

fn number(half: Half, bits: u16) -> f32 {
    match half {
        Half::F16 => f16::from_bits(bits).to_f32(),
        Half::Bf16 => bf16::from_bits(bits).to_f32(),
    }
}

/// The nearest finite number of the format, ties to even.
pub(crate) fn nearest(half: Half, x: f32) -> u16 {
    let (rounded, largest) = match half {
        Half::F16 => (f16::from_f32(x).to_bits(), f16::MAX.to_bits()),
        Half::Bf16 => (bf16::from_f32(x).to_bits(), bf16::MAX.to_bits()),
    };
    if number(half, rounded).is_infinite() { rounded & 0x8000 | largest } else { rounded }
}

/// The number of the format next to `x` on the side of 0, or the one beyond `x` if it is at least `chance` of the way there.
fn by_chance(half: Half, x: f32, chance: f64) -> u16 {
    let rounded = nearest(half, x);
    if !x.is_finite() {
        return rounded;
    }
    let (sign, mut below) = (rounded & 0x8000, rounded & 0x7fff);
    let size = |bits: u16| f64::from(number(half, bits));
    let x = f64::from(x.abs());
    if size(below) > x {
        below -= 1;
    }
    let above = below + 1;
    let beyond = if size(above).is_finite() { size(above) } else { f64::INFINITY };
    let up = (x - size(below)) / (beyond - size(below)) >= chance;
    sign | if up { above } else { below }
}
