//! Inputs of a model: what another program must know to make them of a log.
//!
//! A checkpoint has parameters; the schema of its log, the rows of ids and the learnt transforms are in the folder of its run.

use crate::checkpoint::{SavedRun, folder_of};
use crate::folder::VOCABULARIES;
use data::prepare::{self, Learnt, is_text_of};
use data::prepared::PreparedLog;
use data::vocabulary::{IdText, IdTextReader, TEXTS_HEADER, Vocabulary};
use data::{DataError, embeddings};
use serde_json::{Value, json};
use spec::run::DataFormat;
use spec::schema::{IdRule, LearntTransform, Schema, SparseColumn};
use std::io::Write;
use std::path::{Path, PathBuf};
use training::checkpoint::Checkpoint;

/// Reason why the inputs of a model are not known.
#[derive(Debug, thiserror::Error)]
pub enum InputsError {
    /// The prepared log of the training, which describes its columns, is gone.
    #[error(
        "{path}: the prepared log that the run was trained on is gone, and with it the meaning of its columns"
    )]
    NoLog {
        /// Path of the log.
        path: String,
    },
    /// The table of a feature is not in the checkpoint.
    #[error("the checkpoint has no table of {feature}; its features are {features}")]
    NoTable {
        /// Name of the feature.
        feature: String,
        /// Names of the features that have tables.
        features: String,
    },
    /// The rows of a table are not in the order of frequency.
    #[error("--top: how often the rows of {feature} were seen is not known, because {why}; leave it out")]
    NotCounted {
        /// Name of the feature.
        feature: String,
        /// Rule by which ids have rows.
        why: &'static str,
    },
    /// A text is not that of the id whose row it should have.
    #[error("{}: the text of row {row} is not that of the vocabulary", path.display())]
    OtherText {
        /// Path of the file with the texts.
        path: PathBuf,
        /// Row of the text.
        row: u64,
    },
}

/// Inputs of a model.
#[derive(Debug)]
pub struct ModelInputs {
    /// Meaning of the columns of the log.
    pub schema: Schema,
    /// Transforms of the dense columns, with all values that they need.
    pub transforms: Vec<LearntTransform>,
    /// Sparse features, in the order of the model.
    pub features: Vec<FeatureInput>,
}

/// Sparse feature of a model.
#[derive(Debug)]
pub struct FeatureInput {
    /// Name of the feature.
    pub name: String,
    /// Number of rows of its table.
    pub rows: usize,
    /// Names of the tensors with the cores of a tensor train; empty for a table of rows.
    pub cores: Vec<String>,
    /// Rule by which ids have rows.
    pub ids: IdRows,
}

/// Rule by which ids have rows.
#[derive(Debug)]
pub enum IdRows {
    /// The row is a hash of the id's text.
    Hashed,
    /// The id is the number of its row.
    Numbers,
    /// Numbers have the row of their bucket, between these boundaries.
    Buckets(Vec<f64>),
    /// Ids have the rows of a vocabulary.
    Vocabulary {
        /// Vocabulary of the feature.
        vocabulary: Vocabulary,
        /// File with the texts of the ids; `None` if the log was prepared by a version that kept none.
        texts: Option<PathBuf>,
    },
}

impl ModelInputs {
    /// Inputs of the model in `checkpoint`; `None` if its log is generated.
    pub fn of(checkpoint: &Checkpoint) -> Result<Option<Self>, crate::Error> {
        let data = SavedRun::of(checkpoint)?.config.data;
        let schema = match (data.format.unwrap_or_default(), data.schema) {
            (DataFormat::Synthetic, _) => return Ok(None),
            (DataFormat::Prepared, _) => {
                let path = data.train.first().cloned().unwrap_or_default();
                let log = PreparedLog::open(Path::new(&path)).map_err(|_| InputsError::NoLog { path })?;
                log.manifest().schema.clone()
            }
            (_, Some(schema)) => schema,
            (_, None) => Schema::criteo(),
        };
        let folder = folder_of(checkpoint.path()).join(VOCABULARIES);
        let learnt = Learnt::load(&schema, &folder).map_err(crate::logs::LogError::Vocabularies)?;
        let transforms = learnt.transforms.or_else(|| LearntTransform::fixed(&schema)).unwrap_or_default();
        let model = crate::onnx::model_of(checkpoint)?;
        let mut features = vec![];
        for (index, (column, vocabulary)) in schema.sparse.iter().zip(learnt.vocabularies).enumerate() {
            let texts = Some(folder.join(prepare::texts_file(index))).filter(|texts| texts.is_file());
            let Some(at) = model.features().iter().position(|feature| feature.name == column.column) else {
                return Err(no_table(checkpoint, &column.column).into());
            };
            features.push(FeatureInput {
                name: column.column.clone(),
                rows: model.features()[at].rows,
                cores: model.cores_of(at).into_iter().map(|core| core.name).collect(),
                ids: IdRows::of(column, vocabulary, texts),
            });
        }
        Ok(Some(Self { schema, transforms, features }))
    }

    /// Description of the inputs as JSON. `file_of` names the file with the ids of a feature.
    pub fn to_json(&self, file_of: impl Fn(usize) -> Option<String>) -> Value {
        let dense = self.schema.dense.iter().zip(&self.transforms);
        let dense = dense.map(|(column, transform)| {
            json!({ "column": column.column, "steps": transform.steps, "missing": column.missing })
        });
        let sparse = self.features.iter().zip(&self.schema.sparse).enumerate();
        let sparse = sparse.map(|(index, (feature, column))| {
            let mut told = json!({
                "column": feature.name,
                "rows": feature.rows,
                "pooling": column.pooling,
                "ids": feature.ids.to_json(file_of(index)),
            });
            match feature.cores.is_empty() {
                true => told["table"] = json!(table_name(&feature.name)),
                false => told["cores"] = json!(feature.cores),
            }
            told
        });
        json!({
            "version": 1,
            "schema": self.schema,
            "dense": dense.collect::<Vec<_>>(),
            "sparse": sparse.collect::<Vec<_>>(),
        })
    }
}

impl IdRows {
    fn of(column: &SparseColumn, vocabulary: Option<Vocabulary>, texts: Option<PathBuf>) -> Self {
        match (column.ids, vocabulary) {
            (IdRule::Index, _) => Self::Numbers,
            (_, None) => Self::Hashed,
            (_, Some(vocabulary)) => match vocabulary.boundaries() {
                Some(boundaries) => Self::Buckets(boundaries.to_vec()),
                None => Self::Vocabulary { vocabulary, texts },
            },
        }
    }

    /// Name of the rule, as in a schema.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hashed => "hash",
            Self::Numbers => "index",
            Self::Buckets(_) => "buckets",
            Self::Vocabulary { .. } => "vocabulary",
        }
    }

    fn to_json(&self, file: Option<String>) -> Value {
        match self {
            Self::Hashed => json!({
                "rule": self.name(),
                "hash": "xxh3_64 of the id's text as UTF-8, seed 0; a missing id is the empty text",
                "row": "((hash >> 32) * rows) >> 32",
            }),
            Self::Numbers => json!({ "rule": self.name(), "row": "the id; 0 if it is missing" }),
            Self::Buckets(boundaries) => json!({
                "rule": self.name(),
                "boundaries": boundaries,
                "row": "1 + the number of boundaries below the number; 0 if it is missing",
            }),
            Self::Vocabulary { .. } => json!({
                "rule": self.name(),
                "file": file,
                "row": "as in the file (row, id, count); 0 for missing ids and all others",
            }),
        }
    }

    /// Why the rows are not in the order of frequency; `None` if they are.
    pub(crate) fn not_counted(&self) -> Option<&'static str> {
        match self {
            Self::Hashed => Some("its ids are hashed"),
            Self::Numbers => Some("its ids are row numbers"),
            Self::Buckets(_) => Some("its rows are buckets of numbers"),
            Self::Vocabulary { .. } => None,
        }
    }
}

/// Reader of the texts of a vocabulary's ids, each of which must be that of its key.
pub(crate) struct CheckedTexts<'a> {
    path: &'a Path,
    reader: IdTextReader,
    vocabulary: &'a Vocabulary,
}

impl<'a> CheckedTexts<'a> {
    pub fn open(path: &'a Path, vocabulary: &'a Vocabulary) -> Result<Self, DataError> {
        Ok(Self { path, reader: IdTextReader::open(path)?, vocabulary })
    }

    /// Reads the next id; `None` after the last.
    pub fn next_id(&mut self) -> Result<Option<IdText<'_>>, crate::Error> {
        let Some(id) = self.reader.next_id()? else { return Ok(None) };
        let key = usize::try_from(id.row - 1).ok().and_then(|at| self.vocabulary.keys().get(at));
        match key.is_some_and(|key| is_text_of(id.text, *key)) {
            true => Ok(Some(id)),
            false => Err(InputsError::OtherText { path: self.path.to_owned(), row: id.row }.into()),
        }
    }
}

/// Copies the texts of a vocabulary's ids from `texts` to `out`, which messages call `path`.
pub(crate) fn write_ids(
    texts: &Path,
    vocabulary: &Vocabulary,
    path: &Path,
    out: &mut impl Write,
) -> Result<(), crate::Error> {
    let refuse = |error: std::io::Error| DataError::file(path, error);
    let mut texts = CheckedTexts::open(texts, vocabulary)?;
    out.write_all(TEXTS_HEADER).map_err(refuse)?;
    while let Some(id) = texts.next_id()? {
        embeddings::write_id(out, id.row, id.text, id.count).map_err(refuse)?;
    }
    Ok(())
}

/// Name of the tensor with the table of a feature.
pub(crate) fn table_name(feature: &str) -> String {
    format!("tables.{feature}.weight")
}

/// The error of a feature that a checkpoint has no table of.
pub(crate) fn no_table(checkpoint: &Checkpoint, feature: &str) -> InputsError {
    let table = |(name, _)| {
        let name = str::strip_prefix(name, "tables.")?;
        name.strip_suffix(".weight").or(name.strip_suffix(".core.0"))
    };
    let features: Vec<&str> = checkpoint.tensors().filter_map(table).take(50).collect();
    InputsError::NoTable { feature: feature.into(), features: features.join(", ") }
}
