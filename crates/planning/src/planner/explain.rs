//! Explanations: why each table has its scheme, what came second, and what was ruled out.

use super::candidates::{Candidate, Candidates, Shape};
use super::prices::Prices;
use super::solution::Solution;
use super::units::Tables;
use super::{Alternative, Refused, TablePlan, words};
use spec::placement::{Placement, Scheme};

/// Numbers of a whole plan that explanations refer to.
struct Whole {
    /// Time of the slowest rank.
    cost: f64,
    room: u64,
    members: usize,
}

/// Explanation of every table, by feature.
pub(super) fn tables(
    prices: &Prices,
    tables: &Tables,
    found: &Solution,
    placement: &Placement,
) -> Vec<TablePlan> {
    let whole = Whole { cost: found.assignment.largest(), room: prices.room(), members: prices.members() };
    let features = prices.request.model.features().len();
    let mut units_of: Vec<Vec<usize>> = vec![Vec::new(); features];
    tables.units.iter().enumerate().for_each(|(unit, of)| units_of[of.feature].push(unit));
    let of_feature = |(feature, units): (usize, &Vec<usize>)| {
        let chosen = |unit: usize| tables.chosen(&found.choice, unit);
        let cost_s = units.iter().map(|&unit| chosen(unit).total).sum();
        let (scheme, shards) = (placement.scheme(feature), placement.shards_of(feature).len());
        let plan =
            |reason, second, refused| TablePlan { feature, scheme, shards, cost_s, reason, second, refused };
        let [unit] = units[..] else {
            let reason = format!("{scheme}: towers read {} slices of the table apart", units.len());
            return plan(reason, None, Vec::new());
        };
        let candidates = &tables.candidates[unit];
        let mut refused = candidates.refused.clone();
        refused.extend(hierarchical(prices));
        refused.retain(|refused| refused.scheme != scheme);
        plan(reason(chosen(unit), candidates, &whole), second(chosen(unit), candidates, &whole), refused)
    };
    units_of.iter().enumerate().map(of_feature).collect()
}

/// Why the chosen form won.
fn reason(chosen: &Candidate, candidates: &Candidates, whole: &Whole) -> String {
    let what = chosen.shape.words();
    let all = words::seconds(chosen.total);
    let Some(cheapest) = candidates.all.first() else { return what };
    if candidates.all.len() == 1 {
        return format!("{what}: the only form that fits; {all} a step on all its ranks together");
    }
    if chosen.total <= cheapest.total * (1.0 + 1e-9) {
        let refused =
            candidates.refused.iter().find(|r| r.scheme == Scheme::TableWise && r.why.contains("room"));
        let besides = match (refused, chosen.shape) {
            (Some(_), _) => {
                format!("; the whole table does not fit: a rank has room for {}", words::bytes(whole.room))
            }
            (None, Shape::Copies) => "; its ids and vectors need no exchange".into(),
            (None, _) => String::new(),
        };
        let count = candidates.all.len();
        return format!(
            "{what}: {all} a step on all its ranks together, the least of {count} forms{besides}"
        );
    }
    let (other, theirs) = (cheapest.shape.words(), words::seconds(cheapest.total));
    let costs = format!("{what}: {all} in all, where {other} takes {theirs}");
    if cheapest.wide.cost > chosen.wide.cost {
        let rank = if chosen.shape == Shape::Copies { "every rank" } else { "a rank" };
        let (piece, largest) = (words::seconds(chosen.wide.cost), words::seconds(cheapest.wide.cost));
        format!("{costs}, but {piece} on {rank} instead of {largest}, so that ranks are even")
    } else {
        let (small, large) = (words::bytes(chosen.wide.memory), words::bytes(cheapest.wide.memory));
        format!("{costs}, but {small} of a rank's memory instead of {large}")
    }
}

/// The cheapest form of another scheme, and why it was not chosen.
fn second(chosen: &Candidate, candidates: &Candidates, whole: &Whole) -> Option<Alternative> {
    let scheme = chosen.shape.scheme();
    let other = candidates.all.iter().find(|other| other.shape.scheme() != scheme)?;
    let what = other.shape.words();
    let (theirs, ours) = (words::seconds(other.total), words::seconds(chosen.total));
    let why_not = if other.total >= chosen.total {
        let more = words::more(other.total, chosen.total);
        format!("{what} takes {more} in all: {theirs} instead of {ours}")
    } else if other.wide.cost > whole.cost && !other.on_all(whole.members) {
        let (piece, slowest) = (words::seconds(other.wide.cost), words::seconds(whole.cost));
        format!(
            "{what} takes {theirs} in all instead of {ours}, but {piece} on one rank; the slowest rank of the plan takes {slowest}"
        )
    } else if other.wide.cost > chosen.wide.cost {
        let (piece, smaller) = (words::seconds(other.wide.cost), words::seconds(chosen.wide.cost));
        format!(
            "{what} takes {theirs} in all instead of {ours}, but its pieces of {piece} balance worse than those of {smaller}"
        )
    } else {
        let (large, small) = (words::bytes(other.wide.memory), words::bytes(chosen.wide.memory));
        format!(
            "{what} takes {theirs} in all instead of {ours}, but {large} of every holder's memory instead of {small}"
        )
    };
    Some(Alternative { scheme: other.shape.scheme(), cost_s: other.total, why_not })
}

/// Why no table is confined to a host.
fn hierarchical(prices: &Prices) -> Vec<Refused> {
    let (hosts, per_host) = (prices.request.topology.hosts(), prices.request.topology.ranks_per_host());
    if hosts == 1 || per_host == 1 {
        return Vec::new();
    }
    let of = |scheme, like: &str| Refused {
        scheme,
        why: format!(
            "{like} over {per_host} ranks sends as much and may use any ranks, not only those of one host"
        ),
    };
    vec![of(Scheme::HierarchicalRows, "row-wise"), of(Scheme::HierarchicalColumns, "column-wise")]
}
