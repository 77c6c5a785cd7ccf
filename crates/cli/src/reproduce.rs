//! `campanile reproduce`: figures of papers, ours beside theirs, and what this project claims by itself.

mod dmt_complexity;
mod dmt_speedup;
mod dmt_table6;
mod figures;
mod launcher;
mod planted_groups;
mod predictions;
mod records;

use crate::progress::Console;
use anyhow::Result;

/// Which figures.
#[derive(clap::Subcommand)]
pub enum Command {
    /// FLOPs, parameters and compression ratios of the DMT paper's models (its Tables 3, 4 and 5)
    DmtComplexity(dmt_complexity::Args),
    /// DMT against SPTT against the flat dataflow, over hosts joined by links (§5.3 of the DMT paper)
    DmtSpeedup(Box<dmt_speedup::Args>),
    /// Towers of the partitioner against strided ones, over many runs (Table 6 of the DMT paper)
    DmtTable6(Box<dmt_table6::Args>),
    /// Steps of real runs against what `campanile calibrate` predicts of them
    Predictions(Box<predictions::Args>),
    /// Whether the partitioner finds the groups of features that a synthetic log was made of
    PlantedGroups(planted_groups::Args),
    #[command(flatten)]
    Figure(figures::Command),
}

pub fn run(command: Command, console: Console) -> Result<()> {
    match command {
        Command::DmtComplexity(args) => dmt_complexity::run(args),
        Command::DmtSpeedup(args) => dmt_speedup::run(*args, console),
        Command::DmtTable6(args) => dmt_table6::run(*args, console),
        Command::Predictions(args) => predictions::run(*args, console),
        Command::PlantedGroups(args) => planted_groups::run(args, console),
        Command::Figure(command) => figures::run(command),
    }
}
