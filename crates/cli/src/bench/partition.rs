//! `campanile bench partition`: how long the partitioner takes.

use crate::text::columns;
use anyhow::{Context, Result};
use planning::partitioner::{Balance, Request, Strategy, partition};
use serde_json::json;
use spec::affinity::Affinity;
use spec::random::RandomSequence;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// A division to measure, and the seconds that it may take.
struct Case {
    features: usize,
    towers: usize,
    strategy: Strategy,
    ratio: f64,
    by_load: bool,
    limit: f64,
}

fn cases() -> Vec<Case> {
    use Strategy::{Coherent, Diverse, Spectral};
    let small =
        |strategy, by_load| Case { features: 26, towers: 8, strategy, ratio: 1.0, by_load, limit: 0.5 };
    let large =
        |strategy, ratio, by_load| Case { features: 1000, towers: 64, strategy, ratio, by_load, limit: 20.0 };
    vec![
        small(Coherent, false),
        small(Diverse, false),
        small(Coherent, true),
        large(Coherent, 1.0, false),
        large(Coherent, 2.0, false),
        large(Coherent, 1.0, true),
        large(Diverse, 1.0, false),
        large(Spectral, 1.0, false),
    ]
}

pub fn run(args: Args) -> Result<()> {
    let head = [
        "features → towers",
        "strategy",
        "R",
        "balance",
        "seconds",
        "may take",
        "largest/smallest",
        "bound",
        "again",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let mut results = Vec::new();
    for Case { features, towers, strategy, ratio, by_load, limit } in cases() {
        let affinity = grouped(features, towers)?;
        let stream = RandomSequence::new(1, "bench.partition.loads");
        let loads = (0..features as u64).map(|f| 1.0 + 99.0 * stream.unit_f64(f).powi(4)).collect();
        let balance = if by_load { Balance::Loads(loads) } else { Balance::Features };
        let request = Request { ratio, balance, ..Request::new(towers, strategy) };
        let began = Instant::now();
        let found = partition(&affinity, &request)?;
        let seconds = began.elapsed().as_secs_f64();
        let same = found == partition(&affinity, &request)?;
        let balance = if by_load { "load" } else { "features" };
        rows.push(vec![
            format!("{features} → {towers}"),
            strategy.name().into(),
            ratio.to_string(),
            balance.into(),
            format!("{seconds:.2}"),
            limit.to_string(),
            format!("{:.3}", found.max_over_min),
            format!("{:.3}", found.max_over_min_bound),
            if same { "same" } else { "differs" }.into(),
        ]);
        results.push(json!({
            "features": features, "towers": towers, "strategy": strategy.name(), "ratio": ratio, "balance": balance,
            "seconds": seconds, "limit_seconds": limit, "max_over_min": found.max_over_min,
            "max_over_min_bound": found.max_over_min_bound, "deterministic": same,
        }));
    }
    if args.json {
        println!("{}", serde_json::to_string(&results)?);
    } else {
        print!("The partitioner on one core\n{}", columns(&rows));
    }
    Ok(())
}

/// Features in as many groups as there shall be towers, with the noise that measured affinities have.
fn grouped(features: usize, groups: usize) -> Result<Affinity> {
    let stream = RandomSequence::new(1, "bench.partition");
    let value = |i: usize, j: usize| {
        let (a, b) = (i.min(j), i.max(j));
        let noise = 0.15 * stream.unit_f64((a * features + b) as u64);
        match (i == j, a % groups == b % groups) {
            (true, _) => 1.0,
            (_, true) => 0.35 - noise,
            (_, false) => 0.05 + noise,
        }
    };
    let rows = (0..features).map(|i| (0..features).map(|j| value(i, j)).collect()).collect();
    Affinity::new((1..=features).map(|f| format!("C{f}")).collect(), rows).context("the affinity to divide")
}
