use super::*;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// `scipy.stats.mannwhitneyu`, by its asymptotic and its exact method.
#[test]
fn p_is_that_of_scipy() {
    let tied = mann_whitney(&[1.0, 2.0, 2.0, 3.0], &[2.0, 4.0, 5.0, 6.0]);
    assert!(tied.u == 2.0 && near(tied.p, 0.103_753_677), "{tied:?}");
    let tied = mann_whitney(&[1.0, 2.0, 2.0, 3.0, 3.5], &[2.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    assert!(tied.u == 3.0 && near(tied.p, 0.034_094_293), "{tied:?}");
    let exact = mann_whitney(&[0.801, 0.802, 0.803], &[0.799, 0.7995, 0.8005, 0.8015]);
    assert!(exact.u == 11.0 && near(exact.p, 0.114_285_714), "{exact:?}");
    assert_eq!(mann_whitney(&[], &[1.0]).p, 1.0);
    assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0]).p, 1.0);
}

#[test]
fn deviations_are_those_of_a_sample() {
    assert!(near(standard_deviation(&[1.0, 2.0, 4.0]), 1.527_525_2));
    assert_eq!(standard_deviation(&[1.0]), 0.0);
}
