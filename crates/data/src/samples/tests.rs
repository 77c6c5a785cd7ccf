use super::*;

#[test]
fn divided_samples_keep_their_parts() {
    let mut samples = Samples::new(2);
    samples.labels = vec![0.0, 1.0, 0.0];
    samples.dense = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    samples.numbers = vec![1.5, 2.5, 3.5, 4.5, 5.5, 6.5];
    samples.bags[0].ids = vec![7, 8, 9];
    samples.bags[1] =
        Bags { lengths: vec![2, 0, 1], ids: vec![1, 2, 3], weights: vec![0.1, 0.2, 0.3], texts: None };
    let (mut kept, mut held) = (Samples::new(2), Samples::new(2));
    samples.divide(&[false, true, false], &mut kept, &mut held);
    assert_eq!((kept.labels, kept.dense), (vec![0.0, 0.0], vec![1.0, 2.0, 5.0, 6.0]));
    assert_eq!((kept.bags[0].ids.as_slice(), held.bags[0].ids.as_slice()), (&[7, 9][..], &[8][..]));
    assert_eq!(kept.bags[1], samples.bags[1].clone_without_empty());
    assert_eq!(held.bags[1], Bags { lengths: vec![0], ..Bags::default() });
    assert_eq!((kept.numbers, held.numbers), (vec![1.5, 2.5, 5.5, 6.5], vec![3.5, 4.5]));
    assert_eq!((held.labels, held.dense), (vec![1.0], vec![3.0, 4.0]));
}

impl Bags {
    fn clone_without_empty(&self) -> Bags {
        Bags { lengths: self.lengths.iter().copied().filter(|&length| length > 0).collect(), ..self.clone() }
    }
}
