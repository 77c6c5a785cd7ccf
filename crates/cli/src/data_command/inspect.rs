//! `campanile data inspect`.
use super::LogArgs;
use anyhow::Result;
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}
pub fn run(args: Args) -> Result<()> {
    let _ = (args.json, &args.log.data);
    todo!()
}
