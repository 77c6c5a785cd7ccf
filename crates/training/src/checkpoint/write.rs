//! Writes what one rank holds.

use super::CheckpointError;
use super::entries::{FileEntry, TensorEntry};
use super::manifest::file_name;
use super::tensor_file::TensorFile;
use super::tiling::Extent;
use super::values::Values;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// A rectangle of a tensor, and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The tensor's name.
    pub name: String,
    /// Shape of the whole tensor.
    pub shape: Vec<usize>,
    /// Rows of the piece: of the first dimension.
    pub rows: Range<usize>,
    /// Columns of the piece: of the product of the other dimensions; `0..1` for a vector.
    pub columns: Range<usize>,
    /// The numbers, row by row.
    pub data: Values,
}

/// Entries of the file that one rank wrote. Ranks send them to the rank that commits the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankFile {
    /// File that the rank wrote.
    pub file: FileEntry,
    /// Pieces of tensors in the file.
    pub tensors: Vec<TensorEntry>,
}

impl Piece {
    /// Piece that is a whole tensor.
    pub fn whole(name: impl Into<String>, shape: Vec<usize>, data: impl Into<Values>) -> Self {
        // A shape that cannot be leaves an empty piece, which is refused when it is written.
        let Extent { rows, columns } = Extent::of(&shape).unwrap_or(Extent { rows: 0, columns: 0 });
        Self { name: name.into(), rows: 0..rows, columns: 0..columns, shape, data: data.into() }
    }

    /// Name and shape of the piece in its file: the tensor's own if the piece is the whole tensor.
    fn key_and_shape(&self, extent: &Extent) -> (String, Vec<usize>) {
        let Self { name, shape, rows, columns, .. } = self;
        if (rows.len(), columns.len()) == (extent.rows, extent.columns) {
            return (name.clone(), shape.clone());
        }
        let key = format!("{name}[{}:{},{}:{}]", rows.start, rows.end, columns.start, columns.end);
        (key, vec![rows.len(), columns.len()])
    }
}

/// Writes the file of `rank` into the folder that [`Folder::begin`](super::Folder::begin) gave, hashes it, and brings
/// it to the disk.
pub fn write_pieces(writing: &Path, rank: usize, pieces: &[Piece]) -> Result<RankFile, CheckpointError> {
    let path = writing.join(file_name(rank));
    let refuse = |piece: &Piece, problem: String| CheckpointError::Piece {
        path: path.clone(),
        tensor: piece.name.clone(),
        rows: piece.rows.clone(),
        columns: piece.columns.clone(),
        problem,
    };
    // In the order of their keys, as other writers of safetensors have them.
    let mut keyed = BTreeMap::new();
    for piece in pieces {
        let extent = Extent::of(&piece.shape)
            .filter(|extent| extent.contains(&piece.rows, &piece.columns))
            .ok_or_else(|| {
            refuse(piece, format!("empty, or outside of the tensor's shape {:?}", piece.shape))
        })?;
        let elements = piece.rows.len() * piece.columns.len();
        if piece.data.len() != elements {
            return Err(refuse(piece, format!("{} numbers, expected {elements}", piece.data.len())));
        }
        let (key, shape) = piece.key_and_shape(&extent);
        if keyed.insert(key, (shape, piece)).is_some() {
            return Err(refuse(piece, "the same piece twice".into()));
        }
    }
    let header = keyed.iter().map(|(key, (shape, piece))| (key.as_str(), shape.clone(), piece.data.format()));
    let header: Vec<_> = header.collect();
    let file = File::create_new(&path).map_err(CheckpointError::io("create", &path))?;
    let mut out = TensorFile::begin(&path, file, &header, None)?;
    for (_, piece) in keyed.values() {
        out.write(piece.data.bytes())?;
    }
    let (file, written) = out.finish()?;
    written.sync_all().map_err(CheckpointError::io("sync", &path))?;
    let tensors = keyed.into_iter().map(|(key, (_, piece))| TensorEntry {
        name: piece.name.clone(),
        file: file.name.clone(),
        key,
        shape: piece.shape.clone(),
        rows: piece.rows.clone(),
        columns: piece.columns.clone(),
    });
    Ok(RankFile { tensors: tensors.collect(), file })
}
