//! Vectors on one leg of their way: as floats at both ends, and as they travel in between.
//!
//! Where the wire has another codec than f32, what was laid out is encoded before the exchange and decoded after it: every
//! vector of every sample is a row. In a hierarchical all-to-all there are two exchanges: inside the host, to the rank of the
//! receiver's index, and among ranks of equal index, by host.

mod sample;
mod two_levels;

use super::carries::Payload;
use super::exchange::Exchange;
use super::no_phase;
use crate::Error;
use kernels::{Buffer, Decode, Device, Encode, Round};
use sample::{Block, Sample};
use spec::codec::{Codec, Row};
use spec::topology::Groups;
use two_levels::FirstLevel;

/// Vectors on one leg: their buffers, and the copies between them.
#[derive(Debug)]
pub struct Vectors {
    codec: Codec,
    /// Vectors of a sample, by the member whose tables or towers they belong to.
    samples: Vec<Sample>,
    way: Way,
    me: usize,
    /// Floats that were laid out, and floats that arrived. Between two levels, the regrouped floats replace those that were
    /// laid out.
    pub floats: Exchange<f32>,
    /// Encoded vectors, as they travel.
    encoded: Exchange<u8>,
    first: Option<FirstLevel>,
    /// Blocks that are encoded or decoded, and their rows. The memory is reused.
    blocks: Vec<Block>,
    rows: Vec<Row>,
}

/// Which member of a pair decides what vectors a sample has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The sender: vectors go from tables or towers to samples.
    Forward,
    /// The receiver: gradients go back.
    Backward,
}

impl Way {
    /// Index of the member that decides what vectors a sample from one member to another has.
    fn index(self, from: usize, to: usize) -> usize {
        match self {
            Way::Forward => from,
            Way::Backward => to,
        }
    }
}

impl Vectors {
    /// Leg of one exchange. `widths[i]` are the vectors of a sample that belong to member `i`, and `me` is this rank's index.
    pub fn direct(device: &Device, codec: Codec, way: Way, widths: &[Vec<usize>], me: usize) -> Self {
        let members = widths.len();
        Self {
            codec,
            samples: widths.iter().map(|widths| Sample::new(codec, widths)).collect(),
            way,
            me,
            floats: Exchange::new(device, members),
            encoded: Exchange::new(device, members),
            first: None,
            blocks: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Leg of a hierarchical all-to-all, in two levels. Members are all ranks.
    pub fn by_hosts(
        device: &Device,
        hosts: Groups,
        codec: Codec,
        way: Way,
        widths: &[Vec<usize>],
        me: usize,
    ) -> Self {
        Self {
            floats: Exchange::new(device, hosts.count()),
            encoded: Exchange::new(device, hosts.count()),
            first: Some(FirstLevel::new(device, hosts, me)),
            ..Self::direct(device, codec, way, widths, me)
        }
    }

    /// Buffer in which floats are laid out in the order of the first exchange: by destination, and for two levels in peer
    /// order.
    pub fn outgoing(&mut self) -> &mut Buffer<f32> {
        match &mut self.first {
            None => &mut self.floats.send,
            Some(first) => &mut first.floats.send,
        }
    }

    /// Vectors of a sample that goes from one member to another.
    fn sample(&self, from: usize, to: usize) -> &Sample {
        &self.samples[self.way.index(from, to)]
    }

    /// Says how much goes over the world: `count(from, to)` floats.
    pub fn expect(&mut self, count: impl Fn(usize, usize) -> usize) {
        let Self { codec, samples, way, me, floats, encoded, first, .. } = self;
        let Some(first) = first else {
            let Exchange { to, from, .. } = floats;
            to.iter_mut().enumerate().for_each(|(other, to)| *to = count(*me, other));
            from.iter_mut().enumerate().for_each(|(other, from)| *from = count(other, *me));
            return;
        };
        first.expect_floats([&mut floats.to, &mut floats.from], &count);
        if codec.encodes() {
            let bytes = |from, to| {
                let sample = &samples[way.index(from, to)];
                sample.of_floats(count(from, to)) * sample.bytes
            };
            first.expect_bytes([&mut encoded.to, &mut encoded.from], &bytes);
        }
    }

    /// Encodes what was laid out: in the order of ranks if it was to be `permuted`, else as the first exchange needs it.
    pub fn encode(&mut self, device: &Device, permuted: bool, round: Round) -> Result<(), Error> {
        self.lay_out(permuted);
        let Self { codec, samples, floats, encoded, first, blocks, rows, .. } = self;
        let (from, to) = match first {
            None => (&floats.send, &mut encoded.send),
            Some(first) => {
                (if permuted { &floats.send } else { &first.floats.send }, &mut first.encoded.send)
            }
        };
        to.resize(blocks.iter().map(|block| block.samples * block.of(samples).bytes).sum())?;
        for block in Block::merged(blocks, samples) {
            let sample = block.of(samples);
            let (rows, to_at) = (sample.rows(*codec, &block, block.floats, rows), block.bytes);
            device.encode(Encode { codec: *codec, round, rows, from, to, to_at, error: None })?;
        }
        Ok(())
    }

    /// Blocks that are encoded, by destination; where there is one exchange, also how many bytes it moves.
    fn lay_out(&mut self, permuted: bool) {
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.clear();
        match &self.first {
            None => {
                let (mut floats, mut bytes) = (0, 0);
                for other in 0..self.floats.to.len() {
                    let sample = self.sample(self.me, other);
                    let samples = sample.of_floats(self.floats.to[other]);
                    blocks.push(Block { sample: self.way.index(self.me, other), samples, floats, bytes });
                    self.encoded.to[other] = samples * sample.bytes;
                    floats += self.floats.to[other];
                    bytes += self.encoded.to[other];
                    let sample = self.sample(other, self.me);
                    self.encoded.from[other] = sample.of_floats(self.floats.from[other]) * sample.bytes;
                }
            }
            Some(first) => first.for_each_block(permuted, |receiver, len, floats, bytes| {
                let samples = self.sample(self.me, receiver).of_floats(len);
                blocks.push(Block { sample: self.way.index(self.me, receiver), samples, floats, bytes });
            }),
        }
        self.blocks = blocks;
    }

    /// Decodes what arrived, by sender.
    pub fn decode(&mut self, device: &Device) -> Result<(), Error> {
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.clear();
        let (mut floats, mut bytes) = (0, 0);
        let mut push = |sample: usize, len: usize| {
            let of = &self.samples[sample];
            let samples = of.of_floats(len);
            blocks.push(Block { sample, samples, floats, bytes });
            floats += len;
            bytes += samples * of.bytes;
        };
        match &self.first {
            None => {
                let from = self.floats.from.iter().enumerate();
                from.for_each(|(other, &len)| push(self.way.index(other, self.me), len));
            }
            // What a host sends comes from its ranks, one after the other, as it would without levels.
            Some(first) => {
                first.arriving().for_each(|(sender, len)| push(self.way.index(sender, self.me), len))
            }
        }
        let (from, to) = (&self.encoded.recv, &mut self.floats.recv);
        to.resize(floats)?;
        for block in Block::merged(&blocks, &self.samples) {
            let rows = block.of(&self.samples).rows(self.codec, &block, 0, &mut self.rows);
            let (codec, from_at, to_at) = (self.codec, block.bytes, block.floats);
            let blocks = 1;
            device.decode(Decode {
                codec,
                rows,
                blocks,
                block_bytes: 0,
                from,
                from_at,
                to,
                to_at,
                add: false,
            })?;
        }
        self.blocks = blocks;
        Ok(())
    }

    /// Brings floats from the order of ranks into peer order, for the first of two levels.
    pub fn permute(&mut self, device: &Device) -> Result<(), Error> {
        let first = first_of(&mut self.first)?;
        first.permute(device, &self.floats.send)
    }

    /// Regroups the vectors by host, between the two levels of a hierarchical all-to-all.
    pub fn regroup(&mut self, device: &Device) -> Result<(), Error> {
        let first = first_of(&mut self.first)?;
        match self.codec.encodes() {
            true => first.regroup_encoded(device, &mut self.encoded.send),
            false => first.regroup(device, &mut self.floats.send),
        }
    }

    /// The exchange that brings the vectors: the only one, or the second of two.
    pub fn last(&mut self) -> Payload<'_> {
        match self.codec.encodes() {
            false => Payload::Floats(&mut self.floats),
            true => Payload::Encoded(&mut self.encoded),
        }
    }

    /// The exchange inside a host, the first of two levels.
    pub fn in_host(&mut self) -> Result<Payload<'_>, Error> {
        let first = first_of(&mut self.first)?;
        Ok(match self.codec.encodes() {
            false => Payload::Floats(&mut first.floats),
            true => Payload::Encoded(&mut first.encoded),
        })
    }
}

/// The first of two levels, which only a hierarchical all-to-all has.
fn first_of(first: &mut Option<FirstLevel>) -> Result<&mut FirstLevel, Error> {
    first.as_mut().map_or_else(|| no_phase("direct", "the first level of a hierarchical all-to-all"), Ok)
}
