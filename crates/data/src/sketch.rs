//! Counts keys in little memory: how many are distinct, and which are the most frequent.
//!
//! [`Distinct`] is exact for a few thousand keys, then HyperLogLog with `m = 2¹⁴` registers: a key's hash chooses a
//! register by its upper 14 bits, and the register keeps the most leading zeros, plus one, of the other 50. The estimate
//! from how many registers have which value is that of Ertl (*New cardinality estimation algorithms for HyperLogLog
//! sketches*, 2017, algorithm 6), which needs no corrections for small or large numbers. Its standard error is
//! `1.04 / √m ≈ 0.8 %`.
//!
//! [`Hottest`] is SpaceSaving (Metwally and others, *Efficient computation of frequent and top-k elements in data
//! streams*, 2005): `k` counters; a key without one takes over the smallest, count and all. A count is never too small,
//! and too large by at most `n / k` after `n` keys.
//!
//! ```
//! use data::sketch::{Distinct, Hottest};
//! let (mut distinct, mut hottest) = (Distinct::default(), Hottest::new(100));
//! for key in [7, 8, 7, 9, 7] {
//!     distinct.add(key);
//!     hottest.add(key);
//! }
//! assert_eq!(distinct.count(), 3);
//! assert_eq!((hottest.top(1)[0].key, hottest.top(1)[0].count), (7, 3));
//! ```

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Number of distinct keys up to which the count is exact.
const EXACT: usize = 4096;
/// Number of bits of a hash that choose a register.
const INDEX_BITS: u32 = 14;
/// Number of bits of a hash that determine the value of the register.
const VALUE_BITS: usize = 64 - INDEX_BITS as usize;

/// The finaliser of splitmix64. Keys may be hashes already or small numbers.
fn hash(key: u64) -> u64 {
    let z = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hasher of keys for the tables in this module.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = hash(self.0.wrapping_add(key));
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Estimator of the number of distinct keys.
#[derive(Clone, Debug)]
pub struct Distinct {
    /// All distinct keys, while they are few.
    exact: Option<HashSet<u64, BuildHasherDefault<KeyHasher>>>,
    registers: Vec<u8>,
}

impl Default for Distinct {
    fn default() -> Self {
        Self { exact: Some(HashSet::default()), registers: vec![0; 1 << INDEX_BITS] }
    }
}

impl Distinct {
    /// Counts a key.
    pub fn add(&mut self, key: u64) {
        if let Some(keys) = &mut self.exact {
            keys.insert(key);
            if keys.len() > EXACT {
                self.exact = None;
            }
        }
        let hash = hash(key);
        let register = &mut self.registers[(hash >> VALUE_BITS) as usize];
        // The bit set below the hash bounds the zeros where all bits are zero.
        let zeros = (hash << INDEX_BITS | 1 << (INDEX_BITS - 1)).leading_zeros();
        *register = (*register).max(zeros as u8 + 1);
    }

    /// Whether [`count`](Self::count) is exact.
    pub fn is_exact(&self) -> bool {
        self.exact.is_some()
    }

    /// Number of distinct keys, exact or estimated.
    pub fn count(&self) -> u64 {
        self.exact.as_ref().map_or_else(|| self.estimate().round() as u64, |keys| keys.len() as u64)
    }

    fn estimate(&self) -> f64 {
        let mut having = [0u32; VALUE_BITS + 2];
        for &register in &self.registers {
            having[register as usize] += 1;
        }
        let m = self.registers.len() as f64;
        let mut z = m * tau(1.0 - f64::from(having[VALUE_BITS + 1]) / m);
        for &registers in having[1..=VALUE_BITS].iter().rev() {
            z = 0.5 * (z + f64::from(registers));
        }
        z += m * sigma(f64::from(having[0]) / m);
        m * m / (2.0 * std::f64::consts::LN_2 * z)
    }
}

/// `x + Σ_k x^(2^k)·2^(k−1)`, infinite at 1.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut sum, mut power) = (x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power *= 2.0;
        if sum == before {
            return sum;
        }
    }
}

/// `(1 − x − Σ_k (1 − x^(2^−k))²·2^−k) / 3`.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut sum, mut power) = (1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x).powi(2) * power;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// Finds the most frequent keys.
#[derive(Clone, Debug)]
pub struct Hottest {
    most: usize,
    counters: Vec<KeyCount>,
    /// Heap of counters, by index, with the smallest count first.
    heap: Vec<u32>,
    /// Index of the counter of each key that has one.
    by_key: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
}

/// A frequent key and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCount {
    /// The key.
    pub key: u64,
    /// Upper bound of how often the key occurred.
    pub count: u64,
    /// Largest amount by which `count` may be too large.
    pub error: u64,
    /// Position of the counter in the heap.
    position: u32,
}

impl Hottest {
    /// Sketch with `most` counters, at least 1.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), counters: vec![], heap: vec![], by_key: HashMap::default() }
    }

    /// Counts a key.
    pub fn add(&mut self, key: u64) {
        if let Some(&counter) = self.by_key.get(&key) {
            self.counters[counter as usize].count += 1;
            self.sift_down(self.counters[counter as usize].position as usize);
        } else if self.counters.len() < self.most {
            let position = self.counters.len() as u32;
            self.counters.push(KeyCount { key, count: 1, error: 0, position });
            self.heap.push(position);
            self.by_key.insert(key, position);
            self.sift_up(position as usize);
        } else {
            let smallest = self.heap[0];
            let counter = &mut self.counters[smallest as usize];
            self.by_key.remove(&counter.key);
            self.by_key.insert(key, smallest);
            *counter = KeyCount { key, count: counter.count + 1, error: counter.count, position: 0 };
            self.sift_down(0);
        }
    }

    /// Returns the `most` keys with the largest counts, the largest first.
    pub fn top(&self, most: usize) -> Vec<KeyCount> {
        let mut counters = self.counters.clone();
        counters
            .sort_unstable_by_key(|counter| (std::cmp::Reverse(counter.count), counter.error, counter.key));
        counters.truncate(most);
        counters
    }

    /// Returns how often keys occurred at least, the largest number first.
    pub fn at_least(&self) -> Vec<u64> {
        let mut counts: Vec<u64> =
            self.counters.iter().map(|counter| counter.count - counter.error).collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        counts
    }

    fn count(&self, position: usize) -> u64 {
        self.counters[self.heap[position] as usize].count
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for position in [a, b] {
            self.counters[self.heap[position] as usize].position = position as u32;
        }
    }

    fn sift_up(&mut self, mut position: usize) {
        while position > 0 && self.count((position - 1) / 2) > self.count(position) {
            self.swap(position, (position - 1) / 2);
            position = (position - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let children = 2 * position + 1..self.heap.len().min(2 * position + 3);
            match children.min_by_key(|&child| self.count(child)) {
                Some(child) if self.count(child) < self.count(position) => {
                    self.swap(position, child);
                    position = child;
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
