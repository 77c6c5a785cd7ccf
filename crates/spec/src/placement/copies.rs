//! Copies each of which serves some samples: data-parallel tables, and tensor trains.

use super::{Placement, Shard};
use crate::topology::Numbering;

impl Placement {
    /// Shards of which `rank` holds a copy that serves some samples only: tables of rows by feature, then tensor trains by feature.
    pub fn copied_by(&self, rank: usize) -> &[Shard] {
        let held = self.held_by(rank);
        let first = held.iter().position(Shard::serves_some).unwrap_or(held.len());
        &held[first..]
    }

    /// Shards that have copies each of which serves some samples only, by feature.
    pub fn copied(&self) -> impl Iterator<Item = &Shard> {
        self.shards().iter().filter(|shard| shard.serves_some())
    }

    /// First shard whose copies are on some ranks only. The flat dataflow cannot use it, because the copy on a sample's own rank
    /// serves the sample there.
    pub fn copied_on_some_ranks(&self) -> Option<&Shard> {
        self.copied().find(|shard| shard.holders.ranks().len() < self.topology().ranks())
    }

    /// Whether `holder` gets the ids of the samples of `rank` for a shard that it holds. A copy that serves some samples only gets
    /// those of the ranks of its own index, if ranks are divided into groups of as many as there are copies: of its own rank,
    /// where every rank has a copy.
    pub fn serves(&self, shard: &Shard, holder: usize, rank: usize) -> bool {
        if !shard.serves_some() {
            return true;
        }
        let (copies, ranks) = (shard.holders.ranks(), self.topology().ranks());
        let index = match self.topology().numbering() {
            Numbering::ByHost => rank % copies.len(),
            Numbering::ByPeer { .. } => rank / ranks.div_ceil(copies.len()),
        };
        copies.get(index) == Some(&holder)
    }

    /// Ranks whose ids `holder` gets for a shard that it holds, in ascending order: those that it [`serves`](Self::serves).
    pub fn served_by(&self, shard: &Shard, holder: usize) -> impl Iterator<Item = usize> {
        let (copies, ranks) = (shard.holders.ranks(), self.topology().ranks());
        let (served, step) = if !shard.serves_some() {
            (0..ranks, 1)
        } else if let Ok(index) = copies.binary_search(&holder) {
            let each = ranks.div_ceil(copies.len());
            match self.topology().numbering() {
                Numbering::ByHost => (index..ranks, copies.len()),
                Numbering::ByPeer { .. } => (index * each..((index + 1) * each).min(ranks), 1),
            }
        } else {
            (0..0, 1)
        };
        served.step_by(step)
    }
}
