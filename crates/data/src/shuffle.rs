//! The order of an epoch, without state.
//!
//! ```text
//! positions 0 … len−1 are cut into windows of `window`; inside window w the samples are permuted:
//! sample(position) = w·window + π(position − w·window)       π drawn from (seed, epoch, w) alone
//! ```
//!
//! Any position of any epoch can be found by itself, so that resuming needs nothing but the position. A window of 1
//! keeps the order of the log, one of its length shuffles all of it. A reader keeps the permutation of the window it is
//! in: 4 bytes a sample.
//!
//! ```
//! use data::shuffle::{Shuffle, WindowOrder};
//! let shuffle = Shuffle { seed: 7, epoch: 0, window: 4 };
//! let mut order = WindowOrder::default();
//! let mut samples: Vec<u64> = (4..8).map(|position| order.sample(&shuffle, position, 10)).collect();
//! samples.sort_unstable();
//! assert_eq!(samples, [4, 5, 6, 7]);
//! ```

use spec::random::Stream;

/// The most samples of a window.
pub const MAX_WINDOW: u64 = u32::MAX as u64;

/// Which permutation of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Of the run.
    pub seed: u64,
    /// Each has an order of its own.
    pub epoch: u64,
    /// Samples that change places with each other, from 1 to [`MAX_WINDOW`].
    pub window: u64,
}

/// The permutation of one window, kept from call to call.
#[derive(Clone, Debug, Default)]
pub struct WindowOrder {
    /// Whose permutation `order` is: the shuffle, the window's number, its size.
    key: Option<(Shuffle, u64, u64)>,
    order: Vec<u32>,
}

impl WindowOrder {
    /// The sample at `position` of a log of `len` samples. Panics unless `position < len` and the window lies between
    /// 1 and [`MAX_WINDOW`].
    #[inline]
    pub fn sample(&mut self, shuffle: &Shuffle, position: u64, len: u64) -> u64 {
        assert!(position < len && (1..=MAX_WINDOW).contains(&shuffle.window));
        let number = position / shuffle.window;
        let first = number * shuffle.window;
        let size = shuffle.window.min(len - first);
        if self.key != Some((*shuffle, number, size)) {
            self.draw(shuffle, number, size);
        }
        first + u64::from(self.order[(position - first) as usize])
    }

    fn draw(&mut self, shuffle: &Shuffle, number: u64, size: u64) {
        let epoch = Stream::new(shuffle.seed, "shuffle.epoch").bits(shuffle.epoch);
        let window = Stream::new(epoch, "shuffle.window").bits(number);
        let stream = Stream::new(window, "shuffle.order");
        self.order.clear();
        self.order.extend(0..size as u32);
        for last in (1..size).rev() {
            // The upper half of the product is uniform over 0..=last, up to a bias of 2⁻³².
            let other = (u128::from(stream.bits(last)) * u128::from(last + 1)) >> 64;
            self.order.swap(last as usize, other as usize);
        }
        self.key = Some((*shuffle, number, size));
    }
}

#[cfg(test)]
mod tests {
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
}
