//! Columns of a prepared log by which samples can be grouped, read by position.

use super::block::{BlockLayout, Starts};
use super::manifest::Values;
use super::{BoundLog, MANIFEST, PreparedLog};
use crate::DataError;
use crate::samples::Names;
use std::ops::Range;

/// Column of a prepared log that gives every sample one key: a kept column, or a feature with one id per sample.
#[derive(Clone, Debug)]
pub struct KeyColumn {
    place: Place,
    names: Names,
}

/// Place of a column in the blocks of a log.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Kept column of this index.
    Kept(usize),
    /// Sparse feature of this index, whose stored values serve as keys.
    Feature { index: usize, hashed: bool },
}

impl KeyColumn {
    /// Name of the value with this key: its text where it is known, otherwise the key in hexadecimal digits or the row.
    pub fn name(&self, key: u64) -> String {
        let hashed = !matches!(self.place, Place::Feature { hashed: false, .. });
        match self.names.get(key) {
            Some("") => "(missing)".into(),
            Some(text) => text.into(),
            None if hashed => format!("#{key:x}"),
            None => format!("row {key}"),
        }
    }
}

impl BoundLog {
    /// Appends the keys of all samples of the reader, in the order of the log, to `keys`.
    pub fn keys(&self, column: &KeyColumn, keys: &mut Vec<u64>) -> Result<(), DataError> {
        self.log.keys(column, self.part.clone(), keys)
    }
}

impl PreparedLog {
    /// Column of this name that gives every sample one key: a kept column, or else a feature with exactly one id per
    /// sample. The error says what to do about a column that is neither.
    pub fn key_column(&self, name: &str) -> Result<KeyColumn, DataError> {
        let manifest = self.manifest();
        if let Some(index) = manifest.kept.iter().position(|kept| kept.column == name) {
            return Ok(KeyColumn {
                place: Place::Kept(index),
                names: Names::of(&manifest.kept[index].texts),
            });
        }
        let refuse = |problem: &str| {
            let path = self.folder().join(MANIFEST);
            DataError::file(path, format!("column {name}: {problem}"))
        };
        let Some(index) = manifest.features.iter().position(|feature| feature.name == name) else {
            return Err(refuse(
                "is not in the prepared log; name it under `keep` in the schema and prepare the log again",
            ));
        };
        let feature = &manifest.features[index];
        if feature.many {
            return Err(refuse(
                "a sample may have several of its ids, so samples cannot be grouped by it; use a column with one value per \
                 row",
            ));
        }
        let hashed = feature.values == Values::Hashed;
        Ok(KeyColumn { place: Place::Feature { index, hashed }, names: Names::default() })
    }

    /// Appends the keys of some samples in the order of the log to `keys`.
    pub fn keys(
        &self,
        column: &KeyColumn,
        samples: Range<u64>,
        keys: &mut Vec<u64>,
    ) -> Result<(), DataError> {
        let size = u64::from(self.manifest().block_samples);
        let end = samples.end.min(self.manifest().samples);
        let (mut layout, mut starts) = (BlockLayout::default(), Starts::default());
        let mut sample = samples.start;
        while sample < end {
            let number = sample / size;
            let last = end.min((number + 1) * size);
            let range = (sample - number * size) as usize..(last - number * size) as usize;
            self.enter(number as usize, &mut layout, &mut starts)?;
            let words = self.words(number as usize);
            match column.place {
                Place::Kept(index) => {
                    let (pairs, _) = words[layout.kept + 2 * index * layout.samples..].as_chunks::<2>();
                    keys.extend(
                        pairs[range].iter().map(|&[low, high]| u64::from(low) | u64::from(high) << 32),
                    );
                }
                Place::Feature { index, .. } => {
                    let values = &words[layout.sparse[index].values..][range];
                    keys.extend(values.iter().map(|&value| u64::from(value)));
                }
            }
            sample = last;
        }
        Ok(())
    }
}
