//! `campanile`: train recommendation models that are too large for one machine, on the topology you have.
//!
//! The command line as a library: [`main`] is the program, and [`answer()`] asks one of its questions for another program.
#![forbid(unsafe_code)]

mod affinity;
mod answer;
mod args;
mod bench;
mod calibrate;
mod checkpoint;
mod cluster;
mod commands;
mod completions;
mod data_command;
mod describe;
mod docs;
mod doctor;
mod embeddings;
mod eval;
mod explore;
mod logs;
mod man;
mod observer;
mod output;
mod pace;
mod partition;
mod plan;
mod predict;
mod progress;
mod report;
mod reproduce;
mod schedule;
mod scoring;
mod signals;
mod simulate;
mod sweep;
mod system_file;
mod text;
mod towers;
mod train;

pub use answer::{Answer, answer};

use campanile::cluster::ClusterError;
use campanile::{dataflow, folder};
use clap::{Parser, Subcommand};
use progress::Console;
use std::io::{self, ErrorKind};
use std::process::ExitCode;
use text::tell;

/// Version and commit, as `--version` prints them.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("CAMPANILE_COMMIT"), ")");

/// Train recommendation models that are too large for one machine.
///
/// A run is a model (DLRM, DCN-v2 or DeepFM) on a topology (hosts × ranks). Every command takes the same description of it: a
/// TOML file, flags that override the file, or nothing at all for a small built-in run.
#[derive(Parser)]
#[command(name = "campanile", version = VERSION, max_term_width = 110, arg_required_else_help = true)]
#[command(after_help = "Examples:
  A small run on 2 hosts × 2 ranks, about a minute; then another model and cluster
    campanile train
    campanile train --model dcn --hosts 4 --json
  Your own log: what is in it, a run on it, predictions for new rows
    campanile data inspect --data shop.csv --write mine
    campanile train mine/run.toml --out runs/one
    campanile predict --checkpoint runs/one --data new.csv --key order_id --out scores.csv
  Go on with a run that was stopped or killed; compare two runs on one page
    campanile train --resume runs/one
    campanile report runs/one runs/two --out two.html
  Ranks as processes (a build with --features mpi)
    mpirun -np 8 campanile train run.toml --transport mpi
  What a step sends and computes, and what it would take on 512 GPUs
    campanile schedule --preset mlperf --hosts 8
    campanile simulate --model 8t-dlrm --system h100:512

`campanile help COMMAND` explains a command and its flags.")]
struct Cli {
    /// Print no progress and no notes; warnings and errors are still printed
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a model and evaluate it
    Train(train::Args),
    /// Evaluate a checkpoint on labelled data: AUC, logloss, calibration
    Eval(eval::Args),
    /// Write a click probability for every row of a log; labels are not needed
    Predict(predict::Args),
    /// Inspect a log, or prepare it once for fast reading
    #[command(subcommand)]
    Data(data_command::Command),
    /// Inspect, verify or export a checkpoint
    #[command(subcommand)]
    Checkpoint(checkpoint::Command),
    /// Write the rows of one embedding table with their ids
    Embeddings(embeddings::Args),
    /// Measure the affinity of features on a trained flat model, for `partition`
    Affinity(affinity::Args),
    /// Divide features into towers by their affinity
    Partition(partition::Args),
    /// Train a flat model, divide its features into towers in several ways, keep the best
    Towers(towers::Args),
    /// Search over settings by successive halving; validation rows decide
    Sweep(Box<sweep::Args>),
    /// Make one page of one or several runs: curves, calibration, times, comparison
    Report(report::Args),
    /// Plan which ranks hold which rows and columns of each table, and say why
    Plan(Box<plan::Args>),
    /// Print the phases of one training step, with their bytes and FLOPs
    Schedule(schedule::Args),
    /// Predict a step on other hardware: time, exposed communication, memory
    Simulate(simulate::Args),
    /// Simulate every parallelism strategy on every system, and list the fastest
    Explore(explore::Args),
    /// Measure the time of each computation of a step, for `train --compute paced:FILE`
    Pace(pace::Args),
    /// Print the number of parameters and FLOPs of a model, without allocating it
    Describe(describe::Args),
    /// Measure kernels, data, collectives and whole steps on this machine
    #[command(subcommand)]
    Bench(bench::Command),
    /// Measure the rates of this machine or cluster, and write them as a system file
    Calibrate(calibrate::Args),
    /// Compute or measure tables and figures of the papers, ours beside theirs
    #[command(subcommand)]
    Reproduce(reproduce::Command),
    /// Tell what this machine has for training: cores, MPI, CUDA, GPUs, and what is missing
    Doctor(doctor::Args),
    /// Print a script that completes commands and flags in a shell
    Completions(completions::Args),
    /// Print the manual page of this program, or write those of all commands
    Man(man::Args),
    /// Write the generated pages of the repository again
    #[command(hide = true)]
    Docs(docs::Args),
}

/// `campanile … | head` closes our output before we are done: that is no failure, so nothing is said of it. A full disk is one,
/// but none of the program's.
fn end_when_output_ends() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        match info
            .payload()
            .downcast_ref::<String>()
            .and_then(|m| m.strip_prefix("failed printing to stdout: "))
        {
            Some(why) if why.starts_with("Broken pipe") => std::process::exit(0),
            Some(why) => {
                tell(format!("error: standard output cannot be written: {why}"));
                std::process::exit(1);
            }
            None => usual(info),
        }
    }));
}

/// What to do about a limit of the system, whose own message does not say so.
fn remedy(error: &anyhow::Error) -> Option<&'static str> {
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    // A failure of a rank came from its thread or process as text, with the number of the system's error.
    let text = || format!("{error:#}");
    let is =
        |limit: ErrorKind, number: &str| kind.map_or_else(|| text().contains(number), |kind| kind == limit);
    if is(ErrorKind::FileTooLarge, "(os error 27)") {
        Some("files may not grow that large here: raise the limit with `ulimit -f unlimited`")
    } else if is(ErrorKind::StorageFull, "(os error 28)") {
        Some(
            "make room on that disk, or write to another; a run that is kept in a folder goes on with --resume",
        )
    } else if is(ErrorKind::QuotaExceeded, "(os error 122)") {
        Some("the quota of that disk is used up: make room, or write to another")
    } else {
        None
    }
}

/// Runs the command that the arguments of this process ask for.
pub fn main() -> ExitCode {
    end_when_output_ends();
    signals::survive_file_size_limit();
    // A rank of an MPI job starts this program once more, to watch over it.
    campanile::cluster::watch_if_asked();
    let cli = commands::parse().unwrap_or_else(|error| {
        if error.use_stderr() {
            cluster::let_first_rank_report();
        }
        error.exit()
    });
    let console = Console::new(cli.quiet);
    let result = match cli.command {
        Command::Train(args) => train::run(args, console),
        Command::Eval(args) => eval::run(args, console),
        Command::Predict(args) => predict::run(args, console),
        Command::Data(command) => data_command::run(command, console),
        Command::Checkpoint(command) => checkpoint::run(command, console),
        Command::Embeddings(args) => embeddings::run(args, console),
        Command::Affinity(args) => affinity::run(args, console),
        Command::Partition(args) => partition::run(args, console),
        Command::Towers(args) => towers::run(args, console),
        Command::Sweep(args) => sweep::run(*args, console),
        Command::Report(args) => report::run(args),
        Command::Plan(args) => plan::run(*args, console),
        Command::Schedule(args) => schedule::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Explore(args) => explore::run(args, console),
        Command::Pace(args) => pace::run(args, console),
        Command::Describe(args) => describe::run(args),
        Command::Bench(command) => bench::run(command, console),
        Command::Calibrate(args) => calibrate::run(args, console),
        Command::Reproduce(command) => reproduce::run(command, console),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Docs(args) => docs::run(&args, console),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Reports why a command did not succeed, once for all ranks.
fn fail(error: &anyhow::Error) -> ExitCode {
    match cluster::of_ranks(error) {
        Some(ClusterError::ReportedElsewhere) => {
            cluster::leave_time_to_report();
            return ExitCode::FAILURE;
        }
        Some(ClusterError::ReportedForAll(_)) => {}
        _ => cluster::let_first_rank_report(),
    }
    if let Some(interrupted) = error.downcast_ref::<signals::Interrupted>() {
        tell(interrupted);
        return ExitCode::from(interrupted.exit_code());
    }
    tell(format!("error: {error:#}"));
    if let Some(remedy) = remedy(error) {
        tell(remedy);
    }
    ExitCode::FAILURE
}
