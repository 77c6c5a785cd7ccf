use super::*;
use crate::chart::WIDTH;

fn chart(points: Vec<(f64, f64)>) -> String {
    let line = Line { name: "<b>".into(), colour: 9, look: Look::Bold, listed: true, points };
    LineChart {
        x_name: "samples",
        y_name: "loss",
        from_zero: [true, false],
        lines: vec![line],
        rules: &[],
        width: WIDTH,
    }
    .svg()
}

#[test]
fn gaps_interrupt_a_curve() {
    let svg = chart(vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 2.0)]);
    let path = svg.split(" d=\"").nth(1).unwrap();
    assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 2), "{path}");
    assert!(!svg.contains("NaN") && svg.contains("&lt;b&gt;") && !svg.contains("<b>"));
    assert!(chart(vec![(0.0, f64::INFINITY)]).contains("No records"));
}

#[test]
fn smoothing_keeps_ends_and_means() {
    let points: Vec<_> =
        [4.0, 0.0, 8.0, 0.0, 4.0].into_iter().enumerate().map(|(x, y)| (x as f64, y)).collect();
    let ys: Vec<f64> = smoothed(&points, 2).into_iter().map(|p| p.1).collect();
    assert_eq!(ys, [4.0, 4.0, 3.2, 4.0, 4.0]);
    assert!(smoothed(&[], 2).is_empty());
}

#[test]
fn thinning_keeps_spikes() {
    let mut points: Vec<_> = (0..100_000).map(|i| (f64::from(i), 0.0)).collect();
    points[50_000].1 = 7.0;
    let thin = thinned(&points);
    assert!(thin.len() <= MOST_POINTS && thin.contains(&(50_000.0, 7.0)));
    assert!(thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
}
