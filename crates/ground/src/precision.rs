//! Precision of a run: the numbers in which matrix products are computed.

use crate::device::DeviceChoice;
use crate::text::listed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Numbers in which the operands of matrix products are read. Weights, optimizer state, tables and sums are f32 in each.
///
/// ```
/// use ground::device::DeviceChoice;
/// use ground::precision::Precision;
/// assert_eq!("bf16".parse(), Ok(Precision::Bf16));
/// assert!(Precision::Bf16.problem_on(DeviceChoice::Cpu).is_none());
/// assert!(Precision::Tf32.problem_on(DeviceChoice::Cpu).is_some());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Operands in f32: 24 bits of precision. Every device has it.
    #[default]
    F32,
    /// Operands split into two bf16 parts, 16 bits of precision, and three products of the parts: f32-grade results. CPU only.
    F32x3,
    /// Operands rounded to tf32: the range of f32 with 11 bits of precision. CUDA only.
    Tf32,
    /// Operands rounded to bf16: the range of f32 with 8 bits of precision. Every device has it.
    Bf16,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Self; 4] = [Self::F32, Self::F32x3, Self::Tf32, Self::Bf16];

    /// Whether this is the precision of runs that say nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F32x3 => "f32x3",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }

    /// Reason why no rank on `device` computes in this precision, with what to do; `None` where one may. `auto` may be a GPU:
    /// a caller that knows what it became asks again with `cpu` or `cuda`.
    pub fn problem_on(self, device: DeviceChoice) -> Option<String> {
        let (name, has, other) = match device {
            DeviceChoice::Cpu => ("the CPU", [Self::F32, Self::F32x3, Self::Bf16], "cuda"),
            DeviceChoice::Cuda(_) => ("a GPU", [Self::F32, Self::Tf32, Self::Bf16], "cpu"),
            DeviceChoice::Auto => return None,
        };
        let names = listed(&has.map(Self::name));
        (!has.contains(&self)).then(|| {
            format!("{name} computes in {names}, not in {self}; choose one of them or --device {other}")
        })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("unknown precision {text:?}; use {}", listed(&Self::ALL.map(Self::name)));
        Self::ALL.into_iter().find(|precision| precision.name() == text).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests;
