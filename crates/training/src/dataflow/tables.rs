//! The tables that a rank holds: initial weights, and updates by the gradients of what was looked up.

use super::Input;
use crate::Error;
use kernels::{Buffer, Device, DrawTable, KernelError, Table, Update, UpdateTables};
use spec::Pooling;
use spec::model::Model;
use spec::optimizer::UpdateRule;
use spec::placement::{Placement, Shard};
use spec::random::RandomSequence;
use std::ops::Range;

/// Allocates and initialises the shards that `rank` holds, in the order of [`Placement::held_by`].
pub fn allocate(
    device: &Device,
    model: &Model,
    placement: &Placement,
    rank: usize,
    rule: &UpdateRule,
    seed: u64,
) -> Result<Vec<Table>, Error> {
    let held = placement.held_by(rank);
    let mut tables = Vec::with_capacity(held.len());
    for shard in held {
        let pooling = match placement.mean_by_weight(model, shard.feature) {
            true => Pooling::Sum,
            false => model.features()[shard.feature].pooling,
        };
        let (rows, columns) = (shard.rows.len(), shard.columns.len());
        let mut table = Table::zeroed(device, rows, columns, pooling, rule).map_err(|error| match error {
            KernelError::OutOfMemory { .. } => {
                let feature = model.features()[shard.feature].name.clone();
                Error::TableMemory { feature, rows, columns, error: Box::new(error) }
            }
            error => error.into(),
        })?;
        initialise(device, &mut table, shard, model, seed)?;
        tables.push(table);
    }
    Ok(tables)
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

/// Uniform in ±1/√rows. Any shard of a table draws the same weights as the whole would.
fn initialise(
    device: &Device,
    table: &mut Table,
    shard: &Shard,
    model: &Model,
    seed: u64,
) -> Result<(), KernelError> {
    let feature = &model.features()[shard.feature];
    device.draw_table(DrawTable {
        sequence: RandomSequence::new(seed, &format!("table.{}", feature.name)),
        bound: 1.0 / (feature.rows as f32).sqrt(),
        dim: model.row_width(shard.feature),
        rows: shard.rows.clone(),
        columns: shard.columns.clone(),
        weights: &mut table.weights,
    })
}
