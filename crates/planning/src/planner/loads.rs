//! Loads of ranks: what a placement makes every rank hold, look up and send.

use super::prices::{Piece, Prices};
use super::{RankLoad, Request};
use spec::dataflow::{PeerPermute, Sptt};
use spec::placement::{CopyUpdate, Placement, Shard, share};
use spec::topology::{Groups, Numbering};
use spec::volume::expected_distinct;

/// Load of every rank of a placement, found by a planner or written by hand.
///
/// Bytes are those of a typical batch: without statistics they equal the volumes of the schedule (sums of copies that are reduced
/// densely depend on the algorithm of the reduction and are counted as a ring sends them).
pub fn loads(request: &Request, placement: &Placement) -> Vec<RankLoad> {
    of(&Prices::new(request), placement)
}

pub(super) fn of(prices: &Prices, placement: &Placement) -> Vec<RankLoad> {
    let request = prices.request;
    let volumes = Volumes::new(prices, placement);
    let sptt = request.groups.and_then(|groups| {
        let by_host = groups.topology().numbering() == Numbering::ByHost;
        let permute = if by_host { PeerPermute::Ids } else { PeerPermute::None };
        Sptt::new(request.model, placement, groups, permute).ok()
    });
    let arriving: f64 = placement
        .shards()
        .iter()
        .filter(|shard| shard.holders.copy_update().is_none())
        .map(|shard| prices.arriving(shard.columns.len()))
        .sum();
    let load = |rank: usize| {
        let mut load = RankLoad { memory_bytes: prices.fixed + arriving as u64, ..RankLoad::default() };
        for shard in placement.held_by(rank) {
            let (feature, columns) = (shard.feature, shard.columns.len());
            let price = match shard.holders.copy_update() {
                Some(CopyUpdate::Rows | CopyUpdate::Cores) => prices.copy(feature),
                // Every copy gets what a single holder would.
                Some(CopyUpdate::Samples) | None => {
                    let (rows, row_pieces) = (shard.rows.len(), shard.row_pieces());
                    prices.piece(Piece { feature, rows, row_pieces, columns })
                }
            };
            load.predicted_s += price.cost;
            load.memory_bytes = load.memory_bytes.saturating_add(price.memory);
            load.lookup_bytes += volumes.looked_up(rank, shard);
        }
        if let Some(sptt) = &sptt {
            let group = sptt.groups().group_of(rank);
            load.predicted_s += prices.leaving(sptt.plan(group).output_width());
        }
        load.sent_bytes = volumes.sent(rank) + sptt.as_ref().map_or(0, |sptt| volumes.to_peers(sptt, rank));
        load
    };
    (0..prices.ranks()).map(load).collect()
}

/// Bytes of a typical batch on a placement.
struct Volumes<'a> {
    prices: &'a Prices<'a>,
    placement: &'a Placement,
    /// Samples of each rank.
    samples: Vec<u64>,
    /// Whether weights travel with all ids.
    weights: bool,
    groups: Option<Groups>,
    /// Whether the sums of copies of a feature's table are reduced densely.
    dense: Vec<bool>,
    /// Ids of the whole batch, by feature, and by the pieces into which the rows of the feature's table are cut.
    ids_by_piece: Vec<Vec<u64>>,
}

impl<'a> Volumes<'a> {
    fn new(prices: &'a Prices<'a>, placement: &'a Placement) -> Self {
        let (request, ranks) = (prices.request, prices.ranks());
        let samples = (0..ranks).map(|rank| share(request.batch, ranks, rank).len() as u64).collect();
        let weights = placement.weights_travel(request.model);
        let dense = (0..request.model.features().len()).map(|feature| prices.sums(feature).dense).collect();
        let mut volumes = Self {
            prices,
            placement,
            samples,
            weights,
            groups: request.groups,
            dense,
            ids_by_piece: Vec::new(),
        };
        volumes.ids_by_piece =
            (0..request.model.features().len()).map(|feature| volumes.ids_of_pieces(feature)).collect();
        volumes
    }

    /// Ids of a feature in the samples of a rank.
    fn ids(&self, rank: usize, feature: usize) -> u64 {
        (self.prices.ids[feature] * self.samples[rank] as f64).round() as u64
    }

    /// Ids of a rank's samples that fall into a shard. What does not divide goes to another piece on every rank.
    fn ids_in(&self, rank: usize, shard: &Shard) -> u64 {
        let pieces = shard.row_pieces();
        let ids = self.ids(rank, shard.feature);
        if pieces == 1 {
            ids
        } else {
            share(ids as usize, pieces, (shard.piece() + rank) % pieces).len() as u64
        }
    }

    /// Ids of the whole batch that fall into each piece of rows, as [`ids_in`](Self::ids_in) has them for one rank.
    fn ids_of_pieces(&self, feature: usize) -> Vec<u64> {
        let pieces = self.placement.row_pieces(feature);
        let (mut all, mut changes) = (0, vec![0i64; pieces + 1]);
        for rank in 0..self.samples.len() {
            let ids = self.ids(rank, feature);
            all += ids / pieces as u64;
            // What does not divide goes to so many pieces in turn, from this one on.
            let (first, rest) = ((pieces - rank % pieces) % pieces, (ids % pieces as u64) as usize);
            let end = first + rest;
            changes[first] += 1;
            changes[end.min(pieces)] -= 1;
            if end > pieces {
                changes[0] += 1;
                changes[end - pieces] -= 1;
            }
        }
        let mut more = 0;
        let of_piece = |change: &i64| {
            more += change;
            (all as i64 + more) as u64
        };
        changes[..pieces].iter().map(of_piece).collect()
    }

    /// Bytes that the lookup of a shard on `rank` reads and writes: a row for each id, a vector for each sample.
    fn looked_up(&self, rank: usize, shard: &Shard) -> u64 {
        let (ids, samples) = match shard.holders.copy_update() {
            None => (self.ids_by_piece[shard.feature][shard.piece()], self.prices.request.batch as u64),
            Some(CopyUpdate::Samples) => (self.ids(rank, shard.feature), self.samples[rank]),
            Some(CopyUpdate::Rows | CopyUpdate::Cores) => {
                let served = self.placement.served_by(shard, rank);
                served.fold((0, 0), |(ids, samples), from| {
                    (ids + self.ids(from, shard.feature), samples + self.samples[from])
                })
            }
        };
        4 * shard.columns.len() as u64 * (ids + samples)
    }

    /// Bytes of ids, and of what travels with them, that the samples of a rank have for a shard.
    fn input(&self, rank: usize, shard: &Shard) -> u64 {
        let each = shard.id_bytes() + if self.weights { 4 } else { 0 };
        let lengths = self.placement.lengths_vary(self.prices.request.model, shard);
        each * self.ids_in(rank, shard) + if lengths { 4 * self.samples[rank] } else { 0 }
    }

    /// Samples whose vectors a rank gets of every shard in its group, or in the world.
    fn receives(&self, rank: usize) -> u64 {
        match self.groups {
            Some(groups) => groups.peers(groups.index_of(rank)).map(|peer| self.samples[peer]).sum(),
            None => self.samples[rank],
        }
    }

    /// Bytes that a rank sends to others: ids to holders, vectors to samples, gradients to holders, sums to copies.
    fn sent(&self, rank: usize) -> u64 {
        let wire = self.prices.request.wire;
        let together =
            |other: usize| self.groups.is_none_or(|groups| groups.group_of(other) == groups.group_of(rank));
        let others: u64 = (0..self.samples.len())
            .filter(|&to| to != rank && together(to))
            .map(|to| self.receives(to))
            .sum();
        let (own, mut sent) = (self.receives(rank), 0);
        for shard in self.placement.shards() {
            let width = shard.columns.len() as u64;
            let gradient = wire.gradients.encoded_bytes(own, width);
            let holders = shard.holders.ranks();
            match shard.holders.copy_update() {
                Some(CopyUpdate::Rows | CopyUpdate::Cores) => {
                    // In SPTT, ids go to the copy of the rank's index in the shard's group.
                    if !self.placement.serves(shard, rank, rank) {
                        sent += self.input(rank, shard);
                    }
                    if holders.binary_search(&rank).is_ok() {
                        sent += self.sums(rank, shard);
                    }
                }
                update => {
                    let elsewhere = holders.iter().filter(|&&holder| holder != rank).count() as u64;
                    sent += elsewhere * self.input(rank, shard);
                    let in_group = holders.iter().filter(|&&h| h != rank && together(h)).count() as u64;
                    sent += in_group * gradient;
                    if update.is_none() && holders[0] == rank {
                        sent += wire.vectors.encoded_bytes(others, width);
                    }
                }
            }
        }
        sent
    }

    /// Bytes of sums, or of gradients of cores, that the copy of a shard on `rank` sends to the others.
    fn sums(&self, rank: usize, shard: &Shard) -> u64 {
        let (feature, rows) = (shard.feature, shard.rows.len());
        if let Some(bytes) = self.prices.cores_sent(feature) {
            return bytes;
        }
        let ids = self.placement.served_by(shard, rank).map(|rank| self.ids(rank, feature)).sum::<u64>();
        let touched = match self.prices.statistics[feature] {
            None => expected_distinct(ids, rows),
            Some(_) => self.prices.distinct(feature, ids as f64, rows as f64).round() as u64,
        };
        self.prices.sums_sent(feature, self.dense[feature], touched)
    }

    /// Bytes that a rank sends to its peers: what leaves its group, and the gradients of what left theirs.
    fn to_peers(&self, sptt: &Sptt, rank: usize) -> u64 {
        let (groups, wire) = (sptt.groups(), self.prices.request.wire);
        let widths = |group: usize| sptt.plan(group).vector_widths().map(|width| width as u64);
        let peers = groups.peers(groups.index_of(rank)).filter(|&peer| peer != rank);
        peers
            .map(|peer| {
                let out = widths(groups.group_of(rank))
                    .map(|width| wire.vectors.encoded_bytes(self.samples[peer], width));
                let back = widths(groups.group_of(peer))
                    .map(|width| wire.gradients.encoded_bytes(self.samples[rank], width));
                out.sum::<u64>() + back.sum::<u64>()
            })
            .sum()
    }
}
