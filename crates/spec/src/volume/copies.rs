//! Volumes of data-parallel tables: the rows that the ids of a batch touch in each copy.

use super::BatchSizes;
use crate::model::Model;
use crate::placement::{Placement, Shard};

/// Number of different rows that so many ids name on average, if every row is as likely as any other.
///
/// ```
/// use spec::volume::expected_distinct;
/// assert_eq!((expected_distinct(0, 9), expected_distinct(1, 9), expected_distinct(1000, 9)), (0, 1, 9));
/// ```
pub fn expected_distinct(ids: u64, rows: usize) -> u64 {
    let rows = rows as f64;
    let missed = if ids == 0 { 0.0 } else { (ids as f64 * (-1.0 / rows).ln_1p()).exp_m1() };
    (-missed * rows).round() as u64
}

impl BatchSizes {
    /// Fills in how many rows are touched in each copy, if every row is as likely as any other.
    pub(super) fn touch(&mut self, model: &Model, placement: &Placement) {
        self.touched = vec![vec![0; model.features().len()]; self.samples.len()];
        for shard in placement.copied() {
            for &holder in shard.holders.ranks() {
                let ids = placement.served_by(shard, holder).map(|rank| self.ids_of(rank, shard)).sum();
                self.touched[holder][shard.feature] =
                    expected_distinct(ids, model.features()[shard.feature].rows);
            }
        }
    }

    /// Number of rows that are touched in the copy of a shard on `holder`.
    pub fn touched_in(&self, holder: usize, shard: &Shard) -> u64 {
        self.touched.get(holder).map_or(0, |of_features| of_features[shard.feature])
    }
}

/// Copies of `rank` that are of one of `features`, which ascend.
pub(super) fn copies<'a>(
    placement: &'a Placement,
    rank: usize,
    features: &'a [usize],
) -> impl Iterator<Item = &'a Shard> {
    placement.copied_by(rank).iter().filter(|shard| features.binary_search(&shard.feature).is_ok())
}
