//! The period of steps by its definition: of all circles of dependencies, the time of the one that takes most for each step that it spans.
//!
//! Where no step is like the one before it, the ends of a few steps do not give the period: a circle that spans three steps moves their ends
//! by turns.

use super::{Item, SAME};
use spec::schedule::{Lane, PhaseId};

/// One item precedes another.
#[derive(Clone, Copy)]
struct Edge {
    from: usize,
    to: usize,
    /// Steps from the one to the other.
    steps: f64,
}

/// Seconds from a step to the next, in the steady state of lanes that do not get into each other's way.
pub(super) fn period(items: &[Item]) -> f64 {
    let edges = edges(items);
    // Each lane is a circle that spans one step.
    let busy = |lane| items.iter().filter(|item| item.lane == lane).map(|item| item.seconds.max(0.0)).sum();
    let mut period = Lane::ALL.map(busy).into_iter().fold(0.0, f64::max);
    while let Some(longer) = longer(items, &edges, period) {
        period = longer;
    }
    period
}

/// What precedes each item: all that it comes after, and the one before it on its lane.
fn edges(items: &[Item]) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (to, item) in items.iter().enumerate() {
        let waits = item.after.iter();
        edges.extend(waits.map(|&(PhaseId(from), steps)| Edge { from, to, steps: f64::from(steps) }));
        let same_lane = |other: &Item| other.lane == item.lane;
        edges.push(match items[..to].iter().rposition(same_lane) {
            Some(from) => Edge { from, to, steps: 0.0 },
            None => Edge { from: items.iter().rposition(same_lane).unwrap_or(to), to, steps: 1.0 },
        });
    }
    edges
}

/// The time for each step of some circle that takes longer than `period`.
///
/// Where steps begin every `period` seconds, an item that lies on such a circle falls behind without end (Bellman and Ford's search for
/// a circle of positive length).
fn longer(items: &[Item], edges: &[Edge], period: f64) -> Option<f64> {
    let seconds = |edge: &Edge| items[edge.to].seconds.max(0.0);
    let mut behind = vec![0.0; items.len()];
    let mut reached_by: Vec<Option<&Edge>> = vec![None; items.len()];
    let mut last = None;
    for _ in 0..items.len() {
        last = None;
        for edge in edges {
            let reached = behind[edge.from] + seconds(edge) - period * edge.steps;
            if reached > behind[edge.to] + SAME * period {
                behind[edge.to] = reached;
                reached_by[edge.to] = Some(edge);
                last = Some(edge.to);
            }
        }
        last?;
    }
    // Back from an item that still falls behind, after as many edges as there are items one is on a circle.
    let mut at = last?;
    for _ in 0..items.len() {
        at = reached_by[at]?.from;
    }
    let (start, mut sum, mut steps) = (at, 0.0, 0.0);
    loop {
        let edge = reached_by[at]?;
        (sum, steps, at) = (sum + seconds(edge), steps + edge.steps, edge.from);
        if at == start {
            break;
        }
    }
    // Rounding may show a circle that takes no longer.
    Some(sum / steps).filter(|&longer| longer > period)
}
