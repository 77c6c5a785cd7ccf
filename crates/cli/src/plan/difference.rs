//! `campanile plan --diff A B`: what changes from one plan to another.

use super::text::ranks_in_words;
use crate::text::{bytes, columns, printable};
use anyhow::{Context, Result};
use campanile::file::read_plan;
use campanile::plan::difference_to_json;
use spec::plan::{PlanDifference, PlanFile, RankDifference, TablePlace};
use std::fmt::Write;
use std::path::Path;

/// Changes that are listed; more are counted.
const LISTED: usize = 40;

/// Compares two plan files, and prints the result.
pub fn run(before: &Path, after: &Path, json: bool) -> Result<()> {
    let (one, other) = (read_plan(before)?, read_plan(after)?);
    let difference = one
        .difference(&other)
        .with_context(|| format!("{} or {} is no plan", before.display(), after.display()))?;
    match json {
        true => println!("{}", difference_to_json(&one, &other, &difference)),
        false => print!("{}", to_text(&one, &other, &difference)),
    }
    Ok(())
}

fn to_text(before: &PlanFile, after: &PlanFile, difference: &PlanDifference) -> String {
    let world = |plan: &PlanFile| {
        let groups =
            plan.hosts_per_tower.map_or("flat".into(), |hosts| format!("sptt, {hosts} hosts per tower"));
        format!("{} tables on {} × {} ranks, {groups}", plan.tables.len(), plan.hosts, plan.ranks_per_host)
    };
    let mut text = format!("A: {}\nB: {}\n", world(before), world(after));
    let (changed, same) = (difference.tables.len(), difference.unchanged);
    let _ = writeln!(text, "{changed} tables change, {same} do not");
    let place = |place: &Option<TablePlace>| {
        place.as_ref().map_or("not there".to_owned(), |place| {
            format!("{} on {}", place.scheme, ranks_in_words(&place.ranks))
        })
    };
    if changed > 0 {
        let mut rows = vec![["table", "A", "B"].map(String::from).to_vec()];
        for table in difference.tables.iter().take(LISTED) {
            rows.push(vec![printable(&table.name).into_owned(), place(&table.before), place(&table.after)]);
        }
        let _ = write!(text, "\nTables\n{}", columns(&rows));
        if changed > LISTED {
            let _ = writeln!(text, "  {} others are in --json", changed - LISTED);
        }
    }
    let what = if difference.counted { "Memory by rank, as planned" } else { "Weights by rank, in f32" };
    let mut ranks: Vec<&RankDifference> = difference.ranks.iter().collect();
    let all = ranks.len();
    ranks.sort_by_key(|rank| std::cmp::Reverse(change(rank).unsigned_abs()));
    ranks.truncate(LISTED);
    ranks.sort_by_key(|rank| rank.rank);
    let mut rows = vec![["rank", "A", "B", "change"].map(String::from).to_vec()];
    for rank in ranks {
        let shown = |value: Option<u64>| value.map_or("none".into(), bytes);
        let sign = if change(rank) < 0 { "−" } else { "+" };
        let by = u64::try_from(change(rank).unsigned_abs()).unwrap_or(u64::MAX);
        rows.push(vec![
            rank.rank.to_string(),
            shown(rank.before_bytes),
            shown(rank.after_bytes),
            if by == 0 { "same".into() } else { format!("{sign}{}", bytes(by)) },
        ]);
    }
    let _ = write!(text, "\n{what}\n{}", columns(&rows));
    if all > LISTED {
        let _ = writeln!(text, "  of {all} ranks those that change most; all are in --json");
    }
    text
}

/// Bytes that a rank has more in the second plan.
fn change(rank: &RankDifference) -> i128 {
    i128::from(rank.after_bytes.unwrap_or(0)) - i128::from(rank.before_bytes.unwrap_or(0))
}
