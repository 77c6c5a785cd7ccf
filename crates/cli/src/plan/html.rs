//! A plan as a page.

use super::by_load;
use super::text::{ms, ranks_in_words};
use crate::text::{bytes, grouped};
use campanile::plan::Planned;
use pages::picture::{Bars, Page, Picture, Series, Table};
use planning::planner::{RankLoad, TablePlan};

/// Ranks that are drawn; of more, the most loaded ones.
const DRAWN: usize = 256;

/// A page with bars of every rank, and tables of ranks and tables.
pub fn page(planned: &Planned) -> Page {
    let plan = &planned.plan;
    let mut drawn = by_load(planned);
    let all = drawn.len() <= DRAWN;
    drawn.truncate(DRAWN);
    drawn.sort_unstable();
    let bars = |caption: &str, unit: &str, value: &dyn Fn(&RankLoad) -> f64| {
        let some =
            if all { String::new() } else { format!(", the {DRAWN} slowest of {} ranks", plan.ranks.len()) };
        Picture::Bars(Bars {
            caption: format!("{caption}{some}"),
            unit: unit.into(),
            groups: drawn.iter().map(ToString::to_string).collect(),
            series: vec![Series {
                name: caption.into(),
                values: drawn.iter().map(|&rank| Some(value(&plan.ranks[rank]))).collect(),
                reference: Vec::new(),
            }],
        })
    };
    let subtitle = format!(
        "found by {} in {:.2} s: {} on the slowest rank, {:.2} × the mean and {:.3} × the lower bound",
        planned.search(),
        plan.planning_s,
        ms(plan.cost_s),
        plan.imbalance(),
        plan.bound_ratio()
    );
    let pictures = vec![
        bars("Predicted time of a rank", "ms a step", &|load| 1e3 * load.predicted_s),
        bars("Memory of a rank", "GB", &|load| load.memory_bytes as f64 / 1e9),
        bars("Lookups of a rank", "MB a step", &|load| load.lookup_bytes as f64 / 1e6),
        bars("Sent by a rank", "MB a step", &|load| load.sent_bytes as f64 / 1e6),
        Picture::Table(tables(planned)),
        Picture::Table(ranks(planned)),
    ];
    Page { title: format!("Plan of {}", planned.described()), subtitle, pictures }
}

fn tables(planned: &Planned) -> Table {
    let head = ["table", "rows", "dim", "scheme", "shards", "ranks", "cost", "why", "second", "refused"];
    let row = |table: &TablePlan| {
        let (name, rows, dim) = planned.table(table.feature);
        let second = table.second.as_ref();
        let second =
            second.map(|second| format!("{}, {}: {}", second.scheme, ms(second.cost_s), second.why_not));
        let refused = table.refused.iter().map(|refused| format!("{}: {}", refused.scheme, refused.why));
        vec![
            name.into(),
            grouped(rows as u64),
            dim.to_string(),
            table.scheme.to_string(),
            table.shards.to_string(),
            ranks_in_words(&planned.ranks_of(table.feature)),
            ms(table.cost_s),
            table.reason.clone(),
            second.unwrap_or_default(),
            refused.collect::<Vec<_>>().join("; "),
        ]
    };
    Table {
        caption: "Tables".into(),
        head: head.map(String::from).to_vec(),
        rows: planned.plan.tables.iter().map(row).collect(),
    }
}

fn ranks(planned: &Planned) -> Table {
    let head = ["rank", "memory", "lookups", "sent", "predicted"];
    let row = |(rank, load): (usize, &RankLoad)| {
        vec![
            rank.to_string(),
            bytes(load.memory_bytes),
            bytes(load.lookup_bytes),
            bytes(load.sent_bytes),
            ms(load.predicted_s),
        ]
    };
    Table {
        caption: "Ranks".into(),
        head: head.map(String::from).to_vec(),
        rows: planned.plan.ranks.iter().enumerate().map(row).collect(),
    }
}
