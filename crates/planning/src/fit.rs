//! Fits rates to measurements: `seconds = x₀·a₀ + x₁·a₁ + …`, with known amounts `a` and unknown rates `x`.
//!
//! ```
//! // 10 µs, and 1 GB/s.
//! let points = [1e3, 1e5, 1e7].map(|bytes| (vec![1.0, bytes], 10e-6 + bytes / 1e9));
//! let rates = planning::fit::non_negative(&points).unwrap();
//! assert!((rates[0] - 10e-6).abs() < 1e-9 && (rates[1] - 1e-9).abs() < 1e-15);
//! ```

use spec::links::{GroupSpan, LinkModel};
use spec::machine_rates::{Amount, Class, OperationModel};
use spec::program::Algorithm;
use spec::schedule::CollectiveKind;

/// Amounts, and the seconds that they took together.
pub type Point = (Vec<f64>, f64);

/// The rates, none below 0, whose *relative* errors have the least squares, so that short times count as much as long ones.
/// Points without time are left out. `None` where there are no others, or none has an amount.
///
/// # Panics
/// If points have different numbers of amounts, or more than eight.
pub fn non_negative(points: &[Point]) -> Option<Vec<f64>> {
    let timed: Vec<&Point> = points.iter().filter(|(_, seconds)| *seconds > 0.0).collect();
    let count = timed.first()?.0.len();
    assert!(count <= 8 && timed.iter().all(|(amounts, _)| amounts.len() == count), "as many amounts each");
    // Each equation divided by its time, each column by its largest amount, so that what is compared is of one size.
    let largest = |i: usize| timed.iter().map(|(a, seconds)| a[i] / seconds).fold(0.0, f64::max);
    let scales: Vec<f64> = (0..count).map(largest).collect();
    let row = |(amounts, seconds): &&Point| -> Vec<f64> {
        let scaled = amounts
            .iter()
            .zip(&scales)
            .map(|(a, scale)| if *scale > 0.0 { a / seconds / scale } else { 0.0 });
        scaled.collect()
    };
    let rows: Vec<Vec<f64>> = timed.iter().map(row).collect();
    let error = |rates: &[f64]| -> f64 {
        let off = |row: &Vec<f64>| row.iter().zip(rates).map(|(a, x)| a * x).sum::<f64>() - 1.0;
        rows.iter().map(|row| off(row).powi(2)).sum()
    };
    // The least squares of some rates alone, for all choices of which: few, and the best that is allowed is the solution.
    let mut best: Option<(f64, Vec<f64>)> = None;
    for chosen in 1u32..1 << count {
        let columns: Vec<usize> = (0..count).filter(|i| chosen >> i & 1 == 1).collect();
        let Some(solved) = least_squares(&rows, &columns) else { continue };
        if solved.iter().any(|x| *x < 0.0) {
            continue;
        }
        let mut rates = vec![0.0; count];
        columns.iter().zip(solved).for_each(|(&i, x)| rates[i] = x);
        let error = error(&rates);
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, rates));
        }
    }
    let (_, rates) = best?;
    Some(rates.iter().zip(&scales).map(|(x, scale)| if *scale > 0.0 { x / scale } else { 0.0 }).collect())
}

/// Largest relative error of the rates over all points: 0.1 for 10 %.
pub fn worst_error(points: &[Point], rates: &[f64]) -> f64 {
    let priced = |amounts: &[f64]| amounts.iter().zip(rates).map(|(a, x)| a * x).sum::<f64>();
    let errors = points.iter().map(|(amounts, seconds)| (priced(amounts) / seconds - 1.0).abs());
    errors.filter(|error| error.is_finite()).fold(0.0, f64::max)
}

/// Latency and bandwidth of a collective: the line through `(bytes, seconds)` with the least relative errors. A latency is
/// never below 0. `None` where no line rises through the points: fewer than two sizes, or times that do not grow.
///
/// ```
/// use spec::links::GroupSpan;
/// use spec::schedule::CollectiveKind;
/// // 10 µs, and 1 GB/s.
/// let points = [1e3, 1e5, 1e7].map(|bytes| (bytes, 10e-6 + bytes / 1e9));
/// let line = planning::fit::link(CollectiveKind::AllToAll, GroupSpan::World, 4, &points).unwrap();
/// assert!((line.latency_s - 10e-6).abs() < 1e-9 && (line.bytes_per_s - 1e9).abs() < 1.0);
/// ```
pub fn link(
    collective: CollectiveKind,
    group: GroupSpan,
    ranks: usize,
    points: &[(f64, f64)],
) -> Option<LinkModel> {
    let first = points.first()?.0;
    if points.iter().all(|(bytes, _)| *bytes == first) {
        return None;
    }
    let points: Vec<Point> = points.iter().map(|&(bytes, s)| (vec![1.0, bytes], s)).collect();
    let rates = non_negative(&points)?;
    let rises = rates[1] > 0.0;
    let (algorithm, latency_s, bytes_per_s) = (Algorithm::Direct, rates[0], 1.0 / rates[1]);
    rises.then_some(LinkModel { collective, algorithm, group, ranks, latency_s, bytes_per_s })
}

/// Rates of a class of computation, through measured amounts and seconds. Only those amounts count that the class goes by.
/// `None` where nothing was measured.
pub fn operation(class: Class, points: &[(Amount, f64)]) -> Option<OperationModel> {
    let by = class.goes_by();
    let row = |amount: &Amount| {
        let amounts = [amount.flops, amount.bytes, amount.items].into_iter().zip(by);
        let counted = amounts.map(|(amount, counts)| if counts { amount } else { 0.0 });
        std::iter::once(1.0).chain(counted).collect::<Vec<f64>>()
    };
    let points: Vec<Point> = points.iter().map(|(amount, s)| (row(amount), *s)).collect();
    let rates = non_negative(&points)?;
    let rate = |i: usize| (rates[i] > 0.0).then(|| 1.0 / rates[i]);
    Some(OperationModel {
        class,
        overhead_s: rates[0],
        flops_per_s: rate(1),
        bytes_per_s: rate(2),
        items_per_s: rate(3),
        worst_error: worst_error(&points, &rates),
    })
}

/// The `x` for which `rows · x` is nearest to 1 everywhere, by these columns alone; `None` where they do not tell.
fn least_squares(rows: &[Vec<f64>], columns: &[usize]) -> Option<Vec<f64>> {
    let n = columns.len();
    let sum = |of: &dyn Fn(&[f64]) -> f64| rows.iter().map(|row| of(row)).sum::<f64>();
    // The normal equations, with their right side as the last column.
    let mut equations: Vec<Vec<f64>> = Vec::with_capacity(n);
    for &i in columns {
        let mut equation: Vec<f64> = columns.iter().map(|&j| sum(&|row| row[i] * row[j])).collect();
        equation.push(sum(&|row| row[i]));
        equations.push(equation);
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|&a, &b| equations[a][i].abs().total_cmp(&equations[b][i].abs()))?;
        equations.swap(i, pivot);
        // Amounts are scaled to 1: what is left of columns that depend on each other is rounding.
        if equations[i][i].abs() < 1e-10 {
            return None;
        }
        let row = equations[i].clone();
        for equation in equations.iter_mut().skip(i + 1) {
            let factor = equation[i] / row[i];
            equation.iter_mut().zip(&row).for_each(|(a, b)| *a -= factor * b);
        }
    }
    let mut solution = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| equations[i][j] * solution[j]).sum();
        solution[i] = (equations[i][n] - known) / equations[i][i];
    }
    Some(solution)
}

#[cfg(test)]
mod tests;
