//! What-if scalings: hardware with more FLOP/s, memory or bandwidth.

use super::SpaceError;
use crate::system::System;
use std::fmt;
use std::str::FromStr;

/// Capability of a device or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// FLOP/s.
    Flops,
    /// Bytes of memory.
    Memory,
    /// Bytes a second of memory.
    MemoryBandwidth,
    /// Bytes a second inside a node.
    Intra,
    /// Bytes a second between nodes.
    Inter,
}

/// Factors of each capability of the hardware, in the order of [`Capability::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling(pub [f64; 5]);

/// Hardware to try: as it is, with each capability multiplied by each of its factors, and with all of them multiplied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhatIf {
    /// By capability: factors other than 1.
    factors: [Vec<f64>; 5],
    /// Factors of all capabilities at once.
    all: Vec<f64>,
    /// Whether factors of different capabilities meet.
    combined: bool,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Capability; 5] =
        [Self::Flops, Self::Memory, Self::MemoryBandwidth, Self::Intra, Self::Inter];

    /// Name of the capability as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flops => "flops",
            Self::Memory => "memory",
            Self::MemoryBandwidth => "memory-bandwidth",
            Self::Intra => "intra",
            Self::Inter => "inter",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Capability {
    type Err = SpaceError;

    fn from_str(name: &str) -> Result<Self, SpaceError> {
        let found = Self::ALL.into_iter().find(|capability| capability.name() == name);
        found.ok_or_else(|| SpaceError::Capability { name: name.into() })
    }
}

impl Scaling {
    /// Hardware as it is.
    pub const NONE: Scaling = Scaling([1.0; 5]);

    /// The system with so much more.
    pub fn of(&self, system: &System) -> System {
        let [flops, memory, memory_bandwidth, intra, inter] = self.0;
        let mut system = system.clone();
        let device = &mut system.device;
        for peak in [&mut device.f64_flops, &mut device.f32_flops, &mut device.f16_flops, &mut device.i8_ops]
        {
            *peak *= flops;
        }
        device.memory_bytes *= memory;
        device.memory_bytes_per_s *= memory_bandwidth;
        system.intra.bytes_per_s *= intra;
        system.inter.bytes_per_s *= inter;
        system
    }
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Scaling::NONE {
            return f.pad("as it is");
        }
        if self.0.iter().all(|&factor| factor == self.0[0]) {
            return f.pad(&format!("all ×{}", self.0[0]));
        }
        let scaled = Capability::ALL.iter().zip(self.0).filter(|(_, factor)| *factor != 1.0);
        let scaled: Vec<String> =
            scaled.map(|(capability, factor)| format!("{capability} ×{factor}")).collect();
        f.pad(&scaled.join(", "))
    }
}

impl WhatIf {
    /// Adds factors of a capability, or of all at once. A factor of 1 is hardware as it is, and always there.
    pub fn add(&mut self, capability: Option<Capability>, factors: &[f64]) -> Result<(), SpaceError> {
        let list = match capability {
            Some(capability) => &mut self.factors[capability as usize],
            None => &mut self.all,
        };
        for &factor in factors {
            if !(factor.is_finite() && factor > 0.0 && factor <= 1e6) {
                return Err(SpaceError::Factor { of: capability.map_or("all", Capability::name), factor });
            }
            if factor != 1.0 && !list.contains(&factor) {
                list.push(factor);
            }
        }
        Ok(())
    }

    /// Has factors of different capabilities meet: every combination is tried.
    pub fn combine(&mut self) {
        self.combined = true;
    }

    /// Kinds of hardware. `None` if they cannot be counted.
    pub(super) fn len(&self) -> Option<usize> {
        self.without_all()?.checked_add(self.all.len())
    }

    fn without_all(&self) -> Option<usize> {
        match self.combined {
            true => self.factors.iter().try_fold(1usize, |product, list| product.checked_mul(list.len() + 1)),
            false => Some(1 + self.factors.iter().map(Vec::len).sum::<usize>()),
        }
    }

    /// Factors of a combination, by its number; the first is hardware as it is.
    pub(super) fn scaling(&self, index: usize) -> Scaling {
        match self.row(index) {
            Some(row) => self.scaling_of_row(row),
            None => {
                let mut scaling = Scaling::NONE;
                for (factor, digit) in scaling.0.iter_mut().zip(self.digits(index)) {
                    *factor = digit.map_or(1.0, |(capability, at)| self.factors[capability][at]);
                }
                scaling
            }
        }
    }

    /// Of a combination: the capability and the factor's place in its list, where it is not 1.
    fn digits(&self, mut index: usize) -> [Option<(usize, usize)>; 5] {
        [0, 1, 2, 3, 4].map(|capability| {
            let base = self.factors[capability].len() + 1;
            let digit = index % base;
            index /= base;
            digit.checked_sub(1).map(|at| (capability, at))
        })
    }

    /// Rows of a table: hardware as it is, every factor of one capability alone, every factor of all.
    pub fn rows(&self) -> usize {
        1 + self.factors.iter().map(Vec::len).sum::<usize>() + self.all.len()
    }

    /// The hardware of a row.
    pub fn scaling_of_row(&self, row: usize) -> Scaling {
        let mut scaling = Scaling::NONE;
        let Some(mut at) = row.checked_sub(1) else { return scaling };
        for (factor, list) in scaling.0.iter_mut().zip(&self.factors) {
            if at < list.len() {
                *factor = list[at];
                return scaling;
            }
            at -= list.len();
        }
        Scaling([self.all[at]; 5])
    }

    /// The row that a kind of hardware is in, unless it is a combination.
    pub(super) fn row(&self, index: usize) -> Option<usize> {
        let alone = self.rows() - self.all.len();
        let without_all = self.without_all().unwrap_or(usize::MAX);
        if !self.combined {
            return Some(index);
        }
        if index >= without_all {
            return Some(alone + index - without_all);
        }
        let digits = self.digits(index);
        let mut changed = digits.iter().flatten();
        match (changed.next(), changed.next()) {
            (None, _) => Some(0),
            (Some(&(capability, at)), None) => {
                Some(1 + self.factors[..capability].iter().map(Vec::len).sum::<usize>() + at)
            }
            _ => None,
        }
    }
}
