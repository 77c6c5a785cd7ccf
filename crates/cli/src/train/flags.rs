//! Flags that change nothing, and what a run decided for itself: refused, or said.

use super::Args;
use anyhow::{Result, bail, ensure};
use spec::dataflow::DataflowKind;
use spec::run::{Config, Data, DataFormat, Run};
use spec::schema::Schema;

/// Refuses flags that could not change anything, before any work is done.
pub fn check(args: &Args, config: &Config) -> Result<()> {
    if args.out.is_none() && args.resume.is_none() {
        let checkpoints = [
            ("--checkpoint-every", args.checkpoint_every.is_some()),
            ("--keep", args.keep.is_some()),
            ("--checkpoint-kind", args.checkpoint_kind.is_some()),
            ("--increments", args.increments.is_some()),
            ("--increment-format", args.increment_format.is_some()),
            ("--checkpoint-memory", args.checkpoint_memory.is_some()),
        ];
        if let Some((flag, _)) = checkpoints.into_iter().find(|(_, given)| *given) {
            bail!("{flag}: checkpoints need a folder; give one with --out DIR, or leave {flag} out");
        }
    }
    if args.run.schema.is_some() {
        match config.data.format.unwrap_or_default() {
            DataFormat::Synthetic => bail!(
                "--schema: a schema describes the columns of files, but the data is synthetic; give files with --data and \
                 their format with --format, or leave --schema out"
            ),
            DataFormat::Prepared => {
                bail!("--schema: a prepared log contains its schema; leave --schema out")
            }
            DataFormat::CriteoTsv | DataFormat::Csv | DataFormat::Parquet => {}
        }
    }
    Ok(())
}

/// Refuses flags that do not change `run`.
pub fn check_run(args: &Args, config: &Config, run: &Run) -> Result<()> {
    let flat = run.dataflow.kind() == DataflowKind::Flat && config.placement.cut.is_none();
    if let Some(hosts) = args.run.hosts_per_tower {
        ensure!(
            !flat,
            "--hosts-per-tower {hosts}: the flat dataflow has no tower groups; use --dataflow sptt, or --cut to cut tables \
             over groups, or leave --hosts-per-tower out"
        );
    }
    Ok(())
}

/// What the user should know of how long the run is and how it is shuffled, in lines.
pub fn notes(args: &Args, config: &Config, run: &Run) -> Vec<String> {
    let mut notes = vec![];
    let criteo = config.data.format == Some(DataFormat::CriteoTsv);
    if args.run.schema.is_some() && criteo && config.data.schema.as_ref() == Some(&Schema::criteo()) {
        notes.push("--schema describes the columns that criteo-tsv has anyway; it can be left out".into());
    }
    let per_epoch = run.batches().per_epoch().max(1);
    if let Some(steps) = args.run.steps.filter(|&steps| steps > run.steps) {
        let epochs = config.train.epochs.unwrap_or(1);
        let plural = if epochs == 1 { "" } else { "s" };
        notes.push(format!(
            "--steps {steps}: the data has {} steps in {epochs} epoch{plural}; --epochs {} trains longer",
            run.steps,
            steps.div_ceil(per_epoch)
        ));
    }
    if let (Data::Log { shuffle, samples, .. }, None) = (&run.data, config.data.shuffle) {
        notes.push(match shuffle {
            None => "rows are in time order: not shuffled; --shuffle N shuffles".into(),
            Some(window) => {
                let range = if window >= samples { String::new() } else { format!(" within windows of {window}") };
                format!(
                    "rows are in no order of time: shuffled{range} in every epoch; --shuffle 0 keeps their order, and \
                     in_time_order = true in the schema says that it is that of time"
                )
            }
        });
    }
    notes
}
