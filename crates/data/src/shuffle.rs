//! Order of the samples in a shuffled epoch, without state.
//!
//! ```text
//! positions 0 … len−1 are cut into windows of `window`; inside window w the samples are permuted:
//! sample(position) = w·window + π(position − w·window)       π drawn from (seed, epoch, w) alone
//! ```
//!
//! The sample at any position of any epoch can be found alone, so that resuming a run needs nothing but the position. A window
//! of 1 keeps the order of the log; a window of its length shuffles all of it. A reader keeps the permutation of the current
//! window: 4 bytes per sample.
//!
//! ```
//! use data::shuffle::{Shuffle, WindowOrder};
//! let shuffle = Shuffle { seed: 7, epoch: 0, window: 4 };
//! let mut order = WindowOrder::default();
//! let mut samples: Vec<u64> = (4..8).map(|position| order.sample(&shuffle, position, 10)).collect();
//! samples.sort_unstable();
//! assert_eq!(samples, [4, 5, 6, 7]);
//! ```

use spec::random::RandomSequence;

/// Largest number of samples of a window.
pub const MAX_WINDOW: u64 = u32::MAX as u64;

/// Parameters of the permutation of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the epoch, from 0. Each epoch has an order of its own.
    pub epoch: u64,
    /// Number of consecutive samples that are shuffled together, from 1 to [`MAX_WINDOW`].
    pub window: u64,
}

/// Permutation of one window, kept from call to call.
#[derive(Clone, Debug, Default)]
pub struct WindowOrder {
    /// Window whose permutation `order` is: the shuffle, the number and the size of the window.
    key: Option<(Shuffle, u64, u64)>,
    order: Vec<u32>,
}

impl WindowOrder {
    /// Number of the sample at `position` of a log of `len` samples. Panics unless `position < len` and the window lies between
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
        let epoch = RandomSequence::new(shuffle.seed, "shuffle.epoch").bits(shuffle.epoch);
        let window = RandomSequence::new(epoch, "shuffle.window").bits(number);
        let stream = RandomSequence::new(window, "shuffle.order");
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
mod tests;
