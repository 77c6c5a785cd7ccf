//! Everything that a checkpoint stands for, whatever it builds on, as files.

use super::manifest::rank_of;
use super::write::{RowReader, Stream, write_streams};
use super::{Checkpoint, CheckpointError, RankFile, TensorEntry};
use spec::table_format::TableFormat;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// An error once `stop` is set.
fn unless(stop: &AtomicBool) -> Result<(), CheckpointError> {
    match stop.load(Ordering::Relaxed) {
        true => Err(CheckpointError::Rows { problem: "stopped".into() }),
        false => Ok(()),
    }
}

/// Verifies `checkpoint`, and writes everything that it stands for into files of `folder`, as many as it has itself.
pub(super) fn write_whole(
    checkpoint: &Checkpoint,
    folder: &Path,
    name: impl Fn(usize) -> String,
    stop: &AtomicBool,
) -> Result<Vec<RankFile>, CheckpointError> {
    checkpoint.verify_while(&mut |_, _| unless(stop))?;
    let manifest = checkpoint.manifest();
    let write = |file: &str| {
        let entries = manifest.tensors.iter().filter(|entry| entry.file == file);
        let streams: Vec<_> = entries.map(|entry| stream(checkpoint, entry, stop)).collect();
        let rank = rank_of(file).unwrap_or_default();
        write_streams(folder.join(name(rank)), &streams, 0)?.finish()
    };
    manifest.files.iter().map(|file| write(&file.name)).collect()
}

/// All rows of a rectangle.
fn stream<'a>(checkpoint: &'a Checkpoint, entry: &'a TensorEntry, stop: &'a AtomicBool) -> Stream<'a> {
    let TensorEntry { name, shape, rows, columns, .. } = entry;
    let stored = TableFormat::ALL.into_iter().find(|&format| checkpoint.is_stored_as(name, columns, format));
    let shifted = |some: Range<usize>| rows.start + some.start..rows.start + some.end;
    let read: RowReader = match stored {
        Some(_) => Box::new(move |some, bytes| {
            unless(stop)?;
            checkpoint.read_stored(name, shifted(some), columns, bytes)
        }),
        // Increments of fewer bits over a base of more: floats hold both.
        None => Box::new(move |some, bytes| {
            unless(stop)?;
            checkpoint.read_rows(name, shifted(some), columns.clone(), bytemuck::cast_slice_mut(bytes))
        }),
    };
    Stream {
        name: name.clone(),
        shape: shape.clone(),
        rows: rows.clone(),
        columns: columns.clone(),
        format: stored.unwrap_or(TableFormat::F32),
        listed: None,
        read,
    }
}
