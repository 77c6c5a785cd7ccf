//! The assignment step is optimal: as cheap as brute force on small cases; on large ones its linear program has a dual of the
//! same value.

use planning::partitioner::{Sizes, assign};
use proptest::prelude::*;

fn cost(costs: &[f64], clusters: usize, assignment: &[usize]) -> f64 {
    assignment.iter().enumerate().map(|(point, &cluster)| costs[point * clusters + cluster]).sum()
}

fn keeps(sizes: &[Sizes], assignment: &[usize]) -> bool {
    sizes.iter().enumerate().all(|(cluster, size)| {
        let count = assignment.iter().filter(|&&c| c == cluster).count();
        (size.least..=size.most).contains(&count)
    })
}

/// The least cost over all assignments.
fn brute_force(costs: &[f64], sizes: &[Sizes]) -> Option<f64> {
    let clusters = sizes.len();
    let points = costs.len() / clusters;
    let all = (0..clusters.pow(points as u32)).map(|mut code| {
        let digit = |code: &mut usize| {
            let cluster = *code % clusters;
            *code /= clusters;
            cluster
        };
        (0..points).map(|_| digit(&mut code)).collect::<Vec<usize>>()
    });
    all.filter(|a| keeps(sizes, a)).map(|a| cost(costs, clusters, &a)).min_by(f64::total_cmp)
}

fn sizes() -> impl Strategy<Value = Vec<Sizes>> {
    let size = (0usize..4, 0usize..5).prop_map(|(least, more)| Sizes { least, most: least + more });
    prop::collection::vec(size, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn as_cheap_as_brute_force(sizes in sizes(), points in 0usize..9, seed in prop::collection::vec(-5i32..10, 24)) {
        let costs: Vec<f64> = (0..points * sizes.len()).map(|i| f64::from(seed[i % 24]) + i as f64 * 0.01).collect();
        let found = assign(&costs, &sizes);
        match brute_force(&costs, &sizes) {
            None => prop_assert_eq!(found, None),
            Some(least) => {
                let found = found.unwrap();
                prop_assert!(keeps(&sizes, &found));
                prop_assert!((cost(&costs, sizes.len(), &found) - least).abs() < 1e-9);
            }
        }
    }
}

/// The value of the dual of the linear program that the assignment is, at prices of the clusters: for every point the least of
/// its costs plus prices, less what full clusters pay (`price·most`) and plus what sparse ones are owed (`price·least`). No
/// assignment is cheaper than any such value.
fn dual(costs: &[f64], sizes: &[Sizes], prices: &[f64]) -> f64 {
    let of_point = |costs: &[f64]| {
        costs.iter().zip(prices).map(|(cost, price)| cost + price).fold(f64::INFINITY, f64::min)
    };
    let points: f64 = costs.chunks_exact(sizes.len()).map(of_point).sum();
    let clusters = sizes
        .iter()
        .zip(prices)
        .map(|(size, &price)| price * if price > 0.0 { size.most } else { size.least } as f64);
    points - clusters.sum::<f64>()
}

/// Prices at which no point would rather be elsewhere: shortest distances in the graph of moves (Bellman and Ford). Node
/// `clusters` stands for the freedom of sizes: a cluster above its least may lose a point for nothing, one below its most may
/// gain one.
fn prices(costs: &[f64], sizes: &[Sizes], found: &[usize]) -> Vec<f64> {
    let (clusters, free) = (sizes.len(), sizes.len());
    let mut edges: Vec<(usize, usize, f64)> = Vec::new();
    for (point, &from) in found.iter().enumerate() {
        let cost = |cluster: usize| costs[point * clusters + cluster];
        edges.extend((0..clusters).filter(|&to| to != from).map(|to| (from, to, cost(to) - cost(from))));
    }
    for (c, size) in sizes.iter().enumerate() {
        let count = found.iter().filter(|&&of| of == c).count();
        edges.extend((count > size.least).then_some((free, c, 0.0)));
        edges.extend((count < size.most).then_some((c, free, 0.0)));
    }
    let mut distance = vec![0.0f64; clusters + 1];
    for _ in 0..=clusters {
        for &(from, to, cost) in &edges {
            distance[to] = distance[to].min(distance[from] + cost);
        }
    }
    distance[..clusters].iter().map(|d| distance[free] - d).collect()
}

#[test]
fn large_cases_have_a_dual_of_the_same_value() {
    let stream = spec::random::RandomSequence::new(3, "assignment");
    let equal = |clusters, least, most| vec![Sizes { least, most }; clusters];
    let unequal: Vec<Sizes> = (0..12).map(|c| Sizes { least: 2 * c, most: 10 + 3 * c }).collect();
    let cases = [
        (200, equal(8, 25, 25)),
        (203, equal(8, 20, 30)),
        (300, equal(16, 0, 40)),
        (500, equal(20, 10, 26)),
        (170, unequal),
    ];
    for (case, (points, sizes)) in cases.into_iter().enumerate() {
        let costs: Vec<f64> =
            (0..points * sizes.len()).map(|i| stream.unit_f64((case * 1_000_000 + i) as u64)).collect();
        let found = assign(&costs, &sizes).unwrap();
        assert!(keeps(&sizes, &found));
        let (primal, dual) =
            (cost(&costs, sizes.len(), &found), dual(&costs, &sizes, &prices(&costs, &sizes, &found)));
        assert!((primal - dual).abs() < 1e-9 * primal, "case {case}: {primal} costs more than {dual}");
        // The dual tells: of an assignment that is not the best, neither its own prices nor any others reach the cost.
        let mut worse = found.clone();
        let other = (1..points).find(|&p| worse[p] != worse[0]).unwrap();
        worse.swap(0, other);
        let own = self::dual(&costs, &sizes, &prices(&costs, &sizes, &worse));
        assert!(own <= dual + 1e-9 && cost(&costs, sizes.len(), &worse) > dual + 1e-9);
    }
}
