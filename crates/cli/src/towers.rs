//! `campanile towers`: from a flat model to the best towers in one command.

use crate::affinity::Measured;
use crate::args::RunArgs;
use crate::cluster::{TransportArgs, complete_topology};
use crate::partition::{Division, picture, to_text};
use crate::progress::Console;
use crate::signals::stop_on_signals;
use crate::text::{bytes, columns};
use anyhow::{Result, anyhow};
use campanile::towers::{FoundTowers, Towers, TowersError};
pub use campanile::towers::{distinct, in_towers};
use planning::partitioner::Strategy;
use spec::presets::ModelKind;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  4 towers for the built-in model and its synthetic log
    campanile towers --out runs/towers
  8 towers for a Criteo log
    campanile towers --data day_0.gz --eval day_1.gz --towers 8 --tower-module dlrm:d=8 --out runs/towers
  Train with the best towers that were found
    campanile train --towers runs/towers/towers.json --tower-module dlrm:d=8
  A model that no machine holds alone: --out on a file system that all hosts share (a build with --features mpi)
    mpirun -np 8 campanile towers run.toml --transport mpi --out runs/towers

A search that was stopped or killed goes on with the same command: results of finished runs are taken from DIR/records.jsonl, and a
run that was not finished goes on from its last checkpoint.")]
#[command(mut_arg("towers", |arg| arg
    .value_name("T")
    .help("Number of towers to divide the features into [default: 4, or as many as there are hosts]")))]
#[command(mut_arg("tower_module", |arg| arg
    .help("Layers of each tower [default: half of a vector for each feature with DLRM, dlrm:c=1,p=0,d=N/2; one \
           vector for each tower with DCN, dcn:d=N]")))]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    transport: TransportArgs,
    /// Strategies to try
    #[arg(long, value_delimiter = ',', default_value = "coherent,diverse,strided", help_heading = "Towers")]
    strategies: Vec<Strategy>,
    /// Flat model that affinity is measured on: by default a dlrm, whose dot products are what teaches embeddings to have
    /// cosines
    #[arg(long, value_name = "KIND", default_value = "dlrm", help_heading = "Towers")]
    flat_model: ModelKind,
    /// Steps of the flat model that affinity is measured on [default: half of those of the run]
    #[arg(long, value_name = "STEPS", help_heading = "Towers")]
    flat_steps: Option<u64>,
    #[command(flatten, next_help_heading = "Towers")]
    division: Division,
    #[command(flatten, next_help_heading = "Towers")]
    measured: Measured,
    /// A folder for everything; a search that was stopped goes on there with the same command. It gets the runs, the affinity, the towers of each strategy with a picture, and the
    /// best as towers.json, trained on all training rows in best
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Print one JSON object as the last line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let mut flat = args.run.clone();
    let (count, module) = (flat.towers.take(), flat.tower_module.take());
    let cluster = args.transport.join()?;
    let mut config = flat.config()?;
    complete_topology(&cluster, &mut config)?;
    let count = count.as_deref().map(count_of).transpose()?;
    let stop = stop_on_signals()?;
    let mut towers = Towers::new(config, &args.out)
        .module(module)
        .strategies(args.strategies)
        .flat_model(args.flat_model)
        .flat_steps(args.flat_steps)
        .division(args.division.division())
        .cosines(args.measured.affinity_of)
        .affinity_samples(args.measured.affinity_samples)
        .picture(|divided| picture::of(divided, true))
        .described(flat.described())
        .control(console.control(&stop));
    if let Some(count) = count {
        towers = towers.count(count);
    }
    let found = match towers.run_on(cluster) {
        // Any rank may have been asked.
        Err(campanile::Error::Towers(stopped @ TowersError::Stopped { .. })) => {
            return Err(stop.interrupted(stopped.to_string()).into());
        }
        found => stop.ended(found)?,
    };
    let Some(found) = found else { return Ok(()) };
    if args.json {
        println!("{}", found.to_json());
    } else {
        print!("{}", told(&found));
        let (out, module) = (args.out.display(), found.module);
        println!("kept in {out}; train on with --towers {out}/towers.json --tower-module {module}");
    }
    Ok(())
}

/// The number of towers that a user wrote.
fn count_of(text: &str) -> Result<usize> {
    text.parse().map_err(|_| {
        anyhow!("--towers {text}: this command finds which features share a tower; give their number, as --towers 8")
    })
}

/// The result as people read it.
fn told(found: &FoundTowers) -> String {
    let FoundTowers { tried, flat, test, compared_on, .. } = found;
    let head = [
        "strategy",
        "validation AUC",
        "affinity within",
        "across",
        "largest/smallest",
        "between hosts a step",
        "seconds",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let show = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    for one in tried {
        rows.push(vec![
            one.strategy.name().into(),
            format!("{:.4}", one.auc),
            show(one.divided.found.within),
            show(one.divided.found.across),
            format!("{:.2}", one.divided.found.max_over_min),
            bytes(one.between_hosts),
            format!("{:.1}", one.seconds),
        ]);
    }
    let steps = flat.steps;
    let flat = flat.auc.map_or(String::new(), |auc| format!("flat, {steps} steps: AUC {auc:.4}\n"));
    let auc = test.auc.map_or("–".into(), |auc| format!("{auc:.4}"));
    format!(
        "{}{flat}AUC on {compared_on}.\n\nBest: {}. Trained on all training rows: AUC {auc} on the test rows\n{}",
        columns(&rows),
        found.best().strategy.name(),
        to_text(&found.best().divided)
    )
}
