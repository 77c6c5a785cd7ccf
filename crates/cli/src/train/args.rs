//! Flags of `campanile train`, those that contradict each other, and what the user should know of them.

use crate::args::RunArgs;
use crate::cluster::TransportArgs;
use crate::output::Force;
use anyhow::{Result, ensure};
use campanile::train::ComputeMode;
use spec::byte_size::ByteSize;
use spec::run::{CheckpointKind, Every, KeepBest};
use spec::table_format::TableFormat;
use std::path::PathBuf;
use training::BestSoFar;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  The built-in model on its synthetic log, about a minute
    campanile train
  A Criteo log, kept in a folder; resumed after it was stopped
    campanile train --data day_*.gz --eval test.tsv --preset kaggle --out runs/one
    campanile train --resume runs/one
  A tenth of the rows held out, three epochs, evaluated after each, stopped when it no longer improves
    campanile train mine/run.toml --split 0.1 --epochs 3 --patience 1 --out runs/two
  Towers: vectors are halved before they leave their host
    campanile train --towers strided:8 --tower-module dlrm:d=8 --hosts 4")]
pub struct Args {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub transport: TransportArgs,
    /// Keep the run in this folder: config, schedule, metrics, checkpoints and a report to open in a browser [default: nothing is
    /// kept]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Resume the run in this folder from its last complete checkpoint; flags override the config it was started with
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub resume: Option<PathBuf>,
    /// Interval between checkpoints, in steps (500) or time (30s, 10min, 1h); one is also written at the end and on SIGINT,
    /// SIGTERM, SIGHUP or SIGUSR1 [default: 10min, with --out]
    #[arg(long, value_name = "STEPS|TIME", help_heading = "Output")]
    pub checkpoint_every: Option<Every>,
    /// Number of checkpoints to keep; older ones are deleted [default: 2]
    #[arg(long, value_name = "K", help_heading = "Output")]
    pub keep: Option<usize>,
    /// What a checkpoint holds: full (all of the state) or incremental (the rows of tables that were updated since the checkpoint before it, and
    /// everything that is not a table; the first is full) [default: full]
    #[arg(long, value_name = "full|incremental", help_heading = "Output")]
    pub checkpoint_kind: Option<CheckpointKind>,
    /// Number of increments after which they are brought together with their base, beside the training [default: 8]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub increments: Option<usize>,
    /// Number format of the weights in increments: f16, bf16 or int8 make them smaller, but a run that is resumed from them goes on with
    /// rounded weights [default: that of the table, which loses nothing]
    #[arg(long, value_name = "f32|f16|bf16|int8", help_heading = "Output")]
    pub increment_format: Option<TableFormat>,
    /// Memory on each host for the copy of the state that a writer of checkpoints works from while the training goes on, such as 512MiB; where
    /// the state is larger, the training waits until what is left fits [default: room for all of it, or none with --table-memory]
    #[arg(long, value_name = "SIZE", help_heading = "Output")]
    pub checkpoint_memory: Option<ByteSize>,
    /// Number of steps between evaluations; the model is always evaluated at the end [default: those of an epoch]
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    pub eval_every: Option<u64>,
    /// Keep the checkpoint with the best value of this metric besides the last ones: auc, pr_auc, logloss, ne, accuracy, or
    /// none; LABEL.METRIC for another label than the first of several.
    /// eval, predict and export use it [default: auc for a run that is evaluated more than once]
    #[arg(long, value_name = "METRIC|none", value_parser = keep_best, help_heading = "Training")]
    pub keep_best: Option<KeepBest>,
    /// Stop after so many evaluations without a better value of the metric of --keep-best; 0 trains to the end [default: 0]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub patience: Option<u64>,
    /// Begin with the tables and layers of another run that fit by name and shape: its folder, or one of its checkpoints; rows of
    /// vocabularies are matched by id, and optimizer state is not taken [default: initial weights]
    #[arg(long, value_name = "DIR", help_heading = "Training")]
    pub warm_start: Option<String>,
    /// Check and plan everything, print what would be trained and written, and stop there; a log that must be prepared is prepared
    /// in a temporary folder
    #[arg(long, help_heading = "Training")]
    pub dry_run: bool,
    /// Write the times of all phases of the last steps, on every rank, as a trace for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub trace: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Output")]
    pub force: Force,
    /// Number of steps in the trace
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    #[arg(requires = "trace", help_heading = "Output")]
    pub trace_steps: u64,
    /// Number of steps at the beginning that no measured time counts
    #[arg(long, value_name = "STEPS", default_value_t = 0, help_heading = "Output")]
    pub warm_up: u64,
    /// Number of steps between reports of loss and speed, for which all ranks exchange their sums [default: a hundredth of
    /// the run]
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    pub report_every: Option<u64>,
    /// Whether to compute: real, or paced, where every byte is sent but each computation only waits for as long as FILE says
    /// (see `campanile pace`); `paced` without a file measures these times first. A paced run learns nothing [default: real]
    #[arg(long, value_name = "real|paced|paced:FILE", default_value = "real", help_heading = "Cluster")]
    #[arg(hide_default_value = true)]
    pub compute: ComputeMode,
    /// Print one JSON object as the last line
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Also print time and bytes of each phase, and which rank holds which table; the report always has them
    #[arg(long, help_heading = "Output")]
    pub verbose: bool,
}

impl Args {
    /// Refuses flags that contradict each other.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.resume.is_none() || self.run.preset.is_none() || self.run.config.is_some(),
            "--preset cannot be used with --resume: the model is that of the run; leave --preset out"
        );
        if self.compute == ComputeMode::Real {
            return Ok(());
        }
        ensure!(
            self.checkpoint_every.is_none(),
            "--checkpoint-every with --compute paced: a paced run computes nothing, so it has no state to save"
        );
        ensure!(
            self.resume.is_none(),
            "--resume with --compute paced: a paced run computes nothing, so it has no state to resume from"
        );
        ensure!(
            self.eval_every.is_none(),
            "--eval-every with --compute paced: a paced run computes nothing, so there is nothing to evaluate"
        );
        for (flag, given) in [
            ("--warm-start", self.warm_start.is_some()),
            ("--keep-best", self.keep_best.is_some()),
            ("--patience", self.patience.is_some()),
        ] {
            ensure!(
                !given,
                "{flag} with --compute paced: a paced run computes nothing, so there is nothing to learn or evaluate"
            );
        }
        Ok(())
    }
}

/// A metric by which states can be compared, or none.
fn keep_best(text: &str) -> Result<KeepBest, String> {
    let keep: KeepBest = text.parse()?;
    if let KeepBest::By(metric) = &keep {
        BestSoFar::by(metric.clone()).map_err(|error| error.problem)?;
    }
    Ok(keep)
}
