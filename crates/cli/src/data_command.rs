//! `campanile data`: prepare a log once, and look into one.

mod groups;
mod inspect;
mod prepare;
mod rows;

pub use groups::planted;

use crate::progress::Console;
use clap::Subcommand;
use spec::run::{DataConfig, DataFormat};
use std::path::PathBuf;

/// What can be done with a log.
#[derive(Subcommand)]
pub enum Command {
    /// Write a log in the prepared format, which training maps into memory
    Prepare(prepare::Args),
    /// Detect format, columns, label, time and ids of a log; --write saves a schema and a run that trains on it
    Inspect(inspect::Args),
    /// Print the groups of features that interact in a synthetic log: the towers that a partitioner should find
    Groups(Box<groups::Args>),
    /// Write the rows of a log as inputs of an exported ONNX model: dense features, and the table rows of ids
    Rows(Box<rows::Args>),
}

pub fn run(command: Command, console: Console) -> anyhow::Result<()> {
    match command {
        Command::Prepare(args) => prepare::run(args, console),
        Command::Inspect(args) => inspect::run(args, console),
        Command::Groups(args) => groups::run(*args),
        Command::Rows(args) => rows::run(*args, console),
    }
}

/// A log, as the commands here take it.
#[derive(clap::Args)]
struct LogArgs {
    /// Files of the log: paths and globs; text may be compressed with gzip, xz or zstd
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    data: Vec<String>,
    /// Format of the files: criteo-tsv, csv, parquet or prepared [default: criteo-tsv; `data inspect` without --schema
    /// detects the format]
    #[arg(long)]
    format: Option<DataFormat>,
    /// TOML file that gives the meaning of the columns, for csv and parquet
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Stop at the first bad line: a row of the log that cannot be read as a sample
    #[arg(long)]
    strict: bool,
    /// Stop when more than this share of the rows cannot be read as samples [default: 0.01]
    #[arg(long, value_name = "SHARE")]
    max_bad_share: Option<f64>,
    /// Memory that reading may take; a Parquet page is decoded as a whole and may take more
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = crate::logs::parse_bytes)]
    memory: u64,
}

impl LogArgs {
    fn format(&self) -> DataFormat {
        self.format.unwrap_or(DataFormat::CriteoTsv)
    }

    fn config(&self) -> anyhow::Result<DataConfig> {
        Ok(DataConfig {
            format: Some(self.format()),
            schema: self.schema.as_deref().map(crate::args::read_toml).transpose()?,
            strict: self.strict.then_some(true),
            max_bad_share: self.max_bad_share,
            ..DataConfig::default()
        })
    }
}
