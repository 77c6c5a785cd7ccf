//! The tables that a rank holds, at their initial weights.

use crate::Error;
use kernels::{Device, Table};
use spec::Pooling;
use spec::model::Model;
use spec::optimizer::UpdateRule;
use spec::placement::{Placement, Shard};
use spec::random::Stream;

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
        let mut table = Table::zeroed(device, shard.rows.len(), shard.columns.len(), pooling, rule)?;
        if device.computes() {
            initialise(&mut table, shard, model, seed);
        }
        tables.push(table);
    }
    Ok(tables)
}

/// Where each shard's columns begin when they stand side by side.
pub fn columns(shards: &[Shard]) -> Vec<usize> {
    let starts = shards.iter().scan(0, |next, shard| {
        let start = *next;
        *next += shard.columns.len();
        Some(start)
    });
    starts.collect()
}

/// Uniform in ±1/√rows. Any shard of a table draws the same weights as the whole would.
fn initialise(table: &mut Table, shard: &Shard, model: &Model, seed: u64) {
    let feature = &model.features()[shard.feature];
    let stream = Stream::new(seed, &format!("table.{}", feature.name));
    let bound = 1.0 / (feature.rows as f32).sqrt();
    let dim = model.row_width();
    // Row blocks of about a megabyte: the whole table need not exist twice.
    let block = (1usize << 18).div_ceil(shard.columns.len());
    let mut drawn = Vec::new();
    let mut row = shard.rows.start;
    while row < shard.rows.end {
        let end = (row + block).min(shard.rows.end);
        drawn.clear();
        for r in row..end {
            let first = r as u64 * dim as u64;
            drawn.extend(shard.columns.clone().map(|c| stream.symmetric(first + c as u64, bound)));
        }
        table.weights.write((row - shard.rows.start) * shard.columns.len(), &drawn);
        row = end;
    }
}
