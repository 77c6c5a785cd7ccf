//! Embedding tables, one id at a time.

use super::optimizer::update_row;
use super::weights;
use crate::op::need;
use crate::{
    BagIndex, Buffer, DrawTable, IndexBags, KernelError, Lookup, Segment, SortedIds, Table, UpdateTables,
};
use ground::Pooling;
use std::ops::Range;

/// Initial weights of a shard: `w[r, c] = ±bound`, uniform, number `(rows.start + r)·dim + columns.start + c` of the sequence.
pub fn draw_table(args: DrawTable) -> Result<(), KernelError> {
    let DrawTable { sequence, bound, dim, rows, columns, weights } = args;
    let width = columns.len();
    // Row blocks of about a megabyte.
    let block = (1usize << 18).div_ceil(width.max(1)) * width;
    weights.write_blocks(0, rows.len() * width, block, |first, block| {
        for (row, r) in block.chunks_exact_mut(width).zip(rows.start + first / width..) {
            let first = r as u64 * dim as u64;
            for (weight, c) in row.iter_mut().zip(columns.clone()) {
                *weight = sequence.symmetric(first + c as u64, bound);
            }
        }
    })
}

/// Refuses segments whose ids, as their bag lengths count them, reach past `values`.
pub(crate) fn check_segments(
    segments: &[Segment],
    lengths: &[u32],
    values: usize,
) -> Result<(), KernelError> {
    for segment in segments {
        let Some(at) = segment.lengths_at else { continue };
        let ids: usize = lengths[at..at + segment.samples].iter().map(|&n| n as usize).sum();
        need("index_bags", "values", segment.first_value.saturating_add(ids), values)?;
    }
    Ok(())
}

/// Finds the bags of `segments`: the samples of a segment lie one after another from its first value on. Bags that no
/// segment covers are empty.
pub fn index_bags(args: IndexBags) -> Result<(), KernelError> {
    let (samples, lengths) = (args.samples, args.lengths);
    check_segments(args.segments, lengths, args.values)?;
    args.index.resize(args.tables, samples)?;
    let (starts, bag_lengths) = (args.index.starts.host_mut(), args.index.lengths.host_mut());
    starts.fill(0);
    bag_lengths.fill(0);
    for segment in args.segments {
        let mut start = segment.first_value as u32;
        for s in 0..segment.samples {
            let bag = segment.table * samples + segment.first_sample + s;
            starts[bag] = start;
            bag_lengths[bag] = segment.lengths_at.map_or(1, |at| lengths[at + s]);
            start += bag_lengths[bag];
        }
    }
    Ok(())
}

/// Keys of the ids: `keys` of table `t` = `row << 32 | value index` of all its ids, ascending; `samples[value index]` = sample.
pub fn sort_ids(
    tables: &[Table],
    index: &BagIndex,
    values: &Buffer<u32>,
    sorted: &mut SortedIds,
) -> Result<(), KernelError> {
    let values = values.host();
    sorted.bounds.clear();
    sorted.samples.resize(values.len())?;
    let mut keys = Vec::new();
    let mut bounds = vec![0];
    for t in 0..index.tables {
        for s in 0..index.samples {
            for value in bag(index, t, s) {
                need("sort_ids", "values", value + 1, values.len())?;
                let id = check(t, &tables[t], values[value])?;
                keys.push((id as u64) << 32 | value as u64);
                sorted.samples.host_mut()[value] = s as u32;
            }
        }
        keys[bounds[t]..].sort();
        bounds.push(keys.len());
    }
    sorted.keys.resize(keys.len())?;
    sorted.keys.write(0, &keys)?;
    sorted.bounds.extend(bounds);
    Ok(())
}

/// Positions in the values buffer of the ids of one bag.
pub(super) fn bag(index: &BagIndex, table: usize, sample: usize) -> Range<usize> {
    let at = table * index.samples + sample;
    let start = index.starts.host()[at] as usize;
    start..start + index.lengths.host()[at] as usize
}

/// Gives the id as a row, if its table has such a row.
pub(super) fn check(t: usize, table: &Table, id: u32) -> Result<usize, KernelError> {
    let refused = KernelError::IdOutOfRange { table: t, id, rows: table.rows };
    if (id as usize) < table.rows { Ok(id as usize) } else { Err(refused) }
}

/// Pooled vectors: `out[s, columns[t]..] = Σᵢ weightᵢ·row(idᵢ)` over the ids of bag (t, s), divided by their number for
/// mean pooling.
pub fn lookup(args: Lookup) -> Result<(), KernelError> {
    let Lookup { tables, which, columns, width, index, samples, .. } = args;
    let (values, weights) = (args.values.host(), args.weights.map(|weights| weights.host()));
    for t in which.clone() {
        for value in samples.clone().flat_map(|s| bag(index, t, s)) {
            need("lookup", "values", value + 1, values.len())?;
            check(t, &tables[t], values[value])?;
        }
    }
    let out = args.out.host_mut();
    for t in which {
        let Table { dim, pooling, weights: rows, .. } = &tables[t];
        for (r, s) in samples.clone().enumerate() {
            let bag = bag(index, t, s);
            for d in 0..*dim {
                let row = |value: usize| weights::weight(rows, *dim, [values[value] as usize, d]);
                let sum: f32 = bag.clone().map(|v| weights.map_or(row(v), |w| w[v] * row(v))).sum();
                let mean = *pooling == Pooling::Mean && !bag.is_empty();
                out[r * width + columns[t] + d] = if mean { sum / bag.len() as f32 } else { sum };
            }
        }
    }
    Ok(())
}

/// Update of every row of the tables `which` that `sorted` names: `g = Σ dout[sample, columns[t]..]·scale` in the order of
/// the row's keys, where `scale` is the value's weight, divided by the bag's length for mean pooling; then one update of the
/// row by the rule.
pub fn update_tables(args: UpdateTables) -> Result<(), KernelError> {
    let UpdateTables { tables, which, columns, width, index, sorted, update, .. } = args;
    check_sorted(tables, which.clone(), index, sorted, 0..usize::MAX)?;
    let (weights, dout) = (args.weights.map(|weights| weights.host()), args.dout.host());
    for t in which {
        let table = &mut tables[t];
        let keys = &sorted.keys.host()[sorted.bounds[t]..sorted.bounds[t + 1]];
        for run in keys.chunk_by(|a, b| a >> 32 == b >> 32) {
            let mut g = vec![0.0; table.dim];
            for &key in run {
                let value = key as u32 as usize;
                let sample = sorted.samples.host()[value] as usize;
                let length = index.lengths.host()[t * index.samples + sample] as f32;
                let weight = weights.map_or(1.0, |w| w[value]);
                let scale = if table.pooling == Pooling::Mean { weight / length } else { weight };
                for (d, g) in g.iter_mut().enumerate() {
                    *g += scale * dout[sample * width + columns[t] + d];
                }
            }
            let (row, each) = ((run[0] >> 32) as usize, update.rule.state_per_row(table.dim));
            let state = &mut table.state.host_mut()[row * each..][..each];
            weights::change_row(&mut table.weights, row, table.dim, update.step, |w| {
                update_row(update, w, &mut g, state);
            });
        }
    }
    Ok(())
}

fn wrong<T>(what: &'static str, expected: usize, got: usize) -> Result<T, KernelError> {
    Err(KernelError::Mismatch { op: "update_tables", what, expected, got })
}

/// Refuses bounds of the keys of the tables `which` that are not in order or past the keys.
pub(crate) fn check_bounds(
    which: Range<usize>,
    index: &BagIndex,
    sorted: &SortedIds,
) -> Result<(), KernelError> {
    let keys = sorted.keys.len();
    let mut bounds = sorted.bounds[which.start..=which.end].windows(2);
    if let Some(pair) = bounds.find(|pair| pair[0] > pair[1] || pair[1] > keys) {
        return wrong("bounds of the sorted ids", keys, pair[1]);
    }
    if index.tables < which.end {
        return wrong("tables of the index", which.end, index.tables);
    }
    Ok(())
}

/// Refuses keys that do not fit the tables `which`: the parts of their keys inside `range` must ascend (compared with the
/// key before, too) and name existing rows, values and samples. `which` lies inside the tables and the bounds.
pub(crate) fn check_sorted(
    tables: &[Table],
    which: Range<usize>,
    index: &BagIndex,
    sorted: &SortedIds,
    range: Range<usize>,
) -> Result<(), KernelError> {
    check_bounds(which.clone(), index, sorted)?;
    let (keys, samples) = (sorted.keys.host(), sorted.samples.host());
    for t in which {
        let table = &tables[t];
        let part = sorted.bounds[t].max(range.start)..sorted.bounds[t + 1].min(range.end);
        if part.is_empty() {
            continue;
        }
        let mut before = if part.start > sorted.bounds[t] { keys[part.start - 1] } else { 0 };
        for &key in &keys[part] {
            let value = key as u32 as usize;
            if key < before {
                return wrong("order of the sorted ids", before as usize, key as usize);
            }
            if (key >> 32) as usize >= table.rows {
                return wrong("rows of a table", table.rows, (key >> 32) as usize);
            }
            match samples.get(value) {
                Some(&sample) if (sample as usize) < index.samples => before = key,
                Some(&sample) => return wrong("samples of the index", index.samples, sample as usize),
                None => return wrong("values of the sorted ids", samples.len(), value),
            }
        }
    }
    Ok(())
}
