//! A rank's status file: a name and version, then two records, written in turns.
//!
//! A rank may be killed between any two of its stores, and a reader may look at any time. So the record that is being
//! written is never the only one: the other, older by one, is whole. A reader takes the newest that its checksum says
//! is whole.

use super::ProcessStatus;
use super::record::{LEN, Record};
use crate::{Activity, CollectiveStatus};
use memmap2::MmapMut;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, compiler_fence};

/// What the file begins with, and then the layout's version.
const MAGIC: &[u8; 16] = b"campanile status";
const VERSION: u64 = 1;
const FIRST: usize = 24;

/// The file of a rank of this process. Removed when dropped, and the folder with the last of them.
pub(in crate::transport::mpi) struct StatusFile {
    folder: PathBuf,
    path: PathBuf,
    map: MmapMut,
    record: Record,
    turn: u64,
}

/// Where a rank's file lies.
pub(super) fn path(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("rank-{rank}"))
}

impl StatusFile {
    /// Makes the folder, if no other rank of this host has yet, and the file.
    pub(in crate::transport::mpi) fn create(
        folder: PathBuf,
        rank: usize,
        host: usize,
        node: &str,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = path(&folder, rank);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let record = Record::new(rank, host, std::process::id(), node);
        // Written, not only made longer: a disk that is full should say so here, and not by a bus error later.
        let mut bytes = vec![0; FIRST + 2 * LEN];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..FIRST].copy_from_slice(&VERSION.to_le_bytes());
        file.write_all(&bytes)?;
        // SAFETY: the file was made just now, in a folder that only this user may enter, under a name that only this
        // rank uses, and nobody but this value writes to it or cuts it. Others read it by calls of the system.
        let map = unsafe { MmapMut::map_mut(&file) }?;
        let mut status = Self { folder, path, map, record, turn: 0 };
        status.write(|_| {});
        Ok(status)
    }

    pub(in crate::transport::mpi) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(in crate::transport::mpi) fn path(&self) -> &Path {
        &self.path
    }

    /// The rank has entered a phase.
    pub(in crate::transport::mpi) fn enter(&mut self, phase: &str) {
        self.write(|record| record.set_phase(phase));
    }

    /// The rank has started this collective, or turned to it.
    pub(in crate::transport::mpi) fn say(
        &mut self,
        activity: Activity,
        collective: Option<&CollectiveStatus>,
    ) {
        self.write(|record| {
            record.set_activity(activity);
            if let Some(collective) = collective {
                record.set_collective(collective);
            }
        });
    }

    fn write(&mut self, change: impl FnOnce(&mut Record)) {
        change(&mut self.record);
        self.turn += 1;
        self.record.seal(self.turn);
        let at = FIRST + LEN * (self.turn % 2) as usize;
        self.map[at..at + LEN].copy_from_slice(self.record.bytes());
        // A record is complete before the next one, which replaces the other, is begun: nobody may mix their stores.
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a status file, and its folder if it was the last. What cannot be removed stays; nothing depends on it.
pub(in crate::transport::mpi) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = path.parent().map(fs::remove_dir);
}

/// The newest whole record of a file.
pub(super) fn read(path: &Path) -> io::Result<ProcessStatus> {
    let invalid =
        |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    // A rank that writes all the time may spoil both records while they are read, but hardly again and again.
    for _ in 0..10 {
        let bytes = fs::read(path)?;
        let Some((head, records)) = bytes.split_at_checked(FIRST) else { return Err(invalid("too short")) };
        if head[..16] != MAGIC[..] || head[16..] != VERSION.to_le_bytes()[..] {
            return Err(invalid("is no status file of this version"));
        }
        let whole = records.chunks_exact(LEN).filter_map(Record::from_bytes);
        if let Some((_, record)) = whole.max_by_key(|(turn, _)| *turn) {
            return Ok(record.status());
        }
    }
    Err(invalid("holds no whole record"))
}

#[cfg(test)]
pub(super) mod tests;
