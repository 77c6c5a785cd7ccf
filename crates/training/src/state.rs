//! A rank's state as named tensors, and back.
//!
//! ```text
//! tables.C1.weight              rows × dim
//! optimizer.tables.C1           rows × what the rule keeps of a row (Adam: first moments, then second)
//! bottom.0.weight               outputs × inputs, and so on for every dense parameter
//! optimizer.bottom.0.weight.0   first thing that the rule keeps of the parameter (Adam: .0 first moment, .1 second)
//! ```
//!
//! Each rank keeps the tables it owns; rank 0 also keeps what all ranks have. A reader asks by name and range, so that
//! another topology can take the state up.

use crate::checkpoint::{Checkpoint, CheckpointError, Piece};
use crate::rank::Rank;
use kernels::Buffer;
use spec::model::Parameter;
use spec::placement::Shard;
use spec::run::Run;
use std::ops::Range;

/// Copies what `index`, a rank of `run`, has to keep.
pub(crate) fn snapshot(run: &Run, index: usize, rank: &Rank) -> Vec<Piece> {
    let owned = run.placement.owned_by(index).len();
    let kept = if index == 0 { rank.flat.tables.len() } else { owned };
    let mut pieces = Vec::new();
    for (shard, table) in run.placement.held_by(index).iter().zip(&rank.flat.tables[..kept]) {
        let feature = &run.model.features()[shard.feature];
        let rows = shard.rows.clone();
        pieces.push(Piece {
            name: table_weight(&feature.name),
            shape: vec![feature.rows, run.model.dim()],
            rows: rows.clone(),
            columns: shard.columns.clone(),
            data: table.weights.to_vec(),
        });
        let kept = run.table_optimizer.update.state_per_row(shard.columns.len());
        if kept > 0 {
            let (name, shape) = (table_state(&feature.name), vec![feature.rows, kept]);
            pieces.push(Piece { name, shape, rows, columns: 0..kept, data: table.state.to_vec() });
        }
    }
    if index == 0 {
        for (parameter, Places { bucket, weights, state }) in places(run, rank) {
            let part = |name, buffer: &Buffer<f32>, range: Range<usize>| {
                let mut data = vec![0.0; range.len()];
                buffer.read(range.start, &mut data);
                let columns = parameter.shape.get(1).map_or(0..1, |&width| 0..width);
                Piece { name, shape: parameter.shape.clone(), rows: 0..parameter.shape[0], columns, data }
            };
            let bucket = &rank.parameters.buckets[bucket];
            pieces.push(part(parameter.name.clone(), &bucket.weights, weights));
            for (i, range) in state.into_iter().enumerate() {
                pieces.push(part(dense_state(&parameter.name, i), &bucket.state, range));
            }
        }
    }
    pieces
}

/// What is taken from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restore {
    /// Parameters, optimizer state and the number of steps: training goes on.
    Everything,
    /// Parameters alone, to predict with.
    Parameters,
}

/// Brings `index`, a rank of `run`, to the state of `checkpoint`.
pub(crate) fn restore(
    run: &Run,
    index: usize,
    rank: &mut Rank,
    checkpoint: &Checkpoint,
    what: Restore,
) -> Result<(), CheckpointError> {
    for (shard, table) in run.placement.held_by(index).iter().zip(&mut rank.flat.tables) {
        let name = &run.model.features()[shard.feature].name;
        read(checkpoint, &table_weight(name), shard, shard.columns.clone(), &mut table.weights)?;
        let kept = run.table_optimizer.update.state_per_row(shard.columns.len());
        if kept > 0 && what == Restore::Everything {
            read(checkpoint, &table_state(name), shard, 0..kept, &mut table.state)?;
        }
    }
    for (parameter, Places { bucket, weights, state }) in places(run, rank) {
        let bucket = &mut rank.parameters.buckets[bucket];
        let mut data = vec![0.0; parameter.len];
        let (rows, columns) = (0..parameter.shape[0], parameter.shape.get(1).map_or(0..1, |&width| 0..width));
        checkpoint.read_rows(&parameter.name, rows.clone(), columns.clone(), &mut data)?;
        bucket.weights.write(weights.start, &data);
        if what == Restore::Everything {
            for (i, range) in state.into_iter().enumerate() {
                let name = dense_state(&parameter.name, i);
                checkpoint.read_rows(&name, rows.clone(), columns.clone(), &mut data)?;
                bucket.state.write(range.start, &data);
            }
        }
    }
    if what == Restore::Everything {
        rank.steps = checkpoint.manifest().step;
    }
    Ok(())
}

fn table_weight(feature: &str) -> String {
    format!("tables.{feature}.weight")
}

fn table_state(feature: &str) -> String {
    format!("optimizer.tables.{feature}")
}

fn dense_state(parameter: &str, index: usize) -> String {
    format!("optimizer.{parameter}.{index}")
}

/// Reads the rows of `shard` in blocks of about a megabyte.
fn read(
    checkpoint: &Checkpoint,
    name: &str,
    shard: &Shard,
    columns: Range<usize>,
    to: &mut Buffer<f32>,
) -> Result<(), CheckpointError> {
    let width = columns.len();
    let block = (1usize << 18).div_ceil(width);
    let mut data = Vec::new();
    let mut row = shard.rows.start;
    while row < shard.rows.end {
        let rows = row..(row + block).min(shard.rows.end);
        data.resize(rows.len() * width, 0.0);
        checkpoint.read_rows(name, rows.clone(), columns.clone(), &mut data)?;
        to.write((row - shard.rows.start) * width, &data);
        row = rows.end;
    }
    Ok(())
}

/// Where a dense parameter and its state lie.
struct Places {
    bucket: usize,
    weights: Range<usize>,
    state: Vec<Range<usize>>,
}

fn places(run: &Run, rank: &Rank) -> Vec<(Parameter, Places)> {
    let kept = run.dense_optimizer.update.state_per_row(1);
    let place = |(index, parameter): (usize, &Parameter)| {
        let (bucket, at) = rank.parameters.place(index);
        let elements = rank.parameters.buckets[bucket].weights.len();
        let of = |start: usize| start + at..start + at + parameter.len;
        let state = (0..kept).map(|i| of(i * elements)).collect();
        (parameter.clone(), Places { bucket, weights: of(0), state })
    };
    rank.parameters.list().iter().enumerate().map(place).collect()
}
