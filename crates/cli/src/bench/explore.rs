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
    /// Number of strategies in a round
    #[arg(long, value_name = "N", default_value_t = 7200, value_parser = clap::value_parser!(u32).range(36..=10_000_000))]
    points: u32,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// DLRM-A on 128 GPUs: 36 strategies with each of as many batch sizes as it takes.
pub fn run(args: Args) -> Result<()> {
    let model = Subject::Layered(Layered::named("dlrm-a")?);
    let batches = (1..=(args.points as usize).div_ceil(36)).collect();
    let system = System::named("zionex:128")?;
    let space = Space::new(vec![model], vec![system], batches, TaskKind::PreTraining, WhatIf::default())?;
    let costs = [CostKind::MadMax, CostKind::Hierarchical];
    let mut rates = [Vec::new(), Vec::new()];
    // In turn, so that what else the machine does meets both.
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
        let rates = json!({ "madmax": medians[0], "hierarchical": medians[1] });
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
