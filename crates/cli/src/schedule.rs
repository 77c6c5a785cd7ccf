//! `campanile schedule`: one training step, printed.

use crate::args::RunArgs;
use anyhow::{Context, Result};
pub use campanile::schedule::{to_json, to_text};
use spec::schedule::Task;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  campanile schedule --preset mlperf --hosts 8
  campanile schedule --towers strided:8 --tower-module dlrm:d=8")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Print the forward step of an evaluation instead of a training step
    #[arg(long)]
    evaluate: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    let config = args.run.config()?;
    let run = planning::check(&config).with_context(|| args.run.described())?;
    let task = if args.evaluate { Task::Evaluate } else { Task::Train };
    let schedule = run.schedule(task);
    if args.json {
        println!("{}", to_json(&schedule, run.batch, &config.explicit(&run)));
        return Ok(());
    }
    print!("{}", to_text(&run, &schedule));
    Ok(())
}
