//! Pieces to holders, by load: the columns of the largest tables are halved until every holder can have a piece, then each
//! piece goes to the least loaded holder, largest first.

use crate::assignment::{Loads, give_largest_first};
use spec::model::Model;
use spec::placement::{Layout, share};
use std::cmp::Reverse;
use std::ops::Add;

/// The fewest columns of a piece: narrower ones cost more in ids than they save in vectors.
const MIN_COLUMNS: usize = 4;

/// What tables cost their holder. Loads are compared by lookups first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Load {
    /// Floats that are read and sent for a sample.
    pub lookups: u64,
    /// Memory, in the unit of whoever compares: floats of tables, or rows.
    pub memory: u64,
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            lookups: self.lookups.saturating_add(other.lookups),
            memory: self.memory.saturating_add(other.memory),
        }
    }
}

/// Layouts of some tables over some ranks, by columns: tables are whole where there are enough of them, otherwise the
/// largest are halved until every rank has a piece.
pub(crate) fn columns_over(model: &Model, tables: &[usize], ranks: &[usize]) -> Vec<(usize, Layout)> {
    let width = |i: usize| model.row_width(tables[i]);
    let load = |table: usize, columns: usize| {
        let (feature, columns) = (&model.features()[table], columns as u64);
        Load {
            lookups: (feature.hotness.mean() + 1).saturating_mul(columns),
            memory: (feature.rows as u64).saturating_mul(columns),
        }
    };
    let mut cuts = vec![1; tables.len()];
    let mut pieces = tables.len();
    while pieces < ranks.len() {
        let can_be_halved = (0..cuts.len()).filter(|&i| width(i) / (2 * cuts[i]) >= MIN_COLUMNS);
        let largest = can_be_halved.max_by_key(|&i| (load(tables[i], width(i) / cuts[i]), Reverse(i)));
        let Some(largest) = largest else { break };
        pieces += cuts[largest];
        cuts[largest] *= 2;
    }
    let of_piece = |&(i, number): &(usize, usize)| load(tables[i], share(width(i), cuts[i], number).len());
    let pieces: Vec<(usize, usize)> =
        cuts.iter().enumerate().flat_map(|(i, &cut)| (0..cut).map(move |number| (i, number))).collect();
    let costs: Vec<Load> = pieces.iter().map(of_piece).collect();
    let least = |_, loads: &Loads<Load>| loads.least(0..ranks.len());
    let given = give_largest_first(&costs, &mut Loads::none(ranks.len()), least);
    let mut holders: Vec<Vec<usize>> = vec![Vec::new(); tables.len()];
    for (&(i, _), holder) in pieces.iter().zip(given.expect("a cluster has ranks")) {
        holders[i].push(ranks[holder]);
    }
    let layout = |ranks: Vec<usize>| match ranks[..] {
        [rank] => Layout::TableWise { rank },
        _ => Layout::ColumnWise { ranks },
    };
    tables.iter().copied().zip(holders.into_iter().map(layout)).collect()
}
