//! Floats in the formats of the wire: round to the nearest, ties to even; NaN stays NaN; what f16 cannot hold is infinite.

use half::{bf16, f16};
use spec::wire::Format;

/// The bits of a float in a format of 16. Panics for f32, which has none.
pub fn encoded(format: Format, value: f32) -> u16 {
    match format {
        Format::F16 => f16::from_f32(value).to_bits(),
        Format::Bf16 => bf16::from_f32(value).to_bits(),
        Format::F32 => unreachable!("f32 is not encoded"),
    }
}

/// The float that those bits stand for: exactly.
pub fn decoded(format: Format, bits: u16) -> f32 {
    match format {
        Format::F16 => f16::from_bits(bits).to_f32(),
        Format::Bf16 => bf16::from_bits(bits).to_f32(),
        Format::F32 => unreachable!("f32 is not encoded"),
    }
}

/// `to = encoded(from)`.
pub fn encode(format: Format, from: &[f32], to: &mut [u16]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = encoded(format, from));
}

/// `to = decoded(from)`.
pub fn decode(format: Format, from: &[u16], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = decoded(format, from));
}

/// `out[i] = (decoded(block₀[i]) + decoded(block₁[i])) + …`
pub fn sum_encoded(format: Format, len: usize, blocks: &[u16], out: &mut [f32]) {
    for (i, out) in out[..len].iter_mut().enumerate() {
        let values = blocks.iter().skip(i).step_by(len).map(|&bits| decoded(format, bits));
        *out = values.reduce(|sum, value| sum + value).unwrap_or(0.0);
    }
}
