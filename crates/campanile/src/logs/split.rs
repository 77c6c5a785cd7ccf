//! A log of which a share is evaluated on: prepared in two parts, or found so.

use super::preparer::{Preparer, bearable, difference};
use super::{LogError, MEMORY, Raw, is_table};
use crate::event::Notice;
use data::prepare::{self, Learnt, RawLog, RowDivision, part_of};
use data::prepared::{LogSource, PreparedLog};
use spec::run::{DataConfig, Split};
use std::path::PathBuf;
use std::sync::Arc;

impl Preparer {
    /// The parts of the training log to train on and to evaluate on.
    pub(super) fn open_split(
        &self,
        data: &DataConfig,
    ) -> Result<(Arc<PreparedLog>, Arc<PreparedLog>), LogError> {
        self.open_divided(data, None)
    }

    /// The parts of the training log: with `validation`, that share of the rows which the config trains on stands for the
    /// evaluation part, and rows that the config evaluates on are in neither.
    pub(super) fn open_divided(
        &self,
        data: &DataConfig,
        validation: Option<f64>,
    ) -> Result<(Arc<PreparedLog>, Arc<PreparedLog>), LogError> {
        let folders = ["train", "eval"].map(|part| self.folder.join(part));
        let (train, eval) = match self.prepares {
            true => self.prepare_split(data, validation, &folders)?,
            false => {
                let open = |folder: &PathBuf| PreparedLog::open(folder).map_err(LogError::OfFirstRank);
                (open(&folders[0])?, open(&folders[1])?)
            }
        };
        for (log, part) in [(&train, "train"), (&eval, "evaluate")] {
            if log.manifest().samples == 0 {
                return Err(LogError::EmptyPart {
                    paths: data.train.join(" "),
                    samples: train.manifest().samples + eval.manifest().samples,
                    share: validation.or(data.split).unwrap_or_default(),
                    part,
                });
            }
        }
        Ok((Arc::new(self.with_remedy(train)), Arc::new(self.with_remedy(eval))))
    }

    /// Prepares both parts, or finds both as an earlier command prepared them from the same files by the same split.
    fn prepare_split(
        &self,
        data: &DataConfig,
        validation: Option<f64>,
        folders: &[PathBuf; 2],
    ) -> Result<(PreparedLog, PreparedLog), LogError> {
        let table = self.tables.of("train");
        if is_table(&data.train) && table.is_none() {
            // A run that goes on has the parts of its table as they were prepared.
            let open = |folder: &PathBuf| PreparedLog::open(folder).map_err(|_| LogError::NoTable);
            return Ok((open(&folders[0])?, open(&folders[1])?));
        }
        let raw = Raw::of_table(data, &data.train, table)?;
        let split = data.split_of(&raw.schema)?;
        let division = match validation {
            None => RowDivision::of(split.ok_or(LogError::NoShare)?),
            Some(share) => {
                // A split of this share selects rows as the config's own does, or would do.
                let asked = DataConfig { split: Some(share), eval: Vec::new(), ..data.clone() };
                let chosen = asked.split_of(&raw.schema)?.ok_or(LogError::NoShare)?;
                RowDivision { split: chosen, left_out: split }
            }
        };
        let split: Split = division.split.clone();
        let source = LogSource::of(raw.format.name(), &raw.files)?;
        let open = |folder: &PathBuf, part: &str| {
            let same = |log: &PreparedLog| {
                let manifest = log.manifest();
                manifest.source == part_of(&source, part, &division)
                    && manifest.schema == raw.schema
                    && bearable(manifest, &raw.policy)
            };
            PreparedLog::open(folder).ok().filter(same)
        };
        if raw.table.is_none()
            && let (Some(train), Some(eval)) = (open(&folders[0], "train"), open(&folders[1], "eval"))
        {
            let other = Learnt::of(&train).and_then(|own| difference(&eval, &own));
            if other.is_ok_and(|other| other.is_none()) {
                let (one, two) = (train.manifest(), eval.manifest());
                self.control.notice_bad_lines(one.bad_lines.count, &one.bad_lines.lines);
                let (train_rows, eval_rows) = (one.samples, two.samples);
                self.control.notice(Notice::Split { split, train: train_rows, eval: eval_rows, untimed: 0 });
                return Ok((train, eval));
            }
        }
        let log = RawLog { stop: Some(self.control.stop_flag()), ..raw.log(MEMORY) };
        let parts = self.control.reading("reading data", |progress| {
            prepare::prepare_split(&log, &division, &folders[0], &folders[1], progress)
        })?;
        self.control.notice_bad_lines(parts.train.bad_lines.count, &parts.train.bad_lines.lines);
        let (train, eval, untimed) = (parts.train.samples, parts.eval.samples, parts.untimed);
        self.control.notice(Notice::Split { split, train, eval, untimed });
        Ok((PreparedLog::open(&folders[0])?, PreparedLog::open(&folders[1])?))
    }
}
