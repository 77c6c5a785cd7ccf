//! The tables that a rank holds: initial weights, and updates by the gradients of what was looked up.

use super::Input;
use crate::Error;
use crate::cache::RowCache;
use kernels::{Buffer, Device, DrawTable, KernelError, RandomRounding, Table, Update, UpdateTables};
use spec::Pooling;
use spec::codec::Rounding;
use spec::model::Model;
use spec::optimizer::UpdateRule;
use spec::placement::{Placement, Shard};
use spec::random::RandomSequence;
use spec::table_cache::{self, CachePolicy, CachedShard, TableCache};
use std::fs::File;
use std::ops::Range;

/// What the tables of all ranks have in common.
#[derive(Clone, Copy, Debug)]
pub struct TableSettings<'a> {
    /// Update rule, which says how much state a row has.
    pub rule: &'a UpdateRule,
    /// Rounding of formats other than f32.
    pub rounding: Rounding,
    /// Seed of the initial weights, and of the rounding.
    pub seed: u64,
    /// Tables larger than memory, and the samples of a batch; `None` where all tables are in memory.
    pub cache: Option<(&'a TableCache, usize)>,
}

/// Allocates and initialises the shards that `rank` holds, in the order of [`Placement::held_by`]. Of tables larger than memory, slots for
/// some rows are allocated.
pub fn allocate(
    device: &Device,
    model: &Model,
    placement: &Placement,
    rank: usize,
    settings: TableSettings,
) -> Result<(Vec<Table>, Option<RowCache>), Error> {
    let (held, owned) = (placement.held_by(rank), placement.owned_by(rank).len());
    let TableSettings { rule, rounding, seed, cache } = settings;
    let mut tables = Vec::with_capacity(held.len());
    let mut cached = Vec::with_capacity(held.len());
    for (i, shard) in held.iter().enumerate() {
        let pooling = match placement.mean_by_weight(model, shard.feature) {
            true => Pooling::Sum,
            false => model.features()[shard.feature].pooling,
        };
        let (mut rows, columns) = (shard.rows.len(), shard.columns.len());
        if shard.is_tensor_train() {
            // The cores of a tensor train are dense parameters, and its rows are computed.
            tables.push(Table::without_rows(device, [rows, columns], pooling));
            cached.push(None);
            continue;
        }
        let stored = model.table_format(shard.feature);
        // Beside tables larger than memory, those that are whole in memory are as precise there; copies are not.
        let of_cache = cache.and_then(|(cache, _)| cache.format).filter(|_| i < owned);
        let format = of_cache.unwrap_or(stored);
        let (mut below, mut mapped) = (None, None);
        if let Some((cache, _)) = cache
            && cache.shards.of_rank(rank)[i].is_some()
            && cache.policy == CachePolicy::Mapped
        {
            mapped = Some(match device {
                // GPUs reach page-locked memory of the host by themselves.
                Device::Cuda(_) => Mapped::Host,
                _ => Mapped::Files(RowCache::mapped_files(cache, (shard, rank))?),
            });
        } else if let Some((cache, batch)) = cache
            && let Some(CachedShard { slots, .. }) = cache.shards.of_rank(rank)[i]
        {
            let (state, scratch) = (rule.state_per_row(columns), table_cache::scratch(slots));
            below = Some(RowCache::table(
                (device, cache),
                (model, shard),
                state,
                [slots, scratch],
                (seed, rank),
            )?);
            // Room for the rows of two batches, should so many need scratch; on the host it is memory only once it is used.
            let ids = batch.saturating_mul(model.features()[shard.feature].hotness.mean() as usize);
            let most = if device.is_queued() { 0 } else { ids.saturating_mul(2) };
            let room = most.clamp(scratch, rows.max(scratch));
            rows = slots + room;
        }
        let table = match &mapped {
            None => Table::in_format(device, format, [rows, columns], pooling, rule),
            Some(Mapped::Host) => Table::in_format(device.pinned(), format, [rows, columns], pooling, rule),
            Some(Mapped::Files([weights, state])) => {
                Table::mapped([weights, state], format, [rows, columns], pooling, rule)
            }
        };
        let mut table = table.map_err(|error| match error {
            KernelError::OutOfMemory { .. } => {
                let feature = model.features()[shard.feature].name.clone();
                Error::TableMemory { feature, rows, columns, error: Box::new(error) }
            }
            error => error.into(),
        })?;
        let is_cached = below.is_some();
        if !is_cached {
            initialise(device, &mut table, shard, model, seed)?;
        }
        // Rows of f32 are rounded when they leave for a file of fewer bits.
        if (format.rounds() || (is_cached && stored.rounds())) && rounding == Rounding::Stochastic {
            let name = &model.features()[shard.feature].name;
            table.weights.round_at_random(RandomRounding {
                sequence: RandomSequence::new(seed, &format!("rounding.{name}")),
                first_row: shard.rows.start,
                first_column: shard.columns.start,
            });
            if is_cached {
                table.weights.hold_some_rows()?;
            }
        }
        tables.push(table);
        cached.push(below);
    }
    let any = cached.iter().any(Option::is_some);
    let cache = any.then(|| RowCache::new(device, cached)).transpose()?;
    Ok((tables, cache))
}

/// Where a table is that is mapped into memory.
enum Mapped {
    /// In files: of weights, and of optimizer state.
    Files([File; 2]),
    /// In memory of the host.
    Host,
}

/// Some of a rank's tables, whose vectors stand side by side.
#[derive(Clone, Debug)]
pub(super) struct SideBySide<'a> {
    /// Range of the rank's tables.
    pub tables: Range<usize>,
    /// Column at which the vectors of each of the rank's tables begin.
    pub columns: &'a [usize],
    /// Columns of all of them together.
    pub width: usize,
}

impl SideBySide<'_> {
    /// Updates these of the rank's `tables` by the gradients of their vectors.
    pub(super) fn update(
        self,
        device: &Device,
        tables: &mut [Table],
        update: Update,
        input: &Input,
        gradients: &Buffer<f32>,
    ) -> Result<(), Error> {
        let Self { tables: which, columns, width } = self;
        let (index, sorted, weights) = (&input.index, &input.sorted, input.weights());
        Ok(device.update_tables(UpdateTables {
            tables,
            which,
            columns,
            width,
            index,
            sorted,
            weights,
            dout: gradients,
            update,
        })?)
    }
}

/// Offset of the columns of each shard, if the shards are concatenated.
pub fn columns<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> Vec<usize> {
    let starts = shards.into_iter().scan(0, |next, shard| {
        let start = *next;
        *next += shard.columns.len();
        Some(start)
    });
    starts.collect()
}

/// Floats that are drawn at a time for tables of other formats.
const DRAWN: usize = 1 << 18;

/// Uniform in ±1/√rows. Any shard of a table draws the same weights as the whole would.
fn initialise(
    device: &Device,
    table: &mut Table,
    shard: &Shard,
    model: &Model,
    seed: u64,
) -> Result<(), KernelError> {
    let feature = &model.features()[shard.feature];
    let draw = |rows: Range<usize>, weights: &mut Buffer<f32>| {
        device.draw_table(DrawTable {
            sequence: RandomSequence::new(seed, &format!("table.{}", feature.name)),
            bound: 1.0 / (feature.rows as f32).sqrt(),
            dim: model.row_width(shard.feature),
            rows,
            columns: shard.columns.clone(),
            weights,
        })
    };
    if let Some(floats) = table.weights.floats_mut() {
        return draw(shard.rows.clone(), floats);
    }
    // Rounded to nearest, some rows at a time.
    let width = shard.columns.len();
    let block = DRAWN.div_ceil(width.max(1));
    let mut drawn = Buffer::new(device);
    for first in shard.rows.clone().step_by(block) {
        let rows = first..(first + block).min(shard.rows.end);
        drawn.resize(rows.len() * width)?;
        draw(rows, &mut drawn)?;
        if !drawn.has_contents() {
            // A device that computes nothing.
            return Ok(());
        }
        table.weights.write(first - shard.rows.start, &drawn.to_vec()?)?;
    }
    Ok(())
}
