//! Items to holders: within constraints, as good as brute force on small cases, close to the bound on large ones.

use planning::assignment::{Assignment, Holder, Item, NoRoom, Problem, best, differencing, greedy};
use proptest::prelude::*;
use spec::random::RandomSequence;

type Method = fn(&Problem) -> Result<Assignment, NoRoom>;
const METHODS: [Method; 3] = [greedy, differencing, best];

/// Whether holders take what they have: memory, pools, items that must be apart.
fn admissible(problem: &Problem, holders: &[usize]) -> bool {
    let memory = (0..problem.holders.len()).all(|holder| {
        let held = (0..holders.len()).filter(|&i| holders[i] == holder).map(|i| problem.items[i].memory);
        held.sum::<u64>() <= problem.holders[holder].memory
    });
    let pools = (0..holders.len())
        .all(|i| problem.items[i].pool.is_none_or(|pool| problem.pools[pool].contains(&holders[i])));
    let apart = (0..holders.len()).all(|i| {
        (0..i).all(|j| {
            let set = problem.items[i].apart;
            set.is_none() || set != problem.items[j].apart || holders[i] != holders[j]
        })
    });
    memory && pools && apart
}

fn costs(problem: &Problem, holders: &[usize]) -> Vec<f64> {
    let mut costs: Vec<f64> = problem.holders.iter().map(|h| h.cost).collect();
    problem.items.iter().zip(holders).for_each(|(item, &holder)| costs[holder] += item.cost);
    costs
}

/// Seconds of the busiest holder in the best of all assignments.
fn brute_force(problem: &Problem) -> Option<f64> {
    let (items, holders) = (problem.items.len() as u32, problem.holders.len());
    let all = (0..holders.pow(items))
        .map(|code| (0..items).map(|i| code / holders.pow(i) % holders).collect::<Vec<usize>>());
    let admissible = all.filter(|holders| admissible(problem, holders));
    admissible.map(|h| costs(problem, &h).into_iter().fold(0.0, f64::max)).min_by(f64::total_cmp)
}

fn problems() -> impl Strategy<Value = Problem> {
    let item = (0u32..1000, 0u64..60, prop::option::weighted(0.2, 0usize..2));
    let item = item.prop_map(|(cost, memory, pool)| Item { cost: cost.into(), memory, pool, apart: None });
    let holder =
        (0u32..3, 60u64..200).prop_map(|(cost, memory)| Holder { cost: f64::from(cost) * 200.0, memory });
    let holders = prop_oneof![prop::collection::vec(holder.clone(), 4), holder.prop_map(|h| vec![h; 4])];
    let pieces = prop::option::of((0u32..500, 1u64..40, 2usize..4));
    (prop::collection::vec(item, 0..6), holders, pieces).prop_map(|(mut items, holders, pieces)| {
        if let Some((cost, memory, count)) = pieces {
            let piece = Item { cost: cost.into(), memory, pool: None, apart: Some(0) };
            items.extend(std::iter::repeat_n(piece, count.min(7 - items.len())));
        }
        Problem { items, holders, pools: vec![vec![0, 1], vec![2, 3]] }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn constraints_hold_and_the_best_is_the_optimum(problem in problems()) {
        let optimum = brute_force(&problem);
        for method in METHODS {
            let Ok(found) = method(&problem) else { continue };
            prop_assert!(admissible(&problem, &found.holders));
            prop_assert_eq!(&found.costs, &costs(&problem, &found.holders));
            let optimum = optimum.expect("an admissible assignment was found");
            prop_assert!(problem.bound() <= optimum * (1.0 + 1e-12), "bound {} > {optimum}", problem.bound());
            prop_assert!(found.largest() >= optimum);
        }
        match best(&problem) {
            Ok(found) => prop_assert!(found.largest() <= optimum.unwrap() * (1.0 + 1e-9)),
            Err(no_room) => {
                prop_assert_eq!(optimum, None);
                prop_assert!(no_room.item < problem.items.len());
            }
        }
    }
}

/// Costs of a heavy-tailed distribution: Pareto with exponent 1.2.
fn heavy(seed: u64, items: usize) -> Vec<Item> {
    let random = RandomSequence::new(seed, "heavy");
    let cost = |i: usize| (1.0 - random.unit_f64(i as u64)).powf(-1.0 / 1.2);
    (0..items)
        .map(|i| Item { cost: cost(i), memory: random.bits(i as u64) % 1000, ..Item::default() })
        .collect()
}

/// Neo §4.1: differencing "generally outperforms the greedy heuristic".
#[test]
fn differencing_is_rarely_worse_than_greedy() {
    for (holders, items) in [(8, 64), (4, 26), (16, 100)] {
        let no_worse = |seed: &u64| {
            let problem = Problem::new(heavy(*seed, items), vec![Holder::default(); holders]);
            differencing(&problem).unwrap().largest() <= greedy(&problem).unwrap().largest()
        };
        let count = (0..100u64).filter(no_worse).count();
        assert!(count >= 95, "{items} items on {holders} holders: {count} of 100");
    }
}

/// 4,096 items on 128 holders: heavy-tailed ones, and ones that nearly fill the memory.
#[test]
fn many_items_meet_the_bound() {
    let mut heavy = heavy(1, 4096);
    let mean = heavy.iter().map(|item| item.cost).sum::<f64>() / 128.0;
    heavy.iter_mut().for_each(|item| item.cost = item.cost.min(mean));
    let random = RandomSequence::new(1, "even");
    let mut even = heavy.clone();
    even.iter_mut().enumerate().for_each(|(i, item)| item.cost = 1.0 + random.unit_f64(i as u64));
    let total: u64 = even.iter().map(|item| item.memory).sum();
    for (items, memory) in [(heavy, u64::MAX), (even, total / 128 * 103 / 100)] {
        let problem = Problem::new(items, vec![Holder { cost: 0.0, memory }; 128]);
        let [greedy, differencing, best] = METHODS.map(|method| method(&problem).unwrap());
        assert!(admissible(&problem, &best.holders));
        assert!(best.largest() <= greedy.largest().min(differencing.largest()));
        assert!(best.largest() <= 1.001 * problem.bound(), "{} over {}", best.largest(), problem.bound());
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let item = |memory| Item { cost: 1.0, memory, ..Item::default() };
    let problem = Problem::new(vec![item(5), item(11)], vec![Holder { cost: 0.0, memory: 10 }; 2]);
    for method in METHODS {
        assert_eq!(method(&problem), Err(NoRoom { item: 1, memory: 11, free: 10 }));
    }
}
