//! The wire of a run: with which codec each payload travels between ranks. Arithmetic is always in f32.
//!
//! ```
//! use spec::codec::{Codec, Compensation};
//! use spec::wire::WireConfig;
//! let wire = "vectors=bf16,dense=u4+ec".parse::<WireConfig>().unwrap().check();
//! assert_eq!((wire.vectors, wire.gradients), (Codec::Bf16, Codec::F32));
//! assert_eq!((wire.dense.codec, wire.dense.compensation), (Codec::U4, Compensation::Every));
//! // Gradients of tower modules travel as those of other dense layers, unless users say otherwise.
//! assert_eq!(wire.towers, wire.dense);
//! assert_eq!(wire.to_string(), "vectors=bf16,gradients=f32,dense=u4+ec");
//! ```

mod format;

pub use format::{Direction, Format, ReducedFormat};

use crate::codec::{Codec, Compensation, Rounding};
use crate::text::listed;
use crate::volume::Leg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

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

impl fmt::Display for Reduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ReducedFormat::of(*self).fmt(f)
    }
}

impl Wire {
    /// Codec of the vectors or gradients that a leg exchanges.
    pub fn of(&self, leg: Leg) -> Codec {
        if leg.backward() { self.gradients } else { self.vectors }
    }

    /// Format that gives all four payloads, if there is one.
    fn single(&self) -> Option<ReducedFormat> {
        let compensation = self.dense.compensation;
        let gives = |format: &ReducedFormat| {
            WireConfig { rounding: Some(self.rounding), ..WireConfig::all(*format) }.check() == *self
        };
        Format::ALL.map(|format| ReducedFormat { format, compensation }).into_iter().find(gives)
    }
}

/// Formats of the wire as `--wire` reads them; rounding is not part of the text.
impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(format) = self.single() {
            return format.fmt(f);
        }
        let Self { vectors, gradients, dense, towers, .. } = self;
        let towers = if towers == dense { String::new() } else { format!(",towers={towers}") };
        f.pad(&format!("vectors={vectors},gradients={gradients},dense={dense}{towers}"))
    }
}

/// Section `[wire]` of a config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WireConfig {
    /// Format of pooled vectors, partial sums and tower outputs, in the forward pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<Format>,
    /// Format of the gradients of pooled vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradients: Option<Format>,
    /// Format of dense gradients, which are reduced; `u4+ec` carries what encoding loses to the next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<ReducedFormat>,
    /// Format of the gradients of tower modules, which are reduced inside tower groups. Default: as `dense`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub towers: Option<ReducedFormat>,
    /// Rounding of values that a format cannot represent: `nearest` or `stochastic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounding: Option<Rounding>,
}

impl WireConfig {
    /// Makes a config with one format for everything; error compensation applies to what is reduced.
    pub fn all(format: ReducedFormat) -> Self {
        let (of_vectors, of_sums) = (Some(format.format), Some(format));
        Self { vectors: of_vectors, gradients: of_vectors, dense: of_sums, towers: of_sums, rounding: None }
    }

    /// Makes a config with all formats of `wire` written out; that of towers only where it is another than that of dense
    /// gradients.
    pub fn explicit(wire: Wire) -> Self {
        let differs = wire.towers != wire.dense;
        Self {
            vectors: Some(Format::of(wire.vectors)),
            gradients: Some(Format::of(wire.gradients)),
            dense: Some(ReducedFormat::of(wire.dense)),
            towers: differs.then(|| ReducedFormat::of(wire.towers)),
            rounding: Some(wire.rounding),
        }
    }

    /// Wire of a run; formats that were left out are f32, and that of towers is that of dense gradients.
    pub fn check(&self) -> Wire {
        let dense = self.dense.unwrap_or_default();
        Wire {
            vectors: self.vectors.unwrap_or_default().codec(Direction::Forward),
            gradients: self.gradients.unwrap_or_default().codec(Direction::Backward),
            dense: dense.reduced(),
            towers: self.towers.unwrap_or(dense).reduced(),
            rounding: self.rounding.unwrap_or_default(),
        }
    }

    /// Returns the config with the formats of `over` in place of its own.
    pub fn overlaid(&self, over: &Self) -> Self {
        Self {
            vectors: over.vectors.or(self.vectors),
            gradients: over.gradients.or(self.gradients),
            dense: over.dense.or(self.dense),
            towers: over.towers.or(self.towers),
            rounding: over.rounding.or(self.rounding),
        }
    }
}

/// Payloads that have a format each.
const PAYLOADS: [&str; 4] = ["vectors", "gradients", "dense", "towers"];

impl FromStr for WireConfig {
    type Err = String;

    /// One format for all, or `vectors=bf16,gradients=f16,dense=u4+ec,towers=f32`, any of them left out.
    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('=') {
            return text.parse().map(Self::all);
        }
        let mut config = Self::default();
        for part in text.split(',') {
            let (payload, format) = part.split_once('=').unwrap_or((part, ""));
            let given_twice = match payload {
                "vectors" => set(&mut config.vectors, payload, format),
                "gradients" => set(&mut config.gradients, payload, format),
                "dense" => set(&mut config.dense, payload, format),
                "towers" => set(&mut config.towers, payload, format),
                _ => Err(format!("unknown payload {payload:?}; use {}", listed(&PAYLOADS))),
            }?;
            if given_twice {
                return Err(format!("{payload} has two wire formats; give one"));
            }
        }
        Ok(config)
    }
}

/// Sets the format of a payload, and tells whether it had one.
fn set<T: FromStr<Err = String>>(place: &mut Option<T>, payload: &str, format: &str) -> Result<bool, String> {
    let format = format.parse().map_err(|problem| format!("{payload}: {problem}"))?;
    Ok(place.replace(format).is_some())
}

#[cfg(test)]
mod tests;
