//! What is measured: models, ways of bringing vectors to samples, wire formats and clusters.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use spec::presets::ModelKind;
use std::fmt;

/// How vectors get to samples, and what becomes of them on the way.
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
    /// Tower modules that halve what leaves a tower
    Cr2,
    /// The same, without overlap
    Cr2Serial,
    /// A quarter of it
    Cr4,
    /// An eighth
    Cr8,
    /// A sixteenth
    Cr16,
}

impl Way {
    /// How many times fewer bytes leave a tower than enter it; `None` without tower modules.
    pub fn ratio(self) -> Option<usize> {
        match self {
            Way::Flat | Way::FlatSerial | Way::Hierarchical | Way::Sptt => None,
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

    /// The same way with overlap.
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
            Way::Cr2 => "DMT, CR 2",
            Way::Cr2Serial => "DMT, CR 2, no overlap",
            Way::Cr4 => "DMT, CR 4",
            Way::Cr8 => "DMT, CR 8",
            Way::Cr16 => "DMT, CR 16",
        })
    }
}

/// Formats of vectors and gradients on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// 32 bits
    F32,
    /// 16 bits
    Bf16,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Wire::F32 => "f32",
            Wire::Bf16 => "bf16",
        })
    }
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    pub model: ModelKind,
    pub hosts: usize,
    pub wire: Wire,
    pub way: Way,
}

/// What all cases have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Common {
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
        let (hosts, per_host, wire) = (self.hosts, common.ranks_per_host, self.wire);
        let batch = common.local_batch * ranks;
        let mut flags = format!(
            "--preset terabyte --model {} --rows-cap 1000 --hosts {hosts} --ranks-per-host {per_host} --batch {batch} \
             --wire {wire} --threads 1",
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
            (None, _) => "none".into(),
            (Some(ratio), ModelKind::Dlrm) => format!("dlrm:c=1,p=0,d={}", DIM / ratio),
            (Some(ratio), ModelKind::Dcn) => format!("dcn:d={}", FEATURES * DIM / ratio / self.hosts),
        }
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
                cases.extend(ways.iter().map(|&way| Case { model, hosts, wire, way }));
            }
        }
    }
    cases
}
