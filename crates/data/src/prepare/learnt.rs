//! What preparing learns from the training rows, and every other log of the model must share.

use super::RawLog;
use crate::prepared::{Manifest, PreparedLog};
use crate::vocabulary::{IdTexts, Vocabulary};
use crate::{DataError, id};
use spec::schema::{IdRule, LearntTransform, Schema, SparseColumn};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Name of the file with the learnt transforms in a folder of vocabularies. A prepared log has them in its manifest.
pub const TRANSFORMS: &str = "transforms.json";
/// Largest size of that file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// What preparing learns from the training rows: the rows of ids, and the values of transforms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learnt {
    /// Vocabulary of each sparse column that has one.
    pub vocabularies: Vec<Option<Vocabulary>>,
    /// Transforms of the dense columns with their learnt values; `None` if nothing is learnt.
    pub transforms: Option<Vec<LearntTransform>>,
}

/// What differs between two logs of the same schema, with the name of the column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearntDifference {
    /// Ids of the column have other rows.
    Vocabulary(String),
    /// Numbers of the column have other inputs.
    Transform(String),
}

impl Learnt {
    /// What was learnt for a prepared log.
    pub fn of(log: &PreparedLog) -> Result<Self, DataError> {
        let vocabularies = vocabularies(log)?;
        Ok(Self { vocabularies, transforms: log.manifest().transforms.clone() })
    }

    /// What was learnt for logs with this schema, and lies in `folder`.
    pub fn load(schema: &Schema, folder: &Path) -> Result<Self, DataError> {
        let vocabularies = load_vocabularies(schema, folder)?;
        let transforms = match schema.learns_transforms() {
            true => Some(load_transforms(schema, &folder.join(TRANSFORMS))?),
            false => None,
        };
        Ok(Self { vocabularies, transforms })
    }

    /// First column in which `other`, learnt for logs with this schema, differs; `None` if both are the same.
    pub fn difference(&self, other: &Self, schema: &Schema) -> Option<LearntDifference> {
        let mut sparse = schema.sparse.iter().zip(self.vocabularies.iter().zip(&other.vocabularies));
        if let Some((column, _)) = sparse.find(|(_, (one, other))| one != other) {
            return Some(LearntDifference::Vocabulary(column.column.clone()));
        }
        if self.transforms == other.transforms {
            return None;
        }
        let of = |learnt: &Self, index: usize| learnt.transforms.as_ref()?.get(index).cloned();
        let mut dense = schema.dense.iter().enumerate();
        let column = dense.find(|(index, _)| of(self, *index) != of(other, *index));
        Some(LearntDifference::Transform(
            column.map_or_else(String::new, |(_, column)| column.column.clone()),
        ))
    }

    /// Checks that this is what a log with `schema` needs.
    pub(super) fn check(&self, schema: &Schema) -> Result<(), DataError> {
        for (column, vocabulary) in schema.sparse.iter().zip(&self.vocabularies) {
            let buckets = vocabulary.as_ref().is_some_and(|vocabulary| vocabulary.boundaries().is_some());
            let same =
                vocabulary.is_some() == column.ids.is_learnt() && buckets == (column.ids == IdRule::Buckets);
            if !same {
                let problem = "the vocabularies given are of another schema".into();
                return Err(DataError::Vocabulary { column: column.column.clone(), problem });
            }
        }
        LearntTransform::check(self.transforms.as_deref(), schema)
            .map_err(|problem| DataError::Transforms { problem })
    }

    /// Number of rows of the table of each sparse column, if it is known.
    pub(super) fn rows_of_tables(&self, schema: &Schema) -> Vec<Option<usize>> {
        let columns = schema.sparse.iter().zip(&self.vocabularies);
        columns
            .map(|(column, vocabulary)| vocabulary.as_ref().map(Vocabulary::rows).or(column.rows))
            .collect()
    }

    /// Writes the vocabularies into `folder`, and returns the names of their files by column.
    pub(super) fn save_vocabularies(
        &self,
        schema: &Schema,
        folder: &Path,
    ) -> Result<BTreeMap<String, String>, DataError> {
        let mut names = BTreeMap::new();
        for (index, (column, vocabulary)) in schema.sparse.iter().zip(&self.vocabularies).enumerate() {
            if let Some(vocabulary) = vocabulary {
                let name = vocabulary_file(index);
                vocabulary.save(&folder.join(&name))?;
                names.insert(column.column.clone(), name);
            }
            // Texts of an earlier preparation would be those of other ids.
            remove(&folder.join(texts_file(index)))?;
        }
        Ok(names)
    }

    /// Collectors for the texts of the ids, with temporary files in `folder`.
    pub(super) fn collectors(&self, folder: &Path) -> Result<Vec<Option<IdTexts>>, DataError> {
        let with_ids = |vocabulary: &Option<Vocabulary>| {
            let vocabulary = vocabulary.as_ref().filter(|vocabulary| vocabulary.boundaries().is_none());
            vocabulary.map(|vocabulary| IdTexts::new(vocabulary, folder)).transpose()
        };
        self.vocabularies.iter().map(with_ids).collect()
    }

    /// The log, to be read with what was learnt. Vocabularies take half of the memory (see [`learn`](super::learn::learn)), and
    /// the collectors of texts up to a quarter.
    pub(super) fn reading<'a>(&'a self, log: &RawLog<'a>, texts: &'a [Option<IdTexts>]) -> RawLog<'a> {
        let has_vocabulary = self.vocabularies.iter().any(Option::is_some);
        let mut log = log.clone();
        if has_vocabulary {
            let collected: u64 = texts.iter().flatten().map(IdTexts::bytes).sum();
            log.memory = log.memory / 2 - collected.min(log.memory / 4);
        }
        log.reading.transforms = self.transforms.as_deref();
        log.reading.texts = texts;
        log
    }
}

fn remove(path: &Path) -> Result<(), DataError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(DataError::file(path, format!("cannot be removed: {error}")))
        }
        _ => Ok(()),
    }
}

/// Reads the vocabularies of a prepared log, by sparse column.
pub fn vocabularies(log: &PreparedLog) -> Result<Vec<Option<Vocabulary>>, DataError> {
    load_vocabularies(&log.manifest().schema, log.folder())
}

/// Reads the vocabularies that a log with this schema has in `folder`, by sparse column.
pub fn load_vocabularies(schema: &Schema, folder: &Path) -> Result<Vec<Option<Vocabulary>>, DataError> {
    let load = |(index, column): (usize, &SparseColumn)| match column.ids.is_learnt() {
        true => Vocabulary::load(&folder.join(vocabulary_file(index))).map(Some),
        false => Ok(None),
    };
    schema.sparse.iter().enumerate().map(load).collect()
}

/// Reads learnt transforms from the file at `path`, which must be those that `schema` asks for.
fn load_transforms(schema: &Schema, path: &Path) -> Result<Vec<LearntTransform>, DataError> {
    let refuse = |problem: String| DataError::file(path, problem);
    let file = File::open(path).map_err(|error| {
        refuse(format!(
            "cannot be read: {error}; the transforms of the schema need the values that the model was trained with"
        ))
    })?;
    let mut text = String::new();
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let learnt: Vec<LearntTransform> = serde_json::from_str(&text)
        .map_err(|error| refuse(format!("does not hold learnt transforms: {error}")))?;
    LearntTransform::check(Some(&learnt), schema).map_err(refuse)?;
    Ok(learnt)
}

/// Text of learnt transforms, as [`Learnt::load`] reads it.
pub fn transforms_text(learnt: &[LearntTransform]) -> Result<String, DataError> {
    let text = serde_json::to_string_pretty(learnt);
    text.map(|text| text + "\n").map_err(|error| DataError::Transforms { problem: error.to_string() })
}

/// Name of the file with the vocabulary of a sparse column.
pub fn vocabulary_file(column: usize) -> String {
    format!("vocabulary-{column:04}.bin")
}

/// Name of the file with the texts of a sparse column's ids. Logs of older versions have none.
pub fn texts_file(column: usize) -> String {
    format!("vocabulary-{column:04}.csv")
}

/// Copies the texts of ids from one folder to another, whose log has the same vocabularies. Logs of older versions have none.
pub fn copy_texts(manifest: &Manifest, from: &Path, to: &Path) -> Result<(), DataError> {
    for name in manifest.vocabularies.values() {
        let name = Path::new(name).with_extension("csv");
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_file() {
            std::fs::copy(&from, &to)
                .map_err(|e| DataError::file(&from, format!("cannot be copied: {e}")))?;
        }
    }
    Ok(())
}

/// Whether `text` is the text of the id with this key.
pub fn is_text_of(text: &[u8], key: u64) -> bool {
    id::key(text) == key
}
