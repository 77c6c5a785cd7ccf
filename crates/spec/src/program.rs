//! Programs: collectives that reduce or encode, as short lists of steps that encode, exchange, decode and add.
//!
//! A program says what one member of a group does. The interpreter runs it, the meter and the cost models count what it sends:
//! all of them read the same steps. A program is made of the [`Units`] of a vector, which an algorithm divides among members.
//!
//! ```
//! use spec::codec::{Codec, Compensation};
//! use spec::program::{Algorithm, Program, Units};
//! // 1000 floats, on two hosts of two members each.
//! let units = Units::of_tensors(Codec::F32, 1000, &[0..1000]);
//! let hosts = [0, 0, 1, 1];
//! let sent = |algorithm| {
//!     Program::all_reduce(algorithm, &units, &hosts, 0, Compensation::None).sent_by_link(&hosts)
//! };
//! assert_eq!(sent(Algorithm::Direct).network, 2 * 2 * 1000);
//! assert_eq!(sent(Algorithm::TwoLevel).network, 2 * 1000);
//! ```
//!
//! Every member ends with the same bits: whatever is shared out at the end is encoded once and forwarded as it is, and the
//! member that encoded it decodes it too. In a group of one member there is nothing to do, and nothing is rounded.

mod algorithm;
mod direct;
mod groups;
mod recursive_doubling;
mod ring;
mod sent;
mod two_level;
mod units;

pub use algorithm::Algorithm;
pub use sent::Sent;
pub use units::{Repeats, Units};

use crate::codec::Compensation;
use std::ops::Range;

/// Memory that the steps of a program read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Vector that the caller passes. In an all-reduce it holds all units, and the result replaces them. In a reduce-scatter it
    /// holds all units and stays as it is. In an all-gather it holds the units of this member alone and stays as it is.
    Vector,
    /// Vector that the caller receives, where it is another one: in a reduce-scatter the units of this member alone, in an
    /// all-gather all units. Unused in an all-reduce.
    Output,
    /// First scratch area.
    First,
    /// Second scratch area.
    Second,
}

impl Area {
    /// Scratch area that is not this one.
    fn other(self) -> Self {
        if self == Area::First { Area::Second } else { Area::First }
    }
}

/// Bytes that one member sends to another, or receives from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Index of the other member in the group; it may be this member itself.
    pub member: usize,
    /// Offset in the area, in bytes.
    pub at: usize,
    /// Number of bytes, at least one.
    pub len: usize,
}

/// Step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Encodes units of [`Area::Vector`] into a scratch area.
    Encode {
        /// Units, at least one.
        units: Range<usize>,
        /// Offset of the first value in the vector, in floats.
        from: usize,
        /// Scratch area that receives the encoded units.
        area: Area,
        /// Offset of the first encoded unit in the area, in bytes.
        at: usize,
        /// Offset in the error state, in floats, if the encode is compensated: the error of a value lies as far behind it as the
        /// value lies behind the first value of the units.
        error: Option<usize>,
    },
    /// Exchanges bytes among members. All members have the same exchanges in the same order, and what one sends in an exchange,
    /// another receives in that exchange. A member sends at most once to each member, and receives at most once from each.
    Exchange {
        /// Area that is sent from.
        from: Area,
        /// Area that is received into; another one than `from`. Bytes that nothing is received into keep their values.
        to: Area,
        /// Range of [`Program::moves`]: what this member sends.
        sends: Range<usize>,
        /// Range of [`Program::moves`]: what this member receives.
        receives: Range<usize>,
    },
    /// Decodes blocks, which lie one behind the other and encode the same units each, and adds them up in this order.
    Decode {
        /// Units of each block, at least one.
        units: Range<usize>,
        /// Number of blocks, at least one.
        blocks: usize,
        /// Scratch area that holds the blocks.
        area: Area,
        /// Offset of the first block in the area, in bytes.
        at: usize,
        /// Place of the floats.
        into: Target,
    },
}

/// Place that decoded floats are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Area of the floats. A scratch area only for the identity codec, and never the one that is decoded.
    pub area: Area,
    /// Offset of the first value in the area, in floats.
    pub at: usize,
    /// Whether the values are added to what is there, before the first block, instead of replacing it.
    pub add: bool,
}

/// Program of one member of a group for one collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    me: usize,
    steps: Vec<Step>,
    moves: Vec<Move>,
    scratch: [usize; 2],
    exchanges: usize,
    error_len: usize,
}

impl Program {
    /// Makes the program of member `me` for an all-reduce of the units of one vector. Member `i` is on host `hosts[i]`.
    pub fn all_reduce(
        algorithm: Algorithm,
        units: &Units,
        hosts: &[usize],
        me: usize,
        compensation: Compensation,
    ) -> Self {
        let mut program = Self { me, ..Self::default() };
        if hosts.len() > 1 {
            algorithm.append(&mut program, units, hosts, compensation);
        }
        program
    }

    /// Makes the program of member `me` for a reduce-scatter, after which each member `i` has the sum of the units `shares[i]`.
    /// In a group of one member there are no steps, although the output is another vector than the input.
    pub fn reduce_scatter(units: &Units, shares: &[Range<usize>], me: usize) -> Self {
        let mut program = Self::default();
        program.set_reduce_scatter(units, shares, me);
        program
    }

    /// Replaces the program by that of [`Program::reduce_scatter`], in the same memory.
    pub fn set_reduce_scatter(&mut self, units: &Units, shares: &[Range<usize>], me: usize) {
        self.clear(me);
        if shares.len() > 1 {
            direct::reduce_scatter(self, units, shares);
        }
    }

    /// Makes the program of member `me` for an all-gather, to which each member `i` contributes the units `shares[i]`, and
    /// after which every member has all units. In a group of one member there are no steps, although the output is another
    /// vector than the input.
    pub fn all_gather(units: &Units, shares: &[Range<usize>], me: usize) -> Self {
        let mut program = Self::default();
        program.set_all_gather(units, shares, me);
        program
    }

    /// Replaces the program by that of [`Program::all_gather`], in the same memory.
    pub fn set_all_gather(&mut self, units: &Units, shares: &[Range<usize>], me: usize) {
        self.clear(me);
        if shares.len() > 1 {
            direct::all_gather(self, units, shares);
        }
    }

    /// Steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Moves of all exchanges, which the exchanges name by their indices.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Sizes of the first and the second scratch area, in bytes.
    pub fn scratch(&self) -> [usize; 2] {
        self.scratch
    }

    /// Number of exchanges, which is the same for all members.
    pub fn exchanges(&self) -> usize {
        self.exchanges
    }

    /// Length of the error state, in floats: what compensated encodes carry from one run of the program to the next, at first
    /// zeros.
    pub fn error_len(&self) -> usize {
        self.error_len
    }

    /// Removes all steps, and keeps their memory.
    fn clear(&mut self, me: usize) {
        self.steps.clear();
        self.moves.clear();
        (self.me, self.scratch, self.exchanges, self.error_len) = (me, [0, 0], 0, 0);
    }

    /// Makes the scratch area `area` at least `len` bytes long.
    fn reserve(&mut self, area: Area, len: usize) {
        match area {
            Area::First => self.scratch[0] = self.scratch[0].max(len),
            Area::Second => self.scratch[1] = self.scratch[1].max(len),
            Area::Vector | Area::Output => {}
        }
    }

    /// Appends the encode of units of the vector into `area` at byte `at`. What it loses is carried if `compensated`, and if the
    /// codec loses anything.
    fn encode(&mut self, units: &Units, range: Range<usize>, area: Area, at: usize, compensated: bool) {
        if !range.is_empty() {
            let from = units.at(range.start);
            self.encode_from(units, range, from, (area, at), compensated);
        }
    }

    /// Appends an encode as [`Program::encode`] does, of units that begin at float `from` of the vector.
    fn encode_from(
        &mut self,
        units: &Units,
        range: Range<usize>,
        from: usize,
        (area, at): (Area, usize),
        compensated: bool,
    ) {
        if range.is_empty() {
            return;
        }
        self.reserve(area, at + units.bytes(range.clone()));
        let error = (compensated && units.codec().encodes()).then_some(self.error_len);
        if error.is_some() {
            self.error_len += units.extent(range.clone());
        }
        self.steps.push(Step::Encode { units: range, from, area, at, error });
    }

    /// Appends an exchange. Moves without bytes are left out.
    fn exchange(
        &mut self,
        [from, to]: [Area; 2],
        sends: impl IntoIterator<Item = Move>,
        receives: impl IntoIterator<Item = Move>,
    ) {
        let start = self.moves.len();
        self.moves.extend(sends.into_iter().filter(|sent| sent.len > 0));
        let middle = self.moves.len();
        self.moves.extend(receives.into_iter().filter(|received| received.len > 0));
        let end = self.moves.len();
        for (area, range) in [(from, start..middle), (to, middle..end)] {
            let needed = self.moves[range].iter().map(|each| each.at + each.len).max();
            self.reserve(area, needed.unwrap_or(0));
        }
        self.steps.push(Step::Exchange { from, to, sends: start..middle, receives: middle..end });
        self.exchanges += 1;
    }

    /// Appends the decode of `blocks` blocks of units that lie in `area` from byte `at` on.
    fn decode(
        &mut self,
        units: &Units,
        range: Range<usize>,
        blocks: usize,
        (area, at): (Area, usize),
        into: Target,
    ) {
        if range.is_empty() || blocks == 0 {
            return;
        }
        self.reserve(into.area, (into.at + units.extent(range.clone())) * size_of::<f32>());
        self.steps.push(Step::Decode { units: range, blocks, area, at, into });
    }

    /// Appends the decode of one block of units, which replaces them in the vector.
    fn decode_in_place(&mut self, units: &Units, range: Range<usize>, area: Area, at: usize) {
        if !range.is_empty() {
            let into = Target { area: Area::Vector, at: units.at(range.start), add: false };
            self.decode(units, range, 1, (area, at), into);
        }
    }

    /// Appends the decode of `blocks` blocks of units from byte `at` of `area` on, which are added to the vector.
    fn add_to_vector(&mut self, units: &Units, range: Range<usize>, blocks: usize, area: Area, at: usize) {
        if !range.is_empty() {
            let into = Target { area: Area::Vector, at: units.at(range.start), add: true };
            self.decode(units, range, blocks, (area, at), into);
        }
    }
}

/// Move of the encoded units `range` from or to their place in the encoded vector.
fn in_place(units: &Units, member: usize, range: Range<usize>) -> Move {
    Move { member, at: units.byte(range.start), len: units.bytes(range) }
}

#[cfg(test)]
mod tests;
