//! What a collective takes, as a line: `time = latency + bytes / bandwidth`, fitted to a sweep of sizes.
//!
//! ```
//! use spec::links::{Circle, LinkModel};
//! use spec::schedule::CollectiveKind;
//! // 10 µs, and 1 GB/s.
//! let points = [1e3, 1e5, 1e7].map(|bytes| (bytes, 10e-6 + bytes / 1e9));
//! let line = LinkModel::fit(CollectiveKind::AllToAll, Circle::World, 4, &points).unwrap();
//! assert!((line.latency_s - 10e-6).abs() < 1e-9 && (line.bytes_per_s - 1e9).abs() < 1.0);
//! assert!((line.seconds(1e6) - 1.01e-3).abs() < 1e-8);
//! ```

use crate::fit;
use crate::schedule::CollectiveKind;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Ranks that were measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Circle {
    /// All of them.
    World,
    /// Those of a host; all hosts at once.
    Host,
    /// Those of equal index on all hosts; all indices at once.
    Peers,
}

/// The line of one collective in one circle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkModel {
    /// Which collective.
    pub collective: CollectiveKind,
    /// Over whom.
    pub group: Circle,
    /// Ranks of each such group.
    pub ranks: usize,
    /// Seconds that nothing at all takes.
    pub latency_s: f64,
    /// Bytes that a rank sends, or reduces, in a second more.
    pub bytes_per_s: f64,
}

impl LinkModel {
    /// The line through `(bytes, seconds)` with the least relative errors. A latency is never below 0. `None` where no line
    /// rises through the points: fewer than two sizes, or times that do not grow.
    pub fn fit(
        collective: CollectiveKind,
        group: Circle,
        ranks: usize,
        points: &[(f64, f64)],
    ) -> Option<Self> {
        let first = points.first()?.0;
        if points.iter().all(|(bytes, _)| *bytes == first) {
            return None;
        }
        let points: Vec<fit::Point> = points.iter().map(|&(bytes, s)| (vec![1.0, bytes], s)).collect();
        let rates = fit::non_negative(&points)?;
        let rises = rates[1] > 0.0;
        rises.then(|| Self { collective, group, ranks, latency_s: rates[0], bytes_per_s: 1.0 / rates[1] })
    }

    /// What so many bytes take.
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.latency_s + bytes / self.bytes_per_s
    }
}

impl Circle {
    /// Ranks of each such group.
    pub fn members(self, topology: Topology) -> usize {
        match self {
            Circle::World => topology.ranks(),
            Circle::Host => topology.ranks_per_host(),
            Circle::Peers => topology.hosts(),
        }
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Circle::World => "world",
            Circle::Host => "host",
            Circle::Peers => "peers",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(points: &[(f64, f64)]) -> Option<LinkModel> {
        LinkModel::fit(CollectiveKind::AllReduce, Circle::Host, 2, points)
    }

    #[test]
    fn no_line_without_a_slope() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[(1e3, 1e-6)]), None);
        assert_eq!(fit(&[(1e3, 1e-6), (1e3, 2e-6)]), None);
        assert_eq!(fit(&[(1e3, 0.0), (1e4, 0.0)]), None);
        assert_eq!(fit(&[(1e3, 2e-6), (1e4, 1e-6)]), None);
    }

    #[test]
    fn it_survives_json() {
        let line = fit(&[(1e3, 1e-6), (1e4, 2e-6)]).unwrap();
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.contains(r#""collective":"all_reduce","group":"host""#), "{text}");
        assert_eq!(serde_json::from_str::<LinkModel>(&text).unwrap(), line);
    }
}
