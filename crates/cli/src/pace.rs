//! `campanile pace`: what each computation of a step takes on this machine, for `campanile train --compute paced:FILE`.

use crate::args::RunArgs;
use crate::logs;
use crate::output::{Force, Output};
use crate::progress::Console;
use crate::signals::stop_on_signals;
use crate::text::columns;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use spec::device::DeviceChoice;
use spec::pace::Pace;
use spec::run::Run;
use spec::schedule::{Task, Work};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(mut_arg("steps", |arg| arg.help("Number of steps to measure, 1 to 1000 [default: 5]")))]
#[command(after_help = "Examples:
  campanile pace --hosts 4 --out pace.json
  campanile train --hosts 4 --compute paced:pace.json
  campanile pace --device cuda --precision bf16 --hosts 4 --ranks-per-host 2 --out gpu.json
  campanile train --device cuda --precision bf16 --hosts 4 --ranks-per-host 2 --compute paced:gpu.json")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Measure only the first N ranks, and give the others their times: the quicker way where ranks are alike; not with --device cuda,
    /// whose ranks take turns on the GPU and are timed by events there [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    measured_ranks: Option<u64>,
    /// Write the times to this file, for `train --compute paced:FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let mut config = args.run.config()?;
    let output = Output::check_if_any(args.out.as_deref(), args.force.force, &args.run.inputs(&config))?;
    let steps = config.train.steps.take().unwrap_or(5);
    ensure!((1..=1000).contains(&steps), "--steps {steps}: measure between 1 and 1000 steps");
    let stop = stop_on_signals()?;
    let logs = stop.ended(logs::open(&config.data, None, &stop, console))?;
    let run = logs.check(&config).with_context(|| args.run.described())?;
    let ranks = args.measured_ranks.map_or(run.topology().ranks(), |ranks| ranks as usize);
    let device = training::resolve_device(run.device, &run.precision)?;
    let pace = training::pace::measure(&run, &logs.logs, steps, ranks)?;
    let text = serde_json::to_string_pretty(&pace).context("the times as JSON")?;
    if let Some(output) = &output {
        output.write(text.as_bytes())?;
    }
    if args.json {
        println!("{}", json!({ "steps": steps, "device": device, "precision": run.precision, "pace": pace }));
        return Ok(());
    }
    let workers = match device {
        DeviceChoice::Cpu => format!("{} threads", training::threads(&run, &training::Cluster::Threads)),
        device => format!("{device} in {}", run.precision),
    };
    println!(
        "{} on {} ranks × {workers}, global batch {}: median of {steps} steps, each rank computing alone{}\n",
        run.model.kind(),
        run.topology(),
        run.batch,
        if ranks < run.topology().ranks() {
            format!(" (the first {ranks} stand for the others)")
        } else {
            String::new()
        }
    );
    print!("{}", table(&run, &pace));
    if let Some(path) = &args.out {
        println!("\nwritten to {0}; use it by campanile train --compute paced:{0}", path.display());
    }
    Ok(())
}

/// A row for each computation: the quickest rank, the mean, and the slowest.
fn table(run: &Run, pace: &Pace) -> String {
    let ranks = run.topology().ranks();
    let head = ["phase (ms)", "least", "mean", "most"];
    let mut rows = vec![head.map(String::from).to_vec()];
    let mut total = [0.0; 3];
    for phase in run.schedule(Task::Train).phases().iter().filter(|p| matches!(p.work, Work::Compute(_))) {
        let times = (0..ranks).filter_map(|rank| pace.seconds(&phase.name, rank));
        let least = times.clone().fold(f64::INFINITY, f64::min);
        let most = times.clone().fold(0.0, f64::max);
        let row = [least, times.sum::<f64>() / ranks as f64, most];
        total.iter_mut().zip(row).for_each(|(sum, time)| *sum += time);
        rows.push(cells(&phase.name, row));
    }
    rows.push(cells("all", total));
    columns(&rows)
}

fn cells(name: &str, seconds: [f64; 3]) -> Vec<String> {
    std::iter::once(name.into()).chain(seconds.map(|s| format!("{:.3}", 1e3 * s))).collect()
}
