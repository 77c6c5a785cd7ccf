//! The runs that are measured: small ones that have every class of computation, each in several sizes and shapes.

use crate::args::RunArgs;
use anyhow::{Context, Result};
use spec::precision::{Precision, PrecisionConfig};
use spec::run::{Config, Run};
use spec::topology::Topology;

/// A run to measure.
pub struct Trial {
    /// Name of the run in tables.
    pub name: String,
    /// The checked run.
    pub run: Run,
}

/// Numbers of steps of a trial.
#[derive(Clone, Copy, Debug)]
pub struct TimedSteps {
    /// Steps that are timed.
    pub timed: u64,
    /// Steps before the clock starts.
    pub warm_up: u64,
}

/// Flags of the runs, and samples of each rank in a step. `{hosts}` stands for the number of hosts; there is one tower for each.
const RUNS: [(&str, usize); 13] = [
    ("--preset demo --model dlrm --dataflow flat", 256),
    ("--preset demo --model dlrm --dataflow flat --wire bf16", 2048),
    ("--preset demo --model dcn --dim 64 --towers strided:{hosts} --tower-module dcn:d=256 --wire bf16", 512),
    ("--preset demo --model dcn --towers strided:{hosts} --tower-module dcn:d=64", 640),
    ("--preset demo --model dlrm --dim 64 --towers strided:{hosts} --tower-module dlrm:c=1,p=0,d=32", 1024),
    (
        "--preset demo --model dlrm --dim 48 --towers strided:{hosts} --tower-module dlrm:c=1,p=0,d=16 \
         --peer-permute vectors",
        448,
    ),
    ("--preset kaggle --rows-cap 20000 --model dcn --dataflow flat", 256),
    (
        "--preset kaggle --rows-cap 20000 --model dlrm --towers strided:{hosts} --tower-module dlrm:c=1,p=0,d=16 --wire bf16",
        1024,
    ),
    ("--preset kaggle --rows-cap 20000 --model dlrm --dim 64 --dataflow flat", 512),
    (
        "--preset kaggle --rows-cap 20000 --model dlrm --dim 24 --dataflow flat --all-to-all hierarchical --wire bf16",
        320,
    ),
    (
        "--preset kaggle --rows-cap 20000 --model dcn --dim 32 --towers strided:{hosts} --tower-module dcn:d=128",
        128,
    ),
    ("--preset kaggle --rows-cap 20000 --model dlrm --dataflow flat --tt-rank 16 --tt-rows 2000", 512),
    (
        "--preset kaggle --rows-cap 20000 --model dlrm --dim 64 --dataflow flat --tt-rank 32 --tt-rows 10000",
        256,
    ),
];

/// Samples of the log; a run that needs more starts over.
const SAMPLES: u64 = 1 << 20;

/// How the runs are laid out.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Cluster of the runs.
    pub topology: Topology,
    /// Number of threads of each rank.
    pub threads: usize,
    /// Precision of the operands of matrix products.
    pub precision: Precision,
    /// Divisor of the batches.
    pub divisor: usize,
}

/// All runs on a cluster.
pub fn trials(setup: Setup, steps: TimedSteps) -> Result<Vec<Trial>> {
    let Setup { topology, divisor, .. } = setup;
    let trial = |(flags, samples): &(&str, usize)| {
        let flags = flags.replace("{hosts}", &topology.hosts().to_string());
        let mut config = RunArgs::from_words(flags.split_whitespace())?.config()?;
        let batch = samples / divisor * topology.ranks();
        complete(&mut config, setup, batch, steps);
        let run = planning::check(&config).with_context(|| format!("the run {flags}"))?;
        let name = flags.replace("--", "").replace("preset ", "").replace("model ", "");
        Ok(Trial { name: format!("{name}, {batch}"), run })
    };
    RUNS.iter().map(trial).collect()
}

fn complete(config: &mut Config, setup: Setup, batch: usize, steps: TimedSteps) {
    let Setup { topology, threads, precision, .. } = setup;
    (config.topology.hosts, config.topology.ranks_per_host) =
        (Some(topology.hosts()), Some(topology.ranks_per_host()));
    config.train.threads = Some(threads);
    config.train.precision = Some(PrecisionConfig::all(precision));
    config.train.batch = Some(batch);
    config.train.steps = Some(steps.timed + steps.warm_up);
    let log = config.data.synthetic.get_or_insert_default();
    (log.samples, log.eval_samples) = (SAMPLES.max((steps.timed + steps.warm_up) * batch as u64), 0);
}

#[cfg(test)]
mod tests;
