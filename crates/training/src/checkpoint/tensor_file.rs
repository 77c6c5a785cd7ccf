//! One safetensors file: an 8-byte length, a header of JSON, then the numbers of one tensor after the other.
//!
//! The header is that of the `safetensors` crate, both ways. The data is written here: the crate's `serialize_to_file`
//! neither syncs nor hashes, and wants all tensors at once, which an export must not need.

use super::CheckpointError;
use super::entries::FileEntry;
use super::manifest::hex;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that are hashed, and then written, while they are in the cache.
const BLOCK: usize = 1 << 20;
/// Bytes of the header's length.
const LENGTH: usize = 8;
/// The largest header, as the `safetensors` crate has it.
const MAX_HEADER: usize = 100_000_000;

/// Key of the notes in the header, which are not a tensor.
const NOTES: &str = "__metadata__";

/// A file that is being written, from its first byte to its last.
pub(super) struct TensorFile<W: Write> {
    /// Path of the file in messages.
    path: PathBuf,
    out: BufWriter<W>,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> TensorFile<W> {
    /// Begins a file in `out` for tensors of these names, shapes in the file and types. Their data follows by [`TensorFile::write`], in this
    /// order. Names are not repeated.
    pub fn begin(
        path: &Path,
        out: W,
        tensors: &[(&str, Vec<usize>, Dtype)],
        notes: Option<HashMap<String, String>>,
    ) -> Result<Self, CheckpointError> {
        if tensors.iter().any(|(name, ..)| *name == NOTES) {
            return Err(CheckpointError::malformed(path, format!("no tensor can have the name {NOTES}")));
        }
        let mut end = 0;
        let infos = tensors.iter().map(|(name, shape, dtype)| {
            let start = end;
            end += dtype.bitsize() / 8 * shape.iter().product::<usize>();
            let info = TensorInfo { dtype: *dtype, shape: shape.clone(), data_offsets: (start, end) };
            (name.to_string(), info)
        });
        let header = Metadata::new(notes, infos.collect())
            .and_then(|metadata| Ok(serde_json::to_vec(&metadata)?))
            .map_err(|error| CheckpointError::malformed(path, format!("no header can be made: {error}")))?;
        let length = header.len().next_multiple_of(LENGTH);
        if length > MAX_HEADER {
            let problem = format!("{} tensors are too many for one file", tensors.len());
            return Err(CheckpointError::malformed(path, problem));
        }
        let out = BufWriter::with_capacity(BLOCK, out);
        let mut this = Self { path: path.to_owned(), out, hash: Sha256::new(), bytes: 0 };
        this.put(&(length as u64).to_le_bytes())?;
        this.put(&header)?;
        this.put(&[b' '; LENGTH][..length - header.len()])?;
        Ok(this)
    }

    /// Appends numbers, as the file has them.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        bytes.chunks(BLOCK).try_for_each(|block| self.put(block))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(CheckpointError::io("write", &self.path))
    }

    /// Hands on all that was written, and gives back where it went.
    pub fn finish(self) -> Result<(FileEntry, W), CheckpointError> {
        let Self { path, mut out, hash, bytes } = self;
        out.flush().map_err(CheckpointError::io("write", &path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((FileEntry { name, bytes, sha256: hex(hash.finalize()) }, out.into_parts().0))
    }
}

/// The header of a file of `size` bytes, and where the data begins. Offsets lie inside the file and fit the shapes.
pub(super) fn read_header(path: &Path, file: &File, size: u64) -> Result<(Metadata, u64), CheckpointError> {
    let malformed = |problem: String| CheckpointError::malformed(path, problem);
    let read =
        |bytes: &mut [u8], at| file.read_exact_at(bytes, at).map_err(CheckpointError::io("read", path));
    if size < LENGTH as u64 {
        return Err(malformed(format!("{size} bytes are too few for a safetensors file")));
    }
    let mut length = [0; LENGTH];
    read(&mut length, 0)?;
    let length = u64::from_le_bytes(length);
    let most = (size - LENGTH as u64).min(MAX_HEADER as u64);
    if length > most {
        return Err(malformed(format!("a header of {length} bytes; at most {most} are possible")));
    }
    let mut header = vec![0; length as usize];
    read(&mut header, LENGTH as u64)?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| malformed(format!("not a safetensors header: {error}")))?;
    let start = LENGTH as u64 + length;
    if metadata.data_len() as u64 != size - start {
        let (got, expected) = (size - start, metadata.data_len());
        return Err(malformed(format!("{got} bytes of data, but {expected} according to the header")));
    }
    Ok((metadata, start))
}
