//! The assignment step is optimal: brute force on small cases, weak duality on large ones.

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

/// A linear program is optimal where its dual has the same value. The dual of this one: a price for every cluster, and for
/// each point the least of its costs less the prices. Prices are found here by looking for negative cycles: without one,
/// shortest distances in the graph of moves are such prices.
#[test]
fn large_cases_have_a_dual_of_the_same_value() {
    let stream = spec::random::Stream::new(3, "assignment");
    for (case, (points, clusters, least, most)) in
        [(200, 8, 25, 25), (203, 8, 20, 30), (300, 16, 0, 40), (500, 20, 10, 26)].into_iter().enumerate()
    {
        let costs: Vec<f64> =
            (0..points * clusters).map(|i| stream.unit_f64((case * 1_000_000 + i) as u64)).collect();
        let sizes = vec![Sizes { least, most }; clusters];
        let found = assign(&costs, &sizes).unwrap();
        assert!(keeps(&sizes, &found));
        let count = |c: usize| found.iter().filter(|&&of| of == c).count();
        // Nodes: the clusters, and one for the freedom of sizes. Moving a point from a to b costs the difference; a cluster
        // above its least may lose a point for nothing, one below its most may gain one.
        let free = clusters;
        let mut edges: Vec<(usize, usize, f64)> = Vec::new();
        for (point, &from) in found.iter().enumerate() {
            for to in (0..clusters).filter(|&to| to != from) {
                edges.push((from, to, costs[point * clusters + to] - costs[point * clusters + from]));
            }
        }
        for c in 0..clusters {
            if count(c) > least {
                edges.push((free, c, 0.0));
            }
            if count(c) < most {
                edges.push((c, free, 0.0));
            }
        }
        let mut distance = vec![0.0f64; clusters + 1];
        for round in 0..=clusters + 1 {
            let mut changed = false;
            for &(from, to, cost) in &edges {
                if distance[from] + cost < distance[to] - 1e-9 {
                    distance[to] = distance[from] + cost;
                    changed = true;
                }
            }
            assert!(
                !(changed && round > clusters),
                "a cheaper assignment exists: a negative cycle in case {case}"
            );
        }
    }
}
