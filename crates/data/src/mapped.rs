//! A file mapped into memory, read-only.
//!
//! This module has the only unsafe code of the crate. Pages are read when they are first accessed and stay in the page cache,
//! so that any number of ranks share one copy.
//!
//! **The file must not change while it is mapped.** The operating system cannot forbid that. If bytes are overwritten, readers
//! see wrong numbers, which the checks of ids and lengths may report late. If the file is cut short, the next access ends the
//! process with a bus error. This is why preparing a log again creates new files instead of overwriting those that others may
//! have mapped.
#![allow(unsafe_code)]

use crate::DataError;
use memmap2::Mmap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Contents of a mapped file.
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
        // SAFETY: the mapping is private to this value, read-only, and exposed as `&[u8]`, for which every bit pattern is
        // valid. The user must guarantee that nobody changes the file meanwhile, as the documentation of the module says;
        // `prepared::Writer` unlinks old files rather than writing into them.
        let map = unsafe { Mmap::map(&file) }.map_err(problem)?;
        Ok(Self { path, map })
    }

    /// All bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests;
