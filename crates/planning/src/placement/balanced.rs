//! Tables laid out over the world, so that every rank has about as much to look up and to exchange.

use spec::model::Model;
use spec::placement::{Layout, Placement, share};
use spec::topology::Topology;
use std::cmp::Reverse;

/// The fewest columns of a piece: narrower ones cost more in ids than they save in vectors.
const MIN_COLUMNS: usize = 4;

/// Columns of a table.
struct Piece {
    feature: usize,
    /// Its number among the pieces of the feature.
    number: usize,
    /// What it costs its holder per sample, the rows it reads and the vector it sends, in columns; and its weights.
    load: (u64, u64),
}

/// Tables of at most `replicate_rows` rows on every rank; the others whole, each on the rank with the least to look
/// up and exchange so far, largest first. Where there are more ranks than tables, the columns of the largest are halved
/// until every rank has some.
pub fn balanced(model: &Model, topology: Topology, replicate_rows: usize) -> Placement {
    let (features, dim) = (model.features(), model.row_width());
    let placed: Vec<usize> = (0..features.len()).filter(|&f| features[f].rows > replicate_rows).collect();
    let load = |feature: usize, columns: usize| {
        let each = features[feature].hotness.mean() + 1;
        (each.saturating_mul(columns as u64), (features[feature].rows as u64).saturating_mul(columns as u64))
    };
    let mut cuts = vec![1; features.len()];
    let mut pieces = placed.len();
    while pieces < topology.ranks() {
        let can_be_halved = placed.iter().filter(|&&f| dim / (2 * cuts[f]) >= MIN_COLUMNS);
        let largest = can_be_halved.max_by_key(|&&f| (load(f, dim / cuts[f]), Reverse(f)));
        let Some(&largest) = largest else { break };
        pieces += cuts[largest];
        cuts[largest] *= 2;
    }
    let cut = |&feature: &usize| {
        let count = cuts[feature];
        (0..count).map(move |number| {
            let columns = share(dim, count, number).len();
            Piece { feature, number, load: load(feature, columns) }
        })
    };
    let mut order: Vec<Piece> = placed.iter().flat_map(cut).collect();
    order.sort_by_key(|piece| Reverse(piece.load));
    let mut holders: Vec<Vec<usize>> = cuts.iter().map(|&count| vec![0; count]).collect();
    let mut loads = vec![(0u64, 0u64); topology.ranks()];
    for piece in order {
        let rank = (0..loads.len()).min_by_key(|&r| (loads[r], r)).expect("a topology has ranks");
        loads[rank].0 = loads[rank].0.saturating_add(piece.load.0);
        loads[rank].1 = loads[rank].1.saturating_add(piece.load.1);
        holders[piece.feature][piece.number] = rank;
    }
    let mut layouts = vec![Layout::Replicated; features.len()];
    for feature in placed {
        let ranks = std::mem::take(&mut holders[feature]);
        layouts[feature] = match ranks[..] {
            [rank] => Layout::TableWise { rank },
            _ => Layout::ColumnWise { ranks },
        };
    }
    Placement::new(model, topology, layouts).expect("built from the model and the cluster themselves")
}
