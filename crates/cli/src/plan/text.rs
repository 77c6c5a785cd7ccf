//! A plan as text.

use super::by_load;
use crate::text::{bytes, columns, grouped, printable};
use campanile::plan::Planned;
use planning::planner::{Refused, TablePlan};
use spec::placement::Scheme;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Ranks that are all listed; of more, the most and the least loaded.
const RANKS: usize = 16;
/// Tables that are all listed; of more, the most expensive.
const TABLES: usize = 40;
/// Tables that are listed where not all are.
const SHOWN: usize = 12;
/// Width of the longest bar, in characters.
const BAR: f64 = 20.0;

/// The plan in tables: ranks, schemes, and every table with the reason of its scheme.
pub fn to_text(planned: &Planned) -> String {
    let plan = &planned.plan;
    let mut text = format!("Plan of {}\n", planned.described());
    let _ = writeln!(
        text,
        "found by {} in {:.2} s: {} on the slowest rank, {:.2} × the mean of all ranks and {:.3} × the lower bound",
        planned.search(),
        plan.planning_s,
        ms(plan.cost_s),
        plan.imbalance(),
        plan.bound_ratio()
    );
    ranks(&mut text, planned);
    schemes(&mut text, planned);
    tables(&mut text, planned);
    text
}

/// Seconds as milliseconds with three digits.
pub fn ms(seconds: f64) -> String {
    let ms = 1e3 * seconds;
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms if ms >= 10.0 => format!("{ms:.1} ms"),
        ms if ms >= 1.0 => format!("{ms:.2} ms"),
        ms => format!("{ms:.3} ms"),
    }
}

fn ranks(text: &mut String, planned: &Planned) {
    let loads = &planned.plan.ranks;
    let order = by_load(planned);
    let all = order.len() <= RANKS;
    let longest = loads.iter().map(|load| load.predicted_s).fold(f64::MIN_POSITIVE, f64::max);
    let mut rows = vec![["rank", "memory", "lookups", "sent", "predicted", ""].map(String::from).to_vec()];
    let mut row = |rank: usize| {
        let load = &loads[rank];
        rows.push(vec![
            rank.to_string(),
            bytes(load.memory_bytes),
            bytes(load.lookup_bytes),
            bytes(load.sent_bytes),
            ms(load.predicted_s),
            format!("{:20}", "▪".repeat((BAR * load.predicted_s / longest).round() as usize)),
        ]);
    };
    if all {
        (0..loads.len()).for_each(&mut row);
    } else {
        order[..RANKS / 2].iter().chain(&order[order.len() - RANKS / 4..]).for_each(|&rank| row(rank));
    }
    let title =
        if all { "Ranks, a step of each" } else { "The most and the least loaded ranks, a step of each" };
    let _ = write!(text, "\n{title}\n{}", columns(&rows));
    if !all {
        let memory = |least: bool| {
            let memory = loads.iter().map(|load| load.memory_bytes);
            bytes(if least { memory.min() } else { memory.max() }.unwrap_or(0))
        };
        let _ = writeln!(
            text,
            "  {} ranks with {} to {} each; all are in --json and --html",
            loads.len(),
            memory(true),
            memory(false)
        );
    }
}

fn schemes(text: &mut String, planned: &Planned) {
    let mut counts: BTreeMap<Scheme, usize> = BTreeMap::new();
    planned.plan.tables.iter().for_each(|table| *counts.entry(table.scheme).or_default() += 1);
    let counts = counts.iter().map(|(scheme, tables)| format!("{tables} {scheme}"));
    let _ = writeln!(text, "\nSchemes: {}", counts.collect::<Vec<_>>().join(", "));
    for refused in refused_for_all(planned) {
        let _ = writeln!(text, "  refused for all tables: {}: {}", refused.scheme, printable(&refused.why));
    }
}

/// Schemes that every table was refused for the same reason, where there are several tables.
fn refused_for_all(planned: &Planned) -> Vec<&Refused> {
    match &planned.plan.tables[..] {
        [first, others @ ..] if !others.is_empty() => first
            .refused
            .iter()
            .filter(|refused| others.iter().all(|table| table.refused.contains(refused)))
            .collect(),
        _ => Vec::new(),
    }
}

fn tables(text: &mut String, planned: &Planned) {
    let mut tables: Vec<&TablePlan> = planned.plan.tables.iter().collect();
    let all = tables.len() <= TABLES;
    if !all {
        tables.sort_by(|a, b| b.cost_s.total_cmp(&a.cost_s));
        tables.truncate(SHOWN);
    }
    let title = if all { "Tables".into() } else { format!("The {SHOWN} most expensive tables") };
    let _ = writeln!(text, "\n{title}");
    let known = refused_for_all(planned);
    for table in tables {
        entry(text, planned, table, &known);
    }
    if !all {
        let others = planned.plan.tables.len() - SHOWN;
        let _ = writeln!(text, "  {others} other tables are in --json and --html");
    }
}

/// A table in a few lines: its size and scheme, why that won, what came second, and what was refused besides what is `known`.
fn entry(text: &mut String, planned: &Planned, table: &TablePlan, known: &[&Refused]) {
    let (name, rows, dim) = planned.table(table.feature);
    let pieces = if table.shards == 1 { String::new() } else { format!(", {} shards", table.shards) };
    let _ = writeln!(
        text,
        "  {}  {} rows × {dim}: {}{pieces} on {}, {}",
        printable(name),
        grouped(rows as u64),
        table.scheme,
        ranks_in_words(&planned.ranks_of(table.feature)),
        ms(table.cost_s)
    );
    let _ = writeln!(text, "      {}", printable(&table.reason));
    if let Some(second) = &table.second {
        let _ = writeln!(
            text,
            "      second: {}, {}: {}",
            second.scheme,
            ms(second.cost_s),
            printable(&second.why_not)
        );
    }
    for refused in table.refused.iter().filter(|refused| !known.contains(refused)) {
        let _ = writeln!(text, "      refused: {}: {}", refused.scheme, printable(&refused.why));
    }
}

/// Ranks in words, as `rank 3`, `ranks 0–7` or `ranks 0, 4 and 6 others`.
pub fn ranks_in_words(ranks: &[usize]) -> String {
    match ranks {
        [] => "no rank".into(),
        [rank] => format!("rank {rank}"),
        [first, .., last] if last - first + 1 == ranks.len() => format!("ranks {first}–{last}"),
        [some @ ..] if some.len() <= 8 => {
            let some: Vec<String> = some.iter().map(ToString::to_string).collect();
            format!("ranks {}", some.join(", "))
        }
        [a, b, c, others @ ..] => format!("ranks {a}, {b}, {c} and {} others", others.len()),
        _ => format!("{} ranks", ranks.len()),
    }
}
