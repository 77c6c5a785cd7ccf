use super::*;
use proptest::prelude::*;

#[test]
fn frequencies_follow_the_law() {
    for exponent in [0.0, 0.7, 1.0, 1.000001, 1.05, 2.5] {
        let (law, draws) = (Zipf::new(20, exponent, 5), 20_000);
        let mut counts = [0u64; 20];
        for i in 0..draws {
            counts[law.rank((i as f64 + 0.5) / draws as f64) as usize] += 1;
        }
        let mut before = 0.0;
        for (rank, &count) in counts.iter().enumerate() {
            let mass = law.cumulative(rank as u64) - before;
            before += mass;
            assert!((count as f64 - mass * draws as f64).abs() <= 1.0, "s {exponent} rank {rank} {count}");
        }
    }
}

#[test]
fn tables_and_formula_agree() {
    for exponent in [0.0, 0.5, 1.0, 1.05, 3.0] {
        let tabled = Zipf::new(TABLED, exponent, 1);
        let formula = Zipf { ends: Arc::default(), guide: Arc::default(), ..tabled.clone() };
        // Points off the boundaries between ranks, where rounding may decide either way.
        for i in 0..10_000 {
            let u = (i as f64 + 0.4321) / 10_000.0;
            assert!(tabled.rank(u).abs_diff(formula.rank(u)) <= 1, "s {exponent} u {u}");
        }
    }
}

proptest! {
    #[test]
    fn ids_are_a_permutation(rows in 1usize..300, bits: u64) {
        let law = Zipf::new(rows, 1.0, bits);
        let mut ids: Vec<u32> = (0..rows as u64).map(|rank| law.id(rank)).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..rows as u32).collect::<Vec<_>>());
    }

    #[test]
    fn ranks_stay_inside(rows in 1usize..100_000_000, exponent in 0.0f64..16.0, u in 0.0f64..1.0) {
        let law = Zipf::new(rows, exponent, 0);
        prop_assert!(law.rank(u) < rows as u64);
        prop_assert!(law.rank(1.0f64.next_down()) < rows as u64);
    }
}
