//! `campanile reproduce`: figures of papers, ours beside theirs, and what this project claims by itself.

mod dmt_table6;
mod planted_groups;
mod program;

use crate::output::{Inputs, Output};
use crate::progress::Console;
use anyhow::Result;
pub use program::ThisProgram;
use reproduce::quantised::{self, Table};
use reproduce::{Report, dmt_complexity, dmt_speedup, figures, plan_speedup, precision, predictions};

/// Reproductions.
#[derive(clap::Subcommand)]
pub enum Command {
    /// FLOPs, parameters and compression ratios of the DMT paper's models (its Tables 3, 4 and 5)
    DmtComplexity(Complexity),
    /// DMT against SPTT against the flat dataflow, over hosts joined by links (§5.3 of the DMT paper)
    DmtSpeedup(Box<dmt_speedup::Args>),
    /// Towers of the partitioner against strided ones, over many runs (Table 6 of the DMT paper)
    DmtTable6(Box<dmt_table6::Args>),
    /// A plan against tables dealt out in turns, on a skewed model (§8.4 of the Neo paper)
    PlanSpeedup(Box<plan_speedup::Args>),
    /// AUC of runs in f32x3 and bf16 beside those in f32, from the same seeds
    Precision(Box<precision::Args>),
    /// Steps of real runs against what `campanile calibrate` predicts of them
    Predictions(Box<predictions::Args>),
    /// Whether the partitioner finds the groups of features that a synthetic log was made of
    PlantedGroups(planted_groups::Args),
    /// Accuracy with quantised all-to-alls (Table 2 of Yang et al., 2020)
    QuantisedAlltoall(Box<quantised::Args>),
    /// Accuracy with quantised all-reduces of 32 to 128 nodes (Table 3 of Yang et al., 2020)
    QuantisedAllreduce(Box<quantised::Args>),
    /// Accuracy with quantised all-to-alls and all-reduces (Table 4 of Yang et al., 2020)
    QuantisedCombined(Box<quantised::Args>),
    #[command(flatten)]
    Figure(figures::Command),
}

/// Arguments of `reproduce dmt-complexity`.
#[derive(clap::Args)]
pub struct Complexity {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub fn run(command: Command, console: Console) -> Result<()> {
    match command {
        Command::DmtComplexity(args) => print(&dmt_complexity::report()?, args.json),
        Command::DmtSpeedup(args) => {
            print(&dmt_speedup::report(&args, &ThisProgram::new(console)?)?, args.json)
        }
        Command::PlanSpeedup(args) => {
            print(&plan_speedup::report(&args, &ThisProgram::new(console)?)?, args.json)
        }
        Command::DmtTable6(args) => dmt_table6::run(*args, console)?,
        Command::Precision(args) => print(&precision::report(&args, &ThisProgram::new(console)?)?, args.json),
        Command::Predictions(args) => {
            print(&predictions::report(&args, &ThisProgram::new(console)?)?, args.json)
        }
        Command::PlantedGroups(args) => planted_groups::run(args, console)?,
        Command::QuantisedAlltoall(args) => quantised(Table::Alltoall, &args, console)?,
        Command::QuantisedAllreduce(args) => quantised(Table::Allreduce, &args, console)?,
        Command::QuantisedCombined(args) => quantised(Table::Combined, &args, console)?,
        Command::Figure(command) => {
            let args = command.args();
            let html = Output::check_if_any(args.html.as_deref(), args.force, &Inputs::default())?;
            let figure = command.figure()?;
            if let Some(html) = &html {
                html.write(figure.page().to_html().as_bytes())?;
            }
            print(&figure.report(), args.json);
        }
    }
    Ok(())
}

fn quantised(table: Table, args: &quantised::Args, console: Console) -> Result<()> {
    print(&quantised::report(table, args, &ThisProgram::new(console)?)?, args.json);
    Ok(())
}

fn print(report: &Report, json: bool) {
    if json {
        println!("{}", report.json);
    } else {
        print!("{}", report.text);
    }
}
