//! Direct algorithms: every member sends to every other.
//!
//! ```text
//! all-reduce       encode all → exchange → decode and sum own share → encode the sum → exchange → decode all
//! reduce-scatter   encode all → exchange → decode and sum own share
//! all-gather       encode own share → exchange → decode all
//! ```
//!
//! The identity codec needs no encode: floats are sent from the vector, and sums arrive in it.

use super::{Area, Move, Program, Target, Units, in_place};
use crate::codec::Compensation;
use std::ops::Range;

/// Appends an all-reduce among as many members as there are `hosts`: whatever host they are on.
pub(super) fn all_reduce(program: &mut Program, units: &Units, hosts: &[usize], compensation: Compensation) {
    let (members, me) = (hosts.len(), program.me);
    let all = 0..members;
    let compensated = compensation != Compensation::None;
    let share = |member| units.share(members, member);
    let areas = program.contribute(units, compensated);
    program.exchange_blocks(units, areas, 0, all.clone().map(|i| (i, share(i))), share(me));
    let from = program.sum(units, share(me), members, areas[1], compensated);
    let to = Program::shared_out(units, from);
    let own = Move { member: me, at: 0, len: units.bytes(share(me)) };
    let sends = all.clone().map(|member| Move { member, ..own });
    program.exchange([from, to], sends, all.map(|i| in_place(units, i, share(i))));
    program.finish(units, to);
}

/// Appends a reduce-scatter.
pub(super) fn reduce_scatter(program: &mut Program, units: &Units, shares: &[Range<usize>]) {
    let (own, members) = (shares[program.me].clone(), shares.len());
    let areas = program.contribute(units, false);
    program.exchange_blocks(units, areas, 0, shares.iter().cloned().enumerate(), own.clone());
    let into = Target { area: Area::Output, at: 0, add: false };
    program.decode(units, own, members, (areas[1], 0), into);
}

/// Appends an all-gather.
pub(super) fn all_gather(program: &mut Program, units: &Units, shares: &[Range<usize>]) {
    let own = shares[program.me].clone();
    let areas = match units.codec().encodes() {
        true => {
            program.encode_from(units, own.clone(), 0, (Area::First, 0), false);
            [Area::First, Area::Second]
        }
        false => [Area::Vector, Area::Output],
    };
    let own = Move { member: program.me, at: 0, len: units.bytes(own) };
    let sends = (0..shares.len()).map(|member| Move { member, ..own });
    let receives = shares.iter().enumerate().map(|(i, share)| in_place(units, i, share.clone()));
    program.exchange(areas, sends, receives);
    if units.codec().encodes() {
        let into = Target { area: Area::Output, at: 0, add: false };
        program.decode(units, 0..units.count(), 1, (areas[1], 0), into);
    }
}

impl Program {
    /// Appends what makes all units ready to be sent: nothing for the identity codec, otherwise an encode. Returns the area that
    /// holds them, each at its place in the encoded vector, and a scratch area that is free.
    pub(super) fn contribute(&mut self, units: &Units, compensated: bool) -> [Area; 2] {
        if !units.codec().encodes() {
            return [Area::Vector, Area::First];
        }
        self.encode(units, 0..units.count(), Area::First, 0, compensated);
        [Area::First, Area::Second]
    }

    /// Appends an exchange in which this member sends units to the members that sum them, from their places in the encoded
    /// vector, whose byte `base` is the first of the area, and receives a block of its `own` units from each of these members,
    /// one behind the other.
    pub(super) fn exchange_blocks(
        &mut self,
        units: &Units,
        areas: [Area; 2],
        base: usize,
        shares: impl Iterator<Item = (usize, Range<usize>)> + Clone,
        own: Range<usize>,
    ) {
        let len = units.bytes(own);
        let receives = shares.clone().enumerate().map(|(i, (member, _))| Move { member, at: i * len, len });
        let sends = shares.map(|(member, share)| {
            let sent = in_place(units, member, share);
            Move { at: sent.at - base, ..sent }
        });
        self.exchange(areas, sends, receives);
    }

    /// Appends the sum of the `blocks` blocks of units in the scratch area `area`. Returns the area that holds the sum encoded,
    /// from its first byte on. For the identity codec that is the other scratch area, and the vector stays as it is; otherwise
    /// the vector holds the sum too, not rounded.
    pub(super) fn sum(
        &mut self,
        units: &Units,
        range: Range<usize>,
        blocks: usize,
        area: Area,
        compensated: bool,
    ) -> Area {
        if !units.codec().encodes() {
            let into = Target { area: area.other(), at: 0, add: false };
            self.decode(units, range, blocks, (area, 0), into);
            return into.area;
        }
        if !range.is_empty() {
            let into = Target { area: Area::Vector, at: units.at(range.start), add: false };
            self.decode(units, range.clone(), blocks, (area, 0), into);
            self.encode(units, range, area, 0, compensated);
        }
        area
    }

    /// Area that receives all units of the result while `from` is sent: the vector itself for the identity codec.
    pub(super) fn shared_out(units: &Units, from: Area) -> Area {
        if units.codec().encodes() { from.other() } else { Area::Vector }
    }

    /// Appends the decode of the result into the vector, unless it has arrived there.
    pub(super) fn finish(&mut self, units: &Units, area: Area) {
        if area != Area::Vector {
            self.decode_in_place(units, 0..units.count(), area, 0);
        }
    }
}
