use super::*;

/// The first `cut` features belong together, and the others.
fn distances(n: usize, cut: usize) -> Matrix {
    let value = |at: usize| match (at / n, at % n) {
        (i, j) if i == j => 0.0,
        (i, j) => {
            if (i < cut) == (j < cut) {
                0.1
            } else {
                1.0
            }
        }
    };
    Matrix::new(n, n, (0..n * n).map(value).collect())
}

fn settled(start: &[usize], group_of: &[usize], cut: usize, ratio: f64) -> Vec<usize> {
    let distances = distances(start.len(), cut);
    let mut settling = Settling::new(start.to_vec(), group_of, &distances, ratio);
    settling.settle();
    settling.tower_of
}

#[test]
fn features_find_their_fellows() {
    assert_eq!(settled(&[0, 1, 0, 1, 0, 1], &[0, 0], 3, 1.0), [0, 0, 0, 1, 1, 1]);
    // Two and four: sizes may change where the ratio lets them.
    let tower_of = settled(&[0, 1, 0, 1, 0, 1], &[0, 0], 2, 2.0);
    assert!(
        tower_of[0] == tower_of[1] && tower_of[2..].iter().all(|&t| t == 1 - tower_of[0]),
        "{tower_of:?}"
    );
    let tower_of = settled(&[0, 1, 0, 1, 0, 1], &[0, 0], 2, 1.0);
    assert_eq!(tower_of.iter().filter(|&&tower| tower == 0).count(), 3);
    // Towers of different groups keep what they have.
    assert_eq!(settled(&[0, 1, 0, 1, 0, 1], &[0, 1], 3, 9.0), [0, 1, 0, 1, 0, 1]);
}

/// The sums that are kept up are those of the towers as they are.
#[test]
fn what_is_kept_up_is_true() {
    let n = 12;
    let stream = spec::random::RandomSequence::new(1, "settle");
    let value = |at: usize| {
        let (i, j) = (at / n, at % n);
        if i == j { 0.0 } else { stream.unit_f64((i.min(j) * n + i.max(j)) as u64) }
    };
    let distances = Matrix::new(n, n, (0..n * n).map(value).collect());
    let mut settling = Settling::new((0..n).map(|f| f % 3).collect(), &[0; 3], &distances, 2.0);
    let objective = |s: &Settling| (0..3).map(|t| s.inside[t] / s.sizes[t] as f64).sum::<f64>();
    let before = objective(&settling);
    settling.settle();
    let anew = Settling::new(settling.tower_of.clone(), &[0; 3], &distances, 2.0);
    assert!((objective(&settling) - objective(&anew)).abs() < 1e-9);
    assert!(objective(&anew) < before);
    let most = settling.sizes.iter().max().unwrap();
    assert!(most <= &(2 * settling.sizes.iter().min().unwrap()));
}
