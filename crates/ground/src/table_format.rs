//! Number formats of tables: how many bits a weight takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number format of a table's weights. Vectors that are looked up, gradients and optimizer state are f32, whatever the format; an update
/// reads a row, changes it in f32 and rounds it.
///
/// ```
/// use ground::table_format::TableFormat;
/// assert_eq!("f16".parse(), Ok(TableFormat::F16));
/// assert_eq!(TableFormat::ALL.map(|format| format.row_bytes(128)), [512, 256, 256, 136]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableFormat {
    /// 32 bits: no rounding.
    #[default]
    F32,
    /// 16 bits, 11 of precision, up to 65504: larger weights are stored as ±65504.
    F16,
    /// 16 bits, 8 of precision, with the range of f32.
    Bf16,
    /// 8 bits: a row, or the slice of a row that a shard has, is `minimum + scale · code` with codes from 0 to 255; its scale and its
    /// minimum are f32.
    Int8,
}

impl TableFormat {
    /// All formats, from the widest on.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::Int8];

    /// Bytes that a row of int8 has beside its codes: scale and minimum.
    pub const INT8_EXTRA: usize = 2 * size_of::<f32>();

    /// Name of the format, as in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Bytes of a row of `dim` weights.
    pub fn row_bytes(self, dim: usize) -> usize {
        match self {
            Self::F32 => 4 * dim,
            Self::F16 | Self::Bf16 => 2 * dim,
            Self::Int8 => dim + Self::INT8_EXTRA,
        }
    }

    /// Whether weights are rounded.
    pub fn rounds(self) -> bool {
        self != Self::F32
    }
}

impl fmt::Display for TableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TableFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| format!("{text:?} is no format of tables; use f32, f16, bf16 or int8"))
    }
}
