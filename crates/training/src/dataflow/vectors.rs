//! Vectors on one leg of their way: as floats at both ends, and as they travel in between.
//!
//! Where the wire has another format than f32, what was laid out is encoded before the exchange and decoded after it. In a
//! hierarchical all-to-all there are two exchanges: inside the host, to the rank of the receiver's index, and among ranks of
//! equal index, by host.

use super::carries::Payload;
use super::exchange::Exchange;
use super::no_phase;
use crate::Error;
use kernels::{BlockCopy, Buffer, Device};
use spec::codec::Codec;
use spec::topology::Groups;

/// Vectors on one leg: their buffers, and the copies between them.
#[derive(Debug)]
pub struct Vectors {
    format: Codec,
    /// Floats that were laid out, and floats that arrived. Between two levels, the regrouped floats replace those that were
    /// laid out.
    pub floats: Exchange<f32>,
    /// Encoded vectors, as they travel.
    halves: Exchange<u16>,
    first: Option<FirstLevel>,
}

/// The exchange inside a host, and how its blocks are put in order.
#[derive(Debug)]
struct FirstLevel {
    hosts: Groups,
    rank: usize,
    floats: Exchange<f32>,
    halves: Exchange<u16>,
    /// Copies from rank order into peer order: by index, then by host.
    permute: Vec<BlockCopy>,
    /// Copies from blocks by (index of the sender, host of the receiver) to blocks by (host of the receiver, index of the
    /// sender).
    regroup: Vec<BlockCopy>,
}

impl Vectors {
    /// Leg of one exchange among `members` ranks.
    pub fn direct(device: &Device, members: usize, format: Codec) -> Self {
        let (floats, halves) = (Exchange::new(device, members), Exchange::new(device, members));
        Self { format, floats, halves, first: None }
    }

    /// Leg of a hierarchical all-to-all, in two levels.
    pub fn by_hosts(device: &Device, hosts: Groups, rank: usize, format: Codec) -> Self {
        let first = FirstLevel {
            hosts,
            rank,
            floats: Exchange::new(device, hosts.size()),
            halves: Exchange::new(device, hosts.size()),
            permute: Vec::new(),
            regroup: Vec::new(),
        };
        Self { first: Some(first), ..Self::direct(device, hosts.count(), format) }
    }

    /// Buffer in which floats are laid out in the order of the first exchange: by destination, and for two levels in peer
    /// order.
    pub fn outgoing(&mut self) -> &mut Buffer<f32> {
        match &mut self.first {
            None => &mut self.floats.send,
            Some(first) => &mut first.floats.send,
        }
    }

    /// Says how much goes over the world: `count(from, to)` floats.
    pub fn expect(&mut self, rank: usize, count: impl Fn(usize, usize) -> usize) {
        let Exchange { to, from, .. } = &mut self.floats;
        match &mut self.first {
            None => {
                to.iter_mut().enumerate().for_each(|(other, to)| *to = count(rank, other));
                from.iter_mut().enumerate().for_each(|(other, from)| *from = count(other, rank));
            }
            Some(first) => first.expect(to, from, count),
        }
    }

    /// Encodes what was laid out: in the order of ranks if it was to be `permuted`, else as the first exchange needs it.
    pub fn encode(&mut self, device: &Device, permuted: bool) -> Result<(), Error> {
        let Self { format, floats, halves, first } = self;
        halves.to.clone_from(&floats.to);
        halves.from.clone_from(&floats.from);
        let (from, encoded, blocks) = match first {
            None => (&floats.send, &mut halves.send, &[][..]),
            Some(first) => {
                first.halves.to.clone_from(&first.floats.to);
                first.halves.from.clone_from(&first.floats.from);
                let from = if permuted { &floats.send } else { &first.floats.send };
                (from, &mut first.halves.send, if permuted { &first.permute[..] } else { &[] })
            }
        };
        encoded.resize(from.len())?;
        let whole = [BlockCopy { from: 0, to: 0, len: from.len() }];
        for block in if blocks.is_empty() { &whole } else { blocks } {
            device.encode(*format, *block, from, encoded)?;
        }
        Ok(())
    }

    /// Decodes what arrived.
    pub fn decode(&mut self, device: &Device) -> Result<(), Error> {
        let (from, to) = (&self.halves.recv, &mut self.floats.recv);
        to.resize(from.len())?;
        Ok(device.decode(self.format, BlockCopy { from: 0, to: 0, len: from.len() }, from, to)?)
    }

    /// Brings floats from the order of ranks into peer order, for the first of two levels.
    pub fn permute(&mut self, device: &Device) -> Result<(), Error> {
        let first = first_of(&mut self.first)?;
        let (from, to) = (&self.floats.send, &mut first.floats.send);
        to.resize(from.len())?;
        Ok(device.copy_blocks(&first.permute, from, to)?)
    }

    /// Regroups the floats by host, between the two levels of a hierarchical all-to-all.
    pub fn regroup(&mut self, device: &Device) -> Result<(), Error> {
        let first = first_of(&mut self.first)?;
        if self.format.encodes() {
            let (from, to) = (&first.halves.recv, &mut self.halves.send);
            to.resize(from.len())?;
            Ok(device.copy_blocks(&first.regroup, from, to)?)
        } else {
            let (from, to) = (&first.floats.recv, &mut self.floats.send);
            to.resize(from.len())?;
            Ok(device.copy_blocks(&first.regroup, from, to)?)
        }
    }

    /// The exchange that brings the vectors: the only one, or the second of two.
    pub fn last(&mut self) -> Payload<'_> {
        match self.format.encodes() {
            false => Payload::Floats(&mut self.floats),
            true => Payload::Halves(&mut self.halves),
        }
    }

    /// The exchange inside a host, the first of two levels.
    pub fn in_host(&mut self) -> Result<Payload<'_>, Error> {
        let first = first_of(&mut self.first)?;
        Ok(match self.format.encodes() {
            false => Payload::Floats(&mut first.floats),
            true => Payload::Halves(&mut first.halves),
        })
    }
}

/// The first of two levels, which only a hierarchical all-to-all has.
fn first_of(first: &mut Option<FirstLevel>) -> Result<&mut FirstLevel, Error> {
    first.as_mut().map_or_else(|| no_phase("direct", "the first level of a hierarchical all-to-all"), Ok)
}

impl FirstLevel {
    /// Counts and blocks of both levels; `to` and `from` are those of the second.
    fn expect(&mut self, to: &mut [usize], from: &mut [usize], count: impl Fn(usize, usize) -> usize) {
        let Self { hosts, rank, floats, permute, regroup, .. } = self;
        let (host, index) = (hosts.group_of(*rank), hosts.index_of(*rank));
        permute.clear();
        let mut place = 0;
        for mate in 0..hosts.size() {
            let before = place;
            for receiver in hosts.peers(mate) {
                let earlier = (0..receiver).map(|other| count(*rank, other)).sum();
                let len = count(*rank, receiver);
                permute.push(BlockCopy { from: earlier, to: place, len });
                place += len;
            }
            floats.to[mate] = place - before;
        }
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
            from[other] = hosts.members(other).map(|sender| count(sender, *rank)).sum();
        }
        for (mate, from) in hosts.members(host).zip(&mut floats.from) {
            *from = hosts.peers(index).map(|receiver| count(mate, receiver)).sum();
        }
    }
}
