//! Runs that are predicted: in sizes, widths and tables that no calibration has seen.

use crate::error::{During, Error, Result};
use crate::program::Program;
use spec::run::Run;

/// A run that is measured and predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name in tables and records.
    pub name: &'static str,
    flags: &'static str,
    /// Samples of each rank in a step.
    samples: usize,
}

const fn case(name: &'static str, flags: &'static str, samples: usize) -> Case {
    Case { name, flags, samples }
}

/// All runs that are predicted. `{hosts}` stands for the number of hosts; there is one tower for each.
pub const ALL: [Case; 14] = [
    case("demo DLRM, flat", "--preset demo --model dlrm --dataflow flat", 512),
    case("demo DLRM, flat, 32 wide", "--preset demo --model dlrm --dim 32 --dataflow flat", 1024),
    case("demo DLRM, SPTT", "--preset demo --model dlrm --towers strided:{hosts} --tower-module none", 512),
    case(
        "demo DLRM, DMT, 32 wide",
        "--preset demo --model dlrm --dim 32 --towers strided:{hosts} --tower-module dlrm:c=1,p=0,d=16",
        512,
    ),
    case("demo DCN, flat, bf16", "--preset demo --model dcn --dataflow flat --wire bf16", 768),
    case(
        "demo DCN, DMT, 32 wide",
        "--preset demo --model dcn --dim 32 --towers strided:{hosts} --tower-module dcn:d=128",
        384,
    ),
    case("Kaggle DLRM, flat", "--preset kaggle --rows-cap 100000 --model dlrm --dataflow flat", 256),
    case(
        "Kaggle DLRM, flat, 32 wide, bf16",
        "--preset kaggle --rows-cap 100000 --model dlrm --dim 32 --dataflow flat --wire bf16",
        768,
    ),
    case(
        "Kaggle DLRM, SPTT, 32 wide, bf16",
        "--preset kaggle --rows-cap 100000 --model dlrm --dim 32 --towers strided:{hosts} --tower-module none --wire bf16",
        512,
    ),
    case(
        "Kaggle DLRM, DMT, 32 wide",
        "--preset kaggle --rows-cap 100000 --model dlrm --dim 32 --towers strided:{hosts} --tower-module dlrm:c=1,p=0,d=16",
        512,
    ),
    case(
        "Kaggle DCN, flat, bf16",
        "--preset kaggle --rows-cap 100000 --model dcn --dataflow flat --wire bf16",
        512,
    ),
    case(
        "Kaggle DCN, SPTT",
        "--preset kaggle --rows-cap 50000 --model dcn --towers strided:{hosts} --tower-module none",
        384,
    ),
    case(
        "Kaggle DCN, DMT, bf16",
        "--preset kaggle --rows-cap 100000 --model dcn --towers strided:{hosts} --tower-module dcn:d=64 --wire bf16",
        384,
    ),
    case(
        "Kaggle DLRM, DMT, half as wide out, bf16",
        "--preset kaggle --rows-cap 50000 --model dlrm --dim 48 --towers strided:{hosts} --tower-module dlrm:c=1,p=0,d=24 \
         --wire bf16",
        640,
    ),
];

impl Case {
    /// The run as flags of `campanile train`.
    pub fn flags(&self, hosts: usize, ranks_per_host: usize) -> Vec<String> {
        let batch = self.samples * hosts * ranks_per_host;
        let flags =
            format!("{} --batch {batch} --hosts {hosts} --ranks-per-host {ranks_per_host}", self.flags);
        let flags = flags.replace("{hosts}", &hosts.to_string());
        flags.split_whitespace().map(String::from).collect()
    }

    /// The checked run, its flags parsed by `program`.
    pub fn run(&self, hosts: usize, ranks_per_host: usize, program: &dyn Program) -> Result<Run> {
        let run = program.run(&self.flags(hosts, ranks_per_host));
        run.map_err(Error::Program).during(|| self.name.to_owned())
    }
}

#[cfg(test)]
mod tests;
