//! A file mapped into memory, to be read only.
//!
//! The one place of this crate with unsafe code. Pages are read when they are first touched and stay in the system's
//! cache, so that any number of ranks share one copy.
//!
//! **The file must not change while it is mapped.** The system has no way to forbid that. Bytes that are overwritten
//! show through: a reader may then see wrong numbers, which checks of ids and lengths turn into errors at worst late.
//! A file that is cut short ends the process with a bus error at the next touch. This is why a log that is prepared
//! again gets new files instead of overwriting those that others may have mapped.
#![allow(unsafe_code)]

use crate::DataError;
use memmap2::Mmap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct Mapping {
    path: PathBuf,
    map: Mmap,
}

impl Mapping {
    /// Maps the regular file at `path`.
    pub(crate) fn open(path: PathBuf) -> Result<Self, DataError> {
        let problem = |e: std::io::Error| DataError::file(&path, format!("cannot be read: {e}"));
        let file = File::open(&path).map_err(problem)?;
        if !file.metadata().map_err(problem)?.is_file() {
            return Err(DataError::file(&path, "is not a regular file"));
        }
        // SAFETY: the mapping is private to this value, read only, and handed out as `&[u8]`, for which every bit
        // pattern is valid. What remains is that nobody changes the file meanwhile; the module's documentation asks
        // for that, and `prepared::Writer` unlinks old files rather than writing into them.
        let map = unsafe { Mmap::map(&file) }.map_err(problem)?;
        Ok(Self { path, map })
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Where the file lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests;
