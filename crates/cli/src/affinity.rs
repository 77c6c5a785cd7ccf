//! `campanile affinity`: how much the features of a trained model have to do with each other.

use crate::cluster::TransportArgs;
use crate::output::{Force, Output};
use crate::partition::affinity_text;
use crate::progress::Console;
use crate::scoring::{Opened, ScoringArgs, hosts_or_found, ranks_or_found};
use crate::signals::Stop;
use crate::text::printable;
use anyhow::Result;
use campanile::affinity::SAMPLES;
use serde_json::json;
use spec::affinity::Affinity;
use std::path::PathBuf;
use training::{Cluster, Cosines};

/// Measure how much features have to do with each other, for `partition`
#[derive(clap::Args)]
#[command(mut_arg("data", |arg| arg.help("Files to measure on: paths and globs [default: the data that the run was trained on]")))]
#[command(mut_arg("hosts", hosts_or_found), mut_arg("ranks_per_host", ranks_or_found))]
#[command(after_help = "Examples:
  A run; a model that no machine holds alone (a build with --features mpi)
    campanile affinity --checkpoint runs/flat --out affinity.json
    mpirun -np 8 campanile affinity --checkpoint runs/flat --transport mpi --out affinity.json")]
pub struct Args {
    #[command(flatten)]
    on: ScoringArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    measured: Measured,
    /// File to write: the matrix of affinities as JSON
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// What is measured.
#[derive(clap::Args, Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Definition of affinity, from the cosines of the vectors of two features: abs-mean (absolute value of their mean, as in
    /// the DMT paper) or mean-abs (mean of their absolute values)
    #[arg(long, value_name = "WHAT", value_parser = cosines, default_value = "abs-mean")]
    pub affinity_of: Cosines,
    /// Samples to measure on, at most
    #[arg(long, value_name = "N", default_value_t = SAMPLES, value_parser = clap::value_parser!(u64).range(1..))]
    pub affinity_samples: u64,
}

impl Default for Measured {
    fn default() -> Self {
        Self { affinity_of: Cosines::default(), affinity_samples: SAMPLES }
    }
}

fn cosines(text: &str) -> Result<Cosines, String> {
    match text {
        "abs-mean" => Ok(Cosines::AbsOfMean),
        "mean-abs" => Ok(Cosines::MeanOfAbs),
        _ => Err(format!("unknown affinity {text:?}; use abs-mean or mean-abs")),
    }
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let cluster = args.transport.join()?;
    let inputs = args.on.samples.samples().inputs(&args.on.checkpoint);
    // The first rank writes for all.
    let written = Some(args.out.as_path()).filter(|_| cluster.has_first_rank());
    let output = Output::check_if_any(written, args.force.force, &inputs)?;
    let opened = args.on.samples.open_for_training(&args.on.checkpoint, &cluster, console)?;
    let affinity = measure(&opened, &args.measured, cluster, console)?;
    let Some(output) = output else { return Ok(()) };
    output.write(affinity_text(&affinity)?.as_bytes())?;
    let count = affinity.features().len();
    let mut pairs: Vec<(f64, usize, usize)> = (0..count)
        .flat_map(|i| (0..i).map(move |j| (i, j)))
        .map(|(i, j)| (affinity.between(i, j), j, i))
        .collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mean = pairs.iter().map(|pair| pair.0).sum::<f64>() / pairs.len().max(1) as f64;
    if args.json {
        println!("{}", json!({ "features": count, "mean": mean, "out": args.out }));
        return Ok(());
    }
    println!("affinity of {count} features, {mean:.3} on average; the closest:");
    for (value, a, b) in pairs.iter().take(5) {
        let name = |feature: usize| printable(&affinity.features()[feature]).into_owned();
        println!("  {value:.3}  {} and {}", name(*a), name(*b));
    }
    println!("kept in {}", args.out.display());
    Ok(())
}

/// Measures the model of a checkpoint under a progress bar.
pub fn measure(opened: &Opened, measured: &Measured, cluster: Cluster, console: Console) -> Result<Affinity> {
    let (of, limit) = (measured.affinity_of, measured.affinity_samples);
    Ok(campanile::affinity::measure(opened, of, limit, cluster, &console.control(&Stop::default()))?)
}
