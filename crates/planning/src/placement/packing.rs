//! Pieces to holders, by load: the columns of the largest tables are halved until every holder can have a piece, then each
//! piece goes to the least loaded holder, largest first.

use spec::model::Model;
use spec::placement::{Layout, share};
use std::cmp::Reverse;

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

impl Load {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            lookups: self.lookups.saturating_add(other.lookups),
            memory: self.memory.saturating_add(other.memory),
        }
    }
}

/// Loads of holders, as pieces are given to them.
pub(super) struct Loads(Vec<Load>);

impl Loads {
    /// So many holders that have nothing yet.
    pub(super) fn none(holders: usize) -> Self {
        Self(vec![Load::default(); holders])
    }

    pub(super) fn of(&self, holder: usize) -> Load {
        self.0[holder]
    }

    pub(super) fn add(&mut self, holder: usize, load: Load) {
        self.0[holder] = self.0[holder].plus(load);
    }

    /// The least loaded of some holders; of equally loaded ones the first.
    pub(super) fn least(&self, among: impl Iterator<Item = usize>) -> usize {
        among.min_by_key(|&holder| self.0[holder]).expect("groups have ranks, clusters have groups")
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
    let mut order: Vec<(usize, usize)> =
        cuts.iter().enumerate().flat_map(|(i, &cut)| (0..cut).map(move |number| (i, number))).collect();
    order.sort_by_key(|piece| Reverse(of_piece(piece)));
    let mut loads = Loads::none(ranks.len());
    let mut holders: Vec<Vec<usize>> = cuts.iter().map(|&cut| vec![0; cut]).collect();
    for piece in order {
        let index = loads.least(0..ranks.len());
        loads.add(index, of_piece(&piece));
        holders[piece.0][piece.1] = ranks[index];
    }
    let layout = |ranks: Vec<usize>| match ranks[..] {
        [rank] => Layout::TableWise { rank },
        _ => Layout::ColumnWise { ranks },
    };
    tables.iter().copied().zip(holders.into_iter().map(layout)).collect()
}
