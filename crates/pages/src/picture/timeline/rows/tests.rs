use super::*;

fn spans(times: &[(usize, f64, f64)]) -> Vec<Span> {
    let span = |&(lane, begin_ms, end_ms): &(usize, f64, f64)| Span {
        lane,
        name: String::new(),
        class: String::new(),
        begin_ms,
        end_ms,
        exposed: false,
        details: vec![],
    };
    times.iter().map(span).collect()
}

#[test]
fn only_what_overlaps_moves_down() {
    let spans = spans(&[(1, 0.3, 0.5), (0, 0.0, 2.0), (1, 0.1 + 0.2, 0.4), (1, 0.0, 0.3), (0, 1.0, 1.5)]);
    let rows = Rows::of(&spans.iter().collect::<Vec<_>>(), 3);
    assert_eq!(rows.lanes, [2, 2, 0]);
    assert_eq!(rows.order, [(1, 0), (4, 1), (3, 0), (0, 0), (2, 1)]);
}

#[test]
fn a_crowd_is_counted() {
    let spans = spans(&[(0, 0.0, 1.0); 40]);
    let rows = Rows::of(&spans.iter().collect::<Vec<_>>(), 1);
    assert_eq!((rows.lanes[0], rows.crowded, rows.order.len()), (MOST_ROWS, 40 - MOST_ROWS, 40));
}
