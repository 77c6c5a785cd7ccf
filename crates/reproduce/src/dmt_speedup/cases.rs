//! Cases to measure: models, ways of bringing vectors to samples, wire formats and clusters.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use spec::presets::ModelKind;
use std::fmt;

/// A dataflow from tables to samples, with or without tower modules and overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The flat dataflow
    Flat,
    /// The flat dataflow without overlap
    FlatSerial,
    /// The flat dataflow with two-level all-to-alls
    Hierarchical,
    /// SPTT, towers that pass everything through
    Sptt,
    /// Tower modules of the paper's DCN, with 128 outputs a tower (those of its DLRM are cr2)
    Paper,
    /// Tower modules with half as many outputs as inputs
    Cr2,
    /// Tower modules with half as many outputs as inputs, without overlap
    Cr2Serial,
    /// Tower modules with a quarter as many outputs as inputs
    Cr4,
    /// Tower modules with an eighth as many outputs as inputs
    Cr8,
    /// Tower modules with a sixteenth as many outputs as inputs
    Cr16,
}

impl Way {
    /// Whether there are tower modules.
    pub fn has_modules(self) -> bool {
        !matches!(self, Way::Flat | Way::FlatSerial | Way::Hierarchical | Way::Sptt)
    }

    /// Compression ratio of the tower modules, for ways that are named by one.
    fn ratio(self) -> Option<usize> {
        match self {
            Way::Flat | Way::FlatSerial | Way::Hierarchical | Way::Sptt | Way::Paper => None,
            Way::Cr2 | Way::Cr2Serial => Some(2),
            Way::Cr4 => Some(4),
            Way::Cr8 => Some(8),
            Way::Cr16 => Some(16),
        }
    }

    /// Whether nothing overlaps.
    pub fn serial(self) -> bool {
        matches!(self, Way::FlatSerial | Way::Cr2Serial)
    }

    /// The way with overlap that this one is compared with.
    pub fn overlapped(self) -> Self {
        match self {
            Way::FlatSerial => Way::Flat,
            Way::Cr2Serial => Way::Cr2,
            way => way,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Way::Flat => "flat",
            Way::FlatSerial => "flat, no overlap",
            Way::Hierarchical => "flat, hierarchical",
            Way::Sptt => "SPTT",
            Way::Paper => "DMT, D = 128",
            Way::Cr2 => "DMT, CR 2",
            Way::Cr2Serial => "DMT, CR 2, no overlap",
            Way::Cr4 => "DMT, CR 4",
            Way::Cr8 => "DMT, CR 8",
            Way::Cr16 => "DMT, CR 16",
        })
    }
}

/// Formats of vectors and gradients on the wire, and how dense gradients are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// 32 bits
    F32,
    /// 16 bits
    Bf16,
    /// 8 bits, with a scale and a minimum for each row
    U8,
    /// 4 bits, with a scale and a minimum for each row
    U4,
    /// 32 bits, dense gradients summed in two levels
    F32TwoLevel,
    /// 16 bits, dense gradients summed in two levels
    Bf16TwoLevel,
    /// 8 bits, dense gradients summed in two levels
    U8TwoLevel,
    /// 4 bits, dense gradients summed in two levels
    U4TwoLevel,
}

impl Wire {
    /// Flags of `campanile train`.
    fn flags(self) -> &'static str {
        match self {
            Wire::F32 => "--wire f32",
            Wire::Bf16 => "--wire bf16",
            Wire::U8 => "--wire u8",
            Wire::U4 => "--wire u4",
            Wire::F32TwoLevel => "--wire f32 --all-reduce two-level",
            Wire::Bf16TwoLevel => "--wire bf16 --all-reduce two-level",
            Wire::U8TwoLevel => "--wire u8 --all-reduce two-level",
            Wire::U4TwoLevel => "--wire u4 --all-reduce two-level",
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Wire::F32 => "f32",
            Wire::Bf16 => "bf16",
            Wire::U8 => "u8",
            Wire::U4 => "u4",
            Wire::F32TwoLevel => "f32-two-level",
            Wire::Bf16TwoLevel => "bf16-two-level",
            Wire::U8TwoLevel => "u8-two-level",
            Wire::U4TwoLevel => "u4-two-level",
        })
    }
}

/// A model on a cluster, with a wire format and a dataflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Kind of the model.
    pub model: ModelKind,
    /// Hosts of the cluster.
    pub hosts: usize,
    /// Format of vectors and gradients between ranks.
    pub wire: Wire,
    /// Dataflow from tables to samples.
    pub way: Way,
}

/// Settings that all cases share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Common {
    /// Ranks on each host.
    pub ranks_per_host: usize,
    /// Samples of each rank in a step.
    pub local_batch: usize,
}

/// Width of an embedding in the paper's models, and how many there are.
const DIM: usize = 128;
const FEATURES: usize = 26;

impl Case {
    /// The run as flags of `campanile train`.
    pub fn flags(&self, common: &Common) -> Vec<String> {
        let ranks = self.hosts * common.ranks_per_host;
        let (hosts, per_host, wire) = (self.hosts, common.ranks_per_host, self.wire.flags());
        let batch = common.local_batch * ranks;
        let mut flags = format!(
            "--preset terabyte --model {} --rows-cap 1000 --hosts {hosts} --ranks-per-host {per_host} --batch {batch} \
             {wire} --threads 1",
            self.model.name()
        );
        match self.way.overlapped() {
            Way::Flat | Way::FlatSerial => flags += " --dataflow flat",
            Way::Hierarchical => flags += " --dataflow flat --all-to-all hierarchical",
            way => flags += &format!(" --towers strided:{hosts} --tower-module {}", self.module(way)),
        }
        if self.way.serial() {
            flags += " --no-overlap";
        }
        flags.split_whitespace().map(String::from).collect()
    }

    /// The modules of the paper, with as many outputs as the ratio leaves.
    fn module(&self, way: Way) -> String {
        match (way.ratio(), self.model) {
            (None, _) if way == Way::Paper => format!("dcn:d={DIM}"),
            (None, _) => "none".into(),
            (Some(ratio), ModelKind::Dlrm) => format!("dlrm:c=1,p=0,d={}", DIM / ratio),
            (Some(_), ModelKind::DeepFm) => "none".into(),
            (Some(ratio), ModelKind::Dcn) => format!("dcn:d={}", FEATURES * DIM / ratio / self.hosts),
        }
    }

    /// The case whose computations are measured for this one: with all the phases that this one has.
    pub fn measured(&self) -> Self {
        // In single precision there is nothing to encode; all else is measured with the 16 bits that it is compared with. Without
        // a format to encode into, a hierarchical all-to-all has a phase of its own.
        let wire = match self.wire {
            Wire::F32 if self.way != Way::Hierarchical => Wire::Bf16,
            wire => wire,
        };
        Self { wire, way: self.way.overlapped(), ..*self }
    }

    /// A name for files.
    pub fn name(&self) -> String {
        let way = self.way.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        format!("{}-{}x-{}-{way}", self.model.name(), self.hosts, self.wire)
    }
}

/// All cases, the ways of each side by side.
pub fn all(models: &[ModelKind], hosts: &[usize], wires: &[Wire], ways: &[Way]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &hosts in hosts {
        for &model in models {
            for &wire in wires {
                // What overlap hides is asked of the DLRM alone, whose modules in the paper have a ratio of 2.
                let fits = |way: &&Way| match model {
                    ModelKind::Dlrm => **way != Way::Paper,
                    ModelKind::Dcn => !way.serial(),
                    // There are no tower modules for it.
                    ModelKind::DeepFm => !way.serial() && !way.has_modules(),
                };
                cases.extend(ways.iter().filter(fits).map(|&way| Case { model, hosts, wire, way }));
            }
        }
    }
    cases
}
