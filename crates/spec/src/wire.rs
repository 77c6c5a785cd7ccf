//! The wire of a run: with which codec each payload travels between ranks. Arithmetic is always in f32.
//!
//! ```
//! use spec::codec::Codec;
//! use spec::wire::WireConfig;
//! let wire = "vectors=bf16,dense=f16".parse::<WireConfig>().unwrap().check();
//! assert_eq!((wire.vectors, wire.gradients, wire.dense.codec), (Codec::Bf16, Codec::F32, Codec::F16));
//! assert_eq!("bf16".parse::<WireConfig>().unwrap().check().dense.codec, Codec::Bf16);
//! ```

use crate::codec::{Codec, Compensation, Rounding};
use crate::volume::Leg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Format of a payload as users write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Single precision: 4 bytes.
    #[default]
    F32,
    /// IEEE half precision: 2 bytes, 11 significant bits, beyond ±65504 infinite.
    F16,
    /// bfloat16, the upper half of an f32: 2 bytes, 8 significant bits, the range of f32.
    Bf16,
}

impl Format {
    /// Name of the format as users write it.
    pub fn name(self) -> &'static str {
        self.codec().name()
    }

    /// Codec of the format.
    pub fn codec(self) -> Codec {
        match self {
            Format::F32 => Codec::F32,
            Format::F16 => Codec::F16,
            Format::Bf16 => Codec::Bf16,
        }
    }

    /// Format that gives a codec.
    fn of(codec: Codec) -> Self {
        match codec {
            Codec::F16 => Format::F16,
            Codec::Bf16 => Format::Bf16,
            _ => Format::F32,
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Format::F32, Format::F16, Format::Bf16].into_iter().find(|format| format.name() == text);
        known.ok_or_else(|| format!("unknown wire format {text:?}; use f32, f16 or bf16"))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Wire of a run. Ids, bag lengths and weights of ids are never encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wire {
    /// Codec of pooled vectors, partial sums and tower outputs, in the forward pass.
    pub vectors: Codec,
    /// Codec of the gradients of vectors.
    pub gradients: Codec,
    /// How the gradients of dense parameters travel in reductions.
    pub dense: Reduced,
    /// How the gradients of tower modules travel in reductions.
    pub towers: Reduced,
    /// Rounding of all values that are encoded.
    pub rounding: Rounding,
}

/// How values travel in a reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reduced {
    /// Codec of the values.
    pub codec: Codec,
    /// Whether what encoding loses is carried to the next step.
    pub compensation: Compensation,
}

impl Wire {
    /// Codec of the vectors or gradients that a leg exchanges.
    pub fn of(&self, leg: Leg) -> Codec {
        if leg.backward() { self.gradients } else { self.vectors }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vectors, gradients, dense) = (self.vectors, self.gradients, self.dense.codec);
        if vectors == gradients && gradients == dense {
            return f.pad(vectors.name());
        }
        f.pad(&format!("vectors={vectors},gradients={gradients},dense={dense}"))
    }
}

/// Section `[wire]` of a config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WireConfig {
    /// Format of pooled vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<Format>,
    /// Format of the gradients of pooled vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradients: Option<Format>,
    /// Format of dense gradients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<Format>,
}

impl WireConfig {
    /// Makes a config with all formats of `wire` written out.
    pub fn explicit(wire: Wire) -> Self {
        let of = |codec| Some(Format::of(codec));
        Self { vectors: of(wire.vectors), gradients: of(wire.gradients), dense: of(wire.dense.codec) }
    }

    /// Wire of a run; formats that were left out are f32.
    pub fn check(&self) -> Wire {
        let codec = |format: Option<Format>| format.unwrap_or_default().codec();
        let dense = Reduced { codec: codec(self.dense), compensation: Compensation::None };
        Wire {
            vectors: codec(self.vectors),
            gradients: codec(self.gradients),
            dense,
            towers: dense,
            rounding: Rounding::Nearest,
        }
    }

    /// Returns the config with the formats of `over` in place of its own.
    pub fn overlaid(&self, over: &Self) -> Self {
        Self {
            vectors: over.vectors.or(self.vectors),
            gradients: over.gradients.or(self.gradients),
            dense: over.dense.or(self.dense),
        }
    }
}

impl FromStr for WireConfig {
    type Err = String;

    /// One format for all, or `vectors=bf16,gradients=f16,dense=f32`, any of them left out.
    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('=') {
            let all = Some(text.parse()?);
            return Ok(Self { vectors: all, gradients: all, dense: all });
        }
        let mut config = Self::default();
        for part in text.split(',') {
            let (name, format) = part.split_once('=').unwrap_or((part, ""));
            let place = match name {
                "vectors" => &mut config.vectors,
                "gradients" => &mut config.gradients,
                "dense" => &mut config.dense,
                _ => return Err(format!("unknown payload {name:?}; use vectors, gradients or dense")),
            };
            if place.replace(format.parse()?).is_some() {
                return Err(format!("{name} has two wire formats; give one"));
            }
        }
        Ok(config)
    }
}
