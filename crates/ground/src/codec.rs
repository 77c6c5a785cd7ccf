//! Codecs: how floats are written as bytes for the wire.
//!
//! A codec encodes rows: a vector, or in a reduction at most [`Codec::LONGEST_ROW`] consecutive values of one tensor. Every row
//! is a header, which some codecs need, and its values in a fixed number of bits. So the size of encoded data follows from the
//! number of rows and their width alone.
//!
//! ```
//! use ground::codec::Codec;
//! assert_eq!(Codec::F32.encoded_bytes(2, 128), 1024);
//! // A scale and a minimum in f32, and 4 bits for each value.
//! assert_eq!(Codec::U4.encoded_bytes(2, 128), 2 * (8 + 64));
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Codec of a row of floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// Single precision: the identity.
    #[default]
    F32,
    /// IEEE half precision: 11 significant bits, beyond ±65504 infinite.
    F16,
    /// bfloat16, the upper half of an f32: 8 significant bits, the range of f32.
    Bf16,
    /// 8-bit floats of 4 significant bits, up to ±448; a row carries a scale.
    #[serde(rename = "fp8-e4m3")]
    Fp8E4m3,
    /// 8-bit floats of 3 significant bits, up to ±57344; a row carries a scale.
    #[serde(rename = "fp8-e5m2")]
    Fp8E5m2,
    /// Unsigned integers of 8 bits; a row carries a scale and a minimum.
    U8,
    /// Unsigned integers of 4 bits; a row carries a scale and a minimum.
    U4,
    /// Unsigned integers of 2 bits; a row carries a scale and a minimum.
    U2,
}

impl Codec {
    /// All codecs, from the most bits to the fewest.
    pub const ALL: [Self; 8] =
        [Self::F32, Self::F16, Self::Bf16, Self::Fp8E4m3, Self::Fp8E5m2, Self::U8, Self::U4, Self::U2];

    /// Longest row of a reduction, in values. A row of an exchange of vectors is a vector, however long.
    pub const LONGEST_ROW: usize = 128;

    /// Name of the codec as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::F32 => "f32",
            Codec::F16 => "f16",
            Codec::Bf16 => "bf16",
            Codec::Fp8E4m3 => "fp8-e4m3",
            Codec::Fp8E5m2 => "fp8-e5m2",
            Codec::U8 => "u8",
            Codec::U4 => "u4",
            Codec::U2 => "u2",
        }
    }

    /// Number of bits of a value.
    pub fn bits(self) -> u64 {
        match self {
            Codec::F32 => 32,
            Codec::F16 | Codec::Bf16 => 16,
            Codec::Fp8E4m3 | Codec::Fp8E5m2 | Codec::U8 => 8,
            Codec::U4 => 4,
            Codec::U2 => 2,
        }
    }

    /// Size of the header of a row, in bytes: a scale in f32, and for unsigned integers a minimum in f32 behind it.
    pub fn header_bytes(self) -> u64 {
        match self {
            Codec::F32 | Codec::F16 | Codec::Bf16 => 0,
            Codec::Fp8E4m3 | Codec::Fp8E5m2 => 4,
            Codec::U8 | Codec::U4 | Codec::U2 => 8,
        }
    }

    /// Size of `rows` encoded rows of `width` floats each, in bytes. The last byte of a row belongs to that row alone, and a row
    /// without values takes no byte.
    pub fn encoded_bytes(self, rows: u64, width: u64) -> u64 {
        match width {
            0 => 0,
            _ => rows * (self.header_bytes() + (width * self.bits()).div_ceil(8)),
        }
    }

    /// Whether encoded data differs from the floats themselves.
    pub fn encodes(self) -> bool {
        self != Codec::F32
    }

    /// Whether the values of a row are encoded together, so that where rows begin matters.
    pub fn by_rows(self) -> bool {
        self.header_bytes() > 0
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Rounding of values that a codec, or the number format of a table, cannot represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// To the nearest representable value, ties to even.
    #[default]
    Nearest,
    /// Up or down at random, so that the mean is the value itself. The random numbers follow from the seed, the step and the place of
    /// the value (of what is sent, its collective and its rank too), so that a run stays reproducible.
    Stochastic,
}

impl Rounding {
    /// Name of the rounding as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Rounding::Nearest => "nearest",
            Rounding::Stochastic => "stochastic",
        }
    }
}

impl FromStr for Rounding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Rounding::Nearest, Rounding::Stochastic].into_iter().find(|r| r.name() == text);
        known.ok_or_else(|| format!("unknown rounding {text:?}; use nearest or stochastic"))
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether what encoding loses is carried to the next step: the error of an encode is kept and added to the values that the same
/// encode of the next step reads (Algorithm 1 of Yang et al., 2020).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compensation {
    /// Errors are lost.
    #[default]
    None,
    /// Every encode that loses something is compensated.
    Every,
    /// Encodes are compensated as the paper prints its algorithms: the first sends of the ring (Algorithm 2) and the sums inside
    /// groups of recursive doubling (Algorithm 5) are not.
    AsPrinted,
}

impl Compensation {
    /// Name that tensors of carried errors have.
    pub fn name(self) -> &'static str {
        match self {
            Compensation::None => "none",
            Compensation::Every => "every",
            Compensation::AsPrinted => "as-printed",
        }
    }
}

/// Place of a row: in a vector of floats, and in the encoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Offset of the first value, in floats.
    pub at: usize,
    /// Offset of the encoded row, in bytes.
    pub byte: usize,
    /// Number of values.
    pub width: usize,
}
