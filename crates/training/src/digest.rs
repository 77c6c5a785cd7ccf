//! One digest of all parameters: the SHA-256 of every tensor in the model's order, hashed together. It does not depend
//! on where the tensors live.

use crate::Error;
use crate::rank::Rank;
use collectives::{Communicator, Label};
use kernels::Buffer;
use sha2::{Digest, Sha256};
use spec::run::Run;

/// Bytes of a SHA-256.
const LEN: usize = 32;

/// The digest of the parameters of all ranks, on every rank.
pub(crate) fn parameters(world: &Communicator, run: &Run, rank: &Rank) -> Result<String, Error> {
    let placement = &run.placement;
    // Each rank hashes what it owns; the replicated tables and the dense layers are the same everywhere.
    let owned = placement.owned_by(world.rank()).len();
    let mut mine = Vec::with_capacity(owned * LEN);
    for table in &rank.flat.tables[..owned] {
        mine.extend(hash(&table.weights));
    }
    let counts: Vec<usize> = (0..world.size()).map(|r| placement.owned_by(r).len() * LEN).collect();
    let mine = Buffer::from_slice(world.device(), &mine)?;
    let label = Label::from("digest");
    let (_, all) = world.all_gather(&label, mine, &counts, Buffer::empty())?;
    let all = all.to_vec();

    let mut digests = vec![[0; LEN]; run.model.features().len()];
    let shards = (0..world.size()).flat_map(|r| placement.owned_by(r));
    for (shard, digest) in shards.zip(all.chunks_exact(LEN)) {
        digests[shard.feature].copy_from_slice(digest);
    }
    for (shard, table) in placement.replicated().iter().zip(&rank.flat.tables[owned..]) {
        digests[shard.feature] = hash(&table.weights);
    }
    let mut whole = Sha256::new();
    for digest in &digests {
        whole.update(digest);
    }
    for index in 0..rank.parameters.list().len() {
        whole.update(Sha256::digest(bytes(&rank.parameters.weights(index))));
    }
    // Every rank now has hashed its own copies of what all have: they must agree.
    let mine = Buffer::from_slice(world.device(), &whole.clone().finalize())?;
    let (_, all) = world.all_gather(&label, mine, &vec![LEN; world.size()], Buffer::empty())?;
    let all = all.to_vec();
    if let Some(rank) = all.chunks_exact(LEN).position(|digest| digest != &all[..LEN]) {
        return Err(Error::Replicas { rank });
    }
    Ok(whole.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Hashes a tensor's floats, little-endian, a block at a time.
fn hash(weights: &Buffer<f32>) -> [u8; LEN] {
    const BLOCK: usize = 1 << 18;
    let mut hasher = Sha256::new();
    let mut block = vec![0.0f32; BLOCK.min(weights.len())];
    let mut at = 0;
    while at < weights.len() {
        let len = BLOCK.min(weights.len() - at);
        weights.read(at, &mut block[..len]);
        hasher.update(bytes(&block[..len]));
        at += len;
    }
    hasher.finalize().into()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}
