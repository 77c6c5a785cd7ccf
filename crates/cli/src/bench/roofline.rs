//! `campanile bench roofline`: how close every phase of a training step comes to what the machine can do.
//!
//! FLOPs and bytes of a phase are those that its schedule states and a simulation prices. Peaks are measured in the same run, in
//! turns with the steps.

mod html;
mod measure;
mod result;
mod table;

use super::step;
use crate::args::RunArgs;
use crate::output::{Force, Inputs, Output};
use anyhow::{Result, ensure};
use std::path::PathBuf;
use training::{Cluster, Devices};

/// Arguments of `bench roofline`.
#[derive(clap::Args)]
#[command(mut_arg("steps", |arg| arg.help("Number of steps to measure in each round, 1 to 1000 [default: 6; 30 on a GPU]")))]
#[command(long_about = "How close every phase of a training step comes to the limit of this machine

A roofline says what a computation could reach at best: if it computes much for each byte, the peak of the processor, otherwise \
its bytes at the bandwidth of memory. This command trains the steps of a preset on one rank of this machine, on its CPU or a GPU \
(--device cuda), and sets each phase against the limit that binds it:

  products        matrix products of layers, in FLOP/s: on the CPU against a loop of the same instructions that stays in registers, on \
a GPU against the best of a few large square products
  random rows     the lookup: against bare reads of random rows of the same size, in bytes a second
  changed rows    the update of tables: against bare reads and writes of random rows of the same size
  stream          everything else: against a stream through memory

The share is the speed that was reached over the peak: at 80 %, the phase could take 80 % of its time at best. FLOPs and bytes are \
those that the schedule states (`campanile schedule`), each byte of memory counted once, so that a phase whose data stay in the \
caches may exceed 100 %. Peaks are measured in the same run, in turns with the steps; all numbers are medians, with the best beside \
them. The last table has three groups: products, embeddings (lookup, sorting of ids, update of tables), and everything else, which \
includes the time between phases. On a GPU phases are timed by events on the device, a phase is the mean of a round, and phases that \
work on the next batch (its copy to the device, indexing and sorting its ids) run beside the others and are part of no group.")]
#[command(after_help = "Examples:
  campanile bench roofline --preset kaggle
  campanile bench roofline --preset mlperf --rows-cap 200000 --precision bf16 --html roofline.html
  campanile bench roofline --preset mlperf --model dcn --rows-cap 200000 --batch 8192 --json
  campanile bench roofline --preset mlperf --rows-cap 1000000 --batch 65536 --device cuda --precision bf16")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Number of rounds; every round measures the peaks, and then steps
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Steps before the first round
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(0..=1000))]
    warm_up: u64,
    /// Size of the memory that bare loops stream through and read rows from, in gigabytes; far beyond the last-level cache
    #[arg(long, value_name = "GB", default_value_t = 1.0, allow_negative_numbers = true)]
    gigabytes: f64,
    /// Exponent of the power law of ids, as in `bench step`; 0 draws all rows alike, the hardest case for caches
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        help_heading = "Data"
    )]
    zipf: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write the roofline, shares and times as a page that opens in any browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

pub fn run(args: Args) -> Result<()> {
    let html = Output::check_if_any(args.html.as_deref(), args.force.force, &Inputs::default())?;
    let mut config = args.run.config()?;
    let steps = config.train.steps.take();
    if let Some(steps) = steps {
        ensure!(
            (1..=1000).contains(&steps),
            "--steps {steps}: measure between 1 and 1000 steps in each round"
        );
    }
    ensure!(
        args.gigabytes > 0.0 && args.gigabytes < 1e4,
        "--gigabytes {}: expected a number above 0 and below 10000",
        args.gigabytes
    );
    let preset = config.model.preset;
    let run = step::checked(config, args.zipf, step::BATCHES)?;
    let topology = run.topology();
    ensure!(
        topology.ranks() == 1,
        "--hosts and --ranks-per-host make {topology} ranks; a roofline is of one rank: use --hosts 1 --ranks-per-host 1"
    );
    let devices = Devices::new(&run, &Cluster::Threads)?;
    training::check_size(&run, &Cluster::Threads, training::MemoryUse::TRAINING)?;
    let bytes = (1e9 * args.gigabytes) as usize;
    let steps = steps.unwrap_or(if devices.are_gpus() { 30 } else { 6 });
    let effort = measure::Effort { warm_up: args.warm_up, rounds: args.rounds, steps, bytes };
    let measured = measure::measure(&run, &devices, &effort)?;
    let about = result::About {
        preset: preset.map(|preset| preset.to_string()),
        zipf: args.zipf,
        gpu: devices.are_gpus().then(|| devices.name()),
    };
    let result = result::Roofline::new(&run, &effort, &measured, about);
    if let Some(html) = &html {
        html.write(html::page(&result).to_html().as_bytes())?;
    }
    if args.json {
        println!("{}", serde_json::to_value(&result)?);
        return Ok(());
    }
    print!("{}", table::to_text(&result));
    if let Some(path) = &args.html {
        println!("Written: {}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
