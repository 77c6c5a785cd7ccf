//! A rank's state as named tensors, and back.
//!
//! ```text
//! tables.C1.weight              rows × dim, in the number format of the table; int8 has rows of U8: codes, then scale and minimum
//! optimizer.tables.C1           rows × what the rule keeps of a row (Adam: first moments, then second)
//! bottom.0.weight               outputs × inputs, and so on for every dense parameter
//! project.C1.weight             model.dim × dim, where C1 has another dim than the model
//! towers.0.each.weight          the same of a tower's layers
//! optimizer.bottom.0.weight.0   first thing that the rule keeps of the parameter (Adam: .0 first moment, .1 second)
//! optimizer.errors.ring.u4.every.2x4.0.3   errors that rank 3 of 2 × 4 carries in the reduction of bucket 0
//! ```
//!
//! Each rank keeps the shards it owns and those of whose copies it has the first, the first of each tower group the parameters of its towers, and rank 0 what all
//! ranks have. A reader asks by name and range, so that another topology can take the state up. Row-wise Adagrad has a
//! number for every slice of a row, so that its tensor depends on how a table's columns are cut (`slices`). Carried errors belong to one
//! rank of one cluster, one algorithm and one codec: where another of these goes on, errors begin at zero.

use crate::Error;
use crate::cache::{TableRows, TableRowsMut};
use crate::checkpoint::slices::{self, Slices};
use crate::checkpoint::write::{Listed, Stream};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::step::rank_state::RankState;
use kernels::{Buffer, RowCopies, RowRounding, store_row, stored_row};
use spec::model::Parameter;
use spec::placement::Shard;
use spec::run::Run;
use spec::table_format::TableFormat;
use spec::wire::Reduced;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are restored at a time.
const BLOCK: usize = 1 << 20;

/// What `index`, a rank of `run`, has to keep, to be read as it is written: everything, or of its tables the rows in `updated`, by table.
/// No rows are on their way between files and memory.
pub(crate) fn streams<'a>(
    run: &Run,
    index: usize,
    rank: &'a RankState,
    updated: Option<Vec<Vec<u32>>>,
) -> Vec<Stream<'a>> {
    let mut streams = Vec::new();
    let mut updated = updated.map(Vec::into_iter);
    for (i, shard) in run.placement.with_rows_by(index).iter().enumerate() {
        let rows = updated.as_mut().map(|updated| updated.next().unwrap_or_default());
        // The first holder keeps what several have.
        if !is_kept_by(shard, index) {
            continue;
        }
        streams.extend(match rows {
            None => of_table(run, shard, rank.rows_of(i)),
            Some(rows) => of_updated_rows(run, shard, (rank, i), rows),
        });
    }
    let first_of_group = run.dataflow.sptt().is_some_and(|sptt| sptt.groups().index_of(index) == 0);
    for (parameter, ParameterOffsets { bucket, weights, state }) in places(run, rank) {
        let of_group = run.dataflow.sptt().and_then(|sptt| sptt.group_of(&run.placement, &parameter));
        let kept = if of_group.is_some() { first_of_group } else { index == 0 };
        if !kept {
            continue;
        }
        let bucket = &rank.parameters.buckets[bucket];
        let shape = &parameter.shape;
        streams.push(of_buffer(parameter.name.clone(), shape.clone(), &bucket.weights, weights.start));
        for (i, range) in state.into_iter().enumerate() {
            let name = dense_state(&parameter.name, i);
            streams.push(of_buffer(name, shape.clone(), &bucket.state, range.start));
        }
    }
    let towers = bucket_of_towers(run, rank);
    for (bucket, reduction) in rank.reductions.iter().enumerate() {
        if !reduction.error.is_empty() {
            let name = errors(run, (bucket, bucket == towers), index);
            streams.push(of_buffer(name, vec![reduction.error.len()], &reduction.error, 0));
        }
    }
    for (bucket, node, error) in rank.emulation.errors() {
        streams.push(of_buffer(emulated_errors(run, bucket, node), vec![error.len()], error, 0));
    }
    streams
}

/// Whether a rank keeps a shard that it holds: the first of several holders does.
pub(crate) fn is_kept_by(shard: &Shard, rank: usize) -> bool {
    shard.holders.ranks()[0] == rank
}

/// Whether a checkpoint has the tables of `index`, a rank of `run`, in the rectangles in which this run keeps them.
pub(crate) fn is_cut_as(run: &Run, index: usize, checkpoint: &Checkpoint) -> bool {
    let there: HashSet<_> = checkpoint
        .manifest()
        .tensors
        .iter()
        .map(|entry| (entry.name.as_str(), entry.rows.clone(), entry.columns.clone()))
        .collect();
    let kept = run.placement.with_rows_by(index).iter().filter(|shard| is_kept_by(shard, index));
    kept.into_iter().all(|shard| {
        let weight = table_weight(&run.model.features()[shard.feature].name);
        let state = table_state(run, shard);
        there.contains(&(weight.as_str(), shard.rows.clone(), shard.columns.clone()))
            && state
                .iter()
                .all(|part| there.contains(&(part.name.as_str(), shard.rows.clone(), part.columns.clone())))
    })
}

/// Weights of a shard, and what the optimizer keeps of them.
fn of_table<'a>(run: &Run, shard: &Shard, table: TableRows<'a>) -> Vec<Stream<'a>> {
    let feature = &run.model.features()[shard.feature];
    let mut streams = vec![Stream {
        name: table_weight(&feature.name),
        shape: vec![feature.rows, run.model.row_width(shard.feature)],
        rows: shard.rows.clone(),
        columns: shard.columns.clone(),
        format: table.format(),
        listed: None,
        read: Box::new(move |rows, bytes| Ok(table.read_stored(rows, bytes)?)),
    }];
    let state = table_state(run, shard);
    let width = state.iter().map(|part| part.columns.len()).sum::<usize>();
    for StatePart { name, tensor_width, columns, at } in state {
        let len = columns.len();
        let read = move |rows: Range<usize>, bytes: &mut [u8]| {
            let mut all = vec![0.0f32; rows.len() * width];
            table.read_state(rows, width, &mut all)?;
            let parts = all.chunks_exact(width).map(|row| &row[at..at + len]);
            for (to, part) in bytes.chunks_exact_mut(size_of::<f32>() * len).zip(parts) {
                to.copy_from_slice(bytemuck::cast_slice(part));
            }
            Ok(())
        };
        streams.push(Stream {
            name,
            shape: vec![feature.rows, tensor_width],
            rows: shard.rows.clone(),
            columns,
            format: TableFormat::F32,
            listed: None,
            read: Box::new(read),
        });
    }
    streams
}

/// Some rows of a shard, and what the optimizer keeps of them. Weights are rounded where increments have fewer bits than the table.
fn of_updated_rows<'a>(
    run: &Run,
    shard: &Shard,
    (rank, table): (&'a RankState, usize),
    rows: Vec<u32>,
) -> Vec<Stream<'a>> {
    let (feature, kept) = (&run.model.features()[shard.feature], rank.rows_of(table).format());
    let Shard { rows: of_shard, columns, .. } = shard;
    let rectangle = format!("[{}:{},{}:{}]", of_shard.start, of_shard.end, columns.start, columns.end);
    let listed = Listed { key: format!("tables.{}.rows{rectangle}", feature.name), rows: Arc::new(rows) };
    let state = table_state(run, shard);
    let dim = columns.len();
    let weight_bytes = kept.row_bytes(dim);
    let record_bytes =
        weight_bytes + size_of::<f32>() * state.iter().map(|part| part.columns.len()).sum::<usize>();
    // A stream of the bytes that `put` makes of the record of each row.
    let stream = |name: String, width: usize, columns: Range<usize>, format: TableFormat, put: PutRecord| {
        let (rows, copies) = (listed.rows.clone(), RefCell::new(RowCopies::new(rank.device())));
        let row_bytes = format.row_bytes(columns.len());
        let read = move |some: Range<usize>, bytes: &mut [u8]| {
            let mut records = vec![0; some.len() * record_bytes];
            rank.read_records(table, &rows[some], &mut copies.borrow_mut(), &mut records)?;
            let records = records.chunks_exact(record_bytes);
            bytes.chunks_exact_mut(row_bytes).zip(records).for_each(|(to, record)| put(record, to));
            Ok(())
        };
        Stream {
            name,
            shape: vec![feature.rows, width],
            rows: of_shard.clone(),
            columns,
            format,
            listed: Some(listed.clone()),
            read: Box::new(read),
        }
    };
    let smaller = |format: &TableFormat| format.row_bytes(dim) < weight_bytes;
    let format = run.checkpoints.increment_format.filter(smaller).unwrap_or(kept);
    let put: PutRecord = if format == kept {
        Box::new(move |record, to| to.copy_from_slice(&record[..weight_bytes]))
    } else {
        Box::new(move |record, to| {
            let mut floats = vec![0.0; dim];
            stored_row(kept, &record[..weight_bytes], &mut floats);
            store_row(format, &floats, RowRounding::NEAREST, to);
        })
    };
    let width = run.model.row_width(shard.feature);
    let mut streams = vec![stream(table_weight(&feature.name), width, columns.clone(), format, put)];
    for StatePart { name, tensor_width, columns, at } in state {
        let first = weight_bytes + size_of::<f32>() * at;
        let put = move |record: &[u8], to: &mut [u8]| to.copy_from_slice(&record[first..][..to.len()]);
        streams.push(stream(name, tensor_width, columns, TableFormat::F32, Box::new(put)));
    }
    streams
}

/// Makes what a file has of a row from its record: weights as they are kept, then optimizer state.
type PutRecord = Box<dyn Fn(&[u8], &mut [u8])>;

/// A whole tensor of floats that lies in a buffer from `at` on.
fn of_buffer(name: String, shape: Vec<usize>, buffer: &Buffer<f32>, at: usize) -> Stream<'_> {
    let (rows, width) = (shape[0], shape.get(1).copied().unwrap_or(1));
    Stream {
        name,
        shape,
        rows: 0..rows,
        columns: 0..width,
        format: TableFormat::F32,
        listed: None,
        read: Box::new(move |rows, bytes| Ok(buffer.read_bytes(at + rows.start * width, bytes)?)),
    }
}

/// Part of a checkpoint that is restored.
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
    rank: &mut RankState,
    checkpoint: &Checkpoint,
    what: Restore,
) -> Result<(), CheckpointError> {
    rank.settle_rows()?;
    for (i, shard) in run.placement.with_rows_by(index).iter().enumerate() {
        let mut table = rank.rows_of_mut(i);
        let name = &run.model.features()[shard.feature].name;
        read_weights(checkpoint, table_weight(name), shard, &mut table)?;
        if what == Restore::Everything && run.table_optimizer.update.keeps_one_per_row() {
            let (name, width) = (table_state_name(name), run.model.row_width(shard.feature));
            slices::read(checkpoint, &name, width, shard, |first, rows| table.write_state(first, 1, rows))?;
        } else if what == Restore::Everything {
            let state: Vec<_> =
                table_state(run, shard).into_iter().map(|part| (part.name, part.columns)).collect();
            let width = state.iter().map(|(_, columns)| columns.len()).sum();
            read(checkpoint, &state, shard, |first, rows| table.write_state(first, width, rows))?;
        }
    }
    for (parameter, ParameterOffsets { bucket, weights, state }) in places(run, rank) {
        let bucket = &mut rank.parameters.buckets[bucket];
        let mut data = vec![0.0; parameter.len];
        let (rows, columns) = (0..parameter.shape[0], parameter.shape.get(1).map_or(0..1, |&width| 0..width));
        checkpoint.read_rows(&parameter.name, rows.clone(), columns.clone(), &mut data)?;
        bucket.weights.change().write(weights.start, &data)?;
        if what == Restore::Everything {
            for (i, range) in state.into_iter().enumerate() {
                let name = dense_state(&parameter.name, i);
                checkpoint.read_rows(&name, rows.clone(), columns.clone(), &mut data)?;
                bucket.state.write(range.start, &data)?;
            }
        }
    }
    if what == Restore::Everything {
        let towers = bucket_of_towers(run, rank);
        for (bucket, reduction) in rank.reductions.iter_mut().enumerate() {
            let name = errors(run, (bucket, bucket == towers), index);
            restore_errors(checkpoint, &name, &mut reduction.error)?;
        }
        for (bucket, node, error) in rank.emulation.errors_mut() {
            restore_errors(checkpoint, &emulated_errors(run, bucket, node), error)?;
        }
        rank.steps = checkpoint.manifest().step;
    }
    Ok(())
}

/// Reads carried errors, if the checkpoint has them.
fn restore_errors(
    checkpoint: &Checkpoint,
    name: &str,
    errors: &mut Buffer<f32>,
) -> Result<(), CheckpointError> {
    let len = errors.len();
    let mut tensors = checkpoint.tensors();
    if len > 0 && tensors.any(|(there, shape)| there == name && shape == [len]) {
        let mut data = vec![0.0; len];
        checkpoint.read_rows(name, 0..len, 0..1, &mut data)?;
        errors.write(0, &data)?;
    }
    Ok(())
}

/// Beginning of the names of carried errors.
pub(super) const ERRORS: &str = "optimizer.errors.";

/// Index of the bucket of towers, which is the last where a dataflow goes by way of groups; behind all buckets where none does.
fn bucket_of_towers(run: &Run, rank: &RankState) -> usize {
    rank.reductions.len() - usize::from(run.dataflow.sptt().is_some())
}

/// Errors that rank `index` carries in the reduction of a bucket, named by all that they depend on.
fn errors(run: &Run, (bucket, towers): (usize, bool), index: usize) -> String {
    let Reduced { codec, compensation } = if towers { run.wire.towers } else { run.wire.dense };
    let (topology, algorithm) = (run.topology(), run.all_reduce);
    let (hosts, ranks) = (topology.hosts(), topology.ranks_per_host());
    format!("{ERRORS}{algorithm}.{codec}.{}.{hosts}x{ranks}.{bucket}.{index}", compensation.name())
}

/// Errors that an emulated node carries in the reduction of a bucket, named by all that they depend on.
fn emulated_errors(run: &Run, bucket: usize, node: usize) -> String {
    let (Reduced { codec, compensation }, algorithm) = (run.wire.dense, run.all_reduce);
    let (nodes, per_host) =
        run.emulation.map_or((1, 1), |emulation| (emulation.nodes, emulation.nodes_per_host));
    let compensation = compensation.name();
    format!("{ERRORS}{algorithm}.{codec}.{compensation}.{nodes}-emulated-by-{per_host}.{bucket}.{node}")
}

pub(crate) fn table_weight(feature: &str) -> String {
    format!("tables.{feature}.weight")
}

/// The tensor of what the optimizer keeps of a table's rows.
pub(crate) fn table_state_name(feature: &str) -> String {
    format!("optimizer.tables.{feature}")
}

/// A part of what the optimizer keeps of a shard's rows.
struct StatePart {
    /// The tensor's name.
    name: String,
    /// Columns of the whole tensor.
    tensor_width: usize,
    /// Columns of the tensor that the part is.
    columns: Range<usize>,
    /// Offset of the part in a row of the shard's optimizer state.
    at: usize,
}

/// Optimizer state of a shard: for every weight as many numbers as the update rule needs, so that columns of the table are
/// columns of each; for row-wise Adagrad one number for every slice of a row.
fn table_state(run: &Run, shard: &Shard) -> Vec<StatePart> {
    let (rule, dim, width) =
        (&run.table_optimizer.update, run.model.row_width(shard.feature), shard.columns.len());
    let name = table_state_name(&run.model.features()[shard.feature].name);
    if rule.keeps_one_per_row() {
        let slices = Slices::of(&run.placement, shard.feature);
        let slice = slices.position(&shard.columns).expect("a shard is a slice of its table");
        let (name, tensor_width) = (name + &slices.suffix(), slices.count());
        return vec![StatePart { name, tensor_width, columns: slice..slice + 1, at: 0 }];
    }
    if width == dim {
        let kept = rule.state_per_row(dim);
        let whole = StatePart { name, tensor_width: kept, columns: 0..kept, at: 0 };
        return if kept > 0 { vec![whole] } else { Vec::new() };
    }
    let part = |i| StatePart {
        name: name.clone(),
        tensor_width: rule.state_per_row(dim),
        columns: i * dim + shard.columns.start..i * dim + shard.columns.end,
        at: i * width,
    };
    (0..rule.state_per_row(1)).map(part).collect()
}

pub(crate) fn dense_state(parameter: &str, index: usize) -> String {
    format!("optimizer.{parameter}.{index}")
}

/// Reads the weights of `shard` into its table: bit for bit where the checkpoint has them as the table does, otherwise as floats, which are
/// rounded to the table's format.
pub(super) fn read_weights(
    checkpoint: &Checkpoint,
    name: String,
    shard: &Shard,
    table: &mut TableRowsMut,
) -> Result<(), CheckpointError> {
    let Shard { rows, columns, .. } = shard;
    let format = table.format();
    if !checkpoint.is_stored_as(&name, columns, format) {
        let weights = [(name, columns.clone())];
        return read(checkpoint, &weights, shard, |first, rows| table.write_weights(first, rows));
    }
    let row_bytes = format.row_bytes(columns.len());
    let block = BLOCK.div_ceil(row_bytes);
    let mut bytes = Vec::new();
    for first in rows.clone().step_by(block) {
        let some = first..(first + block).min(rows.end);
        bytes.resize(some.len() * row_bytes, 0);
        checkpoint.read_stored(&name, some, columns, &mut bytes)?;
        table.write_stored(first - rows.start, &bytes)?;
    }
    Ok(())
}

/// Reads columns of tensors, side by side, for the rows of `shard`, in blocks of about a megabyte; `write` gets the number of the first row of a
/// block, counted from that of the shard, and the block.
pub(super) fn read(
    checkpoint: &Checkpoint,
    parts: &[(String, Range<usize>)],
    shard: &Shard,
    mut write: impl FnMut(usize, &[f32]) -> Result<(), Error>,
) -> Result<(), CheckpointError> {
    let width: usize = parts.iter().map(|(_, columns)| columns.len()).sum();
    if width == 0 {
        return Ok(());
    }
    let block = BLOCK.div_ceil(size_of::<f32>() * width);
    let (mut data, mut part) = (Vec::new(), Vec::new());
    let mut row = shard.rows.start;
    while row < shard.rows.end {
        let rows = row..(row + block).min(shard.rows.end);
        data.resize(rows.len() * width, 0.0);
        let mut at = 0;
        for (name, columns) in parts {
            part.resize(rows.len() * columns.len(), 0.0);
            checkpoint.read_rows(name, rows.clone(), columns.clone(), &mut part)?;
            for (to, from) in data.chunks_exact_mut(width).zip(part.chunks_exact(columns.len())) {
                to[at..at + columns.len()].copy_from_slice(from);
            }
            at += columns.len();
        }
        write(row - shard.rows.start, &data)?;
        row = rows.end;
    }
    Ok(())
}

/// Offsets of a dense parameter and of its optimizer state.
pub(super) struct ParameterOffsets {
    pub bucket: usize,
    pub weights: Range<usize>,
    state: Vec<Range<usize>>,
}

/// The dense parameters that are here.
pub(super) fn places(run: &Run, rank: &RankState) -> Vec<(Parameter, ParameterOffsets)> {
    let kept = run.dense_optimizer.update.state_per_row(1);
    let place = |(index, parameter): (usize, &Parameter)| {
        let (bucket, at) = rank.parameters.place(index)?;
        let elements = rank.parameters.buckets[bucket].weights.len();
        let of = |start: usize| start + at..start + at + parameter.len;
        let state = (0..kept).map(|i| of(i * elements)).collect();
        Some((parameter.clone(), ParameterOffsets { bucket, weights: of(0), state }))
    };
    rank.parameters.list().iter().enumerate().filter_map(place).collect()
}
