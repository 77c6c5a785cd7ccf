//! `campanile bench explore`: strategies a second, on one thread.

use crate::text::{columns, median, si};
use anyhow::Result;
use planning::cost::CostKind;
use planning::explore::{ExploreProgress, Space, Subject, WhatIf, explore};
use planning::system::System;
use planning::workload::{Layered, TaskKind};
use serde_json::json;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Number of strategies in a round, rounded up to a multiple of 784
    #[arg(long, value_name = "N", default_value_t = 7840, value_parser = clap::value_parser!(u32).range(36..=10_000_000))]
    points: u32,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Strategies of DLRM-A: 14 for each of its MLPs, 4 for its tables.
const STRATEGIES: usize = 14 * 14 * 4;

/// DLRM-A on 128 GPUs: all strategies with each of as many batch sizes as it takes.
pub fn run(args: Args) -> Result<()> {
    let model = Subject::Layered(Layered::named("dlrm-a")?);
    let batches = (1..=(args.points as usize).div_ceil(STRATEGIES)).collect();
    let system = System::named("zionex:128")?;
    let space = Space::new(vec![model], vec![system], batches, TaskKind::PreTraining, WhatIf::default())?;
    let costs = CostKind::ALL;
    let mut rates = [const { Vec::new() }; 3];
    // In turn, so that what else the machine does meets all.
    for _ in 0..args.rounds {
        for (cost, rates) in costs.iter().zip(&mut rates) {
            let began = Instant::now();
            let summary = explore(&space, *cost, 1, 10, &ExploreProgress::default());
            // What a cost model refuses costs next to nothing, and does not count.
            let simulated = summary.count() - summary.as_is.refused.impossible;
            rates.push(simulated as f64 / began.elapsed().as_secs_f64());
        }
    }
    let medians = rates.map(|mut rates| median(&mut rates));
    if args.json {
        let rates = json!({ "madmax": medians[0], "roofline": medians[1], "hierarchical": medians[2] });
        let (points, rounds) = (space.len(), args.rounds);
        println!("{}", json!({ "points": points, "rounds": rounds, "evaluations_per_s": rates }));
        return Ok(());
    }
    let rows =
        costs.iter().zip(medians).map(|(cost, rate)| vec![cost.to_string(), format!("{}/s", si(rate))]);
    let rows: Vec<Vec<String>> = rows.collect();
    print!("Strategies of DLRM-A on 128 GPUs, simulated on one thread\n{}", columns(&rows));
    Ok(())
}
