//! Tensor trains: tables whose rows are products of small cores, as in TT-Rec (Neo's reference 29).
//!
//! The number of a row is written in three digits, its columns likewise, and a row is
//!
//! ```text
//! row[a, b, c] = Σ over r and s:  core 0[i₀][a, r] · core 1[i₁][r, b, s] · core 2[i₂][c, s]
//! ```
//!
//! where `r` and `s` run over the rank. Training has the cores alone; they are dense parameters.
//!
//! ```
//! use ground::tensor_train::TensorTrain;
//! let train = TensorTrain::new(10_131_227, 16, 16).unwrap();
//! assert_eq!((train.rows, train.columns), ([217, 217, 216], [2, 2, 4]));
//! assert_eq!(train.parameters(), 217 * 32 + 217 * 512 + 216 * 64);
//! assert_eq!(train.digits(217 * 216 + 5), [1, 0, 5]);
//! ```

use serde::Serialize;
use std::ops::Range;

/// The largest rank.
pub const MAX_RANK: usize = 256;
/// The most columns of a row.
pub const MAX_WIDTH: usize = 2048;
/// The most floats of the product of two cores: `columns[0] · columns[1] · rank`. A thread block of a GPU keeps one, and a row, in its own
/// memory.
pub const MAX_PRODUCT: usize = 8192;

/// Shape of a tensor train of three cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TensorTrain {
    /// Number of columns of a row. Digits may name more, which nobody reads.
    pub width: usize,
    /// Number of values of each digit of a row number, the most significant first. Their product is the number of rows or a little more.
    pub rows: [usize; 3],
    /// Number of values of each digit of a column number, the most significant first.
    pub columns: [usize; 3],
    /// Rank: the length of the sums that join two cores.
    pub rank: usize,
}

impl TensorTrain {
    /// Shape for a table of `rows` rows of `width` columns; a text says why there is none.
    pub fn new(rows: usize, width: usize, rank: usize) -> Result<Self, String> {
        if !(1..=MAX_RANK).contains(&rank) {
            return Err(format!(
                "{rank} is no rank of a tensor train; use 1 to {MAX_RANK} (8 to 64 is usual)"
            ));
        }
        if width > MAX_WIDTH {
            return Err(format!(
                "{width} columns are too many for a tensor train; at most {MAX_WIDTH} are possible"
            ));
        }
        let train = Self { width, rows: digits_of_rows(rows), columns: digits_of_columns(width), rank };
        let [a, b, _] = train.columns;
        if train.product_len() > MAX_PRODUCT {
            return Err(format!(
                "rank {rank} is too large for {width} columns; use at most {} (8 to 64 is usual)",
                MAX_PRODUCT / (a * b)
            ));
        }
        Ok(train)
    }

    /// Floats of the product of the first two cores of a row.
    pub fn product_len(&self) -> usize {
        self.columns[0] * self.columns[1] * self.rank
    }

    /// Number of floats that each core has for one value of its digit.
    pub fn slices(&self) -> [usize; 3] {
        let ([a, b, c], rank) = (self.columns, self.rank);
        [a * rank, rank * b * rank, c * rank]
    }

    /// Number of floats of each core.
    pub fn cores(&self) -> [usize; 3] {
        let (rows, slices) = (self.rows, self.slices());
        [0, 1, 2].map(|core| rows[core] * slices[core])
    }

    /// Number of weights of all cores.
    pub fn parameters(&self) -> usize {
        self.cores().iter().sum()
    }

    /// Digits of a row number.
    pub fn digits(&self, row: usize) -> [usize; 3] {
        let [_, second, third] = self.rows;
        [row / (second * third), row / third % second, row % third]
    }

    /// Bound of the initial weights of all cores, which are uniform between −`bound` and `bound`: entries of rows then have the variance that
    /// those of a table of `rows` rows have, which are uniform in ±1/√rows.
    pub fn initial_bound(&self, rows: usize) -> f32 {
        // A row is a sum of rank² products of three weights of variance bound²/3 each.
        let variance = 1.0 / (3.0 * rows.max(1) as f64);
        let of_core = (variance / (self.rank * self.rank) as f64).cbrt();
        (3.0 * of_core).sqrt() as f32
    }

    /// Floating-point operations to compute one row.
    pub fn row_flops(&self) -> u64 {
        // The product of the first two cores, and that with the third.
        let ([a, b, c], rank) = (self.columns.map(|n| n as u64), self.rank as u64);
        2 * a * b * rank * (rank + c)
    }

    /// Floating-point operations to bring the gradient of one row to all cores. The product of the first two cores is computed again.
    pub fn gradient_flops(&self) -> u64 {
        // For each core, a product as large as each of the two of a row.
        3 * self.row_flops()
    }

    /// Computes a row from its slices of the cores: the reference that devices are held against, and what exports write.
    pub fn row(&self, cores: [&[f32]; 3], row: usize, out: &mut [f32]) {
        let ([a, b, c], rank, digits) = (self.columns, self.rank, self.digits(row));
        let slices = self.slices();
        let of = |core: usize| &cores[core][digits[core] * slices[core]..][..slices[core]];
        let (first, second, third) = (of(0), of(1), of(2));
        for (column, out) in out.iter_mut().enumerate().take(self.width.min(a * b * c)) {
            let (i, j, k) = (column / (b * c), column / c % b, column % c);
            let mut sum = 0.0f64;
            for s in 0..rank {
                let joined: f64 = (0..rank)
                    .map(|r| f64::from(first[i * rank + r]) * f64::from(second[(r * b + j) * rank + s]))
                    .sum();
                sum += joined * f64::from(third[k * rank + s]);
            }
            *out = sum as f32;
        }
    }

    /// Floats of a core that one value of its digit has.
    pub fn slice(&self, core: usize, digit: usize) -> Range<usize> {
        let len = self.slices()[core];
        digit * len..(digit + 1) * len
    }
}

/// Three numbers, about equal, whose product is at least `rows`.
fn digits_of_rows(rows: usize) -> [usize; 3] {
    let rows = rows.max(1);
    let first = (1..).find(|n: &usize| n.saturating_pow(3) >= rows).expect("some cube is as large");
    let rest = rows.div_ceil(first);
    let second = (1..).find(|n: &usize| n.saturating_pow(2) >= rest).expect("some square is as large");
    [first, second, rest.div_ceil(second)]
}

/// Three numbers that ascend, none more than twice another, with the smallest product that is at least `width`.
fn digits_of_columns(width: usize) -> [usize; 3] {
    let width = width.max(1);
    let mut best: Option<(usize, usize, [usize; 3])> = None;
    let largest = (1..).find(|n: &usize| n.saturating_pow(3) >= width).expect("some cube is as large");
    for a in 1..=largest {
        for b in a..=2 * a {
            let c = width.div_ceil(a * b).max(b);
            if c <= 2 * a {
                let found = (a * b * c, a + b + c, [a, b, c]);
                best = Some(best.map_or(found, |best| best.min(found)));
            }
        }
    }
    best.map_or([1, 1, width], |(_, _, digits)| digits)
}

#[cfg(test)]
mod tests;
