mod lockstep;

use super::*;
use crate::codec::Codec;
use lockstep::{Lockstep, Value, disjoint};
use proptest::prelude::*;

const COMPENSATIONS: [Compensation; 3] = [Compensation::None, Compensation::Every, Compensation::AsPrinted];

/// Units of a vector that is one tensor.
fn one_tensor(codec: Codec, elements: usize) -> Units {
    Units::of_tensors(codec, elements, std::slice::from_ref(&(0..elements)))
}

/// Programs of all members for an all-reduce.
fn all_reduce(
    algorithm: Algorithm,
    units: &Units,
    hosts: &[usize],
    compensation: Compensation,
) -> Vec<Program> {
    let program = |me| Program::all_reduce(algorithm, units, hosts, me, compensation);
    (0..hosts.len()).map(program).collect()
}

/// Checks that errors of encodes lie in ranges of their own that fill the error state.
fn check_errors(units: &Units, program: &Program) {
    let error = |step: &Step| match step {
        Step::Encode { units: range, error, .. } => error.map(|at| at..at + units.extent(range.clone())),
        _ => None,
    };
    let errors = || program.steps().iter().filter_map(error);
    assert!(disjoint(errors()));
    assert_eq!(errors().map(|range| range.len()).sum::<usize>(), program.error_len());
    assert!(errors().all(|range| range.end <= program.error_len()));
}

/// Runs an all-reduce, and checks that every member ends with one value of every unit, the same for all members, in which the
/// contribution of every member is exactly once.
fn check_all_reduce(
    algorithm: Algorithm,
    units: &Units,
    elements: usize,
    hosts: &[usize],
    compensation: Compensation,
) {
    let programs = all_reduce(algorithm, units, hosts, compensation);
    programs.iter().for_each(|program| check_errors(units, program));
    let all = 0..units.count();
    let at = if all.is_empty() { 0 } else { units.at(0) };
    let mut run = Lockstep::new(units, &programs, |_| (all.clone(), at), |_| [elements, 0]);
    let before = run.written(0, Area::Vector);
    run.run();
    let first = run.result(0, Area::Vector, all.clone(), at);
    for member in 0..hosts.len() {
        assert_eq!(run.result(member, Area::Vector, all.clone(), at), first, "members have other bits");
        assert_eq!(run.written(member, Area::Vector), before, "padding is written to");
    }
    let everybody = u128::MAX >> (128 - hosts.len());
    assert!(first.iter().all(|&value| run.values.list[value as usize].1 == everybody));
    if algorithm == Algorithm::Direct && !units.codec().encodes() && hosts.len() > 1 {
        let mut id = |member, unit| run.values.id(Value::Own { member, unit });
        let sums: Vec<_> =
            all.map(|unit| Value::Sum((0..hosts.len()).map(|member| id(member, unit)).collect())).collect();
        let values = first.iter().map(|&value| run.values.list[value as usize].0.clone());
        assert!(values.eq(sums), "sums are in another order than that of the group");
    }
}

/// Hosts of members: `hosts` hosts of `members` members each, numbered host by host or in turn.
fn shape(hosts: usize, members: usize, in_turn: bool) -> Vec<usize> {
    (0..hosts * members).map(|i| if in_turn { i % hosts } else { i / members }).collect()
}

#[test]
fn all_reduces_add_every_contribution_once_for_any_number_of_members() {
    for members in 1..=17 {
        let mut shapes = vec![vec![0; members], (0..members).collect()];
        let divisors = (2..members).filter(|hosts| members % hosts == 0);
        shapes.extend(divisors.map(|hosts| shape(hosts, members / hosts, hosts % 2 == 0)));
        shapes.push((0..members).map(|i| i * i % 3).collect());
        for (hosts, algorithm) in shapes.iter().flat_map(|hosts| Algorithm::ORDERED.map(|a| (hosts, a))) {
            for len in [0, 1, members - 1, members, 2 * members + 1] {
                let units = one_tensor(Codec::F32, len);
                check_all_reduce(algorithm, &units, len, hosts, Compensation::Every);
            }
            // Rows of 1 to 4 values with padding between them, and a tensor of two rows.
            let tensors: Vec<_> = (0..30).map(|i| 6 * i..6 * i + i % 5).chain(Some(190..320)).collect();
            let units = Units::of_tensors(Codec::U4, 321, &tensors);
            check_all_reduce(algorithm, &units, 321, hosts, Compensation::AsPrinted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn programs_of_any_group_and_codec_are_sound(
        algorithm in proptest::sample::select(&Algorithm::ORDERED[..]),
        codec in proptest::sample::select(&Codec::ALL[..]),
        compensation in proptest::sample::select(&COMPENSATIONS[..]),
        hosts in proptest::collection::vec(0..4usize, 1..20),
        (even, count) in (any::<bool>(), 1..5usize),
        sizes in proptest::collection::vec((0..8usize, 0..400usize), 0..5),
    ) {
        let hosts = if even { shape(count, hosts.len().div_ceil(count), hosts[0] % 2 == 0) } else { hosts };
        let (mut end, mut tensors) = (0, Vec::new());
        for (padding, len) in sizes {
            tensors.push(end + padding..end + padding + len);
            end += padding + len;
        }
        let units = Units::of_tensors(codec, end, &tensors);
        check_all_reduce(algorithm, &units, end, &hosts, compensation);
    }

    #[test]
    fn scatters_and_gathers_of_any_shares_are_sound(
        codec in proptest::sample::select(&Codec::ALL[..]),
        widths in proptest::collection::vec(1..40usize, 1..4),
        samples in proptest::collection::vec(0..6usize, 1..9),
        by_vector in any::<bool>(),
    ) {
        let repeats = samples.iter().sum::<usize>();
        let units = Units::of_vectors(codec, &widths, repeats);
        let floats = repeats * widths.iter().sum::<usize>();
        let (members, period) = (samples.len(), units.count().checked_div(repeats).unwrap_or(0));
        let ends = samples.iter().scan(0, |end, &each| { *end += each * period; Some(*end) });
        let shares: Vec<_> = match by_vector {
            true => (0..members).map(|i| units.share(members, i)).collect(),
            false => ends.zip(&samples).map(|(end, &each)| end - each * period..end).collect(),
        };
        check_scatter(&units, &shares, floats);
        check_gather(&units, &shares, floats);
    }
}

fn check_scatter(units: &Units, shares: &[Range<usize>], floats: usize) {
    let mut programs = vec![Program::all_gather(units, shares, 0); shares.len()];
    programs.iter_mut().enumerate().for_each(|(me, program)| program.set_reduce_scatter(units, shares, me));
    assert_eq!(programs[0], Program::reduce_scatter(units, shares, 0));
    if shares.len() == 1 {
        return assert!(programs[0].steps().is_empty());
    }
    let own = |member: usize| units.extent(shares[member].clone());
    let mut run = Lockstep::new(units, &programs, |_| (0..units.count(), 0), |i| [floats, own(i)]);
    run.run();
    for (member, share) in shares.iter().enumerate() {
        for value in run.result(member, Area::Output, share.clone(), 0) {
            assert_eq!(run.values.list[value as usize].1, u128::MAX >> (128 - shares.len()));
        }
        assert!(programs[member].error_len() == 0);
    }
}

fn check_gather(units: &Units, shares: &[Range<usize>], floats: usize) {
    let mut programs = vec![Program::reduce_scatter(units, shares, 0); shares.len()];
    programs.iter_mut().enumerate().for_each(|(me, program)| program.set_all_gather(units, shares, me));
    assert_eq!(programs[0], Program::all_gather(units, shares, 0));
    if shares.len() == 1 {
        return assert!(programs[0].steps().is_empty());
    }
    let own = |member: usize| units.extent(shares[member].clone());
    let mut run = Lockstep::new(units, &programs, |i| (shares[i].clone(), 0), |i| [own(i), floats]);
    run.run();
    let first = run.result(0, Area::Output, 0..units.count(), 0);
    for (member, share) in shares.iter().enumerate() {
        assert_eq!(run.result(member, Area::Output, 0..units.count(), 0), first);
        let contributed = share.clone().all(|unit| run.values.list[first[unit] as usize].1 == 1 << member);
        assert!(contributed);
    }
}

/// What the direct all-reduce did before there were programs, step by step.
#[test]
fn direct_all_reduces_are_two_exchanges_without_copies() {
    let program = |codec, elements| {
        let units = one_tensor(codec, elements);
        Program::all_reduce(Algorithm::Direct, &units, &[0, 0], 1, Compensation::None)
    };
    let moves = |moves: [[usize; 3]; 8]| moves.map(|[member, at, len]| Move { member, at, len });
    let plain = program(Codec::F32, 5);
    assert_eq!(
        plain.steps(),
        [
            Step::Exchange { from: Area::Vector, to: Area::First, sends: 0..2, receives: 2..4 },
            Step::Decode {
                units: 3..5,
                blocks: 2,
                area: Area::First,
                at: 0,
                into: Target { area: Area::Second, at: 0, add: false }
            },
            Step::Exchange { from: Area::Second, to: Area::Vector, sends: 4..6, receives: 6..8 },
        ]
    );
    let sent_and_received =
        [[0, 0, 12], [1, 12, 8], [0, 0, 8], [1, 8, 8], [0, 0, 8], [1, 0, 8], [0, 0, 12], [1, 12, 8]];
    assert_eq!(plain.moves(), moves(sent_and_received));
    assert_eq!((plain.scratch(), plain.exchanges(), plain.error_len()), ([16, 8], 2, 0));

    let into = |at| Target { area: Area::Vector, at, add: false };
    let halves = program(Codec::Bf16, 5);
    assert_eq!(
        halves.steps(),
        [
            Step::Encode { units: 0..5, from: 0, area: Area::First, at: 0, error: None },
            Step::Exchange { from: Area::First, to: Area::Second, sends: 0..2, receives: 2..4 },
            Step::Decode { units: 3..5, blocks: 2, area: Area::Second, at: 0, into: into(3) },
            Step::Encode { units: 3..5, from: 3, area: Area::Second, at: 0, error: None },
            Step::Exchange { from: Area::Second, to: Area::First, sends: 4..6, receives: 6..8 },
            Step::Decode { units: 0..5, blocks: 1, area: Area::First, at: 0, into: into(0) },
        ]
    );
    assert_eq!(halves.moves(), moves(sent_and_received.map(|[member, at, len]| [member, at / 2, len / 2])));
    assert_eq!(halves.scratch(), [10, 8]);
}

/// What all members send together, in 240 floats per unit of the formulas: lengths divide.
#[test]
fn algorithms_send_what_their_formulas_say() {
    for (hosts, members) in [(2, 2), (4, 2), (3, 4), (5, 8), (1, 8), (8, 1), (6, 1)] {
        let (ranks, elements) = (hosts * members, 240 * hosts * members);
        let volume = 4 * elements as u64;
        let units = one_tensor(Codec::F32, elements);
        let of = shape(hosts, members, true);
        let sent = |algorithm| -> Vec<Sent> {
            let programs = all_reduce(algorithm, &units, &of, Compensation::None);
            programs.iter().map(|program| program.sent_by_link(&of)).collect()
        };
        let (n, h, l) = (ranks as u64, hosts as u64, members as u64);
        for (direct, two_level) in sent(Algorithm::Direct).iter().zip(sent(Algorithm::TwoLevel)) {
            assert_eq!(direct.network, 2 * volume * (n - l) / n);
            assert_eq!(direct.host + direct.network, 2 * volume * (n - 1) / n);
            assert_eq!((direct.messages, direct.network_messages), (2 * (n - 1), 2 * (n - l)));
            if hosts > 1 && members > 1 {
                assert_eq!(two_level.network * l, direct.network);
                assert_eq!(two_level.host, 2 * volume * (l - 1) / l);
                assert_eq!(two_level.messages, 2 * (h - 1) + 2 * (l - 1));
            } else {
                assert_eq!(two_level, *direct);
            }
        }
        for ring in sent(Algorithm::Ring) {
            assert_eq!((ring.host + ring.network, ring.messages), (2 * volume * (n - 1) / n, 2 * (n - 1)));
        }
        // Each pair exchanges two halves, gathers one, and gets the whole back; the fold goes there and back.
        let all = sent(Algorithm::RecursiveDoubling).into_iter().fold(Sent::default(), |sum, s| sum + s);
        let paired = 1 << h.ilog2();
        assert_eq!(all.network, volume * (paired - 1) * 5 / 2 + 2 * volume * (h - paired));
        assert_eq!(all.host, 2 * volume * (l - 1) * h);
    }
}

/// Encodes of a member: the units of each, and whether it is compensated.
fn encodes(algorithm: Algorithm, hosts: &[usize], me: usize, how: Compensation) -> Vec<(Range<usize>, bool)> {
    let units = one_tensor(Codec::U8, 128 * 16);
    let program = Program::all_reduce(algorithm, &units, hosts, me, how);
    let encode = |step: &Step| match step {
        Step::Encode { units, error, .. } => Some((units.clone(), error.is_some())),
        _ => None,
    };
    program.steps().iter().filter_map(encode).collect()
}

#[test]
fn printed_compensation_leaves_out_what_the_paper_leaves_out() {
    use Compensation::{AsPrinted, Every, None};
    for (algorithm, how) in Algorithm::ORDERED.into_iter().flat_map(|a| COMPENSATIONS.map(|c| (a, c))) {
        let compensated = encodes(algorithm, &shape(4, 2, false), 6, how).into_iter().map(|(_, c)| c);
        let printed = [Algorithm::Ring, Algorithm::RecursiveDoubling].contains(&algorithm);
        match how {
            None => assert_eq!(compensated.filter(|&c| c).count(), 0),
            AsPrinted if printed => assert!(compensated.count() > 1),
            Every | AsPrinted => assert!(compensated.into_iter().all(|c| c)),
        }
    }
    // Algorithm 2: each chunk is encoded once, and all but the first send is compensated.
    let ring = encodes(Algorithm::Ring, &[0; 4], 2, AsPrinted);
    assert_eq!(ring, [(8..12, false), (4..8, true), (0..4, true), (12..16, true)]);
    // Algorithm 5 and the first send of Algorithm 3 are not compensated; the reduced halves of both rounds are.
    let last = encodes(Algorithm::RecursiveDoubling, &shape(4, 2, false), 6, AsPrinted);
    assert_eq!(last, [(8..16, false), (0..4, false), (4..8, true), (4..8, true)]);
    // A fold is not compensated; the sums of a single group are encoded once, and are not either.
    let folded = encodes(Algorithm::RecursiveDoubling, &[0, 1, 2], 2, AsPrinted);
    assert_eq!(folded, [(0..16, false)]);
    let single = encodes(Algorithm::RecursiveDoubling, &[0; 2], 1, AsPrinted);
    assert_eq!(single, [(0..8, false), (8..16, false)]);
}

#[test]
fn algorithms_have_names_that_parse() {
    for algorithm in Algorithm::ORDERED {
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
        assert_eq!(serde_json::to_value(algorithm).unwrap(), algorithm.name());
        assert_eq!(format!("{algorithm:20}|"), format!("{:20}|", algorithm.name()));
    }
    assert!("tree".parse::<Algorithm>().unwrap_err().contains("recursive-doubling"));
}
