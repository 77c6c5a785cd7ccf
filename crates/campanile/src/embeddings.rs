//! Embeddings: the rows of one table with their ids, from a checkpoint into a file.

use crate::Error;
use crate::checkpoint::{Chosen, Use, Used, folder_of, locate_to_use, open_to_use};
use crate::control::Control;
use crate::event::Unit;
use crate::folder::VOCABULARIES;
use crate::inputs::{CheckedTexts, FeatureInput, IdRows, InputsError, ModelInputs};
use crate::output::{Inputs, Output};
use crate::table_rows::TableRows;
use data::embeddings::{EmbeddingRow, EmbeddingTable};
use std::path::{Path, PathBuf};
use training::checkpoint::Checkpoint;

/// Number of floats that are read from a checkpoint at once.
const BLOCK: usize = 1 << 18;

/// Rows of the table of one feature, in a checkpoint or in one of a run: the best where the run keeps it, else the last.
///
/// ```
/// # use campanile::{Config, Training};
/// use campanile::Embeddings;
/// # let folder = tempfile::tempdir().unwrap();
/// # let (run, log, out) = (folder.path().join("run"), folder.path().join("log.csv"), folder.path().join("users.csv"));
/// # let rows: String = (0..200).map(|i| format!("u{},{}.5,{}\n", i % 7, i % 11, i % 3 / 2)).collect();
/// # std::fs::write(&log, format!("user,price,clicked\n{rows}")).unwrap();
/// # let mut config = Config::default();
/// # config.train.steps = Some(3);
/// # Training::new(config).data(&log)?.out(&run).run()?;
/// let written = Embeddings::of(&run, "user").to(&out)?;
/// assert!(written.rows >= 7 && written.dim > 0);
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embeddings {
    checkpoint: PathBuf,
    feature: String,
    top: Option<usize>,
    which: Option<Use>,
    control: Control,
}

/// Result of writing embeddings.
#[derive(Clone, Debug)]
pub struct WrittenEmbeddings {
    /// Number of rows that were written.
    pub rows: u64,
    /// Number of values of a row.
    pub dim: usize,
    /// Rule by which ids have rows, as in a schema; `None` if it is not known.
    pub rule: Option<&'static str>,
    /// Whether rows were written with their ids.
    pub with_ids: bool,
    /// Whether the checkpoint is the best or the last of its run, or was named by the user.
    pub used: Used,
    /// Steps done in the checkpoint.
    pub step: u64,
    /// Folder of the checkpoint.
    pub checkpoint: PathBuf,
}

impl Embeddings {
    /// Rows of the table of `feature`, in the checkpoint at `path` or in that of the run at `path`.
    pub fn of(path: impl Into<PathBuf>, feature: impl Into<String>) -> Self {
        let (checkpoint, feature) = (path.into(), feature.into());
        Self { checkpoint, feature, top: None, which: None, control: Control::default() }
    }

    /// Takes this checkpoint of the run.
    pub fn which(self, which: Option<Use>) -> Self {
        Self { which, ..self }
    }

    /// Writes the rows of the most frequent ids only, this many. The feature must have a vocabulary.
    pub fn top(self, rows: Option<usize>) -> Self {
        Self { top: rows, ..self }
    }

    /// Takes observer and stop flag from `control`.
    pub fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }

    /// Files that are read, which no output replaces.
    pub fn inputs(&self) -> Inputs {
        let mut inputs = Inputs::default();
        if let Ok((at, _)) = locate_to_use(&self.checkpoint, self.which) {
            inputs.add(&at).add(folder_of(&at).join(VOCABULARIES));
        }
        inputs
    }

    /// Writes the rows to a new file: Parquet if the name ends in `.parquet`, TSV if it ends in `.tsv`, else CSV.
    pub fn to(self, path: impl AsRef<Path>) -> Result<WrittenEmbeddings, Error> {
        let output = Output::check(path.as_ref(), false, &self.inputs())?;
        self.write(&output)
    }

    /// Writes the rows to `output`, in the format that its extension says.
    pub fn write(self, output: &Output) -> Result<WrittenEmbeddings, Error> {
        // What is wrong with the question is said before files are verified.
        let (taken, _) = locate_to_use(&self.checkpoint, self.which)?;
        TableRows::of(&Checkpoint::open(taken)?, &self.feature)?;
        let Chosen { checkpoint, used } = open_to_use(&self.checkpoint, self.which, &self.control)?;
        let mut stored = TableRows::of(&checkpoint, &self.feature)?;
        let (rows, dim) = (stored.rows, stored.dim);
        let inputs = ModelInputs::of(&checkpoint)?;
        let feature = inputs.iter().flat_map(|inputs| &inputs.features).find(|f| f.name == self.feature);
        let first = self.first_row(feature)?;
        let last = self.top.map_or(rows, |top| rows.min(first.saturating_add(top)));
        let mut ids = feature.map_or(Ok(Ids::Unknown), Ids::of)?;
        let with_ids = !matches!(ids, Ids::Unknown);
        let mut table = EmbeddingTable::new(output.path(), output.create()?, dim, with_ids)?;
        let working = self.control.start("writing embeddings", (last - first) as u64, Unit::Count("rows"));
        let at_once = (BLOCK / dim.max(1)).max(1);
        let mut block = vec![];
        for start in (first..last).step_by(at_once) {
            let end = last.min(start + at_once);
            block.resize((end - start) * dim, 0.0);
            stored.read(start..end, &mut block)?;
            for (row, vector) in (start as u64..).zip(block.chunks_exact(dim)) {
                let (id, count) = ids.of_row(row)?;
                table.append(&EmbeddingRow { row, id, count, vector })?;
            }
            working.of((end - first) as u64, (last - first) as u64);
        }
        table.finish()?.finish()?;
        drop(working);
        Ok(WrittenEmbeddings {
            rows: (last - first) as u64,
            dim,
            rule: feature.map(|feature| feature.ids.name()),
            with_ids,
            used,
            step: checkpoint.manifest().step,
            checkpoint: checkpoint.path().to_owned(),
        })
    }

    /// First row that is written: the most frequent ids of a vocabulary begin at row 1.
    fn first_row(&self, feature: Option<&FeatureInput>) -> Result<usize, InputsError> {
        if self.top.is_none() {
            return Ok(0);
        }
        let why = feature.map_or(Some("its log is generated"), |feature| feature.ids.not_counted());
        match why {
            None => Ok(1),
            Some(why) => Err(InputsError::NotCounted { feature: self.feature.clone(), why }),
        }
    }
}

/// Ids of the rows of a table, asked for one row after the other.
enum Ids<'a> {
    Unknown,
    Numbers(String),
    Buckets { boundaries: &'a [f64], text: String },
    Texts { texts: CheckedTexts<'a>, row: u64, text: Vec<u8>, count: u64 },
}

impl<'a> Ids<'a> {
    fn of(feature: &'a FeatureInput) -> Result<Self, Error> {
        Ok(match &feature.ids {
            IdRows::Numbers => Self::Numbers(String::new()),
            IdRows::Buckets(boundaries) => Self::Buckets { boundaries, text: String::new() },
            IdRows::Vocabulary { vocabulary, texts: Some(texts) } => {
                let texts = CheckedTexts::open(texts, vocabulary)?;
                Self::Texts { texts, row: 0, text: vec![], count: 0 }
            }
            IdRows::Hashed | IdRows::Vocabulary { texts: None, .. } => Self::Unknown,
        })
    }

    /// Id and count of a row, if they are known. Rows must ascend.
    fn of_row(&mut self, asked: u64) -> Result<(Option<&[u8]>, Option<u64>), Error> {
        match self {
            Self::Unknown => Ok((None, None)),
            Self::Numbers(text) => {
                *text = asked.to_string();
                Ok((Some(text.as_bytes()), None))
            }
            Self::Buckets { .. } if asked == 0 => Ok((None, None)),
            Self::Buckets { boundaries, text } => {
                let boundary = |at: u64| boundaries.get(at as usize).map(f64::to_string);
                let low = asked.checked_sub(2).and_then(boundary).unwrap_or("-inf".into());
                let high = boundary(asked - 1).map_or("inf)".into(), |high| format!("{high}]"));
                *text = format!("({low}, {high}");
                Ok((Some(text.as_bytes()), None))
            }
            Self::Texts { texts, row, text, count } => {
                while *row < asked {
                    let Some(next) = texts.next_id()? else { break };
                    (*row, *count) = (next.row, next.count);
                    text.clear();
                    text.extend_from_slice(next.text);
                }
                Ok(if *row == asked && asked > 0 { (Some(text), Some(*count)) } else { (None, None) })
            }
        }
    }
}
