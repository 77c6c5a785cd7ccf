//! Number formats of tables: how many bits a weight takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number format of a table's weights. Vectors that are looked up, gradients and optimizer state are f32, whatever the format; an update
/// reads a row, changes it in f32 and rounds it.
///
/// ```
/// use spec::table_format::TableFormat;
/// assert_eq!("f16".parse(), Ok(TableFormat::F16));
/// assert_eq!(TableFormat::ALL.map(|format| format.row_bytes(128)), [512, 256, 256]);
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
}

impl TableFormat {
    /// All formats, from the widest on.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// Name of the format, as in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes of a row of `dim` weights.
    pub fn row_bytes(self, dim: usize) -> usize {
        match self {
            Self::F32 => 4 * dim,
            Self::F16 | Self::Bf16 => 2 * dim,
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
        found.ok_or_else(|| format!("{text:?} is no format of tables; use f32, f16 or bf16"))
    }
}
