//! Ids by a bounded power law: rank `k` of `n` has the mass of `x^−s` over `[k+1, k+2)`, so that with `u` uniform
//!
//! ```text
//! F(x) = (x^(1−s) − 1) / ((n+1)^(1−s) − 1)      (s = 1: ln x / ln(n+1))      rank = ⌊F⁻¹(u)⌋ − 1
//! ```
//!
//! Popular ranks are then spread over the table by an affine bijection, so that row-wise shards share the work.

use std::sync::Arc;

/// Number of rows up to which a table has a look-up table; for larger tables ranks are computed.
pub(super) const TABLED: usize = 1 << 14;

/// Number of buckets of the guide for each row: enough that most searches end where they begin.
const BUCKETS_PER_ROW: u64 = 4;

/// A power law over the rows of one table.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    rows: u64,
    /// 1 − s.
    power: f64,
    /// ln(n+1).
    log_end: f64,
    /// (n+1)^(1−s) − 1.
    span: f64,
    /// `F` at the end of each rank, for small tables; otherwise empty. Shared by all clones of the law.
    ends: Arc<[f64]>,
    /// `guide[b]`: the first rank that ends beyond `b / buckets`, where the search for a `u` of that bucket begins.
    guide: Arc<[u32]>,
    /// `id = (rank·stride + shift) mod rows`, with `stride` coprime to `rows`.
    stride: u64,
    shift: u64,
}

impl Zipf {
    /// Power law with `exponent` ≥ 0 over `rows` ≥ 1 rows. `bits` choose how ranks are spread over the rows.
    pub(super) fn new(rows: usize, exponent: f64, bits: u64) -> Self {
        let rows = rows as u64;
        let mut stride = (bits % rows).max(1);
        while common_divisor(stride, rows) != 1 {
            stride += 1;
        }
        let (power, log_end) = (1.0 - exponent, (rows as f64 + 1.0).ln());
        // exp_m1 keeps exponents close to 1 exact.
        let span = (power * log_end).exp_m1();
        let shift = (bits >> 32) % rows;
        let mut law =
            Self { rows, power, log_end, span, ends: Arc::default(), guide: Arc::default(), stride, shift };
        if rows <= TABLED as u64 {
            law.ends = (0..rows).map(|rank| law.cumulative(rank)).collect();
            let mut rank = 0;
            let buckets = BUCKETS_PER_ROW * rows;
            let mut guide = Vec::with_capacity(buckets as usize);
            for bucket in 0..buckets {
                while law.ends[rank] <= bucket as f64 / buckets as f64 && rank + 1 < rows as usize {
                    rank += 1;
                }
                guide.push(rank as u32);
            }
            law.guide = guide.into();
        }
        law
    }

    /// Probability of a rank of at most `rank`.
    pub(super) fn cumulative(&self, rank: u64) -> f64 {
        if rank + 1 >= self.rows {
            return 1.0;
        }
        let log_x = (rank as f64 + 2.0).ln();
        if self.power == 0.0 { log_x / self.log_end } else { (self.power * log_x).exp_m1() / self.span }
    }

    /// Rank at `u` in `[0, 1)`.
    #[inline]
    pub(super) fn rank(&self, u: f64) -> u64 {
        if !self.guide.is_empty() {
            let mut rank = self.guide[(u * self.guide.len() as f64) as usize] as usize;
            while self.ends[rank] <= u {
                rank += 1;
            }
            return rank as u64;
        }
        let log_x = if self.power == 0.0 { u * self.log_end } else { (u * self.span).ln_1p() / self.power };
        ((log_x.exp() as u64).max(1) - 1).min(self.rows - 1)
    }

    /// Id of a rank.
    #[inline]
    pub(super) fn id(&self, rank: u64) -> u32 {
        ((rank * self.stride + self.shift) % self.rows) as u32
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests;
