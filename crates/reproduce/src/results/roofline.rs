//! Phases of a step against the limits of the machine: what `campanile bench roofline --json` recorded.

use super::{Sources, days, distinct, lines};
use crate::error::Result;
use pages::markdown::table;
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: &str = "roofline/records.jsonl";

/// A run of `campanile bench roofline`.
#[derive(Deserialize)]
struct Measured {
    time: String,
    version: String,
    cpu: Option<String>,
    preset: Option<String>,
    model: String,
    batch: u64,
    precision: String,
    threads: u64,
    rounds: u64,
    steps: u64,
    ms_per_step: f64,
    peaks: Peaks,
    phases: Vec<Phase>,
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Peaks {
    products: BTreeMap<String, Peak>,
    gather: Peak,
    update: Peak,
    stream: Peak,
}

#[derive(Deserialize)]
struct Peak {
    median: f64,
    best: f64,
}

#[derive(Deserialize)]
struct Phase {
    name: String,
    ms: f64,
    best_ms: f64,
    limit: String,
    /// Precision of products.
    precision: Option<String>,
    share: Option<f64>,
    /// Share of the weights in layers at least 256 wide.
    wide_share: Option<f64>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    share_of_step: f64,
}

/// Precisions in the order of tables.
const PRECISIONS: [&str; 3] = ["f32", "f32x3", "bf16"];
/// A phase has wide layers if this share of its weights is in layers at least 256 wide.
const WIDE: f64 = 0.9;
/// Share of the random-row bandwidth that lookup and update should reach.
const ROWS_TARGET: f64 = 0.8;

/// Share of the peak that products of wide layers should reach, and the most that everything but products and embeddings should take
/// of a step.
fn targets_of(precision: &str) -> (Option<f64>, Option<f64>) {
    match precision {
        "f32" => (Some(0.75), Some(0.12)),
        "bf16" => (Some(0.6), Some(0.2)),
        _ => (None, None),
    }
}

impl Measured {
    fn name(&self) -> String {
        let preset = self.preset.as_ref().map(|preset| format!("{preset} ")).unwrap_or_default();
        format!("{preset}{}, {}", self.model, self.batch)
    }

    fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// The lowest share of the peak that a phase of wide layers reaches; `of` gives that of a phase.
    fn wide_products(&self, of: impl Fn(&Phase) -> Option<f64>) -> Option<f64> {
        let wide =
            |phase: &&Phase| phase.limit == "products" && phase.wide_share.is_some_and(|share| share >= WIDE);
        self.phases.iter().filter(wide).filter_map(of).min_by(f64::total_cmp)
    }

    /// Share of a phase's products in the best step, of the best peak.
    fn best_share(&self, phase: &Phase) -> Option<f64> {
        let peak = self.peaks.products.get(phase.precision.as_ref()?)?;
        Some(phase.share? * (phase.ms / phase.best_ms) * (peak.median / peak.best))
    }

    fn rest(&self) -> Option<f64> {
        self.groups.iter().find(|group| group.name == "rest").map(|group| group.share_of_step)
    }
}

/// The last record of each model, batch and precision, in the order of models and of [`PRECISIONS`].
fn last(sources: &Sources) -> Result<Vec<Measured>> {
    let mut kept: Vec<Measured> = Vec::new();
    let records: Vec<Measured> = lines(&sources.reports.join(FILE))?;
    for record in records {
        kept.retain(|other| (other.name(), &other.precision) != (record.name(), &record.precision));
        kept.push(record);
    }
    let place = |of: &Measured| PRECISIONS.iter().position(|precision| *precision == of.precision);
    kept.sort_by_key(|of| (of.preset.clone(), of.model != "dlrm", of.batch, place(of).unwrap_or(usize::MAX)));
    Ok(kept)
}

/// Percent, with whether a target of at least, or of at most, is met.
fn judged(share: Option<f64>, target: Option<f64>, at_most: bool) -> String {
    let Some(share) = share else { return String::new() };
    let Some(target) = target else { return format!("{:.0} %", 100.0 * share) };
    let met = if at_most { share < target } else { share >= target };
    format!("{:.0} % ({:.0}: {})", 100.0 * share, 100.0 * target, if met { "met" } else { "missed" })
}

fn giga(peak: f64) -> String {
    format!("{:.0}", peak / 1e9)
}

/// What of each step should be near a limit, and what should be small.
pub fn targets(sources: &Sources) -> Result<String> {
    let records = last(sources)?;
    let rows: Vec<Vec<String>> = records
        .iter()
        .map(|record| {
            let (products, rest) = targets_of(&record.precision);
            // In place on the only rank, unless a run keeps phases apart.
            let share = |name: &str| {
                let in_place = record.phase(&format!("{name} in place"));
                in_place.or_else(|| record.phase(name)).and_then(|phase| phase.share)
            };
            let Peaks { products: peaks, gather, update, stream } = &record.peaks;
            let peaks: Vec<String> = peaks.values().map(|peak| giga(peak.median)).collect();
            vec![
                record.name(),
                record.precision.clone(),
                format!("{:.1}", record.ms_per_step),
                judged(record.wide_products(|phase| phase.share), products, false),
                judged(record.wide_products(|phase| record.best_share(phase)), products, false),
                judged(share("lookup"), Some(ROWS_TARGET), false),
                judged(share("update tables"), Some(ROWS_TARGET), false),
                judged(record.rest(), rest, true),
                peaks.join(", "),
                [gather, update, stream].map(|peak| giga(peak.median)).join(", "),
            ]
        })
        .collect();
    let head = [
        "model, batch",
        "precision",
        "ms a step",
        "products of wide layers, lowest phase",
        "by the best step and the best peak",
        "lookup",
        "update of tables",
        "neither product nor embedding, of the step",
        "peak of products, GFLOP/s",
        "random rows read, changed, stream: GB/s",
    ];
    Ok(format!("{}\n{}", table(2, &head, &rows), source(&records)))
}

/// Times of all phases, with the share of the limit of each.
pub fn phases(sources: &Sources) -> Result<String> {
    let records = last(sources)?;
    let mut names: Vec<String> = records.iter().map(Measured::name).collect();
    names.dedup();
    let mut text = String::new();
    for name in names {
        let of: Vec<&Measured> = records.iter().filter(|record| record.name() == name).collect();
        let mut head = vec![format!("{name}: phase"), "limit".into()];
        head.extend(of.iter().flat_map(|record| {
            [format!("{}, ms", record.precision), format!("{}, share of limit", record.precision)]
        }));
        let Some(first) = of.first() else { continue };
        let rows: Vec<Vec<String>> = first.phases.iter().map(|phase| row(phase, &of)).collect();
        // What nowhere takes a hundredth of a millisecond is left out.
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .filter(|row| row[2..].iter().step_by(2).any(|ms| ms.parse::<f64>().is_ok_and(|ms| ms >= 0.01)))
            .collect();
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        text += &table(2, &head, &rows);
        text += "\n";
    }
    Ok(text + &source(&records))
}

fn row(phase: &Phase, of: &[&Measured]) -> Vec<String> {
    let mut row = vec![phase.name.clone(), phase.limit.clone()];
    for record in of {
        let mine = record.phase(&phase.name);
        row.push(mine.map_or(String::new(), |phase| format!("{:.2}", phase.ms)));
        let share = mine.and_then(|phase| phase.share);
        row.push(share.map_or(String::new(), |share| format!("{:.0} %", 100.0 * share)));
    }
    row
}

fn source(records: &[Measured]) -> String {
    let all = |of: fn(&Measured) -> String| {
        let texts: Vec<String> = records.iter().map(of).collect();
        distinct(texts.iter().map(String::as_str))
    };
    format!(
        "Medians over steps, in turns with the peaks ({} × {} rounds × steps), by `campanile bench roofline --json` on {}, version {}, {}, \
         {} threads. Records: `reports/{FILE}`.\n",
        all(|record| record.rounds.to_string()),
        all(|record| record.steps.to_string()),
        days(records.iter().map(|record| record.time.as_str())),
        all(|record| record.version.clone()),
        all(|record| record.cpu.clone().unwrap_or_else(|| "unknown processor".into())),
        all(|record| record.threads.to_string()),
    )
}

#[cfg(test)]
mod tests;
