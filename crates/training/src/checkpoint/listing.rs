//! Numbers of the rows that an increment has of a rectangle.

use super::CheckpointError;
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// Row numbers in a file, read when they are first asked for.
#[derive(Debug)]
pub(super) struct Listing {
    at: u64,
    count: usize,
    rows: OnceLock<Vec<u32>>,
}

impl Listing {
    /// The row numbers that the header of `path` has under `key`; its data begins at `start`.
    pub fn find(path: &Path, header: &Metadata, start: u64, key: &str) -> Result<Self, CheckpointError> {
        let malformed = |problem: String| CheckpointError::malformed(path, problem);
        let info = header
            .info(key)
            .ok_or_else(|| malformed(format!("no row numbers {key}, which the manifest names")))?;
        match (info.dtype, info.shape.as_slice()) {
            (Dtype::U32, &[count]) => {
                Ok(Self { at: start + info.data_offsets.0 as u64, count, rows: OnceLock::new() })
            }
            (dtype, shape) => {
                Err(malformed(format!("row numbers {key} are {dtype} {shape:?}, expected a vector of U32")))
            }
        }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The row numbers, of a rectangle of so many rows in the file `path`.
    pub fn rows(&self, path: &Path, of: usize) -> Result<&[u32], CheckpointError> {
        if let Some(rows) = self.rows.get() {
            return Ok(rows);
        }
        let mut rows = vec![0u32; self.count];
        File::open(path)
            .and_then(|file| file.read_exact_at(bytemuck::cast_slice_mut(&mut rows), self.at))
            .map_err(CheckpointError::io("read", path))?;
        let ascend = rows.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascend || rows.last().is_some_and(|&last| last as usize >= of) {
            let problem = format!(
                "numbers of updated rows that do not ascend, or reach past the {of} rows of their piece"
            );
            return Err(CheckpointError::malformed(path, problem));
        }
        Ok(self.rows.get_or_init(|| rows))
    }
}
