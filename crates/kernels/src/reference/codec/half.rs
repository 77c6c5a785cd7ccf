//! Floats of 16 bits: NaN stays NaN; what f16 cannot hold is infinite.

use super::rounds_up;
use ground::codec::Codec;
use half::{bf16, f16};

/// Encodes a float in 16 bits: to nearest even, or to one of its neighbours if it has a random number. Infinity is the
/// neighbour of the largest value.
pub fn encoded(codec: Codec, value: f32, die: Option<u32>) -> u16 {
    let nearest = match codec {
        Codec::F16 => f16::from_f32(value).to_bits(),
        _ => bf16::from_f32(value).to_bits(),
    };
    let Some(die) = die.filter(|_| value.is_finite()) else { return nearest };
    // Towards zero first: codes of one sign are ordered as their values.
    let towards_zero = decoded(codec, nearest).abs() > value.abs();
    let below = nearest - u16::from(towards_zero);
    let low = f64::from(decoded(codec, below).abs());
    // Infinity stands where the next value would be.
    let end = if codec == Codec::F16 { 65536.0 } else { 2f64.powi(128) };
    let high = f64::from(decoded(codec, below + 1).abs()).min(end);
    let fraction = (f64::from(value.abs()) - low) / (high - low);
    below + u16::from(rounds_up(fraction as f32, die))
}

/// Decodes the float that 16 bits stand for, exactly.
pub fn decoded(codec: Codec, bits: u16) -> f32 {
    match codec {
        Codec::F16 => f16::from_bits(bits).to_f32(),
        _ => bf16::from_bits(bits).to_f32(),
    }
}
