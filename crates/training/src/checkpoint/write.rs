//! Writes what one rank holds.

use super::CheckpointError;
use super::entries::{FileEntry, TensorEntry};
use super::manifest::file_name;
use super::tensor_file::TensorFile;
use super::tiling::Extent;
use super::values::{self, Values};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};
use spec::table_format::TableFormat;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// Rows of the rectangle that are written; `None` for all of them.
    pub listed: Option<Listed>,
    /// Reads the bytes of some of the rows that are written, by their places among these.
    pub read: RowReader<'a>,
}

/// Some rows of a rectangle.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// Name of the row numbers in the file. Rectangles of the same rows share them.
    pub key: String,
    /// Numbers of the rows, counted from the first of the rectangle; they ascend.
    pub rows: Arc<Vec<u32>>,
}

/// What reads the bytes of some rows of a rectangle.
pub(crate) type RowReader<'a> = Box<dyn Fn(Range<usize>, &mut [u8]) -> Result<(), CheckpointError> + 'a>;

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

impl Stream<'_> {
    fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.columns.len())
    }

    /// Number of rows that are written.
    fn count(&self) -> usize {
        self.listed.as_ref().map_or(self.rows.len(), |listed| listed.rows.len())
    }

    /// Bytes of all numbers.
    pub fn bytes(&self) -> u64 {
        self.row_bytes() as u64 * self.count() as u64
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
            listed: None,
            read: Box::new(read),
        }
    }
}

/// Name and shape of a rectangle in its file: the tensor's own if it is the whole tensor.
fn key_and_shape(stream: &Stream, extent: &Extent) -> (String, Vec<usize>) {
    let Stream { name, shape, rows, columns, listed, .. } = stream;
    if listed.is_none() && (rows.len(), columns.len()) == (extent.rows, extent.columns) {
        return (name.clone(), shape.clone());
    }
    let key = format!("{name}[{}:{},{}:{}]", rows.start, rows.end, columns.start, columns.end);
    (key, vec![stream.count(), columns.len()])
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
    write_streams(path, &pieces.iter().map(Piece::stream).collect::<Vec<_>>(), 0)?.finish()
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

/// A file of which the last bytes are still in memory.
pub(crate) struct PendingFile {
    path: PathBuf,
    out: TensorFile<File>,
    left: Vec<Vec<u8>>,
    tensors: Vec<TensorEntry>,
}

impl PendingFile {
    /// Writes what is in memory, and brings the file to the disk.
    pub fn finish(self) -> Result<RankFile, CheckpointError> {
        let Self { path, mut out, left, tensors } = self;
        // Each block is given back as soon as it is written.
        left.into_iter().try_for_each(|block| out.write(&block))?;
        let (file, written) = out.finish()?;
        written.sync_all().map_err(CheckpointError::io("sync", &path))?;
        Ok(RankFile { file, tensors })
    }
}

/// What stands under one key of a file.
enum Contents<'a, 'b> {
    Numbers(&'a Stream<'b>),
    Rows(&'a Listed),
}

impl Contents<'_, '_> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Numbers(stream) => stream.bytes(),
            Self::Rows(listed) => size_of_val(listed.rows.as_slice()) as u64,
        }
    }

    /// Gives all bytes to `take`, about a megabyte at a time.
    fn read(
        &self,
        mut take: impl FnMut(Vec<u8>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        match self {
            Self::Numbers(stream) => {
                let (count, row_bytes) = (stream.count(), stream.row_bytes());
                let at_once = (BLOCK / row_bytes.max(1)).max(1);
                for first in (0..count).step_by(at_once) {
                    let rows = first..(first + at_once).min(count);
                    let mut bytes = vec![0; rows.len() * row_bytes];
                    (stream.read)(rows, &mut bytes)?;
                    take(bytes)?;
                }
                Ok(())
            }
            Self::Rows(listed) => bytemuck::cast_slice::<u32, u8>(&listed.rows)
                .chunks(BLOCK)
                .try_for_each(|bytes| take(bytes.to_vec())),
        }
    }
}

/// Reads all numbers and writes them to the new file `path`, all but the last `memory` bytes at most: these are copied, and written by
/// [`PendingFile::finish`].
pub(crate) fn write_streams(
    path: PathBuf,
    streams: &[Stream],
    memory: u64,
) -> Result<PendingFile, CheckpointError> {
    // In the order of their keys, as other writers of safetensors have them.
    let (mut keyed, mut tensors) = (BTreeMap::new(), Vec::with_capacity(streams.len()));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for stream in streams {
        let extent = Extent::of(&stream.shape)
            .filter(|extent| extent.contains(&stream.rows, &stream.columns))
            .ok_or_else(|| {
                let problem = format!("empty, or outside of the tensor's shape {:?}", stream.shape);
                refused(&path, stream, problem)
            })?;
        let (key, shape) = key_and_shape(stream, &extent);
        tensors.push(TensorEntry {
            name: stream.name.clone(),
            file: name.clone(),
            key: key.clone(),
            shape: stream.shape.clone(),
            rows: stream.rows.clone(),
            columns: stream.columns.clone(),
            listed: stream.listed.as_ref().map(|listed| listed.key.clone()),
        });
        let (shape, dtype) = (values::file_shape(stream.format, &shape), values::dtype(stream.format));
        if keyed.insert(key, (shape, dtype, Contents::Numbers(stream))).is_some() {
            return Err(refused(&path, stream, "the same piece twice".into()));
        }
        if let Some(listed) = &stream.listed {
            let rows = (vec![listed.rows.len()], Dtype::U32, Contents::Rows(listed));
            keyed.insert(listed.key.clone(), rows);
        }
    }
    tensors.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let header: Vec<_> =
        keyed.iter().map(|(key, (shape, dtype, _))| (key.as_str(), shape.clone(), *dtype)).collect();
    let file = File::create_new(&path).map_err(CheckpointError::io("create", &path))?;
    let mut out = TensorFile::begin(&path, file, &header, None)?;
    let mut remaining: u64 = keyed.values().map(|(.., contents)| contents.bytes()).sum();
    let mut left = Vec::new();
    for (.., contents) in keyed.values() {
        contents.read(|bytes| {
            let (fits, len) = (remaining <= memory, bytes.len() as u64);
            remaining -= len;
            if fits {
                left.push(bytes);
                return Ok(());
            }
            out.write(&bytes)
        })?;
    }
    Ok(PendingFile { path, out, left, tensors })
}
