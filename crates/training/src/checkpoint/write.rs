//! Writes what one rank holds.

use super::CheckpointError;
use super::entries::{FileEntry, TensorEntry};
use super::manifest::file_name;
use super::tensor_file::TensorFile;
use super::tiling::Extent;
use super::values::{self, Values};
use serde::{Deserialize, Serialize};
use spec::table_format::TableFormat;
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

/// A rectangle of a tensor whose numbers are read when they are written, some rows at a time.
pub(crate) struct Stream<'a> {
    /// The tensor's name.
    pub name: String,
    /// Shape of the whole tensor.
    pub shape: Vec<usize>,
    /// Rows of the rectangle.
    pub rows: Range<usize>,
    /// Columns of the rectangle; `0..1` for a vector.
    pub columns: Range<usize>,
    /// Format of the numbers.
    pub format: TableFormat,
    /// Reads the bytes of some rows, counted from the first of the rectangle.
    pub read: RowReader<'a>,
}

/// What reads the bytes of some rows of a rectangle.
pub(crate) type RowReader<'a> = Box<dyn Fn(Range<usize>, &mut [u8]) -> Result<(), CheckpointError> + 'a>;

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

impl Stream<'_> {
    fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.columns.len())
    }

    /// Bytes of all numbers.
    pub fn bytes(&self) -> u64 {
        self.row_bytes() as u64 * self.rows.len() as u64
    }

    /// Reads all numbers.
    pub fn copied(&self) -> Result<Piece, CheckpointError> {
        let mut data = Values::zeroed(self.format, [self.rows.len(), self.columns.len()]);
        let (width, bytes) = (self.row_bytes(), data.bytes_mut());
        self.for_each_block(|rows| {
            let at = rows.start * width..rows.end * width;
            (self.read)(rows, &mut bytes[at])
        })?;
        Ok(Piece {
            name: self.name.clone(),
            shape: self.shape.clone(),
            rows: self.rows.clone(),
            columns: self.columns.clone(),
            data,
        })
    }

    fn for_each_block(
        &self,
        each: impl FnMut(Range<usize>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let (rows, at_once) = (self.rows.len(), BLOCK / self.row_bytes().max(1));
        let at_once = at_once.max(1);
        (0..rows).step_by(at_once).map(|first| first..(first + at_once).min(rows)).try_for_each(each)
    }
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

    fn stream(&self) -> Stream<'_> {
        let (width, bytes) = (self.data.format().row_bytes(self.columns.len()), self.data.bytes());
        let read = move |rows: Range<usize>, to: &mut [u8]| {
            to.copy_from_slice(&bytes[rows.start * width..rows.end * width]);
            Ok(())
        };
        Stream {
            name: self.name.clone(),
            shape: self.shape.clone(),
            rows: self.rows.clone(),
            columns: self.columns.clone(),
            format: self.data.format(),
            read: Box::new(read),
        }
    }
}

/// Name and shape of a rectangle in its file: the tensor's own if it is the whole tensor.
fn key_and_shape(stream: &Stream, extent: &Extent) -> (String, Vec<usize>) {
    let Stream { name, shape, rows, columns, .. } = stream;
    if (rows.len(), columns.len()) == (extent.rows, extent.columns) {
        return (name.clone(), shape.clone());
    }
    let key = format!("{name}[{}:{},{}:{}]", rows.start, rows.end, columns.start, columns.end);
    (key, vec![rows.len(), columns.len()])
}

/// Writes the file of `rank` into the folder that [`Folder::begin`](super::Folder::begin) gave, hashes it, and brings
/// it to the disk.
pub fn write_pieces(writing: &Path, rank: usize, pieces: &[Piece]) -> Result<RankFile, CheckpointError> {
    let path = writing.join(file_name(rank));
    for piece in pieces {
        let (got, stream) = (piece.data.bytes().len(), piece.stream());
        if got as u64 != stream.bytes() {
            let problem = format!("{got} bytes of {}, expected {}", stream.format, stream.bytes());
            return Err(refused(&path, &stream, problem));
        }
    }
    write_streams(writing, rank, &pieces.iter().map(Piece::stream).collect::<Vec<_>>())
}

fn refused(path: &Path, stream: &Stream, problem: String) -> CheckpointError {
    CheckpointError::Piece {
        path: path.to_owned(),
        tensor: stream.name.clone(),
        rows: stream.rows.clone(),
        columns: stream.columns.clone(),
        problem,
    }
}

/// Writes the file of `rank` as [`write_pieces`] does, from numbers that are read as they are written.
pub(crate) fn write_streams(
    writing: &Path,
    rank: usize,
    streams: &[Stream],
) -> Result<RankFile, CheckpointError> {
    let path = writing.join(file_name(rank));
    // In the order of their keys, as other writers of safetensors have them.
    let mut keyed = BTreeMap::new();
    for stream in streams {
        let extent = Extent::of(&stream.shape)
            .filter(|extent| extent.contains(&stream.rows, &stream.columns))
            .ok_or_else(|| {
                let problem = format!("empty, or outside of the tensor's shape {:?}", stream.shape);
                refused(&path, stream, problem)
            })?;
        let (key, shape) = key_and_shape(stream, &extent);
        if keyed.insert(key, (shape, stream)).is_some() {
            return Err(refused(&path, stream, "the same piece twice".into()));
        }
    }
    let header = keyed.iter().map(|(key, (shape, stream))| {
        (key.as_str(), values::file_shape(stream.format, shape), stream.format)
    });
    let header: Vec<_> = header.collect();
    let file = File::create_new(&path).map_err(CheckpointError::io("create", &path))?;
    let mut out = TensorFile::begin(&path, file, &header, None)?;
    let mut bytes = Vec::new();
    for (_, stream) in keyed.values() {
        stream.for_each_block(|rows| {
            bytes.resize(rows.len() * stream.row_bytes(), 0);
            (stream.read)(rows, &mut bytes)?;
            out.write(&bytes)
        })?;
    }
    let (file, written) = out.finish()?;
    written.sync_all().map_err(CheckpointError::io("sync", &path))?;
    let tensors = keyed.into_iter().map(|(key, (_, stream))| TensorEntry {
        name: stream.name.clone(),
        file: file.name.clone(),
        key,
        shape: stream.shape.clone(),
        rows: stream.rows.clone(),
        columns: stream.columns.clone(),
    });
    Ok(RankFile { tensors: tensors.collect(), file })
}
