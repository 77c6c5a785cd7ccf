//! Which spans of a lane lie below each other.

use super::Span;

/// More rows than this do not help the eye.
const MOST_ROWS: usize = 12;

/// Spans on rows, those of a lane on different ones as long as they overlap.
#[derive(Clone, Debug)]
pub struct Rows {
    /// How many rows each lane has; none without spans.
    pub lanes: Vec<usize>,
    /// Spans by position with their row, by lane and begin.
    pub order: Vec<(usize, usize)>,
    /// How many found no row of their own.
    pub crowded: usize,
}

impl Rows {
    /// Rows for spans whose times are numbers and whose lanes exist.
    pub fn of(spans: &[&Span], lanes: usize) -> Self {
        let mut sorted: Vec<usize> = (0..spans.len()).collect();
        sorted.sort_by(|&a, &b| {
            let (a, b) = (spans[a], spans[b]);
            (a.lane.cmp(&b.lane)).then(a.begin_ms.total_cmp(&b.begin_ms)).then(a.end_ms.total_cmp(&b.end_ms))
        });
        let mut rows = Self { lanes: vec![0; lanes], order: Vec::with_capacity(spans.len()), crowded: 0 };
        // Of the lane at hand, when each row becomes free.
        let mut free: Vec<f64> = Vec::new();
        let mut lane = usize::MAX;
        for index in sorted {
            let span = spans[index];
            if span.lane != lane {
                free.clear();
                lane = span.lane;
            }
            // Ends are sums, and a begin may be the same sum rounded otherwise.
            let slack = 1e-9 * span.begin_ms.abs();
            let row = match free.iter().position(|&end| end <= span.begin_ms + slack) {
                Some(row) => row,
                None if free.len() < MOST_ROWS => {
                    free.push(f64::NEG_INFINITY);
                    free.len() - 1
                }
                None => {
                    rows.crowded += 1;
                    (0..MOST_ROWS).min_by(|&a, &b| free[a].total_cmp(&free[b])).unwrap_or(0)
                }
            };
            free[row] = free[row].max(span.end_ms);
            rows.lanes[lane] = free.len();
            rows.order.push((index, row));
        }
        rows
    }
}

#[cfg(test)]
mod tests;
