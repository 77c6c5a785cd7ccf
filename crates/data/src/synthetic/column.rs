//! One sparse feature of a synthetic log: its bags, and what they contribute to a click.
//!
//! ```text
//! bag(sample) = Σ_k share_k·truth(id_k)        share_k = weight_k (sum pooling), weight_k / length (mean pooling)
//! ```

use super::super::DataError;
use super::zipf::{TABLED, Zipf};
use spec::Pooling;
use spec::feature::{Feature, Hotness};
use spec::random::RandomSequence;
use spec::synthetic::Synthetic;
use std::collections::HashSet;
use std::sync::Arc;

/// Length of a latent vector: short, so that a small model can learn the interactions from one epoch.
pub(super) const LATENT: usize = 2;

/// Contribution of an id, or of a bag of ids, to the logit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Truth {
    pub(super) latent: [f32; LATENT],
    pub(super) effect: f32,
}

/// One sparse feature of the log.
#[derive(Clone, Debug)]
pub(super) struct Column {
    law: Zipf,
    pub(super) group: usize,
    /// Length of the longest bag of a multi-hot feature.
    longest: Option<u64>,
    mean: bool,
    pub(super) weighted: bool,
    truth: RandomSequence,
    /// Ids and their contributions by Zipf rank, for small tables; otherwise empty. Shared by all clones of the column.
    table: Arc<[(u32, Truth)]>,
    /// Mean latent vector over samples. It is subtracted from every latent vector, so that interactions contain no main effects.
    centre: [f32; LATENT],
    ids: RandomSequence,
    lengths: RandomSequence,
    weights: RandomSequence,
}

impl Column {
    /// Sets up the column of `feature`, which belongs to `group`.
    pub(super) fn new(settings: &Synthetic, feature: &Feature, group: usize) -> Self {
        let truth = RandomSequence::new(settings.seed, &format!("synthetic.truth.{}", feature.name));
        // Contributions use the indices from 0; the last index is free.
        let law = Zipf::new(feature.rows, settings.zipf, truth.bits(u64::MAX));
        let mut column = Self {
            law,
            group,
            longest: match feature.hotness {
                Hotness::One => None,
                Hotness::Many { mean } => Some(2 * u64::from(mean)),
            },
            mean: feature.pooling == Pooling::Mean,
            weighted: feature.weighted,
            truth,
            table: Arc::default(),
            centre: [0.0; LATENT],
            ids: truth,
            lengths: truth,
            weights: truth,
        };
        // The remaining mass beyond the ranks in the table averages out.
        let (mut before, mut centre) = (0.0, [0.0; LATENT]);
        for rank in 0..feature.rows.min(TABLED) as u64 {
            let (up_to, (_, truth)) = (column.law.cumulative(rank), column.row(rank));
            (0..LATENT).for_each(|d| centre[d] += (up_to - before) as f32 * truth.latent[d]);
            before = up_to;
        }
        column.centre = centre;
        if feature.rows <= TABLED {
            column.table = (0..feature.rows as u64).map(|rank| column.row(rank)).collect();
        }
        column
    }

    /// Sets the random sequences from which samples are drawn: one set per split, with the same truth.
    pub(super) fn draw_from(
        &mut self,
        ids: RandomSequence,
        lengths: RandomSequence,
        weights: RandomSequence,
    ) {
        (self.ids, self.lengths, self.weights) = (ids, lengths, weights);
    }

    /// Id of a Zipf rank, and its contribution.
    #[inline]
    fn row(&self, rank: u64) -> (u32, Truth) {
        let bits = self.truth.bits(2 * rank);
        // Half of the bits for each component, as a signed fraction.
        let latent = |d: usize| (bits >> (32 * d)) as i32 as f32 / 2_147_483_648.0 - self.centre[d];
        let effect = self.truth.symmetric(2 * rank + 1, 1.0);
        (self.law.id(rank), Truth { latent: std::array::from_fn(latent), effect })
    }

    /// Number of ids in the bag of `sample`.
    #[inline]
    pub(super) fn length(&self, sample: u64) -> u64 {
        self.longest.map_or(1, |longest| self.lengths.bits(sample) % (longest + 1))
    }

    /// Contribution of the bag of `sample`. Calls `id` with each id and its weight.
    #[inline]
    pub(super) fn bag(&self, sample: u64, mut id: impl FnMut(u32, f32)) -> Truth {
        let length = self.length(sample);
        let start = sample.wrapping_mul(self.longest.unwrap_or(1));
        let mut bag = Truth::default();
        for k in 0..length {
            let index = start.wrapping_add(k);
            let rank = self.law.rank(self.ids.unit_f64(index));
            let weight = if self.weighted { 1.0 - self.weights.unit(index) } else { 1.0 };
            let (row, truth) = if self.table.is_empty() { self.row(rank) } else { self.table[rank as usize] };
            id(row, weight);
            let share = if self.mean { weight / length as f32 } else { weight };
            (0..LATENT).for_each(|d| bag.latent[d] += share * truth.latent[d]);
            bag.effect += share * truth.effect;
        }
        bag
    }
}

/// Checks that bags can be drawn for these features.
pub(super) fn check(features: &[Feature]) -> Result<(), DataError> {
    let mut names = HashSet::new();
    for feature in features {
        let reason = if feature.rows == 0 {
            "a table needs at least one row"
        } else if feature.rows > u32::MAX as usize {
            "ids have 32 bits; lower rows"
        } else if feature.hotness == (Hotness::Many { mean: 0 }) {
            "a mean of 0 ids leaves every bag empty; raise it"
        } else if !names.insert(&feature.name) {
            "two features have this name"
        } else {
            continue;
        };
        return Err(DataError::Feature { feature: feature.name.clone(), reason });
    }
    Ok(())
}
