//! Random numbers by counter: number `i` of the sequence `(seed, name)` is a hash, so that any rank can draw any part of any
//! tensor or data set without the rest, and the result never depends on how work is divided.
//!
//! ```
//! use ground::random::RandomSequence;
//! let sequence = RandomSequence::new(7, "bottom.0.weight");
//! assert_eq!(sequence.bits(3), RandomSequence::new(7, "bottom.0.weight").bits(3));
//! assert!((0.0..1.0).contains(&sequence.unit(3)));
//! ```

/// Sequence of random numbers, each of which can be drawn alone.
#[derive(Clone, Copy, Debug)]
pub struct RandomSequence {
    key: u64,
}

impl RandomSequence {
    /// Sequence of `name` with `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a, then mixed with the seed.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self { key: mix(seed ^ mix(hash)) }
    }

    /// Key of the sequence: 64 bits from which all numbers follow, for devices that draw by themselves.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Number `index` of the sequence, as 64 random bits.
    #[inline]
    pub fn bits(&self, index: u64) -> u64 {
        mix(self.key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Number `index` of the sequence, in `[0, 1)`, with 24 random bits.
    #[inline]
    pub fn unit(&self, index: u64) -> f32 {
        (self.bits(index) >> 40) as f32 * (1.0 / 16_777_216.0)
    }

    /// Number `index` of the sequence, in `[0, 1)`, with 53 random bits.
    #[inline]
    pub fn unit_f64(&self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Number `index` of the sequence, in `[-bound, bound)`.
    #[inline]
    pub fn symmetric(&self, index: u64, bound: f32) -> f32 {
        (self.unit(index) * 2.0 - 1.0) * bound
    }
}

/// Random word `unit` of a row of words, given the row's own 64 random bits: a hash of 32-bit numbers alone, which vector
/// instructions compute side by side.
///
/// ```
/// use ground::random::{RandomSequence, word};
/// let rows = RandomSequence::new(7, "dropout.top.0");
/// assert_eq!([0, 1].map(|unit| word(rows.bits(3), unit)), [0xf86d_b42c, 0x1b4b_7bff]);
/// ```
#[inline(always)]
pub fn word(row: u64, unit: u32) -> u32 {
    let (low, high) = (row as u32, (row >> 32) as u32);
    // Two rounds of a mixer with little bias (Wellons' lowbias32); the row enters both, so that rows are no shifts of each
    // other.
    let mut x = low.wrapping_add(unit.wrapping_mul(0x9e37_79b9));
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d) ^ high;
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// The finaliser of splitmix64.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
