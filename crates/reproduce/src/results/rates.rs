//! Speed of this machine: tables, data, and simulations.

use super::{Sources, lines};
use crate::error::Result;
use pages::markdown::table;
use pages::text::{grouped, median};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A run of `campanile bench embedding`.
#[derive(Deserialize)]
struct Embedding {
    memory_gbs: f64,
    lookup_gbs: f64,
    update_gbs: f64,
    update_without_sort_gbs: f64,
    dim: u64,
    rows: u64,
    tables: u64,
    threads: u64,
}

/// A run of `campanile bench data`.
#[derive(Deserialize)]
struct Data {
    samples: f64,
    parse_mbs_per_core: f64,
    prepare_mbs: f64,
    prepare_threads: u64,
    fill_samples_per_s: f64,
    fill_shuffled_samples_per_s: f64,
    rounds: u64,
}

/// Share of the streaming bandwidth that lookups and updates should reach.
const SHARE_TARGET: f64 = 0.7;
/// Megabytes of text that one core should parse in a second.
const PARSE_TARGET: f64 = 200.0;

/// Tables far beyond the caches, and reading of logs.
pub fn tables_and_data(sources: &Sources) -> Result<String> {
    let runs: Vec<Embedding> = lines(&sources.reports.join("bench-embedding.jsonl"))?;
    let middle = |value: fn(&Embedding) -> f64| median(&mut runs.iter().map(value).collect::<Vec<_>>());
    let streaming = middle(|run| run.memory_gbs);
    let row = |name: &str, gbs: f64, target: bool| {
        let share = gbs / streaming;
        let verdict = if share >= SHARE_TARGET { "met" } else { "missed" };
        let target = if target { format!("{:.0} %: {verdict}", 100.0 * SHARE_TARGET) } else { String::new() };
        vec![name.to_owned(), format!("{gbs:.1}"), format!("{:.0} %", 100.0 * share), target]
    };
    let rows = [
        row("streaming read", streaming, false),
        row("lookup", middle(|run| run.lookup_gbs), true),
        row("sort and update (SGD)", middle(|run| run.update_gbs), true),
        row("update alone", middle(|run| run.update_without_sort_gbs), false),
    ];
    let logs: Vec<Data> = lines(&sources.reports.join("bench-data.jsonl"))?;
    let of_log = |log: &Data| {
        let verdict = if log.parse_mbs_per_core >= PARSE_TARGET { "met" } else { "missed" };
        vec![
            format!("{} samples", grouped(log.samples as u64)),
            format!("{:.0} ({PARSE_TARGET}: {verdict})", log.parse_mbs_per_core),
            format!("{:.0} ({} threads)", log.prepare_mbs, log.prepare_threads),
            format!("{:.1} M", log.fill_samples_per_s / 1e6),
            format!("{:.1} M", log.fill_shuffled_samples_per_s / 1e6),
        ]
    };
    let read: Vec<Vec<String>> = logs.iter().map(of_log).collect();
    let size = runs[0].tables * runs[0].rows * runs[0].dim * 4;
    let head = [
        "log",
        "parsed by one core, MB/s (target)",
        "prepared, MB/s",
        "filled in order, samples/s",
        "shuffled",
    ];
    Ok(format!(
        "{}\n{} tables of {} floats a row, {:.1} GB in all, {} threads; medians of {} runs of `campanile bench embedding --json`. \
         Records: `reports/bench-embedding.jsonl`, which name no day and no commit.\n\n{}\nMedians of {} rounds of `campanile bench \
         data --json`, without and with `--data`. Records: `reports/bench-data.jsonl`, which name no day and no commit.\n",
        table(1, &["operation", "GB/s", "of streaming", "target"], &rows),
        runs[0].tables,
        runs[0].dim,
        size as f64 / 1e9,
        runs[0].threads,
        runs.len(),
        table(1, &head, &read),
        logs[0].rounds,
    ))
}

/// A run of `campanile bench embedding`, of many that `scripts/bench-embedding` makes.
#[derive(Deserialize)]
struct Sized {
    date: String,
    commit: String,
    cpu: String,
    rounds: u64,
    dim: u64,
    hotness: u64,
    zipf: f64,
    threads: u64,
    lookup_of_gather: f64,
    update_of_read_modify_write: f64,
}

/// Share of the bandwidth of random rows that lookups and updates should reach.
const ROWS_TARGET: f64 = 0.8;

/// Lookups and updates of rows of all sizes, beside bare loops over random rows of the same size.
pub fn rows_of_every_size(sources: &Sources) -> Result<String> {
    let mut runs: Vec<Sized> = lines(&sources.reports.join("embedding-sizes.jsonl"))?;
    let date = runs[runs.len() - 1].date.clone();
    runs.retain(|run| run.date == date);
    // Columns and rows in the order in which they were measured.
    let (mut kinds, mut dims): (Vec<(u64, f64, u64)>, Vec<u64>) = (Vec::new(), Vec::new());
    for run in &runs {
        let kind = (run.hotness, run.zipf, run.threads);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
        if !dims.contains(&run.dim) {
            dims.push(run.dim);
        }
    }
    kinds.sort_by_key(|&(_, _, threads)| threads);
    let percent = |share: f64| format!("{:.0}", 100.0 * share);
    let cell = |dim: u64, kind: (u64, f64, u64)| {
        let of_kind = |run: &&Sized| run.dim == dim && (run.hotness, run.zipf, run.threads) == kind;
        runs.iter().find(of_kind).map_or_else(String::new, |run| {
            format!("{} / {}", percent(run.lookup_of_gather), percent(run.update_of_read_modify_write))
        })
    };
    let of_dim = |&dim: &u64| {
        std::iter::once(dim.to_string()).chain(kinds.iter().map(|&kind| cell(dim, kind))).collect()
    };
    let rows: Vec<Vec<String>> = dims.iter().map(of_dim).collect();
    let heads = kinds.iter().map(|(hotness, zipf, threads)| {
        let ids = if *hotness == 1 { "single ids".to_owned() } else { format!("bags of {hotness}") };
        let law = if *zipf == 0.0 { "uniform".to_owned() } else { format!("zipf {zipf}") };
        format!("{ids}, {law}, {threads} thread{}", if *threads == 1 { "" } else { "s" })
    });
    let heads: Vec<String> = std::iter::once("floats of a row".to_owned()).chain(heads).collect();
    let met = |of: fn(&Sized) -> f64| runs.iter().filter(|run| of(run) >= ROWS_TARGET).count();
    let run = &runs[0];
    Ok(format!(
        "{}\nPercent of what bare loops over random rows of the same size reach in turns with them: lookup / sort and update. {:.0} % or more: \
         {} of {} lookups, {} of {} updates. Medians of {} rounds, by `scripts/bench-embedding` on {}, commit {}, {}. Records: \
         `reports/embedding-sizes.jsonl`.\n",
        table(1, &heads.iter().map(String::as_str).collect::<Vec<_>>(), &rows),
        100.0 * ROWS_TARGET,
        met(|run| run.lookup_of_gather),
        runs.len(),
        met(|run| run.update_of_read_modify_write),
        runs.len(),
        run.rounds,
        &date[..date.len().min(10)],
        run.commit,
        run.cpu,
    ))
}

/// A run of `campanile bench explore`.
#[derive(Deserialize)]
struct Explored {
    evaluations_per_s: BTreeMap<String, f64>,
    points: u64,
    rounds: u64,
}

/// Strategies that should be simulated in a second on one core.
const EXPLORED_TARGET: f64 = 20e3;

/// Simulations a second on one core.
pub fn exploration(sources: &Sources) -> Result<String> {
    let runs: Vec<Explored> = lines(&sources.reports.join("bench-explore.json"))?;
    let run = &runs[runs.len() - 1];
    let row = |(cost, rate): (&String, &f64)| {
        let verdict = if *rate >= EXPLORED_TARGET { "met" } else { "missed" };
        vec![
            format!("`{cost}`"),
            grouped(rate.round() as u64),
            format!("{}: {verdict}", grouped(EXPLORED_TARGET as u64)),
        ]
    };
    let rows: Vec<Vec<String>> = run.evaluations_per_s.iter().map(row).collect();
    Ok(format!(
        "{}\nMedians of {} rounds of {} strategies of DLRM-A on 128 GPUs, each a whole simulation, by `campanile bench explore \
         --json` on one core. Records: `reports/bench-explore.json`, which name no day and no commit.\n",
        table(1, &["cost model", "strategies a second", "target"], &rows),
        run.rounds,
        grouped(run.points),
    ))
}
