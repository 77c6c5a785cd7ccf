use super::*;

#[test]
fn clocks_are_aligned_by_barriers() {
    // The other clock is 5 s ahead: it enters at 1 and leaves at 2 of the first one's time.
    let (ahead, off) = difference(&[0.5, 2.5, 3.0, 3.2], &[6.0, 7.0, 8.1, 8.3]);
    assert!((ahead - 5.0).abs() <= off && off < 0.21, "{ahead} ± {off}");
}

#[test]
fn a_lane_works_through_its_phases_in_order() {
    let span = |issued_s, ended_s| TraceSpan {
        rank: 0,
        row: TraceRow::Exchange,
        phase: 0,
        step: 0,
        batch: 0,
        issued_s,
        began_s: issued_s,
        ended_s,
        sent: 0,
    };
    let spans = in_order(vec![span(2.0, 3.0), span(1.0, 5.0), span(6.0, 7.0)]);
    let times: Vec<(f64, f64)> = spans.iter().map(|span| (span.began_s, span.ended_s)).collect();
    assert_eq!(times, [(1.0, 5.0), (5.0, 5.0), (6.0, 7.0)]);
}
