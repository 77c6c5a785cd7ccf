//! A log of which a share is evaluated on: prepared in two parts, or found so.

use super::{MEMORY, Place, Raw, bearable, other_vocabulary, showing_progress, warn_of_bad_lines};
use crate::progress::Console;
use crate::text::grouped;
use anyhow::{Context, Result, ensure};
use data::prepare::{self, RawLog, part_of};
use data::prepared::{LogSource, PreparedLog};
use spec::run::{DataConfig, Split, SplitBy};
use std::path::PathBuf;
use std::sync::Arc;

impl Place<'_> {
    /// The parts of the training log to train on and to evaluate on.
    pub(super) fn open_split(&self, data: &DataConfig) -> Result<(Arc<PreparedLog>, Arc<PreparedLog>)> {
        let folders = ["train", "eval"].map(|part| self.folder.join(part));
        let (train, eval) = match self.prepares {
            true => self.prepare_split(data, &folders)?,
            false => {
                let open = |folder: &PathBuf| {
                    PreparedLog::open(folder)
                        .context("a log that rank 0 has prepared, in a folder that all hosts share")
                };
                (open(&folders[0])?, open(&folders[1])?)
            }
        };
        for (log, part) in [(&train, "train"), (&eval, "evaluate")] {
            ensure!(
                log.manifest().samples > 0,
                "{}: of {} samples, a split of {} leaves none to {part} on; give --split another share",
                data.train.join(" "),
                train.manifest().samples + eval.manifest().samples,
                data.split.unwrap_or_default()
            );
        }
        Ok((Arc::new(self.with_remedy(train)), Arc::new(self.with_remedy(eval))))
    }

    /// Prepares both parts, or finds both as an earlier command prepared them from the same files by the same split.
    fn prepare_split(&self, data: &DataConfig, folders: &[PathBuf; 2]) -> Result<(PreparedLog, PreparedLog)> {
        let raw = Raw::of(data, &data.train)?;
        let split = data.split_of(&raw.schema)?.context("a share of the rows to evaluate on")?;
        let source = LogSource::of(raw.format.name(), &raw.files)?;
        let open = |folder: &PathBuf, part: &str| {
            let same = |log: &PreparedLog| {
                let manifest = log.manifest();
                manifest.source == part_of(&source, part, &split)
                    && manifest.schema == raw.schema
                    && bearable(manifest, &raw.policy)
            };
            PreparedLog::open(folder).ok().filter(same)
        };
        if let (Some(train), Some(eval)) = (open(&folders[0], "train"), open(&folders[1], "eval")) {
            let vocabularies = prepare::vocabularies(&train);
            let other =
                vocabularies.map_err(anyhow::Error::from).and_then(|own| other_vocabulary(&eval, &own));
            if other.is_ok_and(|other| other.is_none()) {
                warn_of_bad_lines(train.manifest().bad_lines.count, &train.manifest().bad_lines.lines);
                say(self.console, &split, train.manifest().samples, eval.manifest().samples, 0);
                return Ok((train, eval));
            }
        }
        let log = RawLog { stop: Some(self.stop), ..raw.log(MEMORY) };
        let parts = showing_progress(self.console, "reading data", |progress| {
            prepare::prepare_split(&log, &split, &folders[0], &folders[1], progress)
        })?;
        warn_of_bad_lines(parts.train.bad_lines.count, &parts.train.bad_lines.lines);
        say(self.console, &split, parts.train.samples, parts.eval.samples, parts.untimed);
        Ok((PreparedLog::open(&folders[0])?, PreparedLog::open(&folders[1])?))
    }
}

/// Says in a line which rows are evaluated on, on standard error.
pub fn say(console: Console, split: &Split, train: u64, eval: u64, untimed: u64) {
    let percent = format!("{} %", (split.share * 1e4).round() / 1e2);
    let (eval, all) = (grouped(eval), grouped(train + eval));
    match &split.by {
        SplitBy::Order => {
            console.note(format!(
                "evaluating on the last {percent} of the rows: {eval} of {all}, by the order of the log"
            ));
        }
        SplitBy::Column(column) => {
            let note = match untimed {
                0 => String::new(),
                untimed => format!("; {} rows without a time are trained on", grouped(untimed)),
            };
            console.note(format!(
                "evaluating on the latest {percent} of the rows: {eval} of {all}, by the times in column {column:?}{note}"
            ));
        }
        SplitBy::Numbers => {
            console.note(format!(
                "evaluating on {percent} of the rows: {eval} of {all}, drawn by a hash of row numbers; with a column of time, \
                 --split-by COLUMN evaluates on the latest"
            ));
        }
    }
}
