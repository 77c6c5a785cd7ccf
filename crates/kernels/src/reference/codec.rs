//! Rows of floats as bytes, one value at a time.

pub mod float8;
pub mod half;
pub mod unsigned;

use crate::op::Result;
use crate::op::codec::Dice;
use crate::{CarriedError, Decode, Encode, KernelError};
use ground::codec::Codec;

/// Smallest scale of a row that is not constant: far enough above the subnormal numbers that quotients keep their precision.
pub(crate) const SMALLEST_SCALE: f32 = f32::from_bits((127 - 120) << 23);

/// Encodes rows, and keeps what is lost where an error is carried. Every row is encoded, also behind one that cannot be.
pub fn encode(args: Encode) -> Result {
    let Encode { codec, rows, from, to, to_at, mut error, .. } = args;
    let (dice, from, to) = (args.round.dice(), from.host(), to.host_mut());
    let mut refused: Option<(usize, f32)> = None;
    for k in 0..rows.count {
        for row in rows.rows {
            let at = row.at + k * rows.floats;
            let mut z = from[at..][..row.width].to_vec();
            let carried = error.as_mut().map(|CarriedError { buffer, at }| {
                &mut buffer.host_mut()[*at + row.at - rows.rows[0].at + k * rows.floats..][..row.width]
            });
            if let Some(error) = &carried {
                z.iter_mut().zip(error.iter()).for_each(|(z, error)| *z += error);
            }
            if codec.by_rows()
                && let Some(i) = z.iter().position(|z| !z.is_finite())
            {
                if refused.is_none_or(|(before, _)| at + i < before) {
                    refused = Some((at + i, z[i]));
                }
                continue;
            }
            let place = &mut to[to_at + row.byte - rows.rows[0].byte + k * rows.bytes..];
            let bytes = &mut place[..codec.encoded_bytes(1, row.width as u64) as usize];
            encode_row(codec, dice, at, &z, bytes);
            if let Some(error) = carried {
                let mut decoded = vec![0.0; row.width];
                decode_row(codec, bytes, &mut decoded);
                error.iter_mut().zip(z).zip(decoded).for_each(|((error, z), decoded)| *error = z - decoded);
            }
        }
    }
    refused.map_or(Ok(()), |(at, value)| Err(not_finite(at, value)))
}

/// Decodes blocks of rows, and adds them up in order.
pub fn decode(args: Decode) -> Result {
    let Decode { codec, rows, blocks, block_bytes, from_at, to_at, add, .. } = args;
    let (from, to) = (args.from.host(), args.to.host_mut());
    for k in 0..rows.count {
        for row in rows.rows {
            let to = &mut to[to_at + row.at - rows.rows[0].at + k * rows.floats..][..row.width];
            if blocks == 0 && !add {
                to.fill(0.0);
            }
            for block in 0..blocks {
                let byte = from_at + block * block_bytes + row.byte - rows.rows[0].byte + k * rows.bytes;
                let mut decoded = vec![0.0; row.width];
                decode_row(codec, &from[byte..], &mut decoded);
                for (to, decoded) in to.iter_mut().zip(decoded) {
                    *to = if block == 0 && !add { decoded } else { *to + decoded };
                }
            }
        }
    }
    Ok(())
}

/// Encodes one row, all of whose values are finite if the codec has a header. The first value is at `offset` of all floats.
fn encode_row(codec: Codec, dice: Option<Dice>, offset: usize, row: &[f32], to: &mut [u8]) {
    let die = |i: usize| dice.map(|dice| dice.throw((offset + i) as u32));
    match codec {
        Codec::F32 => to.copy_from_slice(bytemuck::cast_slice(row)),
        Codec::F16 | Codec::Bf16 => {
            for (i, (to, &value)) in to.chunks_exact_mut(2).zip(row).enumerate() {
                to.copy_from_slice(&half::encoded(codec, value, die(i)).to_ne_bytes());
            }
        }
        _ if row.is_empty() => {}
        Codec::Fp8E4m3 | Codec::Fp8E5m2 => {
            let format = float8::Format::of(codec);
            let scale = format.scale(row.iter().fold(0.0, |most, x| f32::max(most, x.abs())));
            to[..4].copy_from_slice(&scale.to_ne_bytes());
            for (i, &value) in row.iter().enumerate() {
                to[4 + i] = format.encoded(value * float8::inverse(scale), die(i));
            }
        }
        Codec::U8 | Codec::U4 | Codec::U2 => {
            let bits = codec.bits() as usize;
            let low = row.iter().fold(f32::INFINITY, |low, &x| if x < low { x } else { low });
            let high = row.iter().fold(f32::NEG_INFINITY, |high, &x| if x > high { x } else { high });
            let grid = unsigned::Grid::new(bits, low, high);
            to.fill(0);
            to[..4].copy_from_slice(&grid.scale.to_ne_bytes());
            to[4..8].copy_from_slice(&grid.low.to_ne_bytes());
            for (i, &value) in row.iter().enumerate() {
                to[8 + i * bits / 8] |= grid.encoded(value, die(i)) << (i * bits % 8);
            }
        }
    }
}

/// Decodes one row.
fn decode_row(codec: Codec, from: &[u8], row: &mut [f32]) {
    let float = |at: usize| f32::from_ne_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]);
    match codec {
        Codec::F32 => row.iter_mut().enumerate().for_each(|(i, x)| *x = float(4 * i)),
        Codec::F16 | Codec::Bf16 => {
            for (x, from) in row.iter_mut().zip(from.chunks_exact(2)) {
                *x = half::decoded(codec, u16::from_ne_bytes([from[0], from[1]]));
            }
        }
        Codec::Fp8E4m3 | Codec::Fp8E5m2 => {
            let format = float8::Format::of(codec);
            row.iter_mut().enumerate().for_each(|(i, x)| *x = float(0) * format.decoded(from[4 + i]) as f32);
        }
        Codec::U8 | Codec::U4 | Codec::U2 => {
            let bits = codec.bits() as usize;
            for (i, x) in row.iter_mut().enumerate() {
                let code = u32::from(from[8 + i * bits / 8]) >> (i * bits % 8) & ((1 << bits) - 1);
                *x = float(0).mul_add(code as f32, float(4));
            }
        }
    }
}

/// Refusal of a value that a codec with a header cannot encode.
pub(crate) fn not_finite(at: usize, value: f32) -> KernelError {
    let value = match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "inf",
        _ => "-inf",
    };
    KernelError::NotFinite { op: "encode", at, value }
}

/// Whether a value with this fraction, in [0, 1), is rounded up, given its random number in 24 bits.
pub(crate) fn rounds_up(fraction: f32, die: u32) -> bool {
    (die as f32) < fraction * 16_777_216.0
}
