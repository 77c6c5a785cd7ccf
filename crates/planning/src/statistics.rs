//! Whether two sets of measurements differ (the Mann-Whitney U test), and whether two divisions agree (the adjusted Rand
//! index).
//!
//! ```
//! use planning::statistics::mann_whitney;
//! let test = mann_whitney(&[3.0, 4.0, 5.0], &[0.0, 1.0, 2.0]);
//! assert_eq!((test.u, test.p), (9.0, 0.1)); // 2 of the 20 ways to divide six numbers are as extreme
//! ```

/// How well two divisions of the same things agree: 1 for the same, about 0 for chance (Hubert and Arabie).
///
/// ```
/// use planning::statistics::adjusted_rand;
/// assert_eq!(adjusted_rand(&[0, 0, 1, 1], &[5, 5, 3, 3]), 1.0); // names do not matter
/// assert!((adjusted_rand(&[0, 0, 1, 1], &[0, 1, 0, 1]) + 0.5).abs() < 1e-12);
/// ```
pub fn adjusted_rand(a: &[usize], b: &[usize]) -> f64 {
    assert_eq!(a.len(), b.len(), "two divisions of the same things");
    let pairs = |count: usize| (count * count.saturating_sub(1) / 2) as f64;
    let pairs_of = |mut labels: Vec<(usize, usize)>| {
        labels.sort_unstable();
        labels.chunk_by(|x, y| x == y).map(|same| pairs(same.len())).sum::<f64>()
    };
    let both = pairs_of(a.iter().copied().zip(b.iter().copied()).collect());
    let of_a = pairs_of(a.iter().map(|&label| (label, 0)).collect());
    let of_b = pairs_of(b.iter().map(|&label| (label, 0)).collect());
    let by_chance = of_a * of_b / pairs(a.len()).max(1.0);
    let most = (of_a + of_b) / 2.0;
    // Everything apart, or everything together, in both.
    if most == by_chance { 1.0 } else { (both - by_chance) / (most - by_chance) }
}

/// The standard deviation of a sample: over `n − 1`; 0 of fewer than two.
pub fn standard_deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if n < 2.0 { 0.0 } else { (squares / (n - 1.0)).sqrt() }
}

/// Result of a Mann-Whitney U test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// Pairs in which the first is larger, ties counting half.
    pub u: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// Up to so many squared pairs p is counted exactly: the work grows with them.
const EXACT: f64 = 5e6;

/// Compares two sets of measurements. Without ties and for few measurements p is exact, else by the normal approximation
/// with corrections for ties and continuity.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> MannWhitney {
    let pair = |x: &f64, y: &f64| {
        if x > y {
            1.0
        } else if x == y {
            0.5
        } else {
            0.0
        }
    };
    let u: f64 = a.iter().map(|x| b.iter().map(|y| pair(x, y)).sum::<f64>()).sum();
    let (n, m) = (a.len(), b.len());
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let ties: f64 =
        all.chunk_by(|x, y| x == y).map(|tie| (tie.len() as f64).powi(3) - tie.len() as f64).sum();
    let p = if n == 0 || m == 0 {
        1.0
    } else if ties == 0.0 && (n * m) as f64 * (n * m) as f64 <= EXACT {
        exact(n, m, u)
    } else {
        normal(n as f64, m as f64, u, ties)
    };
    MannWhitney { u, p }
}

/// By the number of ways to get each U: `ways(n, m, u) = ways(n − 1, m, u − m) + ways(n, m − 1, u)`.
fn exact(n: usize, m: usize, u: f64) -> f64 {
    // ways[i][u] for the current m.
    let mut ways = vec![vec![0.0f64; n * m + 1]; n + 1];
    ways.iter_mut().for_each(|row| row[0] = 1.0);
    for size in 1..=m {
        for i in 1..=n {
            for value in (0..=n * m).rev() {
                let with = if value >= size { ways[i - 1][value - size] } else { 0.0 };
                ways[i][value] += with;
            }
        }
    }
    let total: f64 = ways[n].iter().sum();
    let extreme = (u as usize).max(n * m - u as usize);
    let tail: f64 = ways[n][extreme..].iter().sum();
    (2.0 * tail / total).min(1.0)
}

fn normal(n: f64, m: f64, u: f64, ties: f64) -> f64 {
    let total = n + m;
    let variance = n * m / 12.0 * ((total + 1.0) - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2)
}

/// The complementary error function, to about 1e-7 (Abramowitz and Stegun 7.1.26).
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    poly * (-x * x).exp()
}

#[cfg(test)]
mod tests;
