//! Weights of 16 and 8 bits: each by itself, by way of the numbers next to it.

use crate::RowStore;
use crate::half_float::Half;
use crate::row_store::{RowRounding, StoredRowMut, StoredRows};
use ground::random::word;
use half::{bf16, f16};

/// One weight of a row of `dim`.
pub(super) fn weight(rows: &RowStore, dim: usize, [row, column]: [usize; 2]) -> f32 {
    match rows.stored() {
        StoredRows::F32(floats) => floats.host()[row * dim + column],
        StoredRows::Half(half, halves) => number(half, halves.host()[row * dim + column]),
        StoredRows::Int8(codes) => {
            let bytes = rows.row_bytes();
            code_weight(&codes.host()[row * bytes..][..bytes], column)
        }
    }
}

/// The weight of a code: of a row of codes, the scale and the minimum.
fn code_weight(row: &[u8], column: usize) -> f32 {
    let float = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let (codes, extra) = row.split_at(row.len() - 8);
    let (scale, minimum) = (float(&extra[..4]), float(&extra[4..]));
    minimum + scale * codes[column] as f32
}

/// A row of weights as codes, the scale and the minimum; `chance` of a column is what decides between two codes, `None` for the nearest.
fn codes(w: &[f32], chance: impl Fn(usize) -> Option<f32>) -> Vec<u8> {
    let (least, most) = w.iter().fold((f32::MAX, f32::MIN), |(least, most), &x| (least.min(x), most.max(x)));
    let mut scale = (most - least) / 255.0;
    let mut minimum = least + 0.0;
    if !scale.is_finite() || w.iter().any(|x| !x.is_finite()) {
        (scale, minimum) = (0.0, f32::NAN);
    } else if !scale.is_normal() {
        scale = 0.0;
    }
    let code = |(column, &x): (usize, &f32)| match scale {
        0.0 => 0,
        scale => {
            let steps = (x - minimum) * (1.0 / scale);
            let whole = chance(column).map_or(steps.round_ties_even(), |chance| (steps + chance).floor());
            whole.clamp(0.0, 255.0) as u8
        }
    };
    let codes = w.iter().enumerate().map(code);
    codes.chain(scale.to_le_bytes()).chain(minimum.to_le_bytes()).collect()
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
    match rows.row_mut(row) {
        StoredRowMut::F32(w) => change(w),
        StoredRowMut::Half(half, stored) => {
            let mut w: Vec<f32> = stored.iter().map(|&bits| number(half, bits)).collect();
            change(&mut w);
            for (column, (to, &x)) in (first_column..).zip(stored.iter_mut().zip(&w)) {
                *to = match bits {
                    None => nearest(half, x),
                    // 24 bits of the word: of (0, 1], so that 0 stays 0.
                    Some(row) => by_chance(half, x, 1.0 - f64::from(word(row, column) >> 8) / 16_777_216.0),
                };
            }
        }
        StoredRowMut::Int8(stored) => {
            let mut w: Vec<f32> = (0..dim).map(|column| code_weight(stored, column)).collect();
            change(&mut w);
            let random = |row, column: usize| (word(row, first_column + column as u32) >> 8) as f32;
            let chance = |column| bits.map(|row| random(row, column) / 16_777_216.0);
            stored.copy_from_slice(&codes(&w, chance));
        }
    }
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
