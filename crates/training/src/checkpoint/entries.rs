//! Entries of a manifest: files, pieces of tensors, and the cluster that wrote them.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The cluster that wrote a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyEntry {
    /// Number of hosts.
    pub hosts: usize,
    /// Ranks on each host.
    pub ranks_per_host: usize,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Name of the file, without a folder.
    pub name: String,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// One rectangle of a tensor. A tensor's rows are its first dimension, its columns the product of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorEntry {
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
    /// Name, in the file, of the numbers of the rows that the piece has, counted from its first row; `None` where it has all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<String>,
}

/// The checkpoint that an increment builds on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseEntry {
    /// Number of updates done.
    pub step: u64,
    /// Identity of the checkpoint.
    pub identity: String,
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
