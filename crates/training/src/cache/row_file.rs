//! All rows of a table in a file: records of one size, read and written by number.
//!
//! I/O is direct where the file system has it: the page cache would take memory that the run was told to leave alone, and would keep
//! rows a second time. Requests are positioned reads and writes of several threads: that needs no rights that containers often lack, as
//! io_uring does, and keeps as many requests in flight as there are threads. A record takes whole blocks, or a block has several
//! whole records; changing one of several reads the block first.

use super::bytes::{ALIGN, AlignedBytes};
use crate::Error;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file of records.
#[derive(Debug)]
pub(super) struct RowFile {
    file: File,
    /// The name that the file had, for messages: nobody else finds it.
    path: PathBuf,
    /// Bytes of a record.
    pub record: usize,
    /// Bytes from record to record.
    pub stride: usize,
    /// Bytes that are read or written at least.
    block: usize,
}

/// Bytes of the smallest block.
const SMALLEST: usize = 512;
/// Bytes that are read or written at a time where rows follow each other.
const RUN: usize = 1 << 20;

impl RowFile {
    /// Makes a file without a name for `rows` records of `record` bytes in `folder`. Disk space is taken as rows are written.
    pub fn create(folder: &Path, name: &str, rows: usize, record: usize) -> Result<Self, Error> {
        let New { file, path, block } = create(folder, name, true)?;
        // Without direct I/O any number of bytes will do.
        let block = block.unwrap_or(1);
        // Whole records in a block, or whole blocks for a record.
        let stride = if record < block { record.next_power_of_two() } else { record.next_multiple_of(block) };
        let bytes = (rows as u64).saturating_mul(stride as u64).next_multiple_of(ALIGN as u64);
        file.set_len(bytes).map_err(|error| refused(&path, &error))?;
        Ok(Self { file, path, record, stride, block })
    }

    /// Records that are read and written together.
    pub fn rows_per_unit(&self) -> usize {
        (self.block / self.stride).max(1)
    }

    /// Bytes that are read and written together.
    pub fn unit(&self) -> usize {
        self.block.max(self.stride)
    }

    /// Reads records of one unit: `take` gets the place of each in `rows`, and its bytes.
    pub fn read_unit(
        &self,
        rows: &[u32],
        buffer: &mut AlignedBytes,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), Error> {
        let per_unit = self.rows_per_unit();
        let Some(&first) = rows.first() else { return Ok(()) };
        let unit = first as usize / per_unit;
        self.read_at(unit, 1, buffer)?;
        for (i, &row) in rows.iter().enumerate() {
            let at = (row as usize - unit * per_unit) * self.stride;
            take(i, &buffer.as_slice()[at..at + self.record]);
        }
        Ok(())
    }

    /// Writes records of one unit, which stand one behind another in `records`.
    pub fn write_unit(&self, rows: &[u32], records: &[u8], buffer: &mut AlignedBytes) -> Result<(), Error> {
        let per_unit = self.rows_per_unit();
        let Some(&first) = rows.first() else { return Ok(()) };
        let unit = first as usize / per_unit;
        if rows.len() < per_unit {
            self.read_at(unit, 1, buffer)?;
        } else {
            buffer.resize(self.unit());
        }
        for (&row, record) in rows.iter().zip(records.chunks_exact(self.record)) {
            let at = (row as usize - unit * per_unit) * self.stride;
            buffer.as_mut_slice()[at..at + self.record].copy_from_slice(record);
        }
        self.write_at(unit, buffer)
    }

    /// Reads records that follow each other, some at a time: `take` gets the number of the first, and records a stride apart.
    pub fn read_rows(
        &self,
        rows: Range<usize>,
        mut take: impl FnMut(usize, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (per_unit, mut buffer) = (self.rows_per_unit(), AlignedBytes::default());
        let at_once = (RUN / self.unit()).max(1);
        let units = rows.start / per_unit..rows.end.div_ceil(per_unit);
        for unit in units.clone().step_by(at_once) {
            let count = at_once.min(units.end - unit);
            self.read_at(unit, count, &mut buffer)?;
            let read = (unit * per_unit).max(rows.start)..((unit + count) * per_unit).min(rows.end);
            let at = (read.start - unit * per_unit) * self.stride;
            take(read.start, &buffer.as_slice()[at..at + read.len() * self.stride])?;
        }
        Ok(())
    }

    /// Bytes that follow each other in the file, of whole units from `first` on; records of all of them are replaced.
    pub fn write_rows(&self, first: usize, records: &AlignedBytes) -> Result<(), Error> {
        let per_unit = self.rows_per_unit();
        debug_assert!(first.is_multiple_of(per_unit), "whole units");
        debug_assert!(records.as_slice().len().is_multiple_of(self.unit()), "whole units");
        self.write_at(first / per_unit, records)
    }

    fn read_at(&self, unit: usize, count: usize, buffer: &mut AlignedBytes) -> Result<(), Error> {
        buffer.resize(count * self.unit());
        let at = unit as u64 * self.unit() as u64;
        self.file.read_exact_at(buffer.as_mut_slice(), at).map_err(|error| self.failed("read", at, &error))
    }

    fn write_at(&self, unit: usize, buffer: &AlignedBytes) -> Result<(), Error> {
        let at = unit as u64 * self.unit() as u64;
        self.file.write_all_at(buffer.as_slice(), at).map_err(|error| self.failed("written", at, &error))
    }

    fn failed(&self, what: &str, at: u64, error: &io::Error) -> Error {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; choose another folder, or give more --table-memory"
            }
            _ => "",
        };
        Error::TableStore {
            path: self.path.clone(),
            problem: format!("rows at byte {at} cannot be {what}: {error}{remedy}"),
        }
    }
}

/// A new file, whose name is gone.
pub(super) struct New {
    pub file: File,
    /// The name that it had.
    path: PathBuf,
    /// Bytes of the blocks of direct I/O; `None` for buffered I/O.
    block: Option<usize>,
}

/// Makes a file without a name in `folder`, so that the file goes with the process, however that ends. I/O is `direct` where that is wanted and
/// the file system has it.
pub(super) fn create(folder: &Path, name: &str, direct: bool) -> Result<New, Error> {
    // A name that nobody has, for messages, and for file systems on which a file has a name for a moment.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let path = folder.join(format!(".{name}.{}.{now:x}.rows", std::process::id()));
    let make = || {
        std::fs::create_dir_all(folder)?;
        if direct && let Some((file, block)) = open_direct(folder, &path)? {
            return Ok((file, Some(block)));
        }
        Ok((open_unnamed(folder, &path, OFlags::empty())?, None))
    };
    let (file, block) = make().map_err(|error| refused(&path, &error))?;
    Ok(New { file, path, block })
}

fn refused(path: &Path, error: &io::Error) -> Error {
    Error::TableStore { path: path.to_owned(), problem: error.to_string() }
}

/// A new file without a name. Where the file system makes none, the name `path` is removed at once.
fn open_unnamed(folder: &Path, path: &Path, flags: OFlags) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let unnamed = options.clone().custom_flags((flags | OFlags::TMPFILE).bits() as i32).open(folder);
    if let Ok(file) = unnamed {
        return Ok(file);
    }
    let file = options.create_new(true).custom_flags(flags.bits() as i32).open(path);
    // Some file systems make the file before they refuse.
    let removed = std::fs::remove_file(path);
    let file = file?;
    removed.map(|()| file)
}

/// A new file without a name for direct I/O, with the size of its blocks; `None` where the file system has none.
fn open_direct(folder: &Path, path: &Path) -> io::Result<Option<(File, usize)>> {
    let Ok(file) = open_unnamed(folder, path, OFlags::DIRECT) else { return Ok(None) };
    // The only sure way to learn what the file system accepts.
    let accepts = |&block: &usize| {
        let mut probe = AlignedBytes::of(block);
        probe.as_mut_slice().fill(0);
        file.write_all_at(probe.as_slice(), block as u64).is_ok()
    };
    let block = [SMALLEST, ALIGN].into_iter().find(accepts);
    Ok(block.map(|block| (file, block)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of many sizes, written one by one, in units, and in runs, are read back.
    #[test]
    fn records_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for record in [4, 20, 64, 500, 512, 516, 4096, 5000] {
            let rows = 100;
            let file = RowFile::create(folder.path(), "t", rows, record).unwrap();
            let bytes_of =
                |row: usize, round: u8| vec![(row as u8).wrapping_mul(3).wrapping_add(round); record];
            let mut buffer = AlignedBytes::default();
            // All rows in a run, then some of them one by one.
            let padded = rows.next_multiple_of(file.rows_per_unit());
            let mut all = AlignedBytes::of(padded * file.stride);
            all.as_mut_slice().fill(0);
            for row in 0..rows {
                all.as_mut_slice()[row * file.stride..][..record].copy_from_slice(&bytes_of(row, 0));
            }
            file.write_rows(0, &all).unwrap();
            for row in (0..rows).step_by(7) {
                file.write_unit(&[row as u32], &bytes_of(row, 1), &mut buffer).unwrap();
            }
            let expected = |row: usize| bytes_of(row, u8::from(row.is_multiple_of(7)));
            for row in 0..rows {
                let take = |_: usize, bytes: &[u8]| assert_eq!(bytes, expected(row), "record of {record}");
                file.read_unit(&[row as u32], &mut buffer, take).unwrap();
            }
            let mut next = 3;
            file.read_rows(3..97, |first, bytes| {
                assert_eq!(first, next);
                for record in bytes.chunks_exact(file.stride) {
                    assert_eq!(record[..file.record], expected(next)[..]);
                    next += 1;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(next, 97);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no name is left");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = RowFile::create(&file.path().join("store"), "t", 1, 4).unwrap_err().to_string();
        assert!(error.contains("store") && error.contains("--table-store"), "{error}");
    }
}
