//! A checkpoint, and samples to run it on: the flags that `eval`, `predict`, `affinity` and `partition` share.

use crate::progress::Console;
use crate::signals::stop_on_signals;
use anyhow::Result;
use campanile::Use;
pub use campanile::scoring::{Opened, Samples};
use clap::Arg;
use spec::device::DeviceChoice;
use spec::precision::PrecisionConfig;
use spec::run::DataFormat;
use std::path::{Path, PathBuf};
use training::Cluster;

/// `--hosts` of a command whose ranks may be processes.
pub fn hosts_or_found(arg: Arg) -> Arg {
    arg.help("Number of hosts [default: 1; with --transport mpi those that MPI finds]")
        .help_heading("Cluster")
}

/// `--ranks-per-host` of a command whose ranks may be processes.
pub fn ranks_or_found(arg: Arg) -> Arg {
    let help = "Number of ranks on each host [default: as many as the machine has cores, or 1 with --device cuda or auto; with \
                --transport mpi those that MPI finds]";
    arg.help(help).help_heading("Cluster")
}

/// Which checkpoint, on what, and where.
#[derive(clap::Args, Clone, Debug)]
pub struct ScoringArgs {
    /// Folder of a checkpoint, or of a run, whose best checkpoint is taken where it keeps one, else its last
    #[arg(long, value_name = "DIR")]
    pub checkpoint: PathBuf,
    #[command(flatten)]
    pub samples: SampleArgs,
}

/// Device of a command that runs a model that is trained.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct DeviceArgs {
    /// Device that ranks compute on, whatever the run was trained on: cpu, cuda (NVIDIA GPUs: ranks take them in order, and
    /// several may share one), cuda:1 (all of them share that GPU), or auto (cuda where `campanile doctor` finds what it needs,
    /// else cpu) [default: cpu]
    #[arg(long, value_name = "cpu|cuda[:INDEX]|auto", help_heading = "Cluster")]
    pub device: Option<DeviceChoice>,
    /// Precision of the operands of matrix products: f32, f32x3 (CPU only), tf32 (GPUs only) or bf16; one for all parts of the
    /// network, or others for some, such as bf16,top=f32 [default: f32]
    #[arg(long, value_name = "f32|f32x3|tf32|bf16[,PART=…]", help_heading = "Cluster")]
    pub precision: Option<PrecisionConfig>,
}

/// Samples to run a checkpoint on, and where.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct SampleArgs {
    /// Files to score: paths and globs [default: the data that the run was evaluated on]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub data: Vec<String>,
    /// Format of the data: criteo-tsv, csv, parquet, prepared or synthetic [default: as in training]
    #[arg(long)]
    pub format: Option<DataFormat>,
    /// TOML file that gives the meaning of the columns, for csv and parquet [default: as in training]
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Stop at the first bad line: a row of the log that cannot be read as a sample
    #[arg(long)]
    pub strict: bool,
    /// Number of samples that are scored at a time, over all ranks [default: as in training]
    #[arg(long, value_name = "GLOBAL")]
    pub batch: Option<usize>,
    /// Number of hosts [default: 1]
    #[arg(long, value_name = "H")]
    pub hosts: Option<usize>,
    /// Number of ranks on each host [default: as many as the machine has cores, or 1 with --device cuda or auto]
    #[arg(long, value_name = "L")]
    pub ranks_per_host: Option<usize>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Which checkpoint of a run: last or best [default: the best where the run keeps it, else the last]
    #[arg(long = "use", value_name = "last|best")]
    pub which: Option<Use>,
}

impl SampleArgs {
    /// The samples as the library takes them.
    pub fn samples(&self) -> Samples {
        let Self { data, format, schema, strict, batch, hosts, ranks_per_host, device, which } = self.clone();
        let (group, slices, DeviceArgs { device, precision }) = (None, Vec::new(), device);
        Samples {
            data,
            table: None,
            format,
            schema,
            strict,
            batch,
            group,
            slices,
            hosts,
            ranks_per_host,
            device,
            precision,
            which,
        }
    }

    /// Opens a checkpoint to measure on these samples, or on those it was trained on where none are named.
    pub fn open_for_training(
        &self,
        checkpoint: &Path,
        cluster: &Cluster,
        console: Console,
    ) -> Result<Opened> {
        let stop = stop_on_signals()?;
        stop.ended(self.samples().open_for_training(checkpoint, cluster, &console.control(&stop)))
    }
}
