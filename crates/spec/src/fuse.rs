//! Which phases of a step are carried out as one.

use crate::device::DeviceChoice;
use crate::precision::Precision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Whether phases that can be carried out as one are one, where no vector leaves its rank: the lookup with the dot products of its
/// vectors, and the gradients of the dot products with the update of the tables. For all other interactions vectors are looked up in
/// place, where the interaction reads them, and tables are updated in place, from where it leaves the gradients.
///
/// ```
/// use spec::fuse::Fuse;
/// assert_eq!("never".parse(), Ok(Fuse::Never));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fuse {
    /// Where the device gains by it: dot products on GPUs, in tf32 or bf16; in place everywhere.
    #[default]
    Auto,
    /// Wherever it can be done, on every device.
    Always,
    /// Nowhere.
    Never,
}

impl Fuse {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    /// Name of the choice, as in a config.
    pub fn name(self) -> &'static str {
        match self {
            Fuse::Auto => "auto",
            Fuse::Always => "always",
            Fuse::Never => "never",
        }
    }

    /// Whether dot products in `precision` on `device` are fused, if they can be.
    pub fn fuses(self, device: DeviceChoice, precision: Precision) -> bool {
        match self {
            Fuse::Always => true,
            Fuse::Never => false,
            Fuse::Auto => {
                device != DeviceChoice::Cpu && matches!(precision, Precision::Tf32 | Precision::Bf16)
            }
        }
    }

    /// Whether vectors are looked up, and tables updated, in place, if they can be. Auto does so on every device: vectors and gradients
    /// are copied less. Gradients of a block then lie in one bucket, which changes no bit but those of a norm that is clipped, and those of
    /// cross layers in bf16 on GPUs.
    pub fn in_place(self) -> bool {
        self != Fuse::Never
    }
}

impl fmt::Display for Fuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Fuse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|choice| choice.name() == text);
        found.ok_or_else(|| format!("{text:?} is no choice; use auto, always or never"))
    }
}
