//! Recursive doubling (Algorithms 3 to 5 of Yang et al., 2020), with the first stage inside groups: the members of a host.
//!
//! ```text
//! inside groups    each member encodes the shares of the others → exchange → decode and add to own share, which is not encoded
//! fold             groups beyond a power of two encode their share → exchange → a partner decodes and adds
//! pairs, log₂ G    p sends the second half of the share, q the first → each adds and encodes one half → p sends it to q
//! back             encoded shares return the way they came, as they are
//! inside groups    exchange of encoded shares → decode all
//! ```
//!
//! Members of equal index in all groups reduce one share together. A half that was encoded in one round of pairs is sent as it is
//! in the next, since the paper takes DQ(DQ(x)) for DQ(x). So the encoded halves that the last member holds are also
//! what all members receive and decode.
//!
//! As printed, only the reduced halves are compensated (the function DQE of Algorithm 3): neither first sends of halves, nor sums
//! inside groups (Algorithm 5), nor what the paper does not print (the fold, and the encode of a single group's sums).
//!
//! If hosts have different numbers of members, every member is a group.

use super::groups::Groups;
use super::two_level::within;
use super::{Area, Move, Program, Units, in_place};
use crate::codec::Compensation;
use crate::placement::share;
use std::ops::Range;

/// Appends an all-reduce among members of which member `i` is on host `hosts[i]`.
pub(super) fn all_reduce(program: &mut Program, units: &Units, hosts: &[usize], compensation: Compensation) {
    let me = program.me;
    let groups = Groups::by_host(hosts, me).unwrap_or_else(|| Groups::single(hosts.len(), me));
    let own = units.share(groups.size, groups.index);
    let tree = Tree {
        units,
        half: [0, 1].map(|index| within(&own, share(own.len(), 2, index))),
        paired: 1 << groups.count.ilog2(),
        own,
        groups,
        every: compensation == Compensation::Every,
        reduced: compensation != Compensation::None,
    };
    if tree.groups.size > 1 {
        tree.sum_inside(program);
    }
    tree.fold(program);
    (0..tree.rounds()).for_each(|round| tree.reduce_pair(program, round));
    if tree.groups.count == 1 {
        program.encode(units, tree.own.clone(), Area::Second, units.byte(tree.own.start), tree.every);
    }
    let from = tree.back(program);
    tree.gather_inside(program, from);
}

/// Reduction of one share among the members of equal index in all groups. A member is named by the number of its group.
struct Tree<'a> {
    units: &'a Units,
    groups: Groups,
    /// Units of the share.
    own: Range<usize>,
    /// Halves of the share.
    half: [Range<usize>; 2],
    /// Number of groups that reduce in pairs: a power of two. Each of the others has a partner, that many groups before it.
    paired: usize,
    /// Whether all encodes are compensated.
    every: bool,
    /// Whether the encodes of reduced halves are compensated.
    reduced: bool,
}

impl Tree<'_> {
    fn rounds(&self) -> u32 {
        self.paired.ilog2()
    }

    /// Pair of groups of a round that this group belongs to, if it takes part: the last group of each pair goes on to the next.
    fn pair(&self, round: u32) -> Option<[usize; 2]> {
        let (mine, size) = (self.groups.mine, 2 << round);
        let first = mine / size * size;
        let pair = [first + size / 2 - 1, first + size - 1];
        (mine < self.paired && pair.contains(&mine)).then_some(pair)
    }

    /// Move of units to or from a group, at their place in the encoded vector.
    fn to(&self, group: usize, range: &Range<usize>) -> Move {
        in_place(self.units, self.groups.peer(group), range.clone())
    }

    /// Adds the shares of all members of this group: encoded those of others, the own one as it is (Algorithm 5).
    fn sum_inside(&self, program: &mut Program) {
        let (units, own, size) = (self.units, &self.own, self.groups.size);
        program.encode(units, 0..own.start, Area::First, 0, self.every);
        program.encode(units, own.end..units.count(), Area::First, units.byte(own.end), self.every);
        let others = || (0..size).filter(|&index| index != self.groups.index);
        let sends = others().map(|i| in_place(units, self.groups.local(i), units.share(size, i)));
        let len = units.bytes(own.clone());
        let block = |(block, index)| Move { member: self.groups.local(index), at: block * len, len };
        program.exchange([Area::First, Area::Second], sends, others().enumerate().map(block));
        program.add_to_vector(units, own.clone(), size - 1, Area::Second, 0);
    }

    /// Adds the shares of the groups beyond a power of two to those of their partners.
    fn fold(&self, program: &mut Program) {
        let (mine, count, paired) = (self.groups.mine, self.groups.count, self.paired);
        if count == paired {
            return;
        }
        let at = self.units.byte(self.own.start);
        let to = mine.checked_sub(paired);
        let from = Some(mine + paired).filter(|&group| group < count);
        if to.is_some() {
            program.encode(self.units, self.own.clone(), Area::Second, at, self.every);
        }
        let [sends, receives] = [to, from].map(|group| group.map(|group| self.to(group, &self.own)));
        program.exchange([Area::Second, Area::First], sends, receives);
        if from.is_some() {
            program.add_to_vector(self.units, self.own.clone(), 1, Area::First, at);
        }
    }

    /// Reduces the shares of two groups, after which the last of them has both reduced halves: decoded in its vector, and
    /// encoded in the second scratch area (Algorithm 3).
    fn reduce_pair(&self, program: &mut Program, round: u32) {
        let units = self.units;
        let Some([p, q]) = self.pair(round) else {
            program.exchange([Area::Second, Area::First], None, None);
            program.exchange([Area::First, Area::Second], None, None);
            return;
        };
        let goes_on = self.groups.mine == q;
        let (other, [kept, given]) = match goes_on {
            false => (q, [&self.half[0], &self.half[1]]),
            true => (p, [&self.half[1], &self.half[0]]),
        };
        let at = |range: &Range<usize>| units.byte(range.start);
        if round == 0 {
            program.encode(units, given.clone(), Area::Second, at(given), self.every);
        }
        program.exchange([Area::Second, Area::First], [self.to(other, given)], [self.to(other, kept)]);
        program.add_to_vector(units, kept.clone(), 1, Area::First, at(kept));
        let area = if goes_on { Area::Second } else { Area::First };
        program.encode(units, kept.clone(), area, at(kept), self.reduced);
        let reduced = self.to(other, &self.half[0]);
        let [sends, receives] = if goes_on { [None, Some(reduced)] } else { [Some(reduced), None] };
        program.exchange([Area::First, Area::Second], sends, receives);
        if goes_on {
            program.decode_in_place(units, self.own.clone(), Area::Second, at(&self.own));
        }
    }

    /// Sends the encoded share back to all groups. Returns the area that holds it.
    fn back(&self, program: &mut Program) -> Area {
        let (mine, paired, count) = (self.groups.mine, self.paired, self.groups.count);
        let mut area = Area::Second;
        for round in (0..self.rounds()).rev() {
            let [from, to] = match self.pair(round) {
                Some([p, q]) if mine == p => [Some(q), None],
                Some([p, _]) => [None, Some(p)],
                None => [None, None],
            };
            area = self.pass_on(program, area, from, to);
        }
        if count > paired {
            let to = Some(mine + paired).filter(|&group| group < count);
            area = self.pass_on(program, area, mine.checked_sub(paired), to);
        }
        area
    }

    /// Receives the encoded share from a group or sends it to one. `area` holds it, if it has arrived. Returns the area that
    /// holds it afterwards.
    fn pass_on(&self, program: &mut Program, area: Area, from: Option<usize>, to: Option<usize>) -> Area {
        let [sends, receives] = [to, from].map(|group| group.map(|group| self.to(group, &self.own)));
        program.exchange([area, area.other()], sends, receives);
        if from.is_some() { area.other() } else { area }
    }

    /// Exchanges the encoded shares inside the group, and decodes all of them.
    fn gather_inside(&self, program: &mut Program, from: Area) {
        let (units, groups) = (self.units, &self.groups);
        let mut area = from;
        if groups.size > 1 {
            area = from.other();
            let sends = (0..groups.size).map(|i| in_place(units, groups.local(i), self.own.clone()));
            let shares = (0..groups.size).map(|i| (i, units.share(groups.size, i)));
            let receives = shares.map(|(i, share)| in_place(units, groups.local(i), share));
            program.exchange([from, area], sends, receives);
        }
        program.decode_in_place(units, 0..units.count(), area, 0);
    }
}
