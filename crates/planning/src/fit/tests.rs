use super::*;

#[test]
fn planted_rates_are_found() {
    let rates = [20e-6, 1e-11, 2e-10];
    let amounts = [(1e6, 1e5), (1e8, 1e6), (3e8, 4e7), (2e9, 1e7), (5e7, 5e7)];
    let point = |&(flops, bytes): &(f64, f64)| {
        let seconds = rates[0] + rates[1] * flops + rates[2] * bytes;
        (vec![1.0, flops, bytes], seconds)
    };
    let points: Vec<Point> = amounts.iter().map(point).collect();
    let found = non_negative(&points).unwrap();
    for (found, planted) in found.iter().zip(rates) {
        assert!((found / planted - 1.0).abs() < 1e-6, "{found} {planted}");
    }
    assert!(worst_error(&points, &found) < 1e-6);
}

/// By absolute errors the long time alone would decide, and the overhead be off by many times itself.
#[test]
fn short_times_count() {
    let points = [(1e3, 11e-6), (4e3, 14e-6), (1.6e4, 26e-6), (1e8, 0.08)];
    let found = non_negative(&points.map(|(bytes, seconds)| (vec![1.0, bytes], seconds))).unwrap();
    assert!((found[0] - 10e-6).abs() < 2e-6, "{found:?}");
}

#[test]
fn a_rate_is_never_negative() {
    let points = [(1e3, 1e-6), (1e4, 2e-5), (1e5, 3e-4)].map(|(bytes, s)| (vec![1.0, bytes], s));
    let found = non_negative(&points).unwrap();
    assert!(found[0] == 0.0 && found[1] > 0.0, "{found:?}");
}

#[test]
fn amounts_that_go_together_share_no_more_than_there_is() {
    let points = [1.0, 2.0, 7.0].map(|x| (vec![x, 3.0 * x], 5.0 * x));
    let found = non_negative(&points).unwrap();
    assert!((found[0] + 3.0 * found[1] - 5.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(non_negative(&[]), None);
    assert_eq!(non_negative(&[(vec![1.0], 0.0)]), None);
    assert_eq!(non_negative(&[(vec![0.0], 1.0)]), None);
}

#[test]
fn the_farthest_point_is_the_error() {
    let points = [(vec![1.0], 1.0), (vec![1.0], 2.0), (vec![3.0], 2.5)];
    assert!((worst_error(&points, &[1.0]) - 0.5).abs() < 1e-12);
}
#[test]
fn no_line_without_a_slope() {
    let fit = |points: &[(f64, f64)]| link(CollectiveKind::AllReduce, GroupSpan::Host, 2, points);
    assert_eq!(fit(&[]), None);
    assert_eq!(fit(&[(1e3, 1e-6)]), None);
    assert_eq!(fit(&[(1e3, 1e-6), (1e3, 2e-6)]), None);
    assert_eq!(fit(&[(1e3, 0.0), (1e4, 0.0)]), None);
    assert_eq!(fit(&[(1e3, 2e-6), (1e4, 1e-6)]), None);
    assert!(fit(&[(1e3, 1e-6), (1e4, 2e-6)]).is_some());
}

#[test]
fn planted_rates_of_a_class_are_found() {
    let planted = OperationModel {
        flops_per_s: Some(8e10),
        bytes_per_s: Some(5e9),
        ..OperationModel::new(Class::TopForward, 2e-6)
    };
    let amounts = [(1e6, 1e4), (4e7, 1e5), (2e8, 5e6), (9e8, 2e6)];
    let points = amounts.map(|(flops, bytes)| Amount { flops, bytes, items: 1e9 });
    let points = points.map(|amount| (amount, planted.seconds(&Amount { items: 0.0, ..amount })));
    let found = operation(Class::TopForward, &points).unwrap();
    let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() / b.unwrap() - 1.0).abs() < 1e-6;
    assert!(
        near(found.flops_per_s, planted.flops_per_s) && near(found.bytes_per_s, planted.bytes_per_s),
        "{found:?}"
    );
    assert!(
        (found.overhead_s - 2e-6).abs() < 1e-9 && found.worst_error < 1e-6 && found.items_per_s.is_none()
    );
    assert_eq!(operation(Class::TopForward, &[]), None);
}
