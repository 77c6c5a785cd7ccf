use super::*;

#[test]
fn eigenvectors_are_stretched_by_their_eigenvalues() {
    // 4, 2, 1 and −3 on the diagonal, turned by a reflection.
    let diagonal = [4.0, 2.0, 1.0, -3.0];
    let axis: [f64; 4] = [0.5, 0.5, 0.5, 0.5];
    let reflected = |i: usize, j: usize| f64::from(i == j) - 2.0 * axis[i] * axis[j];
    let value = |i: usize, j: usize| (0..4).map(|k| reflected(i, k) * diagonal[k] * reflected(j, k)).sum();
    let matrix = Matrix::new(4, 4, (0..16).map(|at| value(at / 4, at % 4)).collect());
    let (values, vectors) = leading_eigenvectors(&matrix, 2);
    assert!((values[0] - 4.0).abs() < 1e-6 && (values[1] - 2.0).abs() < 1e-6, "{values:?}");
    for (c, value) in values.iter().enumerate() {
        let vector: Vec<f64> = (0..4).map(|i| vectors.at(i, c)).collect();
        for i in 0..4 {
            assert!((dot(matrix.row(i), &vector) - value * vector[i]).abs() < 1e-3);
        }
    }
}
