use super::*;
use proptest::prelude::*;

fn epoch(shuffle: Shuffle, len: u64) -> Vec<u64> {
    let mut order = WindowOrder::default();
    (0..len).map(|position| order.sample(&shuffle, position, len)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_sample_once_and_inside_its_window(seed: u64, epoch_number: u64, window in 1u64..50, len in 0u64..200) {
        let samples = epoch(Shuffle { seed, epoch: epoch_number, window }, len);
        for (position, sample) in samples.iter().enumerate() {
            prop_assert_eq!(position as u64 / window, sample / window);
        }
        let mut sorted = samples;
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..len).collect::<Vec<_>>());
    }
}

#[test]
fn seeds_epochs_and_windows_differ() {
    let base = Shuffle { seed: 1, epoch: 0, window: 100 };
    let order = epoch(base, 200);
    assert_eq!(order, epoch(base, 200));
    assert_ne!(order, epoch(Shuffle { epoch: 1, ..base }, 200));
    assert_ne!(order, epoch(Shuffle { seed: 2, ..base }, 200));
    assert!(order[..100].iter().zip(&order[100..]).any(|(a, b)| a + 100 != *b));
    assert_eq!(epoch(Shuffle { window: 1, ..base }, 5), [0, 1, 2, 3, 4]);
    assert_ne!(epoch(Shuffle { window: MAX_WINDOW, ..base }, 50), (0..50).collect::<Vec<_>>());
}

/// Over many seeds each sample comes to each place equally often (χ² with 15 degrees of freedom, 99.99 %).
#[test]
fn permutations_are_fair() {
    const DRAWS: u64 = 4000;
    let mut counts = [[0u64; 4]; 4];
    for seed in 0..DRAWS {
        for (position, sample) in epoch(Shuffle { seed, epoch: 3, window: 4 }, 4).iter().enumerate() {
            counts[position][*sample as usize] += 1;
        }
    }
    let expected = DRAWS as f64 / 4.0;
    let chi2: f64 = counts.iter().flatten().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
    assert!(chi2 < 44.3, "{chi2}");
}
