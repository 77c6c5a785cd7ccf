//! `manifest.json`: description of a prepared log.

use super::{MANIFEST, MAX_BLOCK_SAMPLES, MAX_ROWS, VERSION};
use crate::DataError;
use crate::warnings::Noticed;
use serde::{Deserialize, Serialize};
use spec::Pooling;
use spec::schema::{LearntTransform, Schema};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use xxhash_rust::xxh3::xxh3_64;

/// Largest size of a manifest, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Text that replaces the checksum of the manifest while it is computed.
const NO_CHECKSUM: &str = "0000000000000000";

/// Description of a prepared log. The format is documented in [`prepared`](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format.
    pub version: u32,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples with label 1.
    pub clicks: u64,
    /// Number of samples with label 1 of each label; empty for logs with one label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelClicks>,
    /// Summary of the sample weights; `None` for logs without weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_weights: Option<WeightSummary>,
    /// Texts of the kept columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptTexts>,
    /// Number of samples of every block but the last.
    pub block_samples: u32,
    /// Names of the dense columns.
    pub dense: Vec<String>,
    /// The sparse features.
    pub features: Vec<PreparedFeature>,
    /// Schema with which the log was read.
    pub schema: Schema,
    /// Files from which the log was prepared. If the source is equal, the log need not be prepared again.
    pub source: LogSource,
    /// Bad lines, which were left out.
    pub bad_lines: BadLineSummary,
    /// Observations about the samples; `None` in logs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noticed: Option<Noticed>,
    /// Names of the files with vocabularies, by feature.
    pub vocabularies: BTreeMap<String, String>,
    /// Transforms of the dense columns with the values that were learnt from the training rows; `None` if nothing is learnt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transforms: Option<Vec<LearntTransform>>,
    /// Sizes and checksums of the other files.
    pub files: Files,
    /// Checksum of the manifest itself.
    pub checksum: String,
}

/// Number of clicks of one of several labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelClicks {
    /// Column of the label.
    pub column: String,
    /// Number of samples with label 1.
    pub clicks: u64,
}

/// Summary of the sample weights of a log. All numbers are 0 for a log without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightSummary {
    /// The smallest weight.
    pub min: f32,
    /// The largest weight.
    pub max: f32,
    /// Sum of all weights.
    pub sum: f64,
}

/// Texts of the first distinct values of a kept column, in the order in which they were seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptTexts {
    /// Name of the column.
    pub column: String,
    /// Texts of the first distinct values.
    pub texts: Vec<String>,
}

/// A sparse feature of a prepared log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreparedFeature {
    /// Name of the column.
    pub name: String,
    /// Kind of the stored values.
    pub values: Values,
    /// Whether a sample may have any number of ids.
    pub many: bool,
    /// Whether ids have weights.
    pub weighted: bool,
    /// How the rows of a bag become one vector.
    pub pooling: Pooling,
    /// Number of rows of the table, if the schema gives it.
    pub rows: Option<usize>,
    /// Mean number of ids per sample, as counted.
    pub mean_ids: f64,
    /// Largest number of ids in a sample.
    pub max_ids: u32,
}

/// Kind of the stored values of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Hashes, for a table of any number of rows.
    Hashed,
    /// Rows of a table with this number of rows.
    Rows(u64),
}

/// Files from which a log was prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSource {
    /// Name of the format of the files.
    pub format: String,
    /// Files in the order of reading.
    pub files: Vec<SourceFile>,
    /// Part of a split that the log is; `None` if it is all of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
}

/// A source file, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// Path of the file.
    pub path: String,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Modification time of the file, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// Summary of the bad lines of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadLineSummary {
    /// Number of bad lines.
    pub count: u64,
    /// Descriptions of the first bad lines.
    pub lines: Vec<String>,
}

/// Sizes and checksums of the files beside the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Size and checksum of samples.bin.
    pub samples: Checksummed,
    /// Size and checksum of index.bin.
    pub index: Checksummed,
}

/// Size and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checksummed {
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// XXH3-64 of the contents, in hexadecimal digits.
    pub xxh3: String,
}

/// Text of a checksum in a manifest.
pub(super) fn digits(checksum: u64) -> String {
    format!("{checksum:016x}")
}

impl LogSource {
    /// Describes the files of a log of this format, as they are now.
    pub fn of(format: &str, files: &[PathBuf]) -> Result<Self, DataError> {
        let files = files.iter().map(|path| SourceFile::of(path)).collect::<Result<_, _>>()?;
        Ok(Self { format: format.into(), files, split: None })
    }
}

impl SourceFile {
    /// Describes the file at `path`, as it is now.
    pub fn of(path: &Path) -> Result<Self, DataError> {
        let problem = |e: std::io::Error| DataError::file(path, format!("cannot be read: {e}"));
        let about = fs::metadata(path).map_err(problem)?;
        let modified = about.modified().map_err(problem)?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified_ns = u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self { path: path.to_string_lossy().into_owned(), bytes: about.len(), modified_ns })
    }
}

impl Manifest {
    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.samples.div_ceil(u64::from(self.block_samples))
    }

    /// Reads the manifest of `folder` and checks it.
    pub(super) fn read(folder: &Path) -> Result<Self, DataError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let path = folder.join(MANIFEST);
        let refuse = |problem: String| DataError::file(&path, problem);
        let unreadable = |e: std::io::Error| refuse(format!("cannot be read: {e}"));
        let file = File::open(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => DataError::file(
                folder,
                format!("is not a prepared log: it has no {MANIFEST}; prepare it first"),
            ),
            _ => unreadable(e),
        })?;
        let mut text = String::new();
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(refuse(format!("is larger than {MAX_BYTES} bytes, so it is not a manifest")));
        }
        let damaged =
            |what: &dyn std::fmt::Display| refuse(format!("is damaged ({what}); prepare the log again"));
        // The version is read first: another version may have other fields.
        let Version { version } = serde_json::from_str(&text).map_err(|e| damaged(&e))?;
        if version != VERSION {
            let problem =
                format!("has version {version}, this program reads {VERSION}; prepare the log again");
            return Err(refuse(problem));
        }
        let manifest: Self = serde_json::from_str(&text).map_err(|e| damaged(&e))?;
        let computed = checksum(&text, &manifest.checksum);
        if computed.as_deref() != Some(&manifest.checksum) {
            return Err(damaged(&"its checksum does not match"));
        }
        manifest.check().map_err(|problem| damaged(&problem))?;
        Ok(manifest)
    }

    /// Writes the manifest of `folder` atomically, with its checksum.
    pub(super) fn write(&mut self, folder: &Path) -> Result<(), DataError> {
        let path = folder.join(MANIFEST);
        let temporary = folder.join(format!("{MANIFEST}.tmp"));
        self.checksum = NO_CHECKSUM.into();
        let text = |manifest: &Self| {
            serde_json::to_string_pretty(manifest)
                .map(|text| text + "\n")
                .map_err(|e| DataError::file(&path, format!("cannot be written: {e}")))
        };
        self.checksum = digits(xxh3_64(text(self)?.as_bytes()));
        let text = text(self)?;
        if text.len() as u64 > MAX_BYTES {
            let problem = format!("would be larger than {MAX_BYTES} bytes; keep fewer bad lines");
            return Err(DataError::file(&path, problem));
        }
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            // The name is on disk once the folder is synchronized.
            File::open(folder)?.sync_all()
        });
        written.map_err(|e| {
            // A file that does not exist needs no removal.
            let _ = fs::remove_file(&temporary);
            let _ = fs::remove_file(&path);
            DataError::file(&path, format!("cannot be written: {e}"))
        })
    }

    /// Checks that the fields agree with each other.
    fn check(&self) -> Result<(), String> {
        self.schema.check().map_err(|e| e.to_string())?;
        if !(1..=MAX_BLOCK_SAMPLES).contains(&self.block_samples) {
            return Err(format!("blocks of {} samples", self.block_samples));
        }
        if self.clicks > self.samples {
            return Err(format!("{} clicks in {} samples", self.clicks, self.samples));
        }
        self.check_extras()?;
        if !self.dense.iter().eq(self.schema.dense.iter().map(|column| &column.column)) {
            return Err("its dense columns are not those of its schema".into());
        }
        if self.features.len() != self.schema.sparse.len() {
            return Err("its features are not those of its schema".into());
        }
        for (feature, column) in self.features.iter().zip(&self.schema.sparse) {
            let same = feature.name == column.column
                && feature.many == column.many()
                && feature.weighted == column.weighted();
            if !same {
                return Err(format!("feature {} of the manifest is not that of the schema", feature.name));
            }
            if let Values::Rows(rows) = feature.values
                && !(1..=MAX_ROWS).contains(&rows)
            {
                return Err(format!("feature {} has {rows} rows", feature.name));
            }
        }
        LearntTransform::check(self.transforms.as_deref(), &self.schema)?;
        for (feature, name) in &self.vocabularies {
            // These files are copied, and their names must not lead out of the folder.
            if Path::new(name).file_name() != Some(name.as_ref()) {
                return Err(format!(
                    "the vocabulary of {feature} is {name:?}, which is not the name of a file in the same folder"
                ));
            }
        }
        Ok(())
    }
}

impl Manifest {
    /// Checks that labels, sample weights and kept columns are those of the schema.
    fn check_extras(&self) -> Result<(), String> {
        let labels = self.schema.labels.iter().map(|label| &label.column);
        if !self.labels.iter().map(|label| &label.column).eq(labels) {
            return Err("its labels are not those of its schema".into());
        }
        if let Some(label) = self.labels.iter().find(|label| label.clicks > self.samples) {
            let (clicks, column) = (label.clicks, &label.column);
            return Err(format!("{clicks} clicks of label {column} in {} samples", self.samples));
        }
        if self.sample_weights.is_some() != self.schema.weight.is_some() {
            return Err("its sample weights are not those of its schema".into());
        }
        if !self.kept.iter().map(|kept| &kept.column).eq(&self.schema.keep) {
            return Err("its kept columns are not those of its schema".into());
        }
        Ok(())
    }
}

/// Computes the checksum of the text of a manifest that states the checksum `stated`; `None` if the text does not contain it.
fn checksum(text: &str, stated: &str) -> Option<String> {
    if stated.len() != NO_CHECKSUM.len() {
        return None;
    }
    // The checksum is the last field.
    let at = text.rfind(stated)?;
    let mut blank = text.as_bytes().to_vec();
    blank.get_mut(at..at + stated.len())?.copy_from_slice(NO_CHECKSUM.as_bytes());
    Some(digits(xxh3_64(&blank)))
}
