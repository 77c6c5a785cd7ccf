//! `campanile data groups`: the towers that a synthetic log was made of.

use crate::args::RunArgs;
use crate::output::{Force, Output};
use crate::partition::towers_text;
use anyhow::{Result, bail};
use data::{Split, SyntheticLog};
use spec::run::{Data, Run};
use spec::towers::TowersFile;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// File to write: the groups as JSON, for --towers [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

pub fn run(args: Args) -> Result<()> {
    let inputs = args.run.inputs(&args.run.config()?);
    let output = Output::check_if_any(args.out.as_deref(), args.force.force, &inputs)?;
    let file = planted(&args.run.run()?)?;
    match &output {
        None => println!("{}", serde_json::to_string_pretty(&file)?),
        Some(output) => {
            output.write(towers_text(&file.towers)?.as_bytes())?;
            println!("{} groups in {}", file.towers.len(), output.path().display());
        }
    }
    Ok(())
}

/// The groups of features that interact in the synthetic log of a run.
pub fn planted(run: &Run) -> Result<TowersFile> {
    let Data::Synthetic(log) = run.data else {
        bail!("groups are planted in synthetic logs only; this run reads files")
    };
    let log = SyntheticLog::new(&log, run.model.features(), run.model.dense_features(), Split::Train)?;
    let name = |&feature: &usize| run.model.features()[feature].name.clone();
    Ok(TowersFile { towers: log.groups().iter().map(|group| group.iter().map(name).collect()).collect() })
}
