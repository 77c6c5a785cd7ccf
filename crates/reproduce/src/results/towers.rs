//! Whether the tower partitioner finds groups, what its towers are worth, and what it takes.

use super::{Sources, lines};
use crate::error::Result;
use crate::{dmt_table6, planted_groups};
use pages::markdown::table;
use serde::Deserialize;

/// Towers against planted groups, from the records of `reproduce planted-groups`.
pub fn planted(sources: &Sources, folder: &str) -> Result<String> {
    let path = sources.reports.join("partitioner").join(folder);
    let report = planted_groups::recorded(&path)?;
    Ok(format!(
        "```text\n{}```\n\nMeasured by `campanile reproduce planted-groups`; `campanile reproduce planted-groups --out \
         reports/partitioner/{folder} --table` prints it again. The records name no day and no commit.\n",
        report.text
    ))
}

/// Towers of the partitioner against strided ones, from the records of `reproduce dmt-table6`.
pub fn table6(sources: &Sources, folder: &str) -> Result<String> {
    let report = dmt_table6::report(&sources.reports.join("partitioner").join(folder))?;
    Ok(format!(
        "```text\n{}```\n\nMeasured by `campanile reproduce dmt-table6`; `campanile reproduce dmt-table6 --out \
         reports/partitioner/{folder} --table` prints it again. The records name no day; their first line has all settings.\n",
        report.text
    ))
}

/// A case of `campanile bench partition`.
#[derive(Deserialize)]
struct Timed {
    features: usize,
    towers: usize,
    strategy: String,
    balance: String,
    ratio: f64,
    seconds: f64,
    limit_seconds: f64,
    deterministic: bool,
}

/// Time that divisions take, against its targets.
pub fn times(sources: &Sources) -> Result<String> {
    let cases: Vec<Vec<Timed>> = lines(&sources.reports.join("bench-partition.json"))?;
    let row = |case: &Timed| {
        vec![
            format!("{} features into {} towers", case.features, case.towers),
            format!("{} by {}", case.strategy, case.balance),
            format!("{}", case.ratio),
            format!("{:.2}", case.seconds),
            format!(
                "{}: {}",
                case.limit_seconds,
                if case.seconds <= case.limit_seconds { "met" } else { "missed" }
            ),
            if case.deterministic { "same" } else { "**differs**" }.into(),
        ]
    };
    let rows: Vec<Vec<String>> = cases.iter().flatten().map(row).collect();
    let head = ["task", "strategy", "ratio", "seconds", "target, s", "result when repeated"];
    Ok(format!(
        "{}\nMeasured by `campanile bench partition --json` on one core. Records: `reports/bench-partition.json`, which names no \
         day and no commit.\n",
        table(2, &head, &rows)
    ))
}
