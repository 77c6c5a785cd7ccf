//! Formats of payloads as users write them: `u4`, or for reductions also `u4+ec`.

use super::Reduced;
use crate::codec::{Codec, Compensation};
use crate::text::{as_text, listed};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Format in which a payload travels between ranks. Sizes are those of a row of 128 floats: a vector of 128 columns, or 128
/// values of a gradient that is reduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Single precision: 512 bytes; nothing is lost.
    #[default]
    F32,
    /// IEEE half precision: 256 bytes, 1/2 of f32; 11 significant bits, beyond ±65504 infinite.
    F16,
    /// bfloat16, the upper half of an f32: 256 bytes, 1/2 of f32; 8 significant bits, the range of f32.
    Bf16,
    /// 8-bit floats with a scale for each row: 132 bytes, 1/3.9 of f32. `fp8-e4m3` forward, for vectors; `fp8-e5m2` backward, for
    /// gradients, dense and towers.
    Fp8,
    /// 8-bit floats of 4 significant bits, with a scale for each row: 132 bytes, 1/3.9 of f32.
    #[serde(rename = "fp8-e4m3")]
    Fp8E4m3,
    /// 8-bit floats of 3 significant bits and a wider range, with a scale for each row: 132 bytes, 1/3.9 of f32.
    #[serde(rename = "fp8-e5m2")]
    Fp8E5m2,
    /// Integers from 0 to 255, with a scale and a minimum for each row: 136 bytes, 1/3.8 of f32.
    U8,
    /// Integers from 0 to 15, with a scale and a minimum for each row: 72 bytes, 1/7.1 of f32.
    U4,
    /// Integers from 0 to 3, with a scale and a minimum for each row: 40 bytes, 1/12.8 of f32.
    U2,
}

/// Direction of a payload in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Vectors, which travel in the forward pass.
    Forward,
    /// Gradients of any kind.
    Backward,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 9] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Fp8,
        Self::Fp8E4m3,
        Self::Fp8E5m2,
        Self::U8,
        Self::U4,
        Self::U2,
    ];

    /// Name of the format as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Fp8 => "fp8",
            other => other.codec(Direction::Forward).name(),
        }
    }

    /// Codec of the format for payloads of a direction; only `fp8` has two.
    ///
    /// ```
    /// use spec::codec::Codec;
    /// use spec::wire::{Direction, Format};
    /// assert_eq!(Format::Fp8.codec(Direction::Forward), Codec::Fp8E4m3);
    /// assert_eq!(Format::Fp8.codec(Direction::Backward), Codec::Fp8E5m2);
    /// ```
    pub fn codec(self, direction: Direction) -> Codec {
        match (self, direction) {
            (Format::F32, _) => Codec::F32,
            (Format::F16, _) => Codec::F16,
            (Format::Bf16, _) => Codec::Bf16,
            (Format::Fp8E4m3, _) | (Format::Fp8, Direction::Forward) => Codec::Fp8E4m3,
            (Format::Fp8E5m2, _) | (Format::Fp8, Direction::Backward) => Codec::Fp8E5m2,
            (Format::U8, _) => Codec::U8,
            (Format::U4, _) => Codec::U4,
            (Format::U2, _) => Codec::U2,
        }
    }

    /// Format that has this codec in both directions.
    pub fn of(codec: Codec) -> Self {
        match codec {
            Codec::F32 => Format::F32,
            Codec::F16 => Format::F16,
            Codec::Bf16 => Format::Bf16,
            Codec::Fp8E4m3 => Format::Fp8E4m3,
            Codec::Fp8E5m2 => Format::Fp8E5m2,
            Codec::U8 => Format::U8,
            Codec::U4 => Format::U4,
            Codec::U2 => Format::U2,
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((format, _)) = text.split_once('+') {
            return Err(format!(
                "error compensation is for reductions, of dense and towers: vectors and their gradients belong to other samples in \
                 every step, so that the error of one step says nothing of the next, and its authors print no algorithm for \
                 exchanges; use {format}"
            ));
        }
        let names = Self::ALL.map(Self::name);
        let known = Self::ALL.into_iter().find(|format| format.name() == text);
        known.ok_or_else(|| format!("unknown wire format {text:?}; use {}", listed(&names)))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Format in which gradients travel in reductions, and whether what encoding loses is carried to the next step.
///
/// ```
/// use spec::codec::Compensation;
/// use spec::wire::{Format, ReducedFormat};
/// let dense: ReducedFormat = "u4+ec".parse().unwrap();
/// assert_eq!((dense.format, dense.compensation), (Format::U4, Compensation::Every));
/// assert_eq!(dense.to_string(), "u4+ec");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReducedFormat {
    /// Format of the values.
    pub format: Format,
    /// Whether what encoding loses is carried to the next step.
    pub compensation: Compensation,
}

impl ReducedFormat {
    /// Compensations, with what users write behind the format.
    const SUFFIXES: [(Compensation, &'static str); 3] =
        [(Compensation::None, ""), (Compensation::Every, "+ec"), (Compensation::AsPrinted, "+ec-paper")];

    /// Codec and compensation of a reduction.
    pub fn reduced(self) -> Reduced {
        Reduced { codec: self.format.codec(Direction::Backward), compensation: self.compensation }
    }

    /// Format that gives this reduction.
    pub fn of(reduced: Reduced) -> Self {
        Self { format: Format::of(reduced.codec), compensation: reduced.compensation }
    }
}

impl From<Format> for ReducedFormat {
    fn from(format: Format) -> Self {
        Self { format, compensation: Compensation::None }
    }
}

impl FromStr for ReducedFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, suffix) = text.split_at(text.find('+').unwrap_or(text.len()));
        let format = format.parse()?;
        let known = Self::SUFFIXES.into_iter().find(|(_, known)| *known == suffix);
        let Some((compensation, _)) = known else {
            return Err(format!(
                "unknown error compensation {suffix:?}; use {format}+ec, {format}+ec-paper or {format}"
            ));
        };
        if format == Format::F32 && compensation != Compensation::None {
            return Err("f32 loses nothing that error compensation could carry; use f32".into());
        }
        Ok(Self { format, compensation })
    }
}

impl fmt::Display for ReducedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = Self::SUFFIXES.into_iter().find(|(known, _)| *known == self.compensation);
        f.pad(&format!("{}{}", self.format, suffix.map_or("", |(_, suffix)| suffix)))
    }
}

as_text!(Format, ReducedFormat);

impl JsonSchema for ReducedFormat {
    fn schema_name() -> Cow<'static, str> {
        "ReducedFormat".into()
    }

    /// Shape of the format in a config, as `FromStr` accepts it.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let lossy = Format::ALL.into_iter().filter(|format| *format != Format::F32).map(Format::name);
        let lossy = lossy.collect::<Vec<_>>().join("|");
        let mut alone = generator.subschema_for::<Format>();
        alone.insert("description".into(), "A format alone: what encoding loses is lost.".into());
        json_schema!({
            "description": "Format in which gradients travel in reductions, and whether what encoding loses is carried to the next step.",
            "oneOf": [
                alone,
                {
                    "type": "string",
                    "pattern": format!("^({lossy})\\+ec$"),
                    "description": "A format with error compensation, such as `\"u4+ec\"`: what an encode loses is added to what the same \
                                    encode of the next step reads. The errors are part of a checkpoint."
                },
                {
                    "type": "string",
                    "pattern": format!("^({lossy})\\+ec-paper$"),
                    "description": "Error compensation as Yang et al. print it, such as `\"u4+ec-paper\"`: the first sends of `ring` and the \
                                    sums inside groups of `recursive-doubling` are not compensated."
                }
            ]
        })
    }
}
