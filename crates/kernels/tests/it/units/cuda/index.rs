use kernels::Segment;
use kernels::internals::cuda::index::places;

fn segment(table: usize, first_sample: usize, samples: usize, first_value: usize) -> Segment {
    Segment { table, first_sample, samples, first_value, lengths_at: None }
}

/// Two sources, two tables; samples of the second source are numbered first.
#[test]
fn places_follow_the_values_whatever_the_samples() {
    let segments = [segment(0, 3, 2, 0), segment(1, 3, 2, 2), segment(0, 0, 3, 4), segment(1, 0, 3, 7)];
    assert_eq!(places(2, &segments, &[2, 2, 3, 3]), Some(vec![0, 5, 2, 7]));
    // The values of the first source lie behind those of the second.
    let segments = [segment(0, 0, 2, 5), segment(0, 2, 3, 0), segment(0, 5, 0, 3)];
    assert_eq!(places(1, &segments, &[2, 3, 0]), Some(vec![3, 0, 0]));
    assert_eq!(places(0, &[], &[]), Some(vec![]));
}

#[test]
fn segments_that_share_bags_or_values_have_no_places() {
    let bags = [segment(0, 0, 3, 0), segment(0, 2, 3, 3)];
    assert_eq!(places(1, &bags, &[3, 3]), None);
    let values = [segment(0, 0, 3, 0), segment(1, 0, 3, 2)];
    assert_eq!(places(2, &values, &[3, 3]), None);
    assert_eq!(places(2, &values, &[2, 3]), Some(vec![0, 2]));
}
