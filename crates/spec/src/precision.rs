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
/// use spec::device::DeviceChoice;
/// use spec::precision::Precision;
/// assert_eq!("bf16".parse(), Ok(Precision::Bf16));
/// assert!(Precision::Bf16.problem_on(DeviceChoice::Cpu).is_some());
/// assert!(Precision::Bf16.problem_on(DeviceChoice::Cuda(None)).is_none());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Operands in f32: 24 bits of precision. Every device has it.
    #[default]
    F32,
    /// Operands rounded to tf32: the range of f32 with 11 bits of precision. CUDA only.
    Tf32,
    /// Operands rounded to bf16: the range of f32 with 8 bits of precision. CUDA only.
    Bf16,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Self; 3] = [Self::F32, Self::Tf32, Self::Bf16];

    /// Name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }

    /// Reason why no rank on `device` computes in this precision, with what to do; `None` where one may. `auto` may be a GPU:
    /// a caller that knows what it became asks again with `cpu` or `cuda`.
    pub fn problem_on(self, device: DeviceChoice) -> Option<String> {
        (device == DeviceChoice::Cpu && self != Self::F32)
            .then(|| format!("the CPU computes in f32 only, not in {self}; choose f32 or --device cuda"))
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
