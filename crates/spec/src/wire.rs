//! Wire formats: how floats are sent between ranks. Arithmetic is always in f32.
//!
//! ```
//! use spec::wire::{Format, Wire, WireConfig};
//! let config: WireConfig = "vectors=bf16,dense=f16".parse().unwrap();
//! assert_eq!(config.check(), Wire { vectors: Format::Bf16, gradients: Format::F32, dense: Format::F16 });
//! assert_eq!("bf16".parse::<WireConfig>().unwrap().check().dense, Format::Bf16);
//! ```

use crate::volume::Leg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Wire format of a float. Encoding rounds to nearest, ties to even; encoding a decoded value again is exact.
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
    /// Size of an encoded float, in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::Bf16 => 2,
        }
    }

    /// Name of the format as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Format::F32 => "f32",
            Format::F16 => "f16",
            Format::Bf16 => "bf16",
        }
    }

    /// Whether floats are encoded before they are sent, and decoded after.
    pub fn encodes(self) -> bool {
        self != Format::F32
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

/// Wire formats of a run. Ids, bag lengths and weights of ids are never encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wire {
    /// Format of pooled vectors, partial sums and tower outputs, in the forward pass.
    pub vectors: Format,
    /// Format of the gradients of vectors.
    pub gradients: Format,
    /// Format of the gradients of dense parameters, including those of towers, in reductions.
    pub dense: Format,
}

impl Wire {
    /// Format of the vectors or gradients that a leg exchanges.
    pub fn of(&self, leg: Leg) -> Format {
        if leg.backward() { self.gradients } else { self.vectors }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vectors, gradients, dense } = self;
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
        Self { vectors: Some(wire.vectors), gradients: Some(wire.gradients), dense: Some(wire.dense) }
    }

    /// Wire formats of a run; formats that were left out are f32.
    pub fn check(&self) -> Wire {
        let Self { vectors, gradients, dense } = self;
        Wire {
            vectors: vectors.unwrap_or_default(),
            gradients: gradients.unwrap_or_default(),
            dense: dense.unwrap_or_default(),
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
