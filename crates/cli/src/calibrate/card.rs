//! Calibration of a GPU: runs that keep one busy, each timed by events on the device.
//!
//! Batches are in memory already, since a host that draws samples is slower than a GPU that trains on them. Shapes of layers differ
//! from those of the presets: what is predicted should be what nobody has measured.

use super::fitted::Taken;
use super::runs::Trial;
use crate::args::RunArgs;
use crate::bench::step::{self, Effort};
use crate::progress::{Console, Unit};
use crate::text::median;
use anyhow::{Context, Result};
use spec::device::DeviceChoice;
use spec::precision::{Precision, PrecisionConfig};
use training::{Cluster, Devices};

/// Batches in memory, used over and over.
const BATCHES: u64 = 4;

/// A run to measure on a GPU.
struct CardRun {
    /// Flags of the run.
    flags: &'static str,
    /// Widths of the bottom MLP; the last is the dim, or the d of linear tower modules.
    bottom: &'static [usize],
    /// Widths of the top MLP.
    top: &'static [usize],
    /// Number and matrix rank of cross layers; none in a DLRM.
    cross: Option<(usize, usize)>,
    /// Samples of a step.
    batch: usize,
}

const RUNS: [CardRun; 16] = [
    CardRun {
        flags: "--model dlrm --dim 128",
        bottom: &[384, 192, 128],
        top: &[768, 768, 384, 192, 1],
        cross: None,
        batch: 49_152,
    },
    CardRun {
        flags: "--model dlrm --dim 128",
        bottom: &[640, 256, 128],
        top: &[1280, 1024, 512, 1],
        cross: None,
        batch: 12_288,
    },
    CardRun {
        flags: "--model dlrm --dim 96",
        bottom: &[512, 384, 96],
        top: &[1024, 896, 640, 256, 1],
        cross: None,
        batch: 32_768,
    },
    CardRun {
        flags: "--model dlrm --dim 64",
        bottom: &[512, 128, 64],
        top: &[512, 512, 256, 1],
        cross: None,
        batch: 65_536,
    },
    CardRun {
        flags: "--model dlrm --dim 32",
        bottom: &[256, 128, 64, 32],
        top: &[512, 256, 128, 1],
        cross: None,
        batch: 24_576,
    },
    CardRun {
        flags: "--model dlrm --dim 16",
        bottom: &[384, 192, 64, 16],
        top: &[384, 192, 1],
        cross: None,
        batch: 49_152,
    },
    CardRun {
        flags: "--model dlrm --dim 128",
        bottom: &[768, 384, 128],
        top: &[1536, 1024, 512, 256, 1],
        cross: None,
        batch: 20_480,
    },
    CardRun {
        flags: "--model dcn --dim 128",
        bottom: &[384, 256, 128],
        top: &[896, 768, 384, 192, 1],
        cross: Some((2, 384)),
        batch: 12_288,
    },
    CardRun {
        flags: "--model dcn --dim 96 --wire bf16",
        bottom: &[512, 256, 96],
        top: &[1024, 768, 512, 1],
        cross: Some((3, 512)),
        batch: 32_768,
    },
    CardRun {
        flags: "--model dcn --dim 64",
        bottom: &[256, 128, 64],
        top: &[768, 512, 256, 1],
        cross: Some((4, 512)),
        batch: 49_152,
    },
    CardRun {
        flags: "--model dlrm --dim 128 --towers strided:4 --tower-module dlrm:c=1,p=0,d=64",
        bottom: &[384, 192, 64],
        top: &[768, 512, 256, 1],
        cross: None,
        batch: 24_576,
    },
    CardRun {
        flags: "--model dlrm --dim 64 --towers strided:8 --tower-module dlrm:c=1,p=0,d=32 --wire bf16",
        bottom: &[512, 256, 32],
        top: &[1024, 512, 256, 1],
        cross: None,
        batch: 49_152,
    },
    CardRun {
        flags: "--model dcn --dim 128 --towers strided:4 --tower-module dcn:d=128,rank=256",
        bottom: &[256, 256, 128],
        top: &[768, 512, 256, 1],
        cross: Some((2, 256)),
        batch: 12_288,
    },
    CardRun {
        flags: "--model dcn --dim 64 --towers strided:8 --tower-module dcn:d=64,rank=128",
        bottom: &[384, 128, 64],
        top: &[1024, 512, 256, 1],
        cross: Some((2, 384)),
        batch: 32_768,
    },
    CardRun {
        flags: "--model dlrm --dim 64 --tt-rank 16 --tt-rows 500",
        bottom: &[256, 192, 64],
        top: &[512, 384, 1],
        cross: None,
        batch: 24_576,
    },
    CardRun {
        flags: "--model dlrm --dim 128 --tt-rank 32 --tt-rows 500",
        bottom: &[384, 256, 128],
        top: &[640, 512, 1],
        cross: None,
        batch: 12_288,
    },
];

/// How the runs are computed.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Device of the only rank.
    pub device: DeviceChoice,
    /// Precision of the operands of matrix products.
    pub precision: Precision,
    /// Name of the update rule.
    pub optimizer: &'a str,
    /// Most rows of a table.
    pub rows: usize,
    /// Divisor of the batches.
    pub divisor: usize,
}

/// All runs.
pub fn trials(setup: Setup) -> Result<Vec<Trial>> {
    let trial = |of: &CardRun| {
        let Setup { device, precision, optimizer, rows, divisor } = setup;
        let common = format!("--preset kaggle --rows-cap {rows} --optimizer {optimizer}");
        let words = common.split_whitespace().chain(of.flags.split_whitespace());
        let mut config = RunArgs::from_words(words)?.config()?;
        config.model.bottom = Some(of.bottom.to_vec());
        config.model.top = Some(of.top.to_vec());
        (config.model.cross_layers, config.model.cross_rank) =
            (of.cross.map(|(layers, _)| layers), of.cross.map(|(_, rank)| rank));
        (config.train.device, config.train.batch) = (Some(device), Some((of.batch / divisor).max(1)));
        config.train.precision = Some(PrecisionConfig::all(precision));
        let name = of.flags.replace("--", "").replace("model ", "");
        let run = step::checked(config, 0.0, BATCHES).with_context(|| format!("the run {name}"))?;
        Ok(Trial { name: format!("{name}, {}", run.batch), run })
    };
    RUNS.iter().map(trial).collect()
}

/// Times of all trials, one after the other.
pub fn measure(trials: &[Trial], effort: Effort, console: Console) -> Result<Vec<Vec<Taken>>> {
    let progress = console.progress("calibrating", trials.len() as u64, Unit::Count("runs"));
    let mut taken = Vec::with_capacity(trials.len());
    for (done, trial) in trials.iter().enumerate() {
        progress.at(done as u64, &trial.name);
        let devices = Devices::new(&trial.run, &Cluster::Threads)?;
        let measured = step::measure(&trial.run, &devices, effort).with_context(|| trial.name.clone())?;
        let per_step = |seconds: f64| seconds / measured.steps as f64;
        taken.push(vec![Taken {
            step_s: median(&mut measured.times.clone()),
            phases: measured.phases.iter().map(|time| per_step(time.busy.as_secs_f64())).collect(),
            // Nobody waits for the thread that reads batches out of memory.
            reading_s: 0.0,
        }]);
    }
    Ok(taken)
}

#[cfg(test)]
mod tests;
