//! Small dense matrices, and the leading eigenvectors of symmetric ones.

/// A matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    /// A matrix of these values. Panics unless there are `rows × columns`.
    pub fn new(rows: usize, columns: usize, values: Vec<f64>) -> Self {
        assert_eq!(values.len(), rows * columns, "values of a {rows} × {columns} matrix");
        Self { rows, columns, values }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Values of a row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// Value at a row and a column.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// All values, row by row, to change.
    pub fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }
}

/// The `count` largest eigenvalues of a symmetric matrix and their eigenvectors (as columns), by orthogonal iteration on
/// the matrix shifted so that no eigenvalue is negative.
pub fn leading_eigenvectors(matrix: &Matrix, count: usize) -> (Vec<f64>, Matrix) {
    let n = matrix.rows();
    // Gershgorin: no eigenvalue lies below minus the largest sum of a row's absolute values.
    let shift = (0..n).map(|i| matrix.row(i).iter().map(|x| x.abs()).sum::<f64>()).fold(0.0, f64::max);
    let wanted = count.min(n);
    // A few vectors more than asked for, so that the last of those asked for settles as fast as the first.
    let width = (wanted + 4).min(n);
    // Any start that is not orthogonal to an eigenvector will do; this one has no symmetry.
    let mut vectors: Vec<Vec<f64>> =
        (0..width).map(|v| (0..n).map(|i| ((i * (2 * v + 3) + v + 1) as f64).sin()).collect()).collect();
    orthonormalise(&mut vectors);
    let mut before = f64::NEG_INFINITY;
    for _ in 0..ITERATIONS {
        let mut sum = 0.0;
        for (v, vector) in vectors.iter_mut().enumerate() {
            let image: Vec<f64> = (0..n).map(|i| dot(matrix.row(i), vector) + shift * vector[i]).collect();
            sum += wanted.saturating_sub(v) as f64 * dot(vector, &image);
            *vector = image;
        }
        orthonormalise(&mut vectors);
        // The eigenvalues of the first one, two, three … vectors add up to sums that only grow. They settle long before vectors of
        // nearly equal eigenvalues do, which are as good as any mixture of them.
        if sum - before <= 1e-11 * sum.abs() {
            break;
        }
        before = sum;
    }
    let rayleigh =
        |vector: &Vec<f64>| -> f64 { (0..n).map(|i| vector[i] * dot(matrix.row(i), vector)).sum() };
    let mut pairs: Vec<(f64, &Vec<f64>)> = vectors.iter().map(|vector| (rayleigh(vector), vector)).collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Fewer vectors than asked for: the rest is zero.
    let value = |at: usize| pairs.get(at % count).map_or(0.0, |(_, vector)| vector[at / count]);
    let columns = Matrix::new(n, count, (0..n * count).map(value).collect());
    ((0..count).map(|c| pairs.get(c).map_or(0.0, |(value, _)| *value)).collect(), columns)
}

const ITERATIONS: usize = 500;

/// In eight sums, so that it becomes vector instructions.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        (0..8).for_each(|lane| sums[lane] += a[lane] * b[lane]);
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// Gram and Schmidt, twice where a vector nearly vanishes.
fn orthonormalise(vectors: &mut [Vec<f64>]) {
    for v in 0..vectors.len() {
        let (done, rest) = vectors.split_at_mut(v);
        let vector = &mut rest[0];
        for _ in 0..2 {
            for other in done.iter() {
                let along = dot(other, vector);
                vector.iter_mut().zip(other).for_each(|(x, o)| *x -= along * o);
            }
        }
        let length = dot(vector, vector).sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x /= length);
        }
    }
}

#[cfg(test)]
mod tests;
