//! Slices of a table's columns, each of which has a number of its own in the state of row-wise Adagrad (Neo §4).
//!
//! The tensor `optimizer.tables.C1` has one column for each slice. Its name says how the columns were cut, so that a run with
//! other cuts can take the state up: a slice then begins with the mean of the numbers that its columns had.
//!
//! ```text
//! optimizer.tables.C1               not cut
//! optimizer.tables.C1.in_4_slices   4 even slices
//! optimizer.tables.C1.cut_at_3_12   columns 0..3, 3..12 and those from 12 on
//! ```

use super::{Checkpoint, CheckpointError};
use crate::Error;
use spec::placement::{Placement, Shard, share};
use std::ops::Range;

/// Floats that are read at a time.
const BLOCK: usize = 1 << 18;

/// Slices of the columns of a table, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slices(Vec<Range<usize>>);

impl Slices {
    /// Slices into which a placement cuts the columns of a feature's table.
    pub fn of(placement: &Placement, feature: usize) -> Self {
        let shards = &placement.shards_of(feature)[..placement.column_pieces(feature)];
        Self(shards.iter().map(|shard| shard.columns.clone()).collect())
    }

    fn even(width: usize, slices: usize) -> Self {
        Self((0..slices).map(|slice| share(width, slices, slice)).collect())
    }

    /// Slices of a table of `width` columns that the end of a tensor's name says.
    pub fn parse(suffix: &str, width: usize) -> Option<Self> {
        if suffix.is_empty() {
            return Some(Self::even(width, 1));
        }
        if let Some(slices) = suffix.strip_prefix(".in_").and_then(|text| text.strip_suffix("_slices")) {
            let slices = slices.parse().ok().filter(|slices| (2..=width).contains(slices))?;
            return Some(Self::even(width, slices));
        }
        let mut cuts = vec![0];
        for cut in suffix.strip_prefix(".cut_at_")?.split('_') {
            cuts.push(cut.parse().ok()?);
        }
        cuts.push(width);
        let slices: Vec<Range<usize>> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
        slices.iter().all(|slice| !slice.is_empty()).then_some(Self(slices))
    }

    /// End of the tensor's name.
    pub fn suffix(&self) -> String {
        let (slices, width) = (self.0.len(), self.0.last().map_or(0, |last| last.end));
        match slices {
            1 => String::new(),
            _ if *self == Self::even(width, slices) => format!(".in_{slices}_slices"),
            _ => {
                let cuts: Vec<String> = self.0[1..].iter().map(|slice| slice.start.to_string()).collect();
                format!(".cut_at_{}", cuts.join("_"))
            }
        }
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Number of the slice that is exactly these columns.
    pub fn position(&self, columns: &Range<usize>) -> Option<usize> {
        self.0.iter().position(|slice| slice == columns)
    }

    /// Share of each slice in some columns.
    fn weights(&self, columns: &Range<usize>) -> Vec<f32> {
        let overlap =
            |slice: &Range<usize>| slice.end.min(columns.end).saturating_sub(slice.start.max(columns.start));
        self.0.iter().map(|slice| overlap(slice) as f32 / columns.len() as f32).collect()
    }
}

/// Reads the state of a shard whose table has `width` columns, from whatever slices `checkpoint` has of the tensor `name`; `write` gets the
/// number of a block's first row, counted from that of the shard, and the block.
pub(super) fn read(
    checkpoint: &Checkpoint,
    name: &str,
    width: usize,
    shard: &Shard,
    mut write: impl FnMut(usize, &[f32]) -> Result<(), Error>,
) -> Result<(), CheckpointError> {
    let of = |(found, _): (&str, &[usize])| {
        let slices = Slices::parse(found.strip_prefix(name)?, width)?;
        Some((found.to_owned(), slices))
    };
    // Exactly these columns if they are a slice there; else any slices will do.
    let exact = |(_, slices): &(String, Slices)| slices.position(&shard.columns).is_some();
    let found = checkpoint.tensors().filter_map(of).find(exact);
    let Some((tensor, slices)) = found.or_else(|| checkpoint.tensors().find_map(of)) else {
        return Err(CheckpointError::Unknown { path: checkpoint.path().to_owned(), tensor: name.into() });
    };
    let columns = match slices.position(&shard.columns) {
        Some(slice) => slice..slice + 1,
        None => 0..slices.count(),
    };
    let weights = slices.weights(&shard.columns);
    let block = BLOCK.div_ceil(columns.len());
    let (mut read, mut means) = (Vec::new(), Vec::new());
    for start in shard.rows.clone().step_by(block) {
        let rows = start..(start + block).min(shard.rows.end);
        read.resize(rows.len() * columns.len(), 0.0);
        checkpoint.read_rows(&tensor, rows.clone(), columns.clone(), &mut read)?;
        means.clear();
        match columns.len() {
            1 => means.extend_from_slice(&read),
            each => means.extend(
                read.chunks_exact(each)
                    .map(|row| row.iter().zip(&weights).map(|(state, weight)| state * weight).sum::<f32>()),
            ),
        }
        write(start - shard.rows.start, &means)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
