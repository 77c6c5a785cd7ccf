//! A checkpoint, and samples to run it on: the flags that `eval`, `predict`, `affinity` and `partition` share.

use crate::progress::Console;
use crate::signals::stop_on_signals;
use anyhow::Result;
pub use campanile::scoring::{Opened, Samples};
use spec::run::DataFormat;
use std::path::{Path, PathBuf};

/// Which checkpoint, on what, and where.
#[derive(clap::Args, Clone, Debug)]
pub struct ScoringArgs {
    /// A checkpoint, or the folder of a run: its last one
    #[arg(long, value_name = "DIR")]
    pub checkpoint: PathBuf,
    #[command(flatten)]
    pub samples: SampleArgs,
}

/// Samples to run a checkpoint on, and where.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct SampleArgs {
    /// Samples to read: paths and globs [default: what the run was evaluated on]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub data: Vec<String>,
    /// How they are written: criteo-tsv, csv, parquet, prepared or synthetic [default: as in training]
    #[arg(long)]
    pub format: Option<DataFormat>,
    /// The columns of csv and parquet data, as TOML [default: as in training]
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Refuse the first bad line
    #[arg(long)]
    pub strict: bool,
    /// Samples a step [default: as in training]
    #[arg(long, value_name = "GLOBAL")]
    pub batch: Option<usize>,
    /// Hosts [default: 1]
    #[arg(long, value_name = "H")]
    pub hosts: Option<usize>,
    /// Ranks on each host [default: as many as the machine has cores]
    #[arg(long, value_name = "L")]
    pub ranks_per_host: Option<usize>,
}

impl SampleArgs {
    /// The samples as the library takes them.
    pub fn samples(&self) -> Samples {
        let Self { data, format, schema, strict, batch, hosts, ranks_per_host } = self.clone();
        let (group, slices) = (None, Vec::new());
        Samples { data, format, schema, strict, batch, group, slices, hosts, ranks_per_host }
    }

    /// Opens a checkpoint to measure on these samples, or on those it was trained on where none are named.
    pub fn open_for_training(&self, checkpoint: &Path, console: Console) -> Result<Opened> {
        let stop = stop_on_signals()?;
        stop.ended(self.samples().open_for_training(checkpoint, &console.control(&stop)))
    }
}
