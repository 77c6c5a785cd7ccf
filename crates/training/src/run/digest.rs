//! One digest of all parameters: the SHA-256 of every tensor in the model's order, hashed together. It does not depend
//! on where the tensors live.

use crate::Error;
use crate::cache::TableRows;
use crate::step::gather::gathered;
use crate::step::rank_state::RankState;
use collectives::{Communicator, Label};
use kernels::{Buffer, KernelError};
use sha2::{Digest, Sha256};
use spec::model::Parameter;
use spec::placement::{CopyUpdate, Shard};
use spec::run::Run;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a SHA-256.
const LEN: usize = 32;
/// Floats of a table in pieces that travel to rank 0 at a time.
const BLOCK: usize = 1 << 18;
/// Floats that are hashed at a time: few, since all ranks of a process may be at it at once.
const HASHED: usize = 1 << 14;

/// The digest of the parameters of all ranks, on every rank.
pub fn parameters(world: &Communicator, run: &Run, rank: &RankState) -> Result<String, Error> {
    let mut whole = Sha256::new();
    for digest in tables(world, run, rank)? {
        whole.update(digest);
    }
    let towers = towers(world, run, rank)?;
    for (index, parameter) in rank.parameters.list().iter().enumerate() {
        match towers.get(&index) {
            Some(digest) => whole.update(digest),
            None => {
                debug_assert!(of_group(run, parameter).is_none(), "its group has hashed it");
                whole.update(dense(rank, index)?);
            }
        }
    }
    // Every rank now has hashed its own copies of what all have: they must agree.
    let all = gathered(world, &label(), &whole.clone().finalize(), &vec![LEN; world.size()])?;
    if let Some(rank) = all.chunks_exact(LEN).position(|digest| digest != &all[..LEN]) {
        return Err(Error::Replicas { rank });
    }
    Ok(whole.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn label() -> Label {
    Label::from("digest")
}

/// The digest of every table that has rows, by feature.
fn tables(world: &Communicator, run: &Run, rank: &RankState) -> Result<Vec<[u8; LEN]>, Error> {
    let placement = &run.placement;
    // Whoever has a table whole hashes it, and whoever has a copy that serves some samples.
    let is_whole =
        |shard: &Shard| shard.row_pieces() == 1 && shard.columns.len() == run.model.row_width(shard.feature);
    let mut mine = Vec::new();
    let is_hashed =
        |shard: &Shard| shard.holders.copy_update() != Some(CopyUpdate::Samples) && is_whole(shard);
    for (i, shard) in placement.with_rows_by(world.rank()).iter().enumerate() {
        if is_hashed(shard) {
            mine.extend(hash(rank.rows_of(i), shard)?);
        }
    }
    let whole_by = |rank: usize| placement.with_rows_by(rank).iter().filter(|shard| is_hashed(shard));
    let counts: Vec<usize> = (0..world.size()).map(|rank| whole_by(rank).count() * LEN).collect();
    let all = gathered(world, &label(), &mine, &counts)?;
    let mut digests: Vec<Option<[u8; LEN]>> = vec![None; run.model.features().len()];
    let hashed = (0..world.size()).flat_map(|rank| whole_by(rank).map(move |shard| (rank, shard)));
    for ((rank, shard), digest) in hashed.zip(all.as_chunks().0) {
        // Copies must agree.
        if digests[shard.feature].replace(*digest).is_some_and(|first| first != *digest) {
            return Err(Error::Replicas { rank });
        }
    }
    // All have the replicated ones.
    let owned = placement.owned_by(world.rank()).len();
    for (shard, i) in placement.replicated().iter().zip(owned..) {
        digests[shard.feature] = Some(hash(rank.rows_of(i), shard)?);
    }
    // The others lie in pieces.
    let of_feature = |(feature, digest): (usize, Option<[u8; LEN]>)| match digest {
        Some(digest) => Ok(digest),
        None => in_pieces(world, run, rank, feature),
    };
    let has_rows = |(feature, _): &(usize, _)| run.model.tensor_train(*feature).is_none();
    digests.into_iter().enumerate().filter(has_rows).map(of_feature).collect()
}

/// The digest of a table of which no rank has everything: its holders send it to rank 0, some rows at a time.
fn in_pieces(world: &Communicator, run: &Run, rank: &RankState, feature: usize) -> Result<[u8; LEN], Error> {
    let (rows, dim) = (run.model.features()[feature].rows, run.model.row_width(feature));
    let shards_of = |rank: usize| {
        let held = run.placement.owned_by(rank).iter().enumerate();
        held.filter(|(_, shard)| shard.feature == feature)
    };
    let here = |shard: &Shard, block: &Range<usize>| {
        block.start.max(shard.rows.start)
            ..block.end.min(shard.rows.end).max(block.start.max(shard.rows.start))
    };
    let mut hasher = Sha256::new();
    let step = BLOCK.div_ceil(dim);
    for start in (0..rows).step_by(step) {
        let block = start..(start + step).min(rows);
        let mut mine = Vec::new();
        for (table, shard) in shards_of(world.rank()) {
            let (rows, width) = (here(shard, &block), shard.columns.len());
            let at = mine.len();
            mine.resize(at + rows.len() * width, 0.0);
            if !rows.is_empty() {
                let rows = rows.start - shard.rows.start..rows.end - shard.rows.start;
                rank.rows_of(table).read_weights(rows, &mut mine[at..])?;
            }
        }
        let elements = |rank: usize| -> usize {
            shards_of(rank).map(|(_, shard)| here(shard, &block).len() * shard.columns.len()).sum()
        };
        let mut to = vec![0; world.size()];
        to[0] = mine.len();
        let from: Vec<usize> =
            (0..world.size()).map(|r| if world.rank() == 0 { elements(r) } else { 0 }).collect();
        let space = world.device().host();
        let send = Buffer::from_slice(&space, &mine)?;
        let (_, arrived) = world.all_to_all(&label(), send, &to, Buffer::new(space), &from)?;
        if world.rank() != 0 {
            continue;
        }
        let (arrived, mut at) = (arrived.to_vec()?, 0);
        let mut assembled = vec![0.0f32; block.len() * dim];
        for (_, shard) in (0..world.size()).flat_map(shards_of) {
            for row in here(shard, &block) {
                let to = (row - block.start) * dim + shard.columns.start;
                let width = shard.columns.len();
                assembled[to..to + width].copy_from_slice(&arrived[at..at + width]);
                at += width;
            }
        }
        hasher.update(bytes(&assembled));
    }
    let digest = Buffer::from_slice(world.device().host(), &hasher.finalize())?;
    let digest = world.broadcast(&label(), 0, digest)?.to_vec()?;
    Ok(digest.try_into().expect("a broadcast keeps the length"))
}

/// Tower group that alone has a parameter.
fn of_group(run: &Run, parameter: &Parameter) -> Option<usize> {
    run.dataflow.sptt()?.group_of(&run.placement, parameter)
}

/// The digests of the parameters that groups have, by parameter. Every rank hashes those of its group; in a group they must agree.
fn towers(world: &Communicator, run: &Run, rank: &RankState) -> Result<BTreeMap<usize, [u8; LEN]>, Error> {
    let Some(sptt) = run.dataflow.sptt() else { return Ok(BTreeMap::new()) };
    let groups = sptt.groups();
    let list = rank.parameters.list();
    let of_group = |group: usize| {
        list.iter().enumerate().filter(move |(_, p)| of_group(run, p) == Some(group)).map(|(index, _)| index)
    };
    let mut mine = Vec::new();
    for index in of_group(groups.group_of(world.rank())) {
        mine.extend(dense(rank, index)?);
    }
    let counts: Vec<usize> = (0..world.size()).map(|r| of_group(groups.group_of(r)).count() * LEN).collect();
    let all = gathered(world, &label(), &mine, &counts)?;
    let mut digests: BTreeMap<usize, [u8; LEN]> = BTreeMap::new();
    let mut arrived = all.as_chunks().0.iter();
    for from in 0..world.size() {
        for (index, digest) in of_group(groups.group_of(from)).zip(arrived.by_ref()) {
            if *digests.entry(index).or_insert(*digest) != *digest {
                return Err(Error::Replicas { rank: from });
            }
        }
    }
    Ok(digests)
}

/// The digest of a dense parameter, which must be here.
fn dense(rank: &RankState, index: usize) -> Result<[u8; LEN], KernelError> {
    let (bucket, at) = rank.parameters.place(index).expect("a rank hashes what it has");
    hash_range(&rank.parameters.buckets[bucket].weights, at..at + rank.parameters.list()[index].len)
}

/// Hashes a table's weights as floats, whatever their format.
fn hash(table: TableRows, shard: &Shard) -> Result<[u8; LEN], Error> {
    let (rows, width) = (shard.rows.len(), shard.columns.len());
    let at_once = HASHED.div_ceil(width);
    let (mut hasher, mut block) = (Sha256::new(), vec![0.0; at_once.min(rows) * width]);
    for first in (0..rows).step_by(at_once) {
        let rows = first..(first + at_once).min(rows);
        let block = &mut block[..rows.len() * width];
        table.read_weights(rows, block)?;
        hasher.update(bytes(block));
    }
    Ok(hasher.finalize().into())
}

fn hash_range(weights: &Buffer<f32>, range: Range<usize>) -> Result<[u8; LEN], KernelError> {
    hash_blocks(range, |at, block| weights.read(at, block))
}

/// Hashes floats, little-endian, a block at a time.
fn hash_blocks(
    Range { start, end }: Range<usize>,
    read: impl Fn(usize, &mut [f32]) -> Result<(), KernelError>,
) -> Result<[u8; LEN], KernelError> {
    let mut hasher = Sha256::new();
    let mut block = vec![0.0f32; HASHED.min(end - start)];
    let mut at = start;
    while at < end {
        let len = HASHED.min(end - at);
        read(at, &mut block[..len])?;
        hasher.update(bytes(&block[..len]));
        at += len;
    }
    Ok(hasher.finalize().into())
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}
