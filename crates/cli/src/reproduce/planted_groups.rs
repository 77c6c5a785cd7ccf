//! `campanile reproduce planted-groups`: trains the flat models in which planted groups are looked for.

use super::print;
use crate::affinity::{Measured, measure};
use crate::data_command::planted;
use crate::logs;
use crate::progress::Console;
use crate::scoring::Opened;
use crate::signals::stop_on_signals;
use crate::train::one_of_several;
use anyhow::{Context, Result};
use reproduce::planted_groups::{FlatModel, Request, recorded, report};
use spec::run::Config;
use std::path::PathBuf;
use training::Cluster;

/// Arguments of `reproduce planted-groups`.
#[derive(clap::Args)]
#[command(
    after_help = "A measurement that was stopped or killed goes on with the same command: finished logs are taken from DIR/records.jsonl."
)]
#[command(mut_arg("affinity_of", |arg| arg.default_value("mean-abs")))]
pub struct Args {
    /// Number of logs of each kind, each with another seed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Number of samples that the flat model trains on
    #[arg(long, value_name = "N", default_value_t = 1 << 21)]
    samples: u64,
    /// Number of features
    #[arg(long, value_name = "N", default_value_t = 32)]
    features: usize,
    /// Number of groups
    #[arg(long, value_name = "N", default_value_t = 8)]
    groups: usize,
    /// Ratio of the largest group to the smallest, for each kind of log; towers may differ as much
    #[arg(long, value_name = "R", value_delimiter = ',', default_value = "1,3")]
    ratios: Vec<f64>,
    #[command(flatten)]
    measured: Measured,
    /// Folder for the results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Measure nothing; print the table of the results in the folder
    #[arg(long)]
    table: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    if args.table {
        print(&recorded(&args.out)?, args.json);
        return Ok(());
    }
    let request = Request {
        seeds: args.seeds,
        samples: args.samples,
        features: args.features,
        groups: args.groups,
        ratios: &args.ratios,
        affinity: format!("{:?}", args.measured),
        out: &args.out,
        note: &|text| console.note(text),
    };
    let train = |config: &Config, title: &str| Ok(train_flat(config, title, &args.measured, console)?);
    print(&report(&request, &train)?, args.json);
    Ok(())
}

/// Trains a flat model in a folder that is removed afterwards, and measures its affinity.
fn train_flat(config: &Config, title: &str, measured: &Measured, console: Console) -> Result<FlatModel> {
    let stop = stop_on_signals()?;
    let logs = stop.ended(logs::open(&config.data, None, &stop, console))?;
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let folder = scratch.path().join("flat");
    let (run, outcome) = one_of_several(config, &logs, Some(&folder), title, &stop, console)?;
    let opened = Opened::on_training(&folder, &logs, &Cluster::Threads, &console.control(&stop))?;
    let affinity = measure(&opened, measured, Cluster::Threads, console)?;
    Ok(FlatModel {
        auc: outcome.auc(),
        best_auc: outcome.scores.as_ref().and_then(|scores| scores.best_auc),
        seconds: outcome.seconds,
        affinity,
        groups: planted(&run)?.towers,
    })
}
