//! Floats of 8 bits (Micikevicius et al., 2022; OCP 8-bit floating point specification 1.0) with a scale for each row.

use super::{SMALLEST_SCALE, rounds_up};
use ground::codec::Codec;

/// Format of 8 bits: a sign, an exponent, a mantissa.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Number of bits of the mantissa.
    pub mantissa: u32,
    /// Exponent that stands for 1.
    pub bias: i32,
    /// Code of the largest finite value.
    pub most: u8,
}

impl Format {
    /// Three bits of mantissa, no infinity: up to 448.
    pub const E4M3: Self = Self { mantissa: 3, bias: 7, most: 0x7e };
    /// Two bits of mantissa, as the upper half of an f16: up to 57344.
    pub const E5M2: Self = Self { mantissa: 2, bias: 15, most: 0x7b };

    /// Format of a codec of 8-bit floats.
    pub(crate) fn of(codec: Codec) -> Self {
        if codec == Codec::Fp8E5m2 { Self::E5M2 } else { Self::E4M3 }
    }

    /// Largest finite value.
    #[inline(always)]
    pub const fn max(self) -> f32 {
        if self.mantissa == 3 { 448.0 } else { 57344.0 }
    }

    /// Scale of a row whose largest absolute value is `most`; 0 for a row of zeros.
    #[inline(always)]
    pub fn scale(self, most: f32) -> f32 {
        let scale = most / self.max();
        let scale = if scale < SMALLEST_SCALE { SMALLEST_SCALE } else { scale };
        if most == 0.0 { 0.0 } else { scale }
    }

    /// Value of a code: `±2^(exponent − bias) · 1.mantissa`, or `±2^(1 − bias) · 0.mantissa` with the smallest exponent.
    pub fn decoded(self, code: u8) -> f64 {
        let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
        let (magnitude, ones) = (u32::from(code & 0x7f), 1u32 << self.mantissa);
        let (exponent, mantissa) = ((magnitude / ones) as i32, f64::from(magnitude % ones) / f64::from(ones));
        match exponent {
            _ if code & 0x7f > self.most && self.mantissa == 2 && mantissa == 0.0 => sign * f64::INFINITY,
            _ if code & 0x7f > self.most => f64::NAN,
            0 => sign * mantissa * 2f64.powi(1 - self.bias),
            _ => sign * (1.0 + mantissa) * 2f64.powi(exponent - self.bias),
        }
    }

    /// Code of a value: the nearest of all, of two the even one, the largest for a value beyond it; or one of the neighbours
    /// if the value has a random number.
    pub fn encoded(self, value: f32, die: Option<u32>) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let magnitude = f64::from(value.abs());
        let below = (0..=self.most).rev().find(|&code| self.decoded(code) <= magnitude).unwrap_or(0);
        if below == self.most {
            return sign | below;
        }
        let [low, high] = [below, below + 1].map(|code| self.decoded(code));
        let fraction = (magnitude - low) / (high - low);
        let up = match die {
            None => fraction > 0.5 || fraction == 0.5 && below % 2 == 1,
            Some(die) => rounds_up(fraction as f32, die),
        };
        sign | (below + u8::from(up))
    }
}

/// What values of a row are multiplied by before they are rounded.
#[inline(always)]
pub fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
