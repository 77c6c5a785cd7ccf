//! Points in a few dimensions whose distances are as given (DMT §3.3): multidimensional scaling.
//!
//! ```text
//! stress(X) = Σ_{j<i} (‖xᵢ − xⱼ‖ − D[i, j])²
//! ```
//!
//! Minimised by Adam from several random starts and from the classical solution (the leading eigenvectors of the centred
//! matrix of squared distances), which is also what the result is compared with.

use super::matrix::{Matrix, leading_eigenvectors};
use spec::random::RandomSequence;

/// Parameters of the descent that minimizes the stress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descent {
    /// Dimensions.
    pub dims: usize,
    /// Random starts, besides the classical one.
    pub restarts: usize,
    /// Steps from each.
    pub steps: usize,
    /// Seed from which all randomness follows.
    pub seed: u64,
}

/// Points, and how well their distances fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// Points × dimensions.
    pub points: Matrix,
    /// The stress that is left.
    pub stress: f64,
    /// Stress of the classical solution, scaled as fits best.
    pub classical_stress: f64,
}

impl Plane {
    /// The stress over that of the classical solution; 1 where that fits exactly.
    pub fn over_classical(&self) -> f64 {
        let negligible = 1e-12 * self.points.rows().pow(2) as f64;
        if self.classical_stress <= negligible { 1.0 } else { self.stress / self.classical_stress }
    }
}

/// Places points so that their distances fit `distances`.
pub fn embed(distances: &Matrix, descent: &Descent) -> Plane {
    let classical = classical(distances, descent.dims);
    let classical_stress = stress(&classical, distances);
    let count = distances.rows();
    let scale = mean(distances);
    let random = (0..descent.restarts).map(|restart| {
        let stream = RandomSequence::new(descent.seed, &format!("partitioner.plane.{restart}"));
        let value = |i: usize| f64::from(stream.symmetric(i as u64, 1.0)) * scale;
        Matrix::new(count, descent.dims, (0..count * descent.dims).map(value).collect())
    });
    let starts = std::iter::once(classical.clone()).chain(random);
    let ends = starts.map(|start| descend(start, distances, descent.steps, scale));
    let best = std::iter::once(classical.clone())
        .chain(ends)
        .map(|points| (stress(&points, distances), points))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("the classical start is always there");
    Plane { points: best.1, stress: best.0, classical_stress }
}

fn mean(distances: &Matrix) -> f64 {
    let count = distances.rows();
    let pairs = (count * count.saturating_sub(1)).max(1) as f64;
    (distances.values().iter().sum::<f64>() / pairs).max(f64::MIN_POSITIVE)
}

/// The sum of squared errors of all pairs.
pub fn stress(points: &Matrix, distances: &Matrix) -> f64 {
    let mut sum = 0.0;
    for i in 0..points.rows() {
        for j in 0..i {
            sum += (distance(points.row(i), points.row(j)) - distances.at(i, j)).powi(2);
        }
    }
    sum
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// Classical scaling: eigenvectors of `−½·J·D²·J`, each as long as the root of its eigenvalue.
fn classical(distances: &Matrix, dims: usize) -> Matrix {
    let count = distances.rows();
    let squared = |i: usize, j: usize| distances.at(i, j).powi(2);
    let row_means: Vec<f64> =
        (0..count).map(|i| (0..count).map(|j| squared(i, j)).sum::<f64>() / count as f64).collect();
    let total = row_means.iter().sum::<f64>() / count as f64;
    let centred = |i: usize, j: usize| -0.5 * (squared(i, j) - row_means[i] - row_means[j] + total);
    let values = (0..count * count).map(|at| centred(at / count, at % count)).collect();
    let (eigenvalues, vectors) = leading_eigenvectors(&Matrix::new(count, count, values), dims);
    let coordinate = |at: usize| vectors.values()[at] * eigenvalues[at % dims].max(0.0).sqrt();
    let points = Matrix::new(count, dims, (0..count * dims).map(coordinate).collect());
    rescaled(points, distances)
}

/// The points times the factor that leaves the least stress: `Σ d·D / Σ d²`.
fn rescaled(points: Matrix, distances: &Matrix) -> Matrix {
    let (mut product, mut square) = (0.0, 0.0);
    for i in 0..points.rows() {
        for j in 0..i {
            let d = distance(points.row(i), points.row(j));
            product += d * distances.at(i, j);
            square += d * d;
        }
    }
    let factor = if square > 0.0 { product / square } else { 1.0 };
    let (rows, columns) = (points.rows(), points.columns());
    Matrix::new(rows, columns, points.values().iter().map(|x| x * factor).collect())
}

/// Adam on the stress divided by the number of other points, its rate falling to nothing.
fn descend(mut points: Matrix, distances: &Matrix, steps: usize, scale: f64) -> Matrix {
    let (count, dims) = (points.rows(), points.columns());
    let mut first = vec![0.0; count * dims];
    let mut second = vec![0.0; count * dims];
    let mut gradient = vec![0.0; count * dims];
    let (beta1, beta2) = (0.9, 0.99);
    for step in 0..steps {
        gradient.fill(0.0);
        for i in 0..count {
            let (before, own) = gradient.split_at_mut(i * dims);
            for j in 0..i {
                let (a, b) = (points.row(i), points.row(j));
                let d = distance(a, b);
                let pull = 2.0 * (d - distances.at(i, j)) / count as f64;
                for c in 0..dims {
                    // Points that coincide have no direction; any will do.
                    let along = if d > 0.0 { (a[c] - b[c]) / d } else { f64::from(c == i % dims) };
                    let g = pull * along;
                    own[c] += g;
                    before[j * dims + c] -= g;
                }
            }
        }
        let rate = 0.1 * scale * (1.0 - step as f64 / steps as f64);
        let correct = |beta: f64| 1.0 - beta.powi(step as i32 + 1);
        for (at, value) in points.values_mut().iter_mut().enumerate() {
            let g = gradient[at];
            first[at] = beta1 * first[at] + (1.0 - beta1) * g;
            second[at] = beta2 * second[at] + (1.0 - beta2) * g * g;
            let size = (second[at] / correct(beta2)).sqrt() + 1e-12;
            *value -= rate * first[at] / correct(beta1) / size;
        }
    }
    points
}
