//! The manifest: which file holds which rectangle of which tensor, the checksum of every file, and its own.
//!
//! `manifest.json` is indented JSON whose last field is `sha256`: the SHA-256 of the text as it is without that field.
//! The checksum is of bytes, not of values, so that no second rendering of a number can differ from the first.

use super::CheckpointError;
use super::tiling;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;

/// Name of the manifest in a checkpoint's folder.
pub(super) const NAME: &str = "manifest.json";
/// The largest manifest that is written or read. About a million pieces fit.
pub(super) const MAX_BYTES: usize = 256 << 20;
const FORMAT: &str = "campanile-checkpoint";
const VERSION: u32 = 1;
/// The text around the checksum, at the end of the file.
const BEFORE_CHECKSUM: &str = ",\n  \"sha256\": \"";
const AFTER_CHECKSUM: &str = "\"\n}\n";
/// How the text ends without the checksum.
const END: &str = "\n}";

/// What a checkpoint holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `campanile-checkpoint`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Updates done.
    pub step: u64,
    /// The cluster that wrote it.
    pub topology: TopologyRecord,
    /// The run's config.
    pub run: serde_json::Value,
    /// Small state that is not a tensor.
    pub extra: serde_json::Value,
    /// Digest of all parameters, where it was computed.
    pub parameters_sha256: Option<String>,
    /// The files.
    pub files: Vec<FileRecord>,
    /// The pieces in the files.
    pub tensors: Vec<TensorRecord>,
}

/// The cluster that wrote a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyRecord {
    /// Number of hosts.
    pub hosts: usize,
    /// Ranks on each.
    pub ranks_per_host: usize,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its name, without a folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// One rectangle of a tensor. A tensor's rows are its first dimension, its columns the product of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorRecord {
    /// The tensor's name.
    pub name: String,
    /// The file that holds the piece.
    pub file: String,
    /// The piece's name in that file.
    pub key: String,
    /// Shape of the whole tensor.
    pub shape: Vec<usize>,
    /// Rows of the piece.
    #[serde(with = "pair")]
    pub rows: Range<usize>,
    /// Columns of the piece.
    #[serde(with = "pair")]
    pub columns: Range<usize>,
}

impl Manifest {
    /// The manifest of what all ranks wrote. `run`, `extra` and `parameters_sha256` are left for the caller to fill.
    pub fn new(step: u64, topology: TopologyRecord, written: Vec<super::Written>) -> Self {
        let mut files = Vec::with_capacity(written.len());
        let mut tensors = Vec::new();
        for rank in written {
            files.push(rank.file);
            tensors.extend(rank.tensors);
        }
        Self {
            format: FORMAT.into(),
            version: VERSION,
            step,
            topology,
            run: serde_json::Value::Null,
            extra: serde_json::Value::Null,
            parameters_sha256: None,
            files,
            tensors,
        }
    }

    /// The text of the manifest, checksum included. `path` is where it will stand, for errors.
    pub(super) fn to_text(&self, path: &Path) -> Result<String, CheckpointError> {
        self.check(path)?;
        let body = serde_json::to_string_pretty(self)
            .map_err(|error| CheckpointError::malformed(path, format!("cannot be written: {error}")))?;
        let fields = body.strip_suffix(END).unwrap_or(&body);
        let text = format!("{fields}{BEFORE_CHECKSUM}{}{AFTER_CHECKSUM}", hex(Sha256::digest(&body)));
        if text.len() > MAX_BYTES {
            let problem =
                format!("{} bytes are more than the {MAX_BYTES} of the largest manifest", text.len());
            return Err(CheckpointError::malformed(path, problem));
        }
        Ok(text)
    }

    /// Reads and checks the text that stands at `path`.
    pub(super) fn from_text(path: &Path, text: &[u8]) -> Result<Self, CheckpointError> {
        let malformed = |problem: String| CheckpointError::malformed(path, problem);
        let unsealed = || {
            malformed("does not end with its sha256; the file is damaged: use an earlier checkpoint".into())
        };
        let text = std::str::from_utf8(text).map_err(|error| malformed(format!("not text: {error}")))?;
        let (fields, expected) = text
            .strip_suffix(AFTER_CHECKSUM)
            .and_then(|text| text.split_at_checked(text.len().checked_sub(2 * 32)?))
            .and_then(|(text, sha256)| Some((text.strip_suffix(BEFORE_CHECKSUM)?, sha256)))
            .ok_or_else(unsealed)?;
        let body = format!("{fields}{END}");
        let got = hex(Sha256::digest(&body));
        if got != expected {
            return Err(CheckpointError::Checksum { path: path.to_owned(), got, expected: expected.into() });
        }

        /// What every version has, whatever else it may have.
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u64,
        }
        let json = |error: serde_json::Error| malformed(format!("not a manifest: {error}"));
        let head: Head = serde_json::from_str(&body).map_err(json)?;
        if head.format != FORMAT {
            return Err(malformed(format!("format is {:?}, expected {FORMAT:?}", head.format)));
        }
        if head.version != u64::from(VERSION) {
            let (got, supported) = (head.version, VERSION);
            return Err(CheckpointError::Version { path: path.to_owned(), got, supported });
        }
        let manifest: Self = serde_json::from_str(&body).map_err(json)?;
        manifest.check(path)?;
        Ok(manifest)
    }

    /// The pieces of each tensor, by name.
    pub(super) fn by_tensor(&self) -> BTreeMap<&str, Vec<&TensorRecord>> {
        let mut pieces: BTreeMap<&str, Vec<&TensorRecord>> = BTreeMap::new();
        for piece in &self.tensors {
            pieces.entry(&piece.name).or_default().push(piece);
        }
        pieces
    }

    /// Files have names of their own in this folder, pieces lie in these files, and tile their tensors.
    fn check(&self, path: &Path) -> Result<(), CheckpointError> {
        let mut files = HashSet::new();
        for file in &self.files {
            if rank_of(&file.name).is_none() {
                let problem = format!("file {:?} is not of the form {}", file.name, file_name(0));
                return Err(CheckpointError::malformed(path, problem));
            }
            if !files.insert(file.name.as_str()) {
                return Err(CheckpointError::malformed(path, format!("file {} is there twice", file.name)));
            }
        }
        let mut keys = HashSet::new();
        for piece in &self.tensors {
            let problem = if !files.contains(piece.file.as_str()) {
                "is not among the files"
            } else if !keys.insert((&piece.file, &piece.key)) {
                "holds this key for another piece too"
            } else {
                continue;
            };
            let TensorRecord { name, file, key, .. } = piece;
            return Err(CheckpointError::malformed(
                path,
                format!("tensor {name} (key {key}): {file} {problem}"),
            ));
        }
        self.by_tensor().values().try_for_each(|pieces| tiling::check(path, pieces))
    }
}

/// Name of the file that `rank` writes.
pub(super) fn file_name(rank: usize) -> String {
    format!("rank-{rank:04}.safetensors")
}

/// The rank whose file has this name: of this very form, so that no name leads out of the folder.
fn rank_of(name: &str) -> Option<usize> {
    let rank = name.strip_prefix("rank-")?.strip_suffix(".safetensors")?.parse().ok()?;
    (file_name(rank) == name).then_some(rank)
}

/// Hexadecimal digits of a digest.
pub(super) fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A range as `[start, end]`.
mod pair {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ops::Range;

    pub fn serialize<S: Serializer>(range: &Range<usize>, serializer: S) -> Result<S::Ok, S::Error> {
        [range.start, range.end].serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Range<usize>, D::Error> {
        <[usize; 2]>::deserialize(deserializer).map(|[start, end]| start..end)
    }
}
