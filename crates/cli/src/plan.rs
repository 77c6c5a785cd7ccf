//! `campanile plan`: which ranks hold which rows and columns of each table, and why.

mod difference;
mod html;
mod text;

use crate::Answer;
use crate::args::RunArgs;
use crate::logs::parse_bytes;
use crate::output::{Force, Inputs, Output};
use crate::progress::Console;
use crate::simulate::read;
use anyhow::{Context, Result, anyhow, bail, ensure};
use campanile::file::read_json;
use campanile::plan::{Planned, Planning, unfit_to_json};
use planning::cost::CostKind;
use planning::planner::{MemoryLimit, Search, Unfit, Weights};
use planning::system::System;
use spec::statistics::LogStatistics;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
#[command(mut_arg("plan", |arg| arg.hide(true)))]
#[command(after_help = "Examples:
  The tables of a run on 4 hosts × 8 ranks with 40 GiB each; the plan as a file, and a run that follows it
    campanile plan run.toml --hosts 4 --ranks-per-host 8 --memory-per-rank 40GiB --out plan.json
    campanile train run.toml --hosts 4 --ranks-per-host 8 --plan plan.json
  For hardware by name, with the counts of a real log
    campanile data inspect --data shop.csv --stats shop.json
    campanile plan mine/run.toml --system h100:16 --stats shop.json --html plan.html
  What changes from one plan to another
    campanile plan --diff plan.json other.json

When nothing fits, the command says what is too big, by how much, and what would make it fit; its exit code is 1. Systems
and cost models are those of `campanile simulate`.")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Memory of every rank, as 40GiB [default: that of a device of --system; without one, no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Plan")]
    memory_per_rank: Option<u64>,
    /// Share of the memory that is kept free, for what the plan does not count [default: 0.1]
    #[arg(long, value_name = "SHARE", help_heading = "Plan")]
    reserve: Option<f64>,
    /// Statistics of a log that `campanile data inspect --stats` wrote: numbers of ids and their skew [default: as the features of
    /// the model say, every row equally often]
    #[arg(long, value_name = "FILE", help_heading = "Plan")]
    stats: Option<PathBuf>,
    /// How tables are given to ranks: greedy (the largest first), differencing (largest differencing, Karmarkar and Karp), or best
    /// (both, and an exchange of pieces that approaches the lower bound) [default: best]
    #[arg(long, value_name = "HOW", help_heading = "Plan")]
    search: Option<Search>,
    /// System that prices the plan: a name or a system file, as of `campanile simulate`; its size is that of the run where --hosts
    /// or --ranks-per-host is given [default: cpu, ranks of a few cores each on servers with 10 Gb/s]
    #[arg(long, value_name = "NAME|FILE", help_heading = "Plan")]
    system: Option<String>,
    /// Cost model: madmax, roofline or hierarchical [default: hierarchical]
    #[arg(long, value_name = "MODEL", help_heading = "Plan")]
    cost: Option<CostKind>,
    /// Weights of a plan's costs, as communication=1,computation=1,imbalance=1 (Neo, section 4.1); those left out are 1
    #[arg(long, value_name = "WHAT=WEIGHT,…", value_parser = weights, help_heading = "Plan")]
    weights: Option<Weights>,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write bars of every rank and a table of every table as a page that opens in any browser
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Write the plan as a file for `campanile train --plan`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Compare two plan files instead: tables that changed scheme or ranks, and memory by rank
    #[arg(long, value_names = ["A", "B"], num_args = 2, help_heading = "Output")]
    #[arg(conflicts_with_all = ["out", "html", "stats", "system", "memory_per_rank", "search"])]
    diff: Option<Vec<PathBuf>>,
    #[command(flatten, next_help_heading = "Output")]
    force: Force,
}

/// The plan as JSON and as a page, and as a file where one is named.
pub fn answer(args: &Args) -> Result<Answer> {
    let (planning, inputs) = asked(args)?;
    let out = Output::check_if_any(args.out.as_deref(), args.force.force, &inputs)?;
    let planned = planning.plan().map_err(|unfit| anyhow!("{unfit}"))?;
    if let Some(out) = &out {
        out.write((serde_json::to_string_pretty(&planned.file())? + "\n").as_bytes())?;
    }
    Ok(Answer { json: planned.to_json(), html: html::page(&planned).to_html() })
}

pub fn run(args: Args, console: Console) -> Result<()> {
    if let Some([before, after]) = args.diff.as_deref() {
        return difference::run(before, after, args.json);
    }
    ensure!(
        args.run.plan.is_none(),
        "--plan: `campanile plan` makes a plan; leave --plan out, or compare two plans with --diff A B"
    );
    let (planning, inputs) = asked(&args)?;
    let out = Output::check_if_any(args.out.as_deref(), args.force.force, &inputs)?;
    let html = Output::check_if_any(args.html.as_deref(), args.force.force, &inputs)?;
    Output::distinct(out.iter().chain(&html))?;
    let tables = planning.run().model.features().len();
    let waiting = console.waiting(format!("planning {tables} tables"));
    let began = Instant::now();
    let planned = planning.plan();
    drop(waiting);
    let planned = planned.map_err(|unfit| does_not_fit(&unfit, &args, began.elapsed().as_secs_f64()))?;
    if let Some(out) = &out {
        out.write((serde_json::to_string_pretty(&planned.file())? + "\n").as_bytes())?;
    }
    if let Some(html) = &html {
        html.write(html::page(&planned).to_html().as_bytes())?;
    }
    if args.json {
        println!("{}", planned.to_json());
        return Ok(());
    }
    print!("{}", text::to_text(&planned));
    for path in [&args.out, &args.html].into_iter().flatten() {
        println!("Written: {}", path.display());
    }
    Ok(())
}

/// Tells that nothing fits: in JSON where it was asked for, and in any case as the error of the command.
fn does_not_fit(unfit: &Unfit, args: &Args, seconds: f64) -> anyhow::Error {
    if args.json {
        println!("{}", unfit_to_json(unfit, seconds));
    }
    anyhow!("{unfit}")
}

/// The request that the flags describe, and the files that were read for it.
fn asked(args: &Args) -> Result<(Planning, Inputs)> {
    let mut config = args.run.config()?;
    config.placement = Default::default();
    let system = args.system.as_deref().map(read::system).transpose()?;
    if let Some(System { nodes, devices_per_node, .. }) = system {
        let topology = &mut config.topology;
        if topology.hosts.is_none() && topology.ranks_per_host.is_none() {
            (topology.hosts, topology.ranks_per_host) = (Some(nodes), Some(devices_per_node));
        }
    }
    let mut inputs = args.run.inputs(&config);
    inputs.add_all(&args.stats).add_all(&args.system);
    let run = planning::check(&config).with_context(|| args.run.described())?;
    let stats = args.stats.as_deref().map(read_json::<LogStatistics>).transpose()?;
    if let Some((stats, path)) = stats.as_ref().zip(args.stats.as_ref()) {
        let known = run.model.features().iter().any(|feature| stats.feature(&feature.name).is_some());
        ensure!(known, "{}: no feature of the model has statistics in this file", path.display());
    }
    let reserve = args.reserve.unwrap_or(MemoryLimit::RESERVE);
    ensure!((0.0..1.0).contains(&reserve), "--reserve {reserve}: use a share of at least 0 and below 1");
    let of_system = system.as_ref().map(|system| system.device.memory_bytes as u64);
    let memory = args.memory_per_rank.or(of_system);
    ensure!(
        memory.is_some() || args.reserve.is_none(),
        "--reserve {reserve}: there is no limit to keep a share of; give --memory-per-rank or --system"
    );
    let mut planning = Planning::new(run)
        .statistics(stats)
        .memory(memory.map(|bytes_per_rank| MemoryLimit { bytes_per_rank, reserve }))
        .weights(args.weights.unwrap_or_default())
        .search(args.search.unwrap_or(Search::Best))
        .cost(args.cost.unwrap_or(CostKind::Hierarchical));
    if let Some(system) = system {
        planning = planning.system(system);
    }
    Ok((planning, inputs))
}

/// Weights as `communication=1,imbalance=2`.
fn weights(text: &str) -> Result<Weights> {
    let mut weights = Weights::default();
    for part in text.split(',') {
        let wrong =
            || format!("{part:?} is no weight; write it as communication=1,computation=1,imbalance=1");
        let (name, weight) = part.split_once('=').with_context(wrong)?;
        let weight: f64 = weight.trim().parse().ok().with_context(wrong)?;
        ensure!(weight.is_finite() && weight >= 0.0, "{part:?}: a weight is a number that is not negative");
        match name.trim() {
            "communication" => weights.communication = weight,
            "computation" => weights.computation = weight,
            "imbalance" => weights.imbalance = weight,
            _ => bail!("{name:?} is not weighed; use communication, computation and imbalance"),
        }
    }
    Ok(weights)
}

/// Ranks in the order of their predicted time, the slowest first.
fn by_load(planned: &Planned) -> Vec<usize> {
    let ranks = &planned.plan.ranks;
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by(|&a, &b| ranks[b].predicted_s.total_cmp(&ranks[a].predicted_s));
    order
}
