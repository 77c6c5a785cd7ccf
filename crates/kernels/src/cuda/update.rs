//! Updates of the rows that were looked up: `kernels/update.cu`.
//!
//! A row of up to 64 values is summed and updated by one group of threads. The values of other rows are summed in tiles of 64, counted
//! from the row's first value, and the tiles are added in a fixed order: a row's sum depends on the list of its values alone.

use super::Cuda;
use super::arrays::Scratch;
use super::launch::Launch;
use super::memory::Pointer;
use super::rule::Rule;
use super::tables::{BLOCK, Span, TableCall, by_format, lanes, of_format, spans};
use crate::op::Result;
use crate::reference::embedding::check_bounds;
use crate::{BagIndex, Buffer, Repeats, SortedIds, Table, Update, UpdateTables};
use ground::optimizer::UpdateRule;
use ground::table_format::TableFormat;

/// Values that are summed one after another.
pub(super) const TILE: usize = 64;
/// Keys of a block that updates rows of up to a tile of values, one for each thread.
const BLOCK_KEYS: usize = 128;

/// Gradients of samples, and where sorted keys find them.
#[derive(Clone, Copy)]
pub(super) struct Gradients<'a> {
    pub(super) index: &'a BagIndex,
    pub(super) sorted: &'a SortedIds,
    pub(super) weights: Option<&'a Buffer<f32>>,
    pub(super) dout: &'a Buffer<f32>,
    pub(super) width: usize,
}

impl Gradients<'_> {
    /// Adds the arguments that `GRADIENTS` of `kernels/update.cu` names.
    pub(super) fn of<'l>(&self, launch: Launch<'l>, cuda: &Cuda) -> Launch<'l> {
        let Self { index, sorted, weights, dout, width } = self;
        launch
            .arg(&sorted.samples)
            .arg(sorted.samples.len())
            .arg(&index.lengths)
            .arg(index.samples)
            .arg(*weights)
            .arg(*dout)
            .arg(dout.len().checked_div(*width).unwrap_or(usize::MAX))
            .arg(*width)
            .arg(cuda.faults())
    }
}

pub(super) fn update_tables(cuda: &Cuda, args: UpdateTables) -> Result {
    let UpdateTables { tables, which, columns, width, index, sorted, weights, dout, update } = args;
    check_bounds(which.clone(), index, sorted)?;
    if sorted.bounds[which.end] == sorted.bounds[which.start] {
        return Ok(());
    }
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.note_samples(index.samples, dout.len().checked_div(width).unwrap_or(0));
    cuda.note_values(sorted.samples.len());
    let gradients = Gradients { index, sorted, weights, dout, width };
    by_format(tables, which)
        .try_for_each(|of_format| update_tables_of(cuda, tables, of_format, columns, gradients, update))
}

/// Updates those of the tables that have a format.
fn update_tables_of(
    cuda: &Cuda,
    tables: &[Table],
    (format, which): (TableFormat, Vec<usize>),
    columns: &[usize],
    gradients: Gradients,
    update: Update,
) -> Result {
    let Gradients { index, sorted, .. } = gradients;
    let bounds = &sorted.bounds;
    let parts = spans(which.iter().map(|&t| (bounds[t], bounds[t + 1])), TILE);
    let each = |dim: usize| update.rule.state_per_row(dim);
    let call = |&t: &usize| TableCall::new(&tables[t], t, columns[t], each(tables[t].dim));
    let calls: Vec<_> = which.iter().map(call).collect();
    let widest = tables.iter().map(|table| table.dim).max().unwrap_or(0);
    let on_card =
        OnCard { calls: cuda.constant(&calls)?, spans: cuda.array(index.places.vary, &parts)?, gradients };
    let rule = rule_of(&calls, update).words();
    let name = by_rule(&update.rule, of_format(format, kernels_of!("update_short")));
    // Lists the rows of more values too.
    let long = LongRuns::new(cuda, &parts, widest)?;
    let [counter, runs, list] =
        long.as_ref().map_or([Pointer::NULL; 3], |long| [long.counter, long.runs, long.list]);
    let most = parts.iter().map(|part| part.count as usize).max().unwrap_or(0);
    let short = cuda
        .kernel(name)
        .block(BLOCK_KEYS as u32)
        .grid3([most.div_ceil(BLOCK_KEYS), parts.len(), 1])
        .arg(on_card.calls)
        .arg(on_card.spans)
        .words(&rule)
        .arg(&sorted.keys)
        .arg(counter)
        .arg(runs)
        .arg(list);
    on_card.gradients.of(short, cuda).launch()?;
    let Some(long) = long else { return Ok(()) };
    on_card.sum_tiles(cuda, &long)?;
    on_card.update_by_tiles(cuda, &long, &rule, format)
}

/// Names of the kernels of all rules, for each format.
macro_rules! kernels_of {
    ($stem:literal) => {
        [
            kernels_of!($stem, ""),
            kernels_of!($stem, "_f16"),
            kernels_of!($stem, "_bf16"),
            kernels_of!($stem, "_int8"),
        ]
    };
    ($stem:literal, $format:literal) => {
        [
            concat!($stem, "_sgd", $format),
            concat!($stem, "_adagrad", $format),
            concat!($stem, "_row_wise", $format),
            concat!($stem, "_adam", $format),
            concat!($stem, "_lamb", $format),
        ]
    };
}
pub(super) use kernels_of;

/// The rule of rows of some tables.
pub(super) fn rule_of(calls: &[TableCall], update: Update) -> Rule {
    let rule = Rule::row(update);
    if calls.iter().any(TableCall::rounds_at_random) { rule.rounding_in(update.step) } else { rule }
}

/// The one of these kernels that is for a rule.
pub(super) fn by_rule(rule: &UpdateRule, kernels: [&'static str; 5]) -> &'static str {
    kernels[match rule {
        UpdateRule::Sgd => 0,
        UpdateRule::Adagrad { .. } => 1,
        UpdateRule::RowWiseAdagrad { .. } => 2,
        UpdateRule::Adam { .. } => 3,
        UpdateRule::Lamb { .. } => 4,
    }]
}

/// Arrays of a call on the card.
pub(super) struct OnCard<'a> {
    pub(super) calls: Pointer,
    /// Keys of each table.
    pub(super) spans: Pointer,
    pub(super) gradients: Gradients<'a>,
}

/// Room for rows of more than a tile of values, and for the sums of their tiles.
pub(super) struct LongRuns {
    /// Blocks that are worth launching, one for each row.
    pub(super) blocks: usize,
    /// Number of rows in the upper half, of tiles in the lower half.
    pub(super) counter: Pointer,
    pub(super) runs: Pointer,
    /// Tiles of all rows, and the most that there can be.
    list: Pointer,
    tiles: usize,
    pub(super) sums: Pointer,
    /// Floats from the sum of a tile to that of the next.
    pub(super) stride: usize,
}

impl LongRuns {
    /// Room for the rows of these parts, of tables of at most `widest` floats a row, with nothing in it; `None` where no table has as
    /// many values.
    fn new(cuda: &Cuda, parts: &[Span], widest: usize) -> Result<Option<Self>> {
        let counts = parts.iter().map(|part| part.count as usize).filter(|&count| count > TILE);
        let total = counts.sum::<usize>();
        if total == 0 {
            return Ok(None);
        }
        // A row of n values has n / 64 tiles, rounded up, and more than 64 values.
        let (rows, tiles) = (total / TILE + 1, total / (TILE / 2) + 2);
        let room = cuda.scratch(Scratch::Runs, 16 + 16 * rows + 8 * tiles)?;
        let (counter, runs, list) = (room, room.plus(16), room.plus(16 + 16 * rows));
        let stride = widest.next_multiple_of(4);
        let sums = cuda.scratch(Scratch::Sums, tiles * stride * size_of::<f32>())?;
        cuda.stream().fill(counter.0, 0, 16)?;
        let blocks = rows.min(8 * cuda.multiprocessors() as usize);
        Ok(Some(Self { blocks, counter, runs, list, tiles, sums, stride }))
    }
}

impl OnCard<'_> {
    /// Updates rows of f32 that have more than a tile of values.
    fn update_long_runs(&self, cuda: &Cuda, parts: &[Span], widest: usize, rule: &[u64]) -> Result {
        let Some(long) = self.sum_long_runs(cuda, parts, widest)? else { return Ok(()) };
        self.update_by_tiles(cuda, &long, rule, TableFormat::F32)
    }

    /// Updates rows of more than a tile of values, whose tiles are summed.
    fn update_by_tiles(&self, cuda: &Cuda, long: &LongRuns, rule: &[u64], format: TableFormat) -> Result {
        let kernels =
            ["update_long_runs", "update_long_runs_f16", "update_long_runs_bf16", "update_long_runs_int8"];
        cuda.kernel(of_format(format, kernels))
            .grid(long.blocks)
            .arg(self.calls)
            .words(rule)
            .arg(&self.gradients.sorted.keys)
            .arg(long.counter)
            .arg(long.runs)
            .arg(long.sums)
            .arg(long.stride)
            .arg(cuda.faults())
            .launch()
    }

    /// Updates rows of f32 that have several values. `calls` are all tables, of one dim, in an order of their own; `parts` are in that
    /// order.
    pub(super) fn update_repeats(
        &self,
        cuda: &Cuda,
        calls: &[TableCall],
        parts: &[Span],
        update: Update,
        repeats: &Repeats,
    ) -> Result {
        let mut numbers = vec![0u32; calls.len()];
        calls.iter().enumerate().for_each(|(i, call)| numbers[call.number()] = i as u32);
        let (rule, keys) = (Rule::row(update).words(), &self.gradients.sorted.keys);
        let name = by_rule(&update.rule, kernels_of!("update_listed", ""));
        let blocks = (keys.len() / 2).div_ceil(BLOCK / 32).min(16 * cuda.multiprocessors() as usize);
        let listed = cuda
            .kernel(name)
            .grid(blocks)
            .arg(self.calls)
            .arg(cuda.constant(&numbers)?)
            .arg(self.spans)
            .words(&rule)
            .arg(keys)
            .arg(&repeats.count)
            .arg(&repeats.list);
        self.gradients.of(listed, cuda).launch()?;
        let widest = calls.iter().map(TableCall::dim).max().unwrap_or(0);
        self.update_long_runs(cuda, parts, widest, &rule)
    }

    /// Finds the rows of more than a tile of values and sums their tiles; `None` where no table has as many values.
    pub(super) fn sum_long_runs(
        &self,
        cuda: &Cuda,
        parts: &[Span],
        widest: usize,
    ) -> Result<Option<LongRuns>> {
        let Some(long) = LongRuns::new(cuda, parts, widest)? else { return Ok(None) };
        let most = parts.iter().map(|part| part.count as usize).max().unwrap_or(0);
        cuda.kernel("find_long_runs")
            .grid3([most.div_ceil(BLOCK), parts.len(), 1])
            .arg(self.spans)
            .arg(&self.gradients.sorted.keys)
            .arg(long.counter)
            .arg(long.runs)
            .arg(long.list)
            .launch()?;
        self.sum_tiles(cuda, &long)?;
        Ok(Some(long))
    }

    /// Sums the tiles of rows that are listed.
    fn sum_tiles(&self, cuda: &Cuda, long: &LongRuns) -> Result {
        let lanes = lanes(long.stride);
        let launch = cuda
            .kernel("sum_tiles")
            .grid(long.tiles.div_ceil(BLOCK / lanes).min(8 * cuda.multiprocessors() as usize))
            .arg(self.calls)
            .arg(&self.gradients.sorted.keys)
            .arg(long.counter)
            .arg(long.list)
            .arg(long.sums)
            .arg(long.stride)
            .arg(lanes as u32);
        self.gradients.of(launch, cuda).launch()
    }
}
