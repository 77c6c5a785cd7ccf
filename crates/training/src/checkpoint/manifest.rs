//! The manifest: which file holds which rectangle of which tensor, the checksum of every file, and its own.
//!
//! `manifest.json` is indented JSON whose last field is `sha256`: the SHA-256 of the text as it is without that field.
//! The checksum is of bytes, not of values, so that no second rendering of a number can differ from the first.

use super::CheckpointError;
use super::entries::{BaseEntry, FileEntry, TensorEntry, TopologyEntry};
use super::tiling;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Name of the manifest in a checkpoint's folder.
pub(super) const NAME: &str = "manifest.json";
/// The largest manifest that is written or read. About a million pieces fit.
pub(super) const MAX_BYTES: usize = 256 << 20;
const FORMAT: &str = "campanile-checkpoint";
const VERSION: u32 = 1;
/// Version of a manifest with an identity, which increments may build on.
const CHAINED: u32 = 2;
/// The text around the checksum, at the end of the file.
const BEFORE_CHECKSUM: &str = ",\n  \"sha256\": \"";
const AFTER_CHECKSUM: &str = "\"\n}\n";
/// Hexadecimal digits of a SHA-256.
const CHECKSUM_DIGITS: usize = 64;
/// End of the text without the checksum.
const END: &str = "\n}";

/// Manifest of a checkpoint: its files, tensors and run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `campanile-checkpoint`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Number of updates done.
    pub step: u64,
    /// Cluster that wrote the checkpoint.
    pub topology: TopologyEntry,
    /// Config of the run.
    pub run: serde_json::Value,
    /// Small state that is not a tensor.
    pub extra: serde_json::Value,
    /// Digest of all parameters, where it was computed.
    pub parameters_sha256: Option<String>,
    /// Identity of the checkpoint, which later increments name: a digest of what was first written. It stays when the small state changes and
    /// when increments are brought together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The checkpoint that this increment builds on; `None` for one that holds everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseEntry>,
    /// Files of the checkpoint.
    pub files: Vec<FileEntry>,
    /// Pieces of tensors in the files.
    pub tensors: Vec<TensorEntry>,
}

impl Manifest {
    /// The manifest of what all ranks wrote. `run`, `extra` and `parameters_sha256` are left for the caller to fill.
    pub fn new(step: u64, topology: TopologyEntry, written: Vec<super::RankFile>) -> Self {
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
            identity: None,
            base: None,
            files,
            tensors,
        }
    }

    /// Names files that hold everything in the place of those of an increment. Its identity stays.
    pub(super) fn hold_everything(&mut self, written: Vec<super::RankFile>) {
        let whole = Self::new(self.step, self.topology, written);
        (self.base, self.files, self.tensors) = (None, whole.files, whole.tensors);
    }

    /// Lets increments build on the checkpoint, which builds on `base` itself if that is given.
    #[must_use]
    pub fn chained(mut self, base: Option<BaseEntry>) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.step.to_le_bytes());
        self.files.iter().for_each(|file| hash.update(&file.sha256));
        (self.version, self.identity, self.base) = (CHAINED, Some(hex(hash.finalize())), base);
        self
    }

    /// The text of the manifest, checksum included. `path` is where it will stand, for errors.
    pub(super) fn to_text(&self, path: &Path) -> Result<String, CheckpointError> {
        self.check(path)?;
        let body = serde_json::to_string_pretty(self)
            .map_err(|error| CheckpointError::malformed(path, format!("cannot be written: {error}")))?;
        let text = seal(&body);
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
        let text = std::str::from_utf8(text).map_err(|error| malformed(format!("not text: {error}")))?;
        let body = unseal(path, text)?;

        /// Fields that every version of the manifest has.
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
        if ![VERSION, CHAINED].map(u64::from).contains(&head.version) {
            let (got, supported) = (head.version, CHAINED);
            return Err(CheckpointError::Version { path: path.to_owned(), got, supported });
        }
        let manifest: Self = serde_json::from_str(&body).map_err(json)?;
        manifest.check(path)?;
        Ok(manifest)
    }

    /// The pieces of each tensor, by name.
    fn by_tensor(&self) -> BTreeMap<&str, Vec<&TensorEntry>> {
        let mut pieces: BTreeMap<&str, Vec<&TensorEntry>> = BTreeMap::new();
        for piece in &self.tensors {
            pieces.entry(&piece.name).or_default().push(piece);
        }
        pieces
    }

    /// The manifest makes sense by itself: steps were done by some ranks, each of which wrote a file, and there are
    /// tensors.
    fn check_sense(&self, path: &Path) -> Result<(), CheckpointError> {
        let TopologyEntry { hosts, ranks_per_host } = self.topology;
        let (files, ranks) = (self.files.len(), hosts.checked_mul(ranks_per_host));
        let problem = if self.step == 0 {
            "step is 0; a checkpoint is of a run that has done at least one".into()
        } else if hosts == 0 || ranks_per_host == 0 {
            format!("written by {hosts} hosts × {ranks_per_host} ranks, which are none")
        } else if ranks != Some(files) {
            format!("{files} files of {hosts} hosts × {ranks_per_host} ranks, each of which writes one")
        } else if self.tensors.is_empty() {
            "no tensors; every model has some".into()
        } else if (self.version == CHAINED) != self.identity.is_some() {
            let has = if self.version == CHAINED { "needs an" } else { "has no" };
            format!("version {} of the format {has} identity", self.version)
        } else if let Some(base) = self.base.as_ref().filter(|base| base.step >= self.step) {
            format!(
                "an increment of step {} that builds on step {}, which is not before it",
                self.step, base.step
            )
        } else if let Some(piece) =
            self.tensors.iter().find(|piece| piece.listed.is_some() && self.base.is_none())
        {
            format!("tensor {} has some of its rows, but there is no base that has the others", piece.name)
        } else {
            return Ok(());
        };
        Err(CheckpointError::malformed(path, problem))
    }

    /// Files have names of their own in this folder, pieces lie in these files, and tile their tensors.
    fn check(&self, path: &Path) -> Result<(), CheckpointError> {
        self.check_sense(path)?;
        let mut files = HashSet::new();
        for file in &self.files {
            if rank_of(&file.name).is_none_or(|rank| rank >= self.files.len()) {
                let last = file_name(self.files.len() - 1);
                let problem =
                    format!("file {:?} is not of the form {}, up to {last}", file.name, file_name(0));
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
            } else if piece.listed.as_ref() == Some(&piece.key) {
                "holds row numbers under this key"
            } else if !keys.insert((&piece.file, &piece.key)) {
                "holds this key for another piece too"
            } else {
                continue;
            };
            let TensorEntry { name, file, key, .. } = piece;
            return Err(CheckpointError::malformed(
                path,
                format!("tensor {name} (key {key}): {file} {problem}"),
            ));
        }
        self.by_tensor().values().try_for_each(|pieces| tiling::check(path, pieces))
    }
}

/// Adds the checksum of an indented JSON object as its last field.
fn seal(body: &str) -> String {
    let fields = body.strip_suffix(END).unwrap_or(body);
    format!("{fields}{BEFORE_CHECKSUM}{}{AFTER_CHECKSUM}", hex(Sha256::digest(body)))
}

/// The text without its checksum, which must be right.
fn unseal(path: &Path, text: &str) -> Result<String, CheckpointError> {
    let (fields, expected) = text
        .strip_suffix(AFTER_CHECKSUM)
        .and_then(|text| text.split_at_checked(text.len().checked_sub(CHECKSUM_DIGITS)?))
        .and_then(|(text, sha256)| Some((text.strip_suffix(BEFORE_CHECKSUM)?, sha256)))
        .ok_or_else(|| {
            let problem = "does not end with its sha256; the file is damaged: use an earlier checkpoint";
            CheckpointError::malformed(path, problem)
        })?;
    let body = format!("{fields}{END}");
    let got = hex(Sha256::digest(&body));
    if got != expected {
        return Err(CheckpointError::Checksum { path: path.to_owned(), got, expected: expected.into() });
    }
    Ok(body)
}

/// Name of the file that `rank` writes.
pub(crate) fn file_name(rank: usize) -> String {
    format!("rank-{rank:04}.safetensors")
}

/// Name of the file that holds what increments of `rank` and their base come to.
pub(super) fn whole_name(rank: usize) -> String {
    format!("whole-{rank:04}.safetensors")
}

/// The rank whose file has this name: of one of these very forms, so that no name leads out of the folder.
pub(super) fn rank_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix("rank-").or_else(|| name.strip_prefix("whole-"))?;
    let rank = number.strip_suffix(".safetensors")?.parse().ok()?;
    [file_name(rank), whole_name(rank)].iter().any(|form| form == name).then_some(rank)
}

/// Hexadecimal digits of a digest.
pub(super) fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
