//! Weights that a new run takes from a checkpoint of another: tables, rows of tables, and dense parameters. Optimizer state and
//! the number of steps are not taken.

use crate::cache::TableRowsMut;
use crate::checkpoint::state::{places, read_weights, table_weight};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::step::rank_state::RankState;
use spec::placement::Shard;
use spec::run::Run;
use std::collections::BTreeSet;

/// Floats that are read at once.
const BLOCK: usize = 1 << 18;

/// Weights that a new run takes from a checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TakenWeights {
    /// Rows of each table that are taken, by feature of the new run.
    pub tables: Vec<TakenRows>,
    /// Names of the dense parameters that are taken.
    pub layers: BTreeSet<String>,
}

/// Rows of a table that are taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TakenRows {
    /// No row: the table starts at its initial weights.
    #[default]
    None,
    /// All rows, each as it is.
    All,
    /// Some rows: row of the checkpoint and row of the new run, sorted by the first. Other rows start at their initial weights.
    Some(Vec<(u32, u32)>),
}

/// Writes the weights that `taken` names over those of `index`, a rank of `run`.
pub(crate) fn warm_start(
    run: &Run,
    index: usize,
    rank: &mut RankState,
    checkpoint: &Checkpoint,
    taken: &TakenWeights,
) -> Result<(), CheckpointError> {
    rank.settle_rows()?;
    for (i, shard) in run.placement.with_rows_by(index).iter().enumerate() {
        let mut table = rank.rows_of_mut(i);
        let name = table_weight(&run.model.features()[shard.feature].name);
        match taken.tables.get(shard.feature) {
            None | Some(TakenRows::None) => {}
            Some(TakenRows::All) => read_weights(checkpoint, name, shard, &mut table)?,
            Some(TakenRows::Some(rows)) => copy_rows(checkpoint, &name, rows, shard, &mut table)?,
        }
    }
    for (parameter, offsets) in places(run, rank) {
        if taken.layers.contains(&parameter.name) {
            let mut data = vec![0.0; parameter.len];
            let columns = parameter.shape.get(1).map_or(0..1, |&width| 0..width);
            checkpoint.read_rows(&parameter.name, 0..parameter.shape[0], columns, &mut data)?;
            rank.parameters.buckets[offsets.bucket].weights.change().write(offsets.weights.start, &data)?;
        }
    }
    Ok(())
}

/// Copies single rows of a table into a shard, reading the checkpoint's rows in blocks and in their order.
fn copy_rows(
    checkpoint: &Checkpoint,
    name: &str,
    rows: &[(u32, u32)],
    shard: &Shard,
    to: &mut TableRowsMut,
) -> Result<(), CheckpointError> {
    let width = shard.columns.len();
    let here = |(from, to): &(u32, u32)| (*from as usize, *to as usize);
    let wanted: Vec<(usize, usize)> =
        rows.iter().map(here).filter(|(_, to)| shard.rows.contains(to)).collect();
    let most = (BLOCK / width).max(1);
    let mut data = Vec::new();
    let mut rest = wanted.as_slice();
    while let Some(&(first, _)) = rest.first() {
        let count = rest.partition_point(|(from, _)| *from < first + most);
        let (block, after) = rest.split_at(count);
        let end = block.last().map_or(first, |(from, _)| *from) + 1;
        data.resize((end - first) * width, 0.0);
        checkpoint.read_rows(name, first..end, shard.columns.clone(), &mut data)?;
        for (from, row) in block {
            let floats = &data[(from - first) * width..][..width];
            to.write_weights(row - shard.rows.start, floats)?;
        }
        rest = after;
    }
    Ok(())
}
