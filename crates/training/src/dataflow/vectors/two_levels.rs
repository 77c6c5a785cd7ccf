//! The first of the two levels of a hierarchical all-to-all, and how its blocks are put in order.

use crate::Error;
use crate::dataflow::exchange::Exchange;
use kernels::{BlockCopy, Buffer, Device};
use spec::topology::Groups;

/// The exchange inside a host, and how its blocks are put in order.
#[derive(Debug)]
pub(super) struct FirstLevel {
    hosts: Groups,
    rank: usize,
    pub floats: Exchange<f32>,
    pub encoded: Exchange<u8>,
    /// Copies from rank order into peer order, by index, then by host: of floats, and of encoded bytes.
    permute: [Vec<BlockCopy>; 2],
    /// Copies from blocks by (index of the sender, host of the receiver) to blocks by (host of the receiver, index of the
    /// sender), in elements of what travels.
    regroup: Vec<BlockCopy>,
    /// Floats that arrive from every rank.
    from: Vec<usize>,
}

impl FirstLevel {
    pub fn new(device: &Device, hosts: Groups, rank: usize) -> Self {
        Self {
            hosts,
            rank,
            floats: Exchange::new(device, hosts.size()),
            encoded: Exchange::new(device, hosts.size()),
            permute: [Vec::new(), Vec::new()],
            regroup: Vec::new(),
            from: vec![0; hosts.size() * hosts.count()],
        }
    }

    /// Counts and copies of both levels, in floats; `ends` are what the second sends and receives.
    pub fn expect_floats(&mut self, ends: [&mut Vec<usize>; 2], count: &impl Fn(usize, usize) -> usize) {
        let Self { hosts, rank, floats, permute, regroup, from, .. } = self;
        let levels = Levels { hosts: *hosts, rank: *rank };
        levels.first([&mut floats.to, &mut floats.from], &mut permute[0], count);
        levels.second(ends, regroup, count);
        from.iter_mut().enumerate().for_each(|(sender, from)| *from = count(sender, *rank));
    }

    /// Counts and copies of both levels, in encoded bytes, which replace those between the levels.
    pub fn expect_bytes(&mut self, ends: [&mut Vec<usize>; 2], count: &impl Fn(usize, usize) -> usize) {
        let Self { hosts, rank, encoded, permute, regroup, .. } = self;
        let levels = Levels { hosts: *hosts, rank: *rank };
        levels.first([&mut encoded.to, &mut encoded.from], &mut permute[1], count);
        levels.second(ends, regroup, count);
    }

    /// Calls `each` with the receiver of every block, its length and its offset in floats, and its offset in bytes. Floats are
    /// in the order of ranks if they are yet to be `permuted`, else in peer order.
    pub fn for_each_block(&self, permuted: bool, mut each: impl FnMut(usize, usize, usize, usize)) {
        let receivers = (0..self.hosts.size()).flat_map(|mate| self.hosts.peers(mate));
        let [floats, bytes] = &self.permute;
        for ((receiver, floats), bytes) in receivers.zip(floats).zip(bytes) {
            each(receiver, floats.len, if permuted { floats.from } else { floats.to }, bytes.to);
        }
    }

    /// Ranks in the order in which their floats arrive, with the number of these.
    pub fn arriving(&self) -> impl Iterator<Item = (usize, usize)> {
        let senders = (0..self.hosts.count()).flat_map(|host| self.hosts.members(host));
        senders.map(|sender| (sender, self.from[sender]))
    }

    /// Brings floats from the order of ranks into peer order.
    pub fn permute(&mut self, device: &Device, from: &Buffer<f32>) -> Result<(), Error> {
        let to = &mut self.floats.send;
        to.resize(from.len())?;
        Ok(device.copy_blocks(&self.permute[0], from, to)?)
    }

    /// Regroups floats by host.
    pub fn regroup(&self, device: &Device, to: &mut Buffer<f32>) -> Result<(), Error> {
        let from = &self.floats.recv;
        to.resize(from.len())?;
        Ok(device.copy_blocks(&self.regroup, from, to)?)
    }

    /// Regroups encoded vectors by host.
    pub fn regroup_encoded(&self, device: &Device, to: &mut Buffer<u8>) -> Result<(), Error> {
        let from = &self.encoded.recv;
        to.resize(from.len())?;
        Ok(device.copy_blocks(&self.regroup, from, to)?)
    }
}

/// Both levels of an exchange over the world, from the point of view of one rank.
struct Levels {
    hosts: Groups,
    rank: usize,
}

impl Levels {
    /// What is sent to and comes from each rank of the host, and the copies into peer order.
    fn first(
        &self,
        [to, from]: [&mut Vec<usize>; 2],
        permute: &mut Vec<BlockCopy>,
        count: &impl Fn(usize, usize) -> usize,
    ) {
        let Self { hosts, rank } = *self;
        permute.clear();
        let mut place = 0;
        for (mate, to) in to.iter_mut().enumerate() {
            let before = place;
            for receiver in hosts.peers(mate) {
                let earlier = (0..receiver).map(|other| count(rank, other)).sum();
                let len = count(rank, receiver);
                permute.push(BlockCopy { from: earlier, to: place, len });
                place += len;
            }
            *to = place - before;
        }
        let (host, index) = (hosts.group_of(rank), hosts.index_of(rank));
        for (mate, from) in hosts.members(host).zip(from) {
            *from = hosts.peers(index).map(|receiver| count(mate, receiver)).sum();
        }
    }

    /// What is sent to and comes from each host, and the copies from blocks by sender to blocks by host.
    fn second(
        &self,
        [to, from]: [&mut Vec<usize>; 2],
        regroup: &mut Vec<BlockCopy>,
        count: &impl Fn(usize, usize) -> usize,
    ) {
        let Self { hosts, rank } = *self;
        let (host, index) = (hosts.group_of(rank), hosts.index_of(rank));
        regroup.clear();
        let mut place = 0;
        for (other, receiver) in hosts.peers(index).enumerate() {
            let before = place;
            for sender in hosts.members(host) {
                // Behind all of the senders before it, and behind what it has for hosts before this one.
                let whole = |sender| hosts.peers(index).map(|to| count(sender, to)).sum::<usize>();
                let mates: usize = hosts.members(host).take_while(|&mate| mate != sender).map(whole).sum();
                let earlier: usize = hosts.peers(index).take(other).map(|to| count(sender, to)).sum();
                let len = count(sender, receiver);
                regroup.push(BlockCopy { from: mates + earlier, to: place, len });
                place += len;
            }
            to[other] = place - before;
            from[other] = hosts.members(other).map(|sender| count(sender, rank)).sum();
        }
    }
}
