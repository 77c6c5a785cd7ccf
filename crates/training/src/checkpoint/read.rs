//! Reads any rectangle of any tensor, whoever wrote it.

use super::CheckpointError;
use super::entries::{BaseEntry, FileEntry, TensorEntry};
use super::listing::Listing;
use super::manifest::{self, Manifest, hex};
use super::names::of_step;
use super::tensor_file;
use super::tiling::Extent;
use super::values;
use safetensors::tensor::Metadata;
use sha2::{Digest, Sha256};
use spec::table_format::TableFormat;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Floats that are read at once where columns must be picked.
const BLOCK: usize = 1 << 18;
/// Rows of more floats than this are read one by one, just the columns that are wanted.
const WIDE: usize = 1 << 14;

/// A complete checkpoint: one that holds everything, or an increment and all that it builds on. Files are opened as they are read, so that
/// thousands of ranks need no thousands of handles.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    /// What the checkpoint builds on, from the one that holds everything on.
    below: Vec<(PathBuf, Manifest)>,
    tensors: BTreeMap<String, Tensor>,
}

#[derive(Debug)]
struct Tensor {
    shape: Vec<usize>,
    extent: Extent,
    /// Pieces that cover the tensor, then those of increments: later ones hold newer rows.
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
    /// Rows that the piece has; `None` for all of them.
    listed: Option<Arc<Listing>>,
}

/// The files of one folder.
struct Layer {
    path: PathBuf,
    manifest: Manifest,
    tensors: BTreeMap<String, Tensor>,
}

impl Layer {
    /// Checks the manifest, the sizes and the headers of all files.
    fn open(path: PathBuf) -> Result<Self, CheckpointError> {
        let manifest = read_manifest(&path.join(manifest::NAME))?;
        let mut headers = HashMap::with_capacity(manifest.files.len());
        for record in &manifest.files {
            let at = path.join(&record.name);
            let file = open_file(&at, record)?;
            headers.insert(record.name.as_str(), tensor_file::read_header(&at, &file, record.bytes)?);
        }
        let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
        let mut listings: HashMap<(&str, &str), Arc<Listing>> = HashMap::new();
        for record in &manifest.tensors {
            let file = path.join(&record.file);
            let header = headers.get(record.file.as_str());
            let (Some((header, start)), Some(extent)) = (header, Extent::of(&record.shape)) else {
                return Err(CheckpointError::malformed(
                    &file,
                    format!("no place for tensor {}", record.name),
                ));
            };
            let listed = match &record.listed {
                None => None,
                Some(key) => Some(match listings.entry((&record.file, key)) {
                    Entry::Occupied(entry) => entry.get().clone(),
                    Entry::Vacant(entry) => {
                        entry.insert(Arc::new(Listing::find(&file, header, *start, key)?)).clone()
                    }
                }),
            };
            let count = listed.as_ref().map_or(record.rows.len(), |listing| listing.count());
            if count > record.rows.len() {
                let problem =
                    format!("{count} row numbers for the {} rows of {}", record.rows.len(), record.name);
                return Err(CheckpointError::malformed(&file, problem));
            }
            let (at, format) = find(&file, header, *start, (record, count))?;
            let (rows, columns) = (record.rows.clone(), record.columns.clone());
            let piece = StoredPiece { file, at, format, rows, columns, listed };
            let tensor = tensors.entry(record.name.clone());
            let whole = || Tensor { shape: record.shape.clone(), extent, pieces: Vec::new() };
            tensor.or_insert_with(whole).pieces.push(piece);
        }
        Ok(Self { path, manifest, tensors })
    }

    /// The layer, if it is the one that an increment builds on.
    fn into_base(self, base: &BaseEntry) -> Result<Self, CheckpointError> {
        if self.manifest.step == base.step && self.manifest.identity.as_ref() == Some(&base.identity) {
            return Ok(self);
        }
        let problem = "another checkpoint than the one that the increment builds on";
        Err(CheckpointError::malformed(&self.path, problem))
    }

    /// The tensors of this increment over those of what it builds on.
    fn over(&mut self, mut below: BTreeMap<String, Tensor>) -> Result<(), CheckpointError> {
        for (name, tensor) in &mut self.tensors {
            if tensor.pieces.iter().all(|piece| piece.listed.is_none()) {
                continue;
            }
            let Some(older) = below.remove(name).filter(|older| older.shape == tensor.shape) else {
                let problem = format!(
                    "some rows of tensor {name}, {:?}, which the checkpoint that it builds on does not have",
                    tensor.shape
                );
                return Err(CheckpointError::malformed(&self.path, problem));
            };
            let newer = std::mem::replace(&mut tensor.pieces, older.pieces);
            tensor.pieces.extend(newer);
        }
        Ok(())
    }
}

impl Checkpoint {
    /// Checks the manifest, the sizes and the headers of all files, and of what they build on. Their data is not read: see
    /// [`Checkpoint::verify`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, CheckpointError> {
        let path = path.into();
        let mut layers = vec![Layer::open(path.clone())?];
        while let Some(base) = layers.last().and_then(|layer| layer.manifest.base.clone()) {
            let below = Layer::open(beside(&path, base.step)).and_then(|layer| layer.into_base(&base));
            let step = base.step;
            layers.push(below.map_err(|source| CheckpointError::Base {
                path: path.clone(),
                step,
                source: Box::new(source),
            })?);
        }
        let (mut tensors, mut below) = (BTreeMap::new(), Vec::with_capacity(layers.len()));
        for mut layer in layers.into_iter().rev() {
            layer.over(tensors)?;
            tensors = layer.tensors;
            below.push((layer.path, layer.manifest));
        }
        let (path, manifest) = below.pop().expect("at least the checkpoint itself");
        Ok(Self { path, manifest, below, tensors })
    }

    /// Steps of what the checkpoint builds on, from the one that holds everything on; empty where it holds everything itself.
    pub fn builds_on(&self) -> impl Iterator<Item = u64> {
        self.below.iter().map(|(_, manifest)| manifest.step)
    }

    /// Bytes of all files, those that the checkpoint builds on included.
    pub fn bytes(&self) -> u64 {
        let manifests = self.below.iter().map(|(_, manifest)| manifest).chain([&self.manifest]);
        manifests.flat_map(|manifest| &manifest.files).map(|file| file.bytes).fold(0, u64::saturating_add)
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
    pub fn is_stored_as(&self, name: &str, columns: &Range<usize>, format: TableFormat) -> bool {
        let pieces = self.tensors.get(name).map_or(&[][..], |tensor| &tensor.pieces);
        let mut here = pieces.iter().filter(|piece| !intersect(&piece.columns, columns).is_empty());
        here.all(|piece| piece.columns == *columns && piece.format == format)
    }

    /// Reads rows as they are stored, of columns for which [`Checkpoint::is_stored_as`] holds.
    pub fn read_stored(
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
        let pieces = tensor.pieces.iter().filter(|piece| piece.columns == *columns);
        pieces.into_iter().try_for_each(|piece| piece.read_stored(&rows, bytes))
    }

    /// Checks the checksum of every file. `progress` is called with the number of bytes done and the number in all.
    pub fn verify(&self, progress: &dyn Fn(u64, u64)) -> Result<(), CheckpointError> {
        self.verify_while(&mut |done, total| {
            progress(done, total);
            Ok(())
        })
    }

    /// As [`Checkpoint::verify`], until `progress` fails.
    pub(super) fn verify_while(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let (total, mut done) = (self.bytes(), 0u64);
        let mut progress = |read: u64| {
            done = done.saturating_add(read);
            progress(done, total)
        };
        for (path, manifest) in &self.below {
            verify_files(path, manifest, &mut progress).map_err(|source| CheckpointError::Base {
                path: self.path.clone(),
                step: manifest.step,
                source: Box::new(source),
            })?;
        }
        verify_files(&self.path, &self.manifest, &mut progress)?;
        let pieces = self.tensors.values().flat_map(|tensor| &tensor.pieces);
        pieces.into_iter().try_for_each(|piece| piece.listed_rows().map(drop))
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
    /// Rows that the piece has, counted from its first; `None` for all of them.
    fn listed_rows(&self) -> Result<Option<&[u32]>, CheckpointError> {
        self.listed.as_ref().map(|listing| listing.rows(&self.file, self.rows.len())).transpose()
    }

    /// Places, among the rows that the piece has, of those of a range.
    fn places(&self, rows: &Range<usize>) -> Result<Range<usize>, CheckpointError> {
        let Range { start, end } = intersect(&self.rows, rows);
        if start >= end {
            return Ok(0..0);
        }
        let (start, end) = (start - self.rows.start, end - self.rows.start);
        Ok(match self.listed_rows()? {
            None => start..end,
            Some(listed) => {
                let before = |row: usize| listed.partition_point(|&listed| (listed as usize) < row);
                before(start)..before(end)
            }
        })
    }

    /// The row at a place.
    fn row_at(&self, place: usize) -> Result<usize, CheckpointError> {
        let listed = self.listed_rows()?;
        Ok(self.rows.start + listed.map_or(place, |listed| listed[place] as usize))
    }

    /// Reads what this piece has of some rows into `out`, which has all of them, as they are stored.
    fn read_stored(&self, rows: &Range<usize>, out: &mut [u8]) -> Result<(), CheckpointError> {
        let (places, width) = (self.places(rows)?, self.format.row_bytes(self.columns.len()));
        if places.is_empty() {
            return Ok(());
        }
        let file = File::open(&self.file).map_err(CheckpointError::io("open", &self.file))?;
        let read = |place: usize, bytes: &mut [u8]| {
            let at = self.at + (place * width) as u64;
            file.read_exact_at(bytes, at).map_err(CheckpointError::io("read", &self.file))
        };
        if self.listed.is_none() {
            let to = self.row_at(places.start)? - rows.start;
            return read(places.start, &mut out[to * width..][..places.len() * width]);
        }
        let mut bytes = vec![0; places.len() * width];
        read(places.start, &mut bytes)?;
        for (place, row) in places.zip(bytes.chunks_exact(width)) {
            out[(self.row_at(place)? - rows.start) * width..][..width].copy_from_slice(row);
        }
        Ok(())
    }

    /// Reads what this piece has of a rectangle into `out`, which is the whole rectangle.
    fn read(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let (places, wanted) = (self.places(rows)?, intersect(&self.columns, columns));
        if places.is_empty() || wanted.is_empty() {
            return Ok(());
        }
        let file = File::open(&self.file).map_err(CheckpointError::io("open", &self.file))?;
        let width = self.columns.len();
        // Some columns of a row, or whole rows.
        let read = |place: usize, columns: &Range<usize>, floats: &mut [f32]| {
            let before = (columns.start - self.columns.start) * values::element_bytes(self.format);
            let at = self.at + (place * self.format.row_bytes(width) + before) as u64;
            values::read_floats(self.format, columns.len(), floats, |bytes| file.read_exact_at(bytes, at))
                .map_err(CheckpointError::io("read", &self.file))
        };
        let to = |row: usize| (row - rows.start) * columns.len() + (wanted.start - columns.start);

        if self.listed.is_none() && wanted == self.columns && wanted == *columns {
            let first = to(self.row_at(places.start)?);
            return read(places.start, &wanted, &mut out[first..][..places.len() * width]);
        }
        // A code needs the scale behind its row.
        if width > WIDE && self.format != TableFormat::Int8 {
            for place in places {
                let at = to(self.row_at(place)?);
                read(place, &wanted, &mut out[at..][..wanted.len()])?;
            }
            return Ok(());
        }
        let block_rows = (BLOCK / width).clamp(1, places.len());
        let mut block = vec![0.0; block_rows * width];
        for first in places.clone().step_by(block_rows) {
            let count = block_rows.min(places.end - first);
            let block = &mut block[..count * width];
            read(first, &self.columns, block)?;
            for (place, floats) in (first..).zip(block.chunks_exact(width)) {
                let (at, from) = (to(self.row_at(place)?), wanted.start - self.columns.start);
                out[at..][..wanted.len()].copy_from_slice(&floats[from..][..wanted.len()]);
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

/// Folder of the checkpoint of `step` beside that at `path`, which may be a link or end in a dot.
fn beside(path: &Path, step: u64) -> PathBuf {
    let named = of_step(path, step);
    match path.canonicalize() {
        Ok(real) if !named.is_dir() => of_step(&real, step),
        _ => named,
    }
}

/// Checks the checksums of the files in a folder. `progress` is called with the number of bytes of each block, and may end it.
fn verify_files(
    folder: &Path,
    manifest: &Manifest,
    progress: &mut dyn FnMut(u64) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let mut block = vec![0; 1 << 20];
    for record in &manifest.files {
        let path = folder.join(&record.name);
        let mut file = open_file(&path, record)?;
        let mut hash = Sha256::new();
        loop {
            let read = file.read(&mut block).map_err(CheckpointError::io("read", &path))?;
            if read == 0 {
                break;
            }
            hash.update(&block[..read]);
            progress(read as u64)?;
        }
        let got = hex(hash.finalize());
        if got != record.sha256 {
            return Err(CheckpointError::Checksum { path, got, expected: record.sha256.clone() });
        }
    }
    Ok(())
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

/// Where the numbers of `record`, which has `count` rows, begin in a file, whose header must agree with it, and their format.
fn find(
    path: &Path,
    header: &Metadata,
    start: u64,
    (record, count): (&TensorEntry, usize),
) -> Result<(u64, TableFormat), CheckpointError> {
    let malformed = |problem: String| CheckpointError::malformed(path, problem);
    let TensorEntry { key, columns, .. } = record;
    let info =
        header.info(key).ok_or_else(|| malformed(format!("no tensor {key}, which the manifest names")))?;
    let (expected, (from, to)) = (count * columns.len(), info.data_offsets);
    let bytes = |format: &TableFormat| count.checked_mul(format.row_bytes(columns.len()));
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
