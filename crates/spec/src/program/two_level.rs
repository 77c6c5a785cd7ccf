//! Two-level: inside hosts, between hosts, and inside hosts again.
//!
//! Each of the L members of a host sums one share of the vector inside the host. The H members of equal index, one on each host,
//! then sum that share directly: each sums a part of it, encodes the sum once and sends it to the others. At last the members of
//! a host exchange their shares as they are.
//!
//! Between hosts a member sends 2·(V/L)·(H − 1)/H bytes of a vector of V bytes: L times fewer than the direct algorithm.
//!
//! If hosts have different numbers of members, if there is one host alone, or one member on each host, the program is that of
//! the direct algorithm.

use super::groups::Groups;
use super::{Move, Program, Units, direct, in_place};
use crate::codec::Compensation;
use crate::placement::share;
use std::ops::Range;

/// Appends an all-reduce among members of which member `i` is on host `hosts[i]`.
pub(super) fn all_reduce(program: &mut Program, units: &Units, hosts: &[usize], compensation: Compensation) {
    let groups = match Groups::by_host(hosts, program.me) {
        Some(groups) if groups.count > 1 && groups.size > 1 => groups,
        _ => return direct::all_reduce(program, units, hosts, compensation),
    };
    let compensated = compensation != Compensation::None;
    let (inside, across) = (0..groups.size, 0..groups.count);
    let local_share = |index| units.share(groups.size, index);
    let own = local_share(groups.index);
    let part = |group| within(&own, share(own.len(), groups.count, group));

    let areas = program.contribute(units, compensated);
    let shares = inside.clone().map(|i| (groups.local(i), local_share(i)));
    program.exchange_blocks(units, areas, 0, shares, own.clone());
    let from = program.sum(units, own.clone(), groups.size, areas[1], compensated);

    let parts = across.clone().map(|group| (groups.peer(group), part(group)));
    let (base, mine) = (units.byte(own.start), part(groups.mine));
    program.exchange_blocks(units, [from, from.other()], base, parts.clone(), mine.clone());
    let from = program.sum(units, mine.clone(), groups.count, from.other(), compensated);

    let summed = Move { member: program.me, at: 0, len: units.bytes(mine) };
    let sends = across.map(|group| Move { member: groups.peer(group), ..summed });
    let receives = parts.map(|(member, part)| in_place(units, member, part));
    program.exchange([from, from.other()], sends, receives);

    let from = from.other();
    let to = Program::shared_out(units, from);
    let sends = inside.clone().map(|i| in_place(units, groups.local(i), own.clone()));
    let receives = inside.map(|i| in_place(units, groups.local(i), local_share(i)));
    program.exchange([from, to], sends, receives);
    program.finish(units, to);
}

/// Units of `range` that are the units `part` of those in it.
pub(super) fn within(range: &Range<usize>, part: Range<usize>) -> Range<usize> {
    range.start + part.start..range.start + part.end
}
