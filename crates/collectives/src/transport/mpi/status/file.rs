//! Status file of a rank: a name and version, then two entries that are written in turn.
//!
//! A rank may be killed between any two of its stores, and a reader may look at any time. So the entry that is being
//! written is never the only one: the other one, older by one update, is whole. A reader takes the newest entry whose
//! checksum is right.

use super::ProcessStatus;
use super::entry::{LEN, StatusEntry};
use crate::{Activity, CollectiveStatus};
use memmap2::MmapMut;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, compiler_fence};

/// First bytes of the file; the version of the format follows.
const MAGIC: &[u8; 16] = b"campanile status";
const VERSION: u64 = 1;
const FIRST: usize = 24;

/// Status file of the rank of this process. Dropping the value removes the file, and the folder with the last file.
pub(in crate::transport::mpi) struct StatusFile {
    folder: PathBuf,
    path: PathBuf,
    map: MmapMut,
    entry: StatusEntry,
    turn: u64,
}

/// Path of the status file of a rank.
pub(super) fn path(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("rank-{rank}"))
}

impl StatusFile {
    /// Creates the file, and the folder if no other rank of this host has created it yet.
    pub(in crate::transport::mpi) fn create(
        folder: PathBuf,
        rank: usize,
        host: usize,
        node: &str,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = path(&folder, rank);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let entry = StatusEntry::new(rank, host, std::process::id(), node);
        // Written, not only extended: a full disk should give an error here, not a bus error later.
        let mut bytes = vec![0; FIRST + 2 * LEN];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..FIRST].copy_from_slice(&VERSION.to_le_bytes());
        file.write_all(&bytes)?;
        // SAFETY: the file was made just now, in a folder that only this user may enter, under a name that only this
        // rank uses, and nobody but this value writes to it or cuts it. Others read it by calls of the system.
        let map = unsafe { MmapMut::map_mut(&file) }?;
        let mut status = Self { folder, path, map, entry, turn: 0 };
        status.write(|_| {});
        Ok(status)
    }

    pub(in crate::transport::mpi) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(in crate::transport::mpi) fn path(&self) -> &Path {
        &self.path
    }

    /// Records that the rank has entered a phase.
    pub(in crate::transport::mpi) fn enter(&mut self, phase: &str) {
        self.write(|entry| entry.set_phase(phase));
    }

    /// Records what the rank is doing, and the collective if it has started one or waits in one.
    pub(in crate::transport::mpi) fn say(
        &mut self,
        activity: Activity,
        collective: Option<&CollectiveStatus>,
    ) {
        self.write(|entry| {
            entry.set_activity(activity);
            if let Some(collective) = collective {
                entry.set_collective(collective);
            }
        });
    }

    fn write(&mut self, change: impl FnOnce(&mut StatusEntry)) {
        change(&mut self.entry);
        self.turn += 1;
        self.entry.seal(self.turn);
        let at = FIRST + LEN * (self.turn % 2) as usize;
        self.map[at..at + LEN].copy_from_slice(self.entry.bytes());
        // An entry is complete before the next one is begun, which replaces the other: the compiler must not mix their stores.
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a status file, and its folder if it was the last file. Errors are ignored; nothing depends on it.
pub(in crate::transport::mpi) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = path.parent().map(fs::remove_dir);
}

/// Reads the newest whole entry of a status file.
pub(super) fn read(path: &Path) -> io::Result<ProcessStatus> {
    let invalid =
        |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    // A rank that writes all the time may overwrite both entries while they are read, but hardly ten times in a row.
    for _ in 0..10 {
        let bytes = fs::read(path)?;
        let Some((head, entries)) = bytes.split_at_checked(FIRST) else { return Err(invalid("too short")) };
        if head[..16] != MAGIC[..] || head[16..] != VERSION.to_le_bytes()[..] {
            return Err(invalid("not a status file of this version"));
        }
        let whole = entries.chunks_exact(LEN).filter_map(StatusEntry::from_bytes);
        if let Some((_, entry)) = whole.max_by_key(|(turn, _)| *turn) {
            return Ok(entry.status());
        }
    }
    Err(invalid("holds no whole entry"))
}

#[cfg(test)]
pub(super) mod tests;
