//! `campanile reproduce`: figures of papers, ours beside theirs.

mod dmt_complexity;

use anyhow::Result;

/// Which figures.
#[derive(clap::Subcommand)]
pub enum Command {
    /// FLOPs, parameters and compression ratios of the DMT paper's models (its Tables 3, 4 and 5)
    DmtComplexity(dmt_complexity::Args),
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::DmtComplexity(args) => dmt_complexity::run(args),
    }
}
