use super::*;

#[test]
fn cosines_are_averaged_before_or_after_their_sign_is_lost() {
    // Two features of two columns: the same direction in one sample, opposite in the other, and an empty bag.
    let samples = [[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, -1.0], [1.0, 1.0, 0.0, 0.0], [2.0, 0.0, 1.0, 1.0]];
    let names = || vec!["A".to_string(), "B".to_string()];
    let measured = |of| {
        let mut sums = CosineSums::new(2, 2, of);
        samples.iter().for_each(|sample| sums.add(sample.chunks_exact(2)));
        sums.affinity(names()).unwrap().between(0, 1)
    };
    let mut diverged = CosineSums::new(2, 2, Cosines::AbsOfMean);
    diverged.add([1.0, 0.0, f32::NAN, 0.0].chunks_exact(2));
    let refused = diverged.affinity(names()).unwrap_err().to_string();
    assert!(refused.contains("A and B"), "{refused}");
    let half = 0.5f64.sqrt();
    assert!((measured(Cosines::AbsOfMean) - half / 4.0).abs() < 1e-7);
    assert!((measured(Cosines::MeanOfAbs) - (2.0 + half) / 4.0).abs() < 1e-7);
}
