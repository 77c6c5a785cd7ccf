//! Reads any rectangle of any tensor, whoever wrote it.

use super::CheckpointError;
use super::entries::{FileEntry, TensorEntry};
use super::manifest::{self, Manifest, hex};
use super::tensor_file;
use super::tiling::Extent;
use super::values;
use safetensors::tensor::Metadata;
use sha2::{Digest, Sha256};
use spec::table_format::TableFormat;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Floats that are read at once where columns must be picked.
const BLOCK: usize = 1 << 18;
/// Rows of more floats than this are read one by one, just the columns that are wanted.
const WIDE: usize = 1 << 14;

/// A complete checkpoint. Files are opened as they are read, so that thousands of ranks need no thousands of handles.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    tensors: BTreeMap<String, Tensor>,
}

#[derive(Debug)]
struct Tensor {
    shape: Vec<usize>,
    extent: Extent,
    pieces: Vec<StoredPiece>,
}

/// A rectangle, and where its numbers are in which format.
#[derive(Debug)]
struct StoredPiece {
    file: PathBuf,
    at: u64,
    format: TableFormat,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Checkpoint {
    /// Checks the manifest, the sizes and the headers of all files. Their data is not read: see
    /// [`Checkpoint::verify`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, CheckpointError> {
        let path = path.into();
        let manifest = read_manifest(&path.join(manifest::NAME))?;
        let mut headers = HashMap::with_capacity(manifest.files.len());
        for record in &manifest.files {
            let at = path.join(&record.name);
            let file = open_file(&at, record)?;
            headers.insert(record.name.as_str(), tensor_file::read_header(&at, &file, record.bytes)?);
        }
        let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
        for record in &manifest.tensors {
            let file = path.join(&record.file);
            let header = headers.get(record.file.as_str());
            let (Some((header, start)), Some(extent)) = (header, Extent::of(&record.shape)) else {
                return Err(CheckpointError::malformed(
                    &file,
                    format!("no place for tensor {}", record.name),
                ));
            };
            let (at, format) = find(&file, header, *start, record)?;
            let (rows, columns) = (record.rows.clone(), record.columns.clone());
            let piece = StoredPiece { file, at, format, rows, columns };
            let tensor = tensors.entry(record.name.clone());
            let whole = || Tensor { shape: record.shape.clone(), extent, pieces: Vec::new() };
            tensor.or_insert_with(whole).pieces.push(piece);
        }
        Ok(Self { path, manifest, tensors })
    }

    /// Folder of the checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Manifest of the checkpoint.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Names and shapes of the tensors, by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.shape.as_slice()))
    }

    /// Format of a tensor's numbers: that of all its pieces, or else f32.
    pub fn format(&self, name: &str) -> TableFormat {
        let mut formats = self.tensors.get(name).into_iter().flat_map(|tensor| &tensor.pieces);
        let first = formats.next().map_or(TableFormat::F32, |piece| piece.format);
        if formats.all(|piece| piece.format == first) { first } else { TableFormat::F32 }
    }

    /// Whether these columns of a tensor are rows of `format` of their own, whatever the rows: then [`Checkpoint::read_stored`] gives them
    /// bit for bit.
    pub(crate) fn is_stored_as(&self, name: &str, columns: &Range<usize>, format: TableFormat) -> bool {
        let pieces = self.tensors.get(name).map_or(&[][..], |tensor| &tensor.pieces);
        let mut here = pieces.iter().filter(|piece| !intersect(&piece.columns, columns).is_empty());
        here.all(|piece| piece.columns == *columns && piece.format == format)
    }

    /// Reads rows as they are stored, of columns for which [`Checkpoint::is_stored_as`] holds.
    pub(crate) fn read_stored(
        &self,
        name: &str,
        rows: Range<usize>,
        columns: &Range<usize>,
        bytes: &mut [u8],
    ) -> Result<(), CheckpointError> {
        let unknown = || CheckpointError::Unknown { path: self.path.clone(), tensor: name.into() };
        let tensor = self.tensors.get(name).ok_or_else(unknown)?;
        if !tensor.extent.contains(&rows, columns) {
            return Err(CheckpointError::Request {
                path: self.path.clone(),
                tensor: name.into(),
                shape: tensor.shape.clone(),
                rows,
                columns: columns.clone(),
                room: bytes.len(),
            });
        }
        for piece in tensor.pieces.iter().filter(|piece| piece.columns == *columns) {
            let (here, width) = (intersect(&piece.rows, &rows), piece.format.row_bytes(columns.len()));
            if here.is_empty() {
                continue;
            }
            let file = File::open(&piece.file).map_err(CheckpointError::io("open", &piece.file))?;
            let at = piece.at + ((here.start - piece.rows.start) * width) as u64;
            let bytes = &mut bytes[(here.start - rows.start) * width..][..here.len() * width];
            file.read_exact_at(bytes, at).map_err(CheckpointError::io("read", &piece.file))?;
        }
        Ok(())
    }

    /// Checks the checksum of every file. `progress` is called with the number of bytes done and the number in all.
    pub fn verify(&self, progress: &dyn Fn(u64, u64)) -> Result<(), CheckpointError> {
        let total = self.manifest.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        let mut done = 0u64;
        let mut block = vec![0; 1 << 20];
        for record in &self.manifest.files {
            let path = self.path.join(&record.name);
            let mut file = open_file(&path, record)?;
            let mut hash = Sha256::new();
            loop {
                let read = file.read(&mut block).map_err(CheckpointError::io("read", &path))?;
                if read == 0 {
                    break;
                }
                hash.update(&block[..read]);
                done = done.saturating_add(read as u64);
                progress(done, total);
            }
            let got = hex(hash.finalize());
            if got != record.sha256 {
                return Err(CheckpointError::Checksum { path, got, expected: record.sha256.clone() });
            }
        }
        Ok(())
    }

    /// Reads a rectangle of a tensor into `out`, row by row, from whichever pieces hold it.
    pub fn read_rows(
        &self,
        name: &str,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let unknown = || CheckpointError::Unknown { path: self.path.clone(), tensor: name.into() };
        let tensor = self.tensors.get(name).ok_or_else(unknown)?;
        if !tensor.extent.contains(&rows, &columns) || out.len() != rows.len() * columns.len() {
            return Err(CheckpointError::Request {
                path: self.path.clone(),
                tensor: name.into(),
                shape: tensor.shape.clone(),
                rows,
                columns,
                room: out.len(),
            });
        }
        tensor.pieces.iter().try_for_each(|piece| piece.read(&rows, &columns, out))
    }
}

impl StoredPiece {
    /// Reads what this piece has of a rectangle into `out`, which is the whole rectangle.
    fn read(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let here = intersect(&self.rows, rows);
        let wanted = intersect(&self.columns, columns);
        if here.is_empty() || wanted.is_empty() {
            return Ok(());
        }
        let file = File::open(&self.file).map_err(CheckpointError::io("open", &self.file))?;
        let width = self.columns.len();
        // Some columns of a row, or whole rows.
        let read = |row: usize, columns: &Range<usize>, floats: &mut [f32]| {
            let before = (columns.start - self.columns.start) * values::element_bytes(self.format);
            let at = (row - self.rows.start) * self.format.row_bytes(width) + before;
            let at = self.at + at as u64;
            values::read_floats(self.format, columns.len(), floats, |bytes| file.read_exact_at(bytes, at))
                .map_err(CheckpointError::io("read", &self.file))
        };
        let place = |row: usize| (row - rows.start) * columns.len() + (wanted.start - columns.start);

        if wanted == self.columns && wanted == *columns {
            return read(here.start, &wanted, &mut out[place(here.start)..][..here.len() * width]);
        }
        // A code needs the scale behind its row.
        if width > WIDE && self.format != TableFormat::Int8 {
            for row in here {
                read(row, &wanted, &mut out[place(row)..][..wanted.len()])?;
            }
            return Ok(());
        }
        let block_rows = (BLOCK / width).clamp(1, here.len());
        let mut block = vec![0.0; block_rows * width];
        for first in here.clone().step_by(block_rows) {
            let count = block_rows.min(here.end - first);
            let block = &mut block[..count * width];
            read(first, &self.columns, block)?;
            for (row, floats) in (first..).zip(block.chunks_exact(width)) {
                let from = wanted.start - self.columns.start;
                out[place(row)..][..wanted.len()].copy_from_slice(&floats[from..][..wanted.len()]);
            }
        }
        Ok(())
    }
}

fn intersect(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

pub(super) fn read_manifest(path: &Path) -> Result<Manifest, CheckpointError> {
    let file = open_regular(path)?;
    let mut text = Vec::new();
    let limit = manifest::MAX_BYTES as u64;
    file.take(limit + 1).read_to_end(&mut text).map_err(CheckpointError::io("read", path))?;
    if text.len() as u64 > limit {
        return Err(CheckpointError::malformed(
            path,
            format!("larger than {limit} bytes, the most for a manifest"),
        ));
    }
    Manifest::from_text(path, &text)
}

/// Opens a file that must have the size that the manifest says.
fn open_file(path: &Path, record: &FileEntry) -> Result<File, CheckpointError> {
    let file = open_regular(path)?;
    let got = file.metadata().map_err(CheckpointError::io("look at", path))?.len();
    if got != record.bytes {
        return Err(CheckpointError::Size { path: path.to_owned(), got, expected: record.bytes });
    }
    Ok(file)
}

/// Opens a file, but no pipe or device: those could be waited on for ever.
fn open_regular(path: &Path) -> Result<File, CheckpointError> {
    let kind = std::fs::metadata(path).map_err(CheckpointError::io("open", path))?;
    if !kind.is_file() {
        return Err(CheckpointError::malformed(path, "not a file"));
    }
    File::open(path).map_err(CheckpointError::io("open", path))
}

/// Where the numbers of `record` begin in a file, whose header must agree with it, and their format.
fn find(
    path: &Path,
    header: &Metadata,
    start: u64,
    record: &TensorEntry,
) -> Result<(u64, TableFormat), CheckpointError> {
    let malformed = |problem: String| CheckpointError::malformed(path, problem);
    let TensorEntry { key, rows, columns, .. } = record;
    let info =
        header.info(key).ok_or_else(|| malformed(format!("no tensor {key}, which the manifest names")))?;
    let (expected, (from, to)) = (rows.len() * columns.len(), info.data_offsets);
    let bytes = |format: &TableFormat| rows.len().checked_mul(format.row_bytes(columns.len()));
    let format = values::format(info.dtype).filter(|format| Some(to - from) == bytes(format));
    let Some(format) = format else {
        let (dtype, shape) = (info.dtype, &info.shape);
        let problem = format!(
            "tensor {key} is {dtype} {shape:?}, expected {expected} of F32, F16 or BF16, or rows of U8 with scale and minimum"
        );
        return Err(malformed(problem));
    };
    Ok((start + from as u64, format))
}
