//! Towers that are found, balanced, and the same again.

use planning::partitioner::{
    Balance, Distance, PartitionError, Request, Strategy, balance, partition, ratio,
};
use proptest::prelude::*;
use spec::affinity::Affinity;
use spec::random::RandomSequence;

/// Features `f` and `g` have much to do with each other when `group(f) == group(g)`.
fn planted(features: usize, group: impl Fn(usize) -> usize, noise: f64) -> Affinity {
    let stream = RandomSequence::new(5, "planted");
    let value = |i: usize, j: usize| {
        let (a, b) = (i.min(j), i.max(j));
        let noise = noise * stream.unit_f64((a * features + b) as u64);
        if i == j {
            1.0
        } else if group(i) == group(j) {
            0.8 - noise
        } else {
            0.1 + noise
        }
    };
    let rows = (0..features).map(|i| (0..features).map(|j| value(i, j)).collect()).collect();
    Affinity::new((0..features).map(|i| format!("C{i}")).collect(), rows).unwrap()
}

#[test]
fn planted_groups_are_found() {
    for (features, towers) in [(26, 2), (32, 8), (24, 4)] {
        let group = |f: usize| (f * 7 + f / 3) % towers;
        // The ratio of the groups as they are, so that they can be found.
        let sizes: Vec<usize> =
            (0..towers).map(|t| (0..features).filter(|&f| group(f) == t).count()).collect();
        let request = Request {
            ratio: sizes.iter().max().unwrap().to_owned() as f64 / *sizes.iter().min().unwrap() as f64,
            ..Request::new(towers, Strategy::Coherent)
        };
        let found = partition(&planted(features, group, 0.2), &request).unwrap();
        for tower in &found.towers {
            assert!(
                tower.iter().all(|&f| group(f) == group(tower[0])),
                "{features} in {towers}: {:?}",
                found.towers
            );
        }
        let plane = found.plane.unwrap();
        assert!(plane.stress <= plane.classical_stress * (1.0 + 1e-9));
    }
}

/// The objective of k-means in the distances 1 − I, as moves and swaps lower it.
fn objective(affinity: &Affinity, towers: &[Vec<usize>]) -> f64 {
    let squared = |a: usize, b: usize| (1.0 - affinity.between(a, b)).powi(2);
    let of_tower = |tower: &Vec<usize>| {
        let pairs = tower.iter().flat_map(|&a| tower.iter().filter(move |&&b| b < a).map(move |&b| (a, b)));
        pairs.map(|(a, b)| squared(a, b)).sum::<f64>() / tower.len() as f64
    };
    towers.iter().map(of_tower).sum()
}

/// Without moves and swaps towers are those that k-means finds on the plane, as in the paper; with them never worse.
#[test]
fn moves_and_swaps_can_be_left_out() {
    let mut lowered = 0;
    for noise in [0.5, 0.6, 0.7] {
        let affinity = planted(32, |f| f % 8, noise);
        let ask =
            |settle| Request { distance: Distance::Plain, settle, ..Request::new(8, Strategy::Coherent) };
        let towers = |settle| partition(&affinity, &ask(settle)).unwrap();
        let (settled, left) = (towers(true), towers(false));
        assert_eq!(settled.plane, left.plane);
        assert!(left.towers.iter().all(|tower| tower.len() == 4));
        let (after, before) = (objective(&affinity, &settled.towers), objective(&affinity, &left.towers));
        assert!(after <= before + 1e-9, "{after} after moves and swaps, {before} before");
        lowered += usize::from(after < before - 1e-9);
    }
    assert!(lowered > 0, "moves and swaps changed nothing, so leaving them out shows nothing");
}

#[test]
fn diverse_towers_mix_the_groups() {
    let found = partition(&planted(16, |f| f % 4, 0.1), &Request::new(4, Strategy::Diverse)).unwrap();
    assert!(found.within < found.across, "{:?} within, {:?} across", found.within, found.across);
}

#[test]
fn every_strategy_divides_everything_into_equal_towers() {
    let affinity = planted(26, |f| f % 5, 0.2);
    for strategy in Strategy::ALL {
        for towers in [1, 2, 7, 8, 13, 26] {
            let request = Request::new(towers, strategy);
            let found = partition(&affinity, &request).unwrap();
            assert_eq!(found, partition(&affinity, &request).unwrap(), "the same again");
            let mut all: Vec<usize> = found.towers.concat();
            all.sort_unstable();
            assert_eq!(all, (0..26).collect::<Vec<_>>());
            let sizes: Vec<usize> = found.towers.iter().map(Vec::len).collect();
            assert_eq!(sizes.len(), towers);
            assert!(
                sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1,
                "{strategy:?}: {sizes:?}"
            );
        }
    }
}

#[test]
fn groups_are_never_mixed() {
    let groups: Vec<usize> = (0..20).map(|f| usize::from(f >= 6) + usize::from(f >= 16)).collect();
    let request = Request { groups: Some(groups.clone()), ..Request::new(5, Strategy::Coherent) };
    let found = partition(&planted(20, |f| f % 3, 0.3), &request).unwrap();
    assert!(found.towers.iter().all(|tower| tower.iter().all(|&f| groups[f] == groups[tower[0]])));
    let towers_of = |group| found.towers.iter().filter(|tower| groups[tower[0]] == group).count();
    assert_eq!([towers_of(0), towers_of(1), towers_of(2)], [2, 2, 1], "6, 10 and 4 features in proportion");
}

#[test]
fn what_cannot_be_is_refused() {
    let affinity = planted(6, |f| f % 2, 0.1);
    let refused = |request: Request| partition(&affinity, &request).unwrap_err();
    assert_eq!(
        refused(Request::new(7, Strategy::Coherent)),
        PartitionError::Towers { towers: 7, features: 6 }
    );
    assert_eq!(
        refused(Request::new(0, Strategy::Strided)),
        PartitionError::Towers { towers: 0, features: 6 }
    );
    let ratio = Request { ratio: 0.5, ..Request::new(2, Strategy::Coherent) };
    assert_eq!(refused(ratio), PartitionError::Ratio(0.5));
    let loads = Request { balance: Balance::Loads(vec![1.0; 5]), ..Request::new(2, Strategy::Coherent) };
    assert_eq!(refused(loads).to_string(), "5 loads were given for 6 features; give one for each");
    let dims = Request { dims: 7, ..Request::new(2, Strategy::Coherent) };
    assert_eq!(refused(dims), PartitionError::Dims { dims: 7, features: 6 });
    let groups = Request { groups: Some((0..6).collect()), ..Request::new(2, Strategy::Coherent) };
    assert_eq!(refused(groups), PartitionError::Groups { towers: 2, groups: 6 });
}

/// The smallest ratio of all divisions, each looked at once: the first feature of a tower opens it.
fn best_ratio(loads: &[f64], sums: &mut Vec<f64>, towers: usize) -> f64 {
    let Some((&load, rest)) = loads.split_first() else {
        return if sums.len() == towers { ratio(sums) } else { f64::INFINITY };
    };
    let mut best = f64::INFINITY;
    for tower in 0..sums.len() {
        sums[tower] += load;
        best = best.min(best_ratio(rest, sums, towers));
        sums[tower] -= load;
    }
    if sums.len() < towers {
        sums.push(load);
        best = best.min(best_ratio(rest, sums, towers));
        sums.pop();
    }
    best
}

#[test]
fn loads_that_mislead_the_greedy_are_balanced() {
    let loads = [44.0, 17.0, 33.0, 70.0, 62.0, 8.0, 46.0, 29.0, 26.0, 16.0];
    let best = best_ratio(&loads, &mut vec![], 5);
    assert!(balance(&loads, 5).ratio() <= best * 1.01, "{} for {best}", balance(&loads, 5).ratio());
}

#[test]
fn towers_without_load_are_refused() {
    let affinity = planted(4, |f| f % 2, 0.1);
    let request = |towers, strategy| Request {
        balance: Balance::Loads(vec![5.0, 0.0, 0.0, 1.0]),
        ..Request::new(towers, strategy)
    };
    for strategy in Strategy::ALL {
        assert_eq!(
            partition(&affinity, &request(3, strategy)).unwrap_err(),
            PartitionError::Unloaded { towers: 3, loaded: 2 }
        );
        assert!(
            partition(&affinity, &request(2, strategy)).unwrap().towers.iter().all(|tower| !tower.is_empty())
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn loads_are_balanced_as_well_as_brute_force(loads in prop::collection::vec(1u32..100, 2..11), towers in 1usize..6) {
        let loads: Vec<f64> = loads.into_iter().map(f64::from).collect();
        prop_assume!(towers <= loads.len());
        let best = best_ratio(&loads, &mut vec![], towers);
        prop_assert!(balance(&loads, towers).ratio() <= best * 1.005001);
        let affinity = planted(loads.len(), |f| f % 2, 0.3);
        let request = Request { balance: Balance::Loads(loads.clone()), ..Request::new(towers, Strategy::Coherent) };
        let found = partition(&affinity, &request).unwrap();
        prop_assert!(found.max_over_min <= best * 1.01, "{} against {}", found.max_over_min, best);
        prop_assert!(found.max_over_min_bound <= best * (1.0 + 1e-9));
    }
}

#[test]
fn groups_bound_the_ratio() {
    // One feature alone and five together: no division of these into two towers is more equal than 5 to 1.
    let request = Request { groups: Some(vec![0, 1, 1, 1, 1, 1]), ..Request::new(2, Strategy::Coherent) };
    let found = partition(&planted(6, |f| f % 2, 0.1), &request).unwrap();
    assert_eq!((found.max_over_min, found.max_over_min_bound), (5.0, 5.0));
    assert!(found.within.is_some());
    let alone = partition(&planted(3, |f| f, 0.1), &Request::new(3, Strategy::Coherent)).unwrap();
    assert_eq!(alone.within, None);
    let without = Request {
        groups: Some(vec![0, 0, 1]),
        balance: Balance::Loads(vec![1.0, 1.0, 0.0]),
        ..Request::new(2, Strategy::Coherent)
    };
    assert_eq!(
        partition(&planted(3, |f| f, 0.1), &without).unwrap_err(),
        PartitionError::GroupWithoutLoad(1)
    );
}

/// Halves of tables coincide on a coherent plane and lie far apart on a diverse one.
#[test]
fn slices_of_a_table_stay_apart_where_towers_are_diverse() {
    let affinity =
        |f: usize, g: usize| if f / 2 == g / 2 { 1.0 } else { 0.1 + 0.01 * ((f / 2 + g / 2) % 5) as f64 };
    let rows = (0..16).map(|i| (0..16).map(|j| affinity(i, j)).collect()).collect();
    let affinity = Affinity::new((0..16).map(|f| format!("C{}[{}]", f / 2, f % 2)).collect(), rows).unwrap();
    for seed in 0..4 {
        let request = Request { seed, ..Request::new(8, Strategy::Diverse) };
        let found = partition(&affinity, &request).unwrap();
        assert!(
            found.towers.iter().all(|tower| tower[0] / 2 != tower[1] / 2),
            "seed {seed}: {:?}",
            found.towers
        );
        let request = Request { seed, ..Request::new(8, Strategy::Coherent) };
        let found = partition(&affinity, &request).unwrap();
        assert!(
            found.towers.iter().all(|tower| tower[0] / 2 == tower[1] / 2),
            "seed {seed}: {:?}",
            found.towers
        );
    }
}
