//! Rows of data-parallel tables: `kernels/rows.cu`, and sums of runs by `kernels/update.cu`.
//!
//! The numbers of rows that [`find_runs`] and [`collect_rows`] find size what comes next, so these two wait for the device.

use super::Cuda;
use super::arrays::Scratch;
use super::memory::Pointer;
use super::sort::{Sort, row_shifts};
use super::tables::{BLOCK, Span, TableCall, grid, of_format, spans, tiles};
use super::update::{Gradients, OnCard, by_rule, kernels_of, rule_of};
use crate::op::Result;
use crate::{Buffer, CollectRows, RowPart, RowRuns, SortedIds, SpreadRows, SumRows, Table, UpdateRows};
use ground::table_format::TableFormat;

/// Elements that a block looks at.
const LOOKED: usize = 4 * BLOCK;

pub(super) fn find_runs(
    cuda: &Cuda,
    which: &[usize],
    sorted: &SortedIds,
    runs: &mut RowRuns,
    rows: &mut Buffer<u32>,
) -> Result<bool> {
    let SortedIds { keys, bounds, .. } = sorted;
    let parts = spans(which.iter().map(|&t| (bounds[t], bounds[t + 1])), LOOKED);
    // Every key may be a run of its own.
    let most = parts.iter().map(|part| part.count as usize).sum();
    runs.firsts.resize(most)?;
    rows.resize(most)?;
    runs.bounds.clear();
    if most == 0 {
        runs.bounds.resize(which.len() + 1, 0);
        return Ok(true);
    }
    let found = Found::new(cuda, &parts)?;
    found.count("count_heads", |launch| launch.arg(keys))?;
    cuda.kernel("write_heads")
        .grid3(found.grid)
        .arg(found.spans)
        .arg(keys)
        .arg(found.counts)
        .arg(&mut runs.firsts)
        .arg(&mut *rows)
        .launch()?;
    let found = found.read(cuda)?;
    runs.bounds.extend(found.iter().map(|&bound| bound as usize));
    let count = runs.bounds.last().map_or(0, |&last| last);
    runs.firsts.resize(count)?;
    rows.resize(count)?;
    Ok(true)
}

/// Elements of some parts that a kernel looks for: their numbers, block by block, and what lies before each part.
struct Found<'a> {
    cuda: &'a Cuda,
    spans: Pointer,
    parts: usize,
    grid: [usize; 3],
    blocks: usize,
    counts: Pointer,
    bounds: Pointer,
}

impl<'a> Found<'a> {
    fn new(cuda: &'a Cuda, parts: &[Span]) -> Result<Self> {
        let (blocks, most) = tiles(parts, LOOKED);
        let counts = cuda.scratch(Scratch::Runs, (blocks + parts.len() + 1) * size_of::<u32>())?;
        Ok(Self {
            cuda,
            spans: cuda.transient(parts)?,
            parts: parts.len(),
            grid: [most, parts.len(), 1],
            blocks,
            counts,
            bounds: counts.plus(blocks * size_of::<u32>()),
        })
    }

    /// Counts what the kernel `name` finds, and adds the counts up.
    fn count(
        &self,
        name: &'static str,
        arguments: impl FnOnce(super::launch::Launch<'a>) -> super::launch::Launch<'a>,
    ) -> Result {
        arguments(self.cuda.kernel(name).grid3(self.grid).arg(self.spans)).arg(self.counts).launch()?;
        self.cuda
            .kernel("add_up_counts")
            .block(1024)
            .grid(1)
            .arg(self.counts)
            .arg(self.blocks as u32)
            .arg(self.spans)
            .arg(self.parts as u32)
            .arg(self.bounds)
            .launch()
    }

    /// Reads what lies before each part, and the number of all, back to the host.
    fn read(self, cuda: &Cuda) -> Result<Vec<u32>> {
        let mut bounds = vec![0u32; self.parts + 1];
        cuda.read_back(self.bounds, &mut bounds)?;
        Ok(bounds)
    }
}

pub(super) fn sum_rows(cuda: &Cuda, args: SumRows) -> Result {
    let SumRows { tables, which, columns, width, index, sorted, runs, weights, dout, sums } = args;
    let offsets = sums_before(tables, which, &runs.bounds);
    sums.resize(offsets[which.len()] as usize)?;
    if runs.bounds[which.len()] == 0 {
        return Ok(());
    }
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.note_samples(index.samples, dout.len().checked_div(width).unwrap_or(0));
    cuda.note_values(sorted.samples.len());
    let bounds = &sorted.bounds;
    let parts = spans(which.iter().map(|&t| (bounds[t], bounds[t + 1])), LOOKED);
    let of_runs = spans(pairs(&runs.bounds), LOOKED);
    let calls: Vec<_> = which.iter().map(|&t| TableCall::new(&tables[t], t, columns[t], 0)).collect();
    let gradients = Gradients { index, sorted, weights, dout, width };
    let on_card = OnCard { calls: cuda.constant(&calls)?, spans: cuda.transient(&parts)?, gradients };
    let (runs_on_card, offsets) = (cuda.transient(&of_runs)?, cuda.transient(&offsets)?);
    let short = cuda
        .kernel("sum_short_runs")
        .grid3(grid(&calls, of_runs.iter().map(|part| part.count as usize)))
        .arg(on_card.calls)
        .arg(on_card.spans)
        .arg(runs_on_card)
        .arg(offsets)
        .arg(&runs.firsts)
        .arg(&sorted.keys)
        .arg(&mut *sums);
    on_card.gradients.of(short, cuda).launch()?;
    let widest = tables.iter().map(|table| table.dim).max().unwrap_or(0);
    let Some(long) = on_card.sum_long_runs(cuda, &parts, widest)? else { return Ok(()) };
    cuda.kernel("sum_long_runs")
        .grid(long.blocks)
        .arg(on_card.calls)
        .arg(runs_on_card)
        .arg(offsets)
        .arg(&runs.firsts)
        .arg(long.counter)
        .arg(long.runs)
        .arg(long.sums)
        .arg(long.stride)
        .arg(sums)
        .launch()
}

fn pairs(bounds: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    bounds.iter().copied().zip(bounds.iter().copied().skip(1))
}

/// Position of the first sum of each table, and the number of all floats.
fn sums_before(tables: &[Table], which: &[usize], bounds: &[usize]) -> Vec<u64> {
    let floats = which.iter().zip(pairs(bounds)).map(|(&t, (first, end))| (end - first) * tables[t].dim);
    running(floats)
}

/// Sums of the numbers before each, and of all.
fn running(numbers: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut sums = vec![0];
    let mut sum = 0;
    sums.extend(numbers.map(|number| {
        sum += number as u64;
        sum
    }));
    sums
}

/// Position of each table in a vector with a place for every row, and the length of the vector.
fn places_before(tables: &[Table], which: &[usize]) -> Vec<u64> {
    running(which.iter().map(|&t| tables[t].rows * (tables[t].dim + 1)))
}

pub(super) fn spread_rows(cuda: &Cuda, args: SpreadRows) -> Result {
    let SpreadRows { tables, which, runs, rows, sums, vector } = args;
    let (places, from) = (places_before(tables, which), sums_before(tables, which, &runs.bounds));
    vector.resize(places[which.len()] as usize)?;
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.stream().fill(vector.card_address().0, 0, vector.len() * size_of::<f32>())?;
    let of_runs = spans(pairs(&runs.bounds), LOOKED);
    let calls: Vec<_> = which.iter().map(|&t| TableCall::new(&tables[t], t, 0, 0)).collect();
    cuda.kernel("put_sums")
        .grid3(grid(&calls, of_runs.iter().map(|part| part.count as usize)))
        .arg(cuda.constant(&calls)?)
        .arg(cuda.transient(&of_runs)?)
        .arg(cuda.constant(&places)?)
        .arg(cuda.transient(&from)?)
        .arg(rows)
        .arg(sums)
        .arg(vector)
        .arg(cuda.faults())
        .launch()
}

pub(super) fn collect_rows(cuda: &Cuda, args: CollectRows) -> Result {
    let CollectRows { tables, which, vector, parts, rows, sums } = args;
    parts.clear();
    if which.is_empty() {
        rows.resize(0)?;
        return sums.resize(0);
    }
    let places = places_before(tables, which);
    // The numbers of touches lie behind the sums of a table.
    let numbers =
        which.iter().zip(&places).map(|(&t, place)| place + (tables[t].rows * tables[t].dim) as u64);
    let numbers = cuda.constant(&numbers.collect::<Vec<_>>())?;
    let all = spans(which.iter().map(|&t| (0, tables[t].rows)), LOOKED);
    // Every row may be touched.
    rows.resize(which.iter().map(|&t| tables[t].rows).sum())?;
    let found = Found::new(cuda, &all)?;
    found.count("count_touched", |launch| launch.arg(numbers).arg(vector))?;
    cuda.kernel("write_touched")
        .grid3(found.grid)
        .arg(found.spans)
        .arg(numbers)
        .arg(vector)
        .arg(found.counts)
        .arg(&mut *rows)
        .launch()?;
    let bounds: Vec<usize> = found.read(cuda)?.into_iter().map(|bound| bound as usize).collect();
    let to = sums_before(tables, which, &bounds);
    rows.resize(bounds[which.len()])?;
    sums.resize(to[which.len()] as usize)?;
    parts.extend(which.iter().zip(pairs(&bounds)).zip(&to).map(|((&table, (first, end)), &sums)| RowPart {
        table,
        rows: first..end,
        sums: sums as usize,
    }));
    let of_tables = spans(pairs(&bounds), LOOKED);
    let calls: Vec<_> = which.iter().map(|&t| TableCall::new(&tables[t], t, 0, 0)).collect();
    cuda.kernel("take_sums")
        .grid3(grid(&calls, of_tables.iter().map(|part| part.count as usize)))
        .arg(cuda.constant(&calls)?)
        .arg(cuda.transient(&of_tables)?)
        .arg(cuda.constant(&places)?)
        .arg(cuda.transient(&to)?)
        .arg(&*rows)
        .arg(vector)
        .arg(sums)
        .launch()
}

/// Part of the rows of a table, as `struct PartCall` of `kernels/rows.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::NoUninit)]
struct PartCall {
    call: u32,
    first: u32,
    count: u32,
    place: u32,
    sums: u32,
}

pub(super) fn update_rows(cuda: &Cuda, args: UpdateRows) -> Result {
    let UpdateRows { tables, parts, rows, sums, keys, update } = args;
    let total: usize = parts.iter().map(|part| part.rows.len()).sum();
    keys.resize(total)?;
    if total == 0 {
        return Ok(());
    }
    cuda.note_rows(tables.iter().map(|table| table.rows));
    let (mut calls, mut part_calls, mut bounds) = (Vec::new(), Vec::new(), vec![0]);
    let (mut place, mut repeat, mut most) = (0, false, 0);
    for of_table in parts.chunk_by(|a, b| a.table == b.table) {
        let (number, table) = (of_table[0].table, &tables[of_table[0].table]);
        for part in of_table {
            part_calls.push(PartCall {
                call: calls.len() as u32,
                first: part.rows.start as u32,
                count: part.rows.len() as u32,
                place: place as u32,
                sums: part.sums as u32,
            });
            place += part.rows.len();
        }
        // Rows of one part ascend as they are.
        if of_table.len() > 1 {
            (repeat, most) = (true, most.max(table.rows));
        }
        calls.push(TableCall::new(table, number, 0, update.rule.state_per_row(table.dim)));
        bounds.push(place);
    }
    let shifts: Vec<u32> = row_shifts(most).take(if repeat { usize::MAX } else { 0 }).collect();
    let spare = cuda.scratch(Scratch::Keys, total * size_of::<u64>())?;
    let sorted = keys.card_address();
    let first = if shifts.len().is_multiple_of(2) { sorted } else { spare };
    let parts_on_card = cuda.transient(&part_calls)?;
    let (calls_on_card, spans) = (cuda.constant(&calls)?, Sort::parts(pairs(&bounds)));
    let largest = part_calls.iter().map(|part| part.count as usize).max().unwrap_or(0);
    cuda.kernel("emit_parts")
        .grid3([part_calls.len(), largest.div_ceil(LOOKED), 1])
        .arg(calls_on_card)
        .arg(parts_on_card)
        .arg(rows)
        .arg(first)
        .arg(cuda.faults())
        .launch()?;
    let sort = Sort::new(cuda, &spans, true)?;
    sort.passes(&shifts, sorted, spare)?;
    let format_of = |call: &TableCall| tables[call.number()].weights.format();
    for format in TableFormat::ALL {
        // The list of all tables is on the card already, which is the list of a format where there is but one.
        let of: Vec<_> = calls.iter().zip(&spans).filter(|(call, _)| format_of(call) == format).collect();
        let (some, parts): (Vec<_>, Vec<_>) = of.into_iter().map(|(&call, &part)| (call, part)).unzip();
        let on_card = match some.len() {
            0 => continue,
            len if len == calls.len() => [calls_on_card, sort.spans()],
            _ => [cuda.constant(&some)?, cuda.transient(&parts)?],
        };
        cuda.kernel(by_rule(&update.rule, of_format(format, kernels_of!("update_by_sums"))))
            .grid3(grid(&some, parts.iter().map(|part| part.count as usize)))
            .arg(on_card[0])
            .arg(on_card[1])
            .words(&rule_of(&some, update).words())
            .arg(&*keys)
            .arg(sums)
            .launch()?;
    }
    Ok(())
}
