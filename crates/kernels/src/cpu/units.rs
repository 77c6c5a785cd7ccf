//! Instructions for products in bf16 on this machine, detected once.

use super::level::Level;

/// Instructions for products in bf16. All but `None` exist only where [`Units::detect`] found them, together with
/// `Level::Avx512`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// Matrix units, AMX.
    #[cfg(target_arch = "x86_64")]
    Amx,
    /// Vector instructions, AVX-512-BF16.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    /// No such instructions: operands are rounded to bf16 and multiplied in f32.
    None,
}

impl Units {
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let vectors = Level::detect() == Level::Avx512
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512bf16");
            if vectors && super::amx::detect() {
                return Units::Amx;
            }
            if vectors {
                return Units::Avx512Bf16;
            }
        }
        Units::None
    }

    /// Name of the instructions that products in bf16 are made of.
    pub(crate) fn name(self, level: Level) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Units::Amx => "amx-bf16",
            #[cfg(target_arch = "x86_64")]
            Units::Avx512Bf16 => "avx512-bf16",
            Units::None => level.name(),
        }
    }

    /// Instructions one step below, in both kinds; `None` below the ones that every machine has.
    pub(crate) fn below(self, level: Level) -> Option<(Self, Level)> {
        match (self, level) {
            #[cfg(target_arch = "x86_64")]
            (Units::Amx, _) => Some((Units::Avx512Bf16, level)),
            #[cfg(target_arch = "x86_64")]
            (Units::Avx512Bf16, _) => Some((Units::None, level)),
            #[cfg(target_arch = "x86_64")]
            (Units::None, Level::Avx512) => Some((Units::None, Level::Avx2)),
            #[cfg(target_arch = "x86_64")]
            (Units::None, Level::Avx2) => Some((Units::None, Level::Portable)),
            (Units::None, Level::Portable) => None,
        }
    }
}
