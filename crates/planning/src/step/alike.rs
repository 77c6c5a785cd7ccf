//! Ranks for which every volume is the same, so that one of them speaks for all.

use spec::dataflow::{AllToAll, Dataflow, Deployment};
use spec::placement::{CopyUpdate, Holders};
use spec::volume::BatchSizes;
use std::collections::HashMap;

/// Classes of ranks.
pub(super) struct Alike {
    /// Class of each rank.
    pub class_of: Vec<usize>,
    /// First rank of each class.
    pub first: Vec<usize>,
    /// Number of ranks of each class.
    pub count: Vec<u64>,
}

impl Alike {
    /// Ranks with as many samples and ids, and shards of the same features that are as wide. What such a rank has for another
    /// in an exchange over the world follows from the classes of both.
    pub fn in_exchanges(deployment: &Deployment, sizes: &BatchSizes) -> Self {
        Self::by(sizes.samples.len(), |rank| exchanged(deployment, sizes, rank))
    }

    /// The same on the same host, with peers that have as many samples. What such a rank computes and touches follows from that;
    /// the host matters where vectors go by way of groups, or of hosts.
    pub fn in_computations(deployment: &Deployment, sizes: &BatchSizes) -> Self {
        let topology = deployment.placement.topology();
        let groups = deployment.dataflow.sptt().map(|sptt| sptt.groups());
        let peers: Vec<u64> = groups.map_or(Vec::new(), |groups| {
            let samples = |index| groups.peers(index).map(|rank| sizes.samples[rank]).sum();
            (0..groups.size()).map(samples).collect()
        });
        let flat = deployment.dataflow == Dataflow::Flat(AllToAll::Flat);
        Self::by(sizes.samples.len(), |rank| {
            let mut key = exchanged(deployment, sizes, rank);
            if !flat {
                key.push(topology.host_of(rank) as u64);
            }
            key.extend(groups.map(|groups| peers[groups.index_of(rank)]));
            key
        })
    }

    fn by(ranks: usize, key: impl Fn(usize) -> Vec<u64>) -> Self {
        let mut alike = Self { class_of: Vec::with_capacity(ranks), first: Vec::new(), count: Vec::new() };
        let mut classes = HashMap::new();
        for rank in 0..ranks {
            let class = *classes.entry(key(rank)).or_insert_with(|| {
                alike.first.push(rank);
                alike.count.push(0);
                alike.first.len() - 1
            });
            alike.class_of.push(class);
            alike.count[class] += 1;
        }
        alike
    }
}

/// Samples, ids and shards of a rank, as numbers. The count of shards goes before them, so that no two ranks read alike by
/// accident.
fn exchanged(deployment: &Deployment, sizes: &BatchSizes, rank: usize) -> Vec<u64> {
    let held = deployment.placement.held_by(rank);
    let mut key = vec![sizes.samples[rank], held.len() as u64];
    for shard in held {
        let kind = match shard.holders {
            Holders::Rank(_) => 0,
            Holders::Copies { update: CopyUpdate::Samples, .. } => 1,
            Holders::Copies { update: CopyUpdate::Rows | CopyUpdate::Cores, .. } => 2,
        };
        key.extend([shard.feature, shard.columns.len(), shard.piece(), shard.row_pieces()].map(|n| n as u64));
        key.push(kind);
    }
    key.extend(sizes.ids[rank].iter().flatten());
    if let Some(touched) = sizes.touched.get(rank) {
        // In SPTT, ids go to the copies of the same index.
        key.extend(touched);
        key.extend(deployment.dataflow.sptt().map(|sptt| sptt.groups().index_of(rank) as u64));
    }
    key
}
