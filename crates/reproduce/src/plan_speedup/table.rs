//! Both placements side by side.

use super::{Case, JobResult, RankTimes, Setting, WAYS, Way, World};
use crate::error::Result;
use campanile::file::read_json;
use pages::text::{bytes, columns, median};
use serde_json::{Value, json};
use std::path::Path;

/// Medians of the jobs of a case, and what its ranks compute.
pub struct Row {
    case: Case,
    jobs: usize,
    step_s: f64,
    network_bytes: u64,
    ranks: RankTimes,
}

/// Whether a computation goes by the tables of a rank.
pub fn is_of_tables(phase: &str) -> bool {
    ["lookup", "update tables", "index ids", "sort ids", "find rows", "sum rows", "update copies"]
        .iter()
        .any(|name| phase.starts_with(name))
}

/// Rows of all cases with results.
pub fn rows(records: &[JobResult], folder: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for world in [World::InProcess, World::Cluster] {
        for way in WAYS {
            let case = Case { world, way };
            let of: Vec<&JobResult> = records.iter().filter(|record| record.case == case).collect();
            let Some(first) = of.first() else { continue };
            let mut steps: Vec<f64> = of.iter().map(|record| record.step_s).collect();
            rows.push(Row {
                case,
                jobs: of.len(),
                step_s: median(&mut steps),
                network_bytes: first.network_bytes,
                ranks: read_json(&folder.join(format!("ranks-{}.json", case.name())))?,
            });
        }
    }
    Ok(rows)
}

/// How many times faster the plan is in the same world.
fn speedup(rows: &[Row], row: &Row) -> Option<f64> {
    let base = rows.iter().find(|other| other.case == Case { way: Way::RoundRobin, ..row.case })?;
    Some(base.step_s / row.step_s)
}

/// Correlation of predicted and measured times of the ranks of a world, over both placements.
fn correlation(rows: &[Row], world: World) -> Option<f64> {
    let of_world = || rows.iter().filter(|row| row.case.world == world);
    let pairs: Vec<(f64, f64)> = of_world()
        .flat_map(|row| row.ranks.predicted_s.iter().copied().zip(row.ranks.measured_s.iter().copied()))
        .collect();
    pearson(&pairs)
}

/// Pearson's r; `None` for fewer than three pairs, or where one side does not vary.
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|pair| of(pair.0 - x, pair.1 - y)).sum::<f64>();
    let (xx, yy, xy) = (sum(&|a, _| a * a), sum(&|_, b| b * b), sum(&|a, b| a * b));
    (pairs.len() > 2 && xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

fn imbalance(seconds: &[f64]) -> f64 {
    let largest = seconds.iter().copied().fold(0.0, f64::max);
    largest * seconds.len() as f64 / seconds.iter().sum::<f64>()
}

pub fn to_text(rows: &[Row], setting: &Setting) -> String {
    let head = [
        "world",
        "placement",
        "jobs",
        "ms a step",
        "speedup",
        "imbalance",
        "predicted",
        "between hosts",
        "schemes",
    ];
    let mut lines = vec![head.map(String::from).to_vec()];
    for row in rows {
        let (hosts, ranks) = setting.topology(row.case.world);
        let world = match row.case.world {
            World::InProcess => format!("{hosts} × {ranks}, in process"),
            World::Cluster => format!("{hosts} × {ranks}, paced, {} Mbit/s", setting.rate),
        };
        let schemes = row.ranks.schemes.iter().map(|(name, count)| format!("{count} {name}"));
        lines.push(vec![
            world,
            if row.case.way == Way::Plan { "plan" } else { "round robin" }.into(),
            row.jobs.to_string(),
            format!("{:.2}", 1e3 * row.step_s),
            speedup(rows, row).map_or("–".into(), |speedup| format!("{speedup:.2} ×")),
            format!("{:.2}", imbalance(&row.ranks.measured_s)),
            format!("{:.2}", imbalance(&row.ranks.predicted_s)),
            bytes(row.network_bytes),
            schemes.collect::<Vec<_>>().join(", "),
        ]);
    }
    let mut text = format!(
        "A model whose sizes and bags follow power laws: {} samples a rank, {} steps a job. Imbalance: the largest over the mean\n\
         of what ranks compute for their tables, measured alone; and as predicted.\n\n{}\n",
        setting.local_batch,
        setting.steps,
        columns(&lines)
    );
    for (world, name) in [(World::InProcess, "in process"), (World::Cluster, "on the cluster")] {
        if let Some(r) = correlation(rows, world) {
            text += &format!(
                "Predicted and measured seconds of the ranks {name}, over both placements: r = {r:.3}\n"
            );
        }
    }
    text
}

pub fn to_json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({
            "world": row.case.world,
            "placement": row.case.way,
            "jobs": row.jobs,
            "step_ms": 1e3 * row.step_s,
            "speedup": speedup(rows, row),
            "imbalance": imbalance(&row.ranks.measured_s),
            "predicted_imbalance": imbalance(&row.ranks.predicted_s),
            "network_bytes": row.network_bytes,
            "ranks": row.ranks,
        })
    };
    json!({
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "correlation_in_process": correlation(rows, World::InProcess),
        "correlation_on_cluster": correlation(rows, World::Cluster),
    })
}
