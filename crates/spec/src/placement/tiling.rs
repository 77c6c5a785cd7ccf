//! Checks that the shards of a table form a grid.

use super::{CopyUpdate, Holders, PlacementError, Shard};
use crate::model::Model;
use crate::topology::Topology;
use std::ops::Range;

/// Checks the shards of a feature's table, which lie by rows and then by columns, and numbers their pieces of rows.
pub(super) fn check(
    model: &Model,
    topology: Topology,
    feature: usize,
    shards: &mut [Shard],
) -> Result<(), PlacementError> {
    let (rows, columns) = (model.features()[feature].rows, model.row_width(feature));
    let name = || model.features()[feature].name.clone();
    let tiling = |problem: String| PlacementError::Tiling { feature: name(), rows, columns, problem };
    let across = shards.iter().take_while(|shard| shard.rows == shards[0].rows).count();
    if across == 0 {
        return Err(tiling("there is none".into()));
    }
    let down = shards.len() / across;
    if let Some(problem) = gap(shards[..across].iter().map(|shard| &shard.columns), columns, "columns") {
        return Err(tiling(problem));
    }
    if let Some(problem) = gap(shards.iter().step_by(across).map(|shard| &shard.rows), rows, "rows") {
        return Err(tiling(problem));
    }
    for (i, shard) in shards.iter().enumerate() {
        let (of_row, of_column) = (&shards[i - i % across].rows, &shards[i % across].columns);
        if shard.rows != *of_row || shard.columns != *of_column || shards.len() != down * across {
            let Shard { rows, columns, .. } = shard;
            return Err(tiling(format!("rows {rows:?} × columns {columns:?} are no rectangle of a grid")));
        }
        let unknown = shard.holders.ranks().iter().find(|&&rank| rank >= topology.ranks());
        if let Some(&index) = unknown {
            return Err(PlacementError::Unknown {
                feature: name(),
                what: "rank",
                index,
                count: topology.ranks(),
            });
        }
        if let Holders::Copies { ranks, update } = &shard.holders {
            if shards.len() > 1 {
                return Err(PlacementError::CutCopies { feature: name() });
            }
            if !ascend(ranks) {
                return Err(PlacementError::Order { feature: name(), ranks: ranks.to_vec() });
            }
            if *update == CopyUpdate::Samples && ranks.len() < topology.ranks() {
                let (ranks, count) = (ranks.to_vec(), topology.ranks());
                return Err(PlacementError::SomeCopies { feature: name(), ranks, count });
            }
        }
    }
    name_cores(model, feature, shards)?;
    for column in 0..across {
        let ranks: Vec<usize> = shards[column..]
            .iter()
            .step_by(across)
            .flat_map(|shard| shard.holders.ranks())
            .copied()
            .collect();
        if !ascend(&ranks) {
            return Err(PlacementError::Order { feature: name(), ranks });
        }
    }
    shards.iter_mut().enumerate().for_each(|(i, shard)| shard.piece = (i / across, down));
    Ok(())
}

/// Copies of a tensor train are kept equal by the gradients of its cores; a tensor train has copies alone.
fn name_cores(model: &Model, feature: usize, shards: &mut [Shard]) -> Result<(), PlacementError> {
    let is_train = model.tensor_train(feature).is_some();
    let name = || model.features()[feature].name.clone();
    match shards.iter_mut().map(|shard| &mut shard.holders).next() {
        Some(Holders::Copies { update, .. }) if is_train && *update != CopyUpdate::Samples => {
            *update = CopyUpdate::Cores;
            Ok(())
        }
        _ if is_train => Err(PlacementError::TensorTrain { feature: name() }),
        Some(Holders::Copies { update: CopyUpdate::Cores, .. }) => {
            Err(PlacementError::NoTensorTrain { feature: name() })
        }
        _ => Ok(()),
    }
}

/// The first thing that is wrong with ranges that should follow each other from 0 to `len`.
fn gap<'a>(ranges: impl Iterator<Item = &'a Range<usize>>, len: usize, what: &str) -> Option<String> {
    let mut end = 0;
    for range in ranges {
        if range.start != end || range.is_empty() {
            return Some(format!("{what} {range:?} follow {what} that end at {end}"));
        }
        end = range.end;
    }
    (end != len).then(|| format!("{what} end at {end}"))
}

fn ascend(ranks: &[usize]) -> bool {
    !ranks.is_empty() && ranks.windows(2).all(|pair| pair[0] < pair[1])
}
