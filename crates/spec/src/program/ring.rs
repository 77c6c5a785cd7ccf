//! Ring (Algorithm 2 of Yang et al., 2020): every member receives from its left neighbour and sends to its right one.
//!
//! The vector is cut into N chunks. Chunk `c` starts at member `c`; each member on its way adds its own part and encodes the sum,
//! until member `c − 1` has the complete sum. It encodes that once, and the encoded chunk goes round the ring as it is.
//!
//! ```text
//! for i in 0..N−1   encode chunk p − i → exchange → decode and add chunk p − i − 1
//! encode chunk p + 1, and decode it
//! for i in 0..N−1   exchange: chunk p + 1 − i to the right, chunk p − i from the left → decode
//! ```
//!
//! As printed, the first sends are not compensated, and all later encodes are.

use super::{Area, Move, Program, Units};
use crate::codec::Compensation;

/// Appends an all-reduce among as many members as there are `hosts`: whatever host they are on.
pub(super) fn all_reduce(program: &mut Program, units: &Units, hosts: &[usize], compensation: Compensation) {
    let (members, me) = (hosts.len(), program.me);
    let (left, right) = ((me + members - 1) % members, (me + 1) % members);
    // Chunk of member `me`, or of the one that is `back` members to the left of it.
    let chunk = |back: usize| units.share(members, (me + 2 * members - back) % members);
    let whole = |member, range| Move { member, at: 0, len: units.bytes(range) };
    for i in 0..members - 1 {
        let compensated = match compensation {
            Compensation::None => false,
            Compensation::Every => true,
            Compensation::AsPrinted => i > 0,
        };
        let (sent, received) = (chunk(i), chunk(i + 1));
        program.encode(units, sent.clone(), Area::First, 0, compensated);
        let areas = [Area::First, Area::Second];
        program.exchange(areas, [whole(right, sent)], [whole(left, received.clone())]);
        program.add_to_vector(units, received, 1, Area::Second, 0);
    }
    let own = chunk(members - 1);
    program.encode(units, own.clone(), Area::First, 0, compensation != Compensation::None);
    program.decode_in_place(units, own, Area::First, 0);
    let mut from = Area::First;
    for i in 0..members - 1 {
        let (sent, received) = (chunk(members - 1 + i), chunk(i));
        let areas = [from, from.other()];
        program.exchange(areas, [whole(right, sent)], [whole(left, received.clone())]);
        from = from.other();
        program.decode_in_place(units, received, from, 0);
    }
}
