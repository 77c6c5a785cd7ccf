//! `campanile explore`: simulates every strategy of a model on every system given.

mod html;
mod json;
mod request;
mod text;

use crate::Answer;
use crate::output::{Force, Output};
use crate::progress::{Console, Unit};
use crate::signals::{Stop, stop_on_signals};
use anyhow::{Result, anyhow, ensure};
use planning::cost::CostKind;
use planning::explore::{ExploreProgress, Space, Summary, explore};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  All strategies of DLRM-A on 128 GPUs, and as MAD-Max has it
    campanile explore
    campanile explore --model dlrm-a --cost madmax
  Other models, tasks, systems and batches
    campanile explore --model gpt-3 --systems llm-a100 --task inference
    campanile explore --systems a100:128,h100:128,h200:128 --batches 512,1024,2048 --html a.html
  What more hardware would bring: one capability at a time, and all combinations
    campanile explore --what-if flops=10 --what-if inter=2,10 --what-if all=10
    campanile explore --what-if flops=2,4,8 --what-if inter=2,4,8 --combine
  Towers and compression
    campanile explore --model dlrm,sptt-dlrm,8t-dlrm,8t-dlrm-cr4 --systems h100:64,h100:512

Models and systems are those of `campanile simulate`. Each class of layers (bottom MLP, top MLP,
experts, transformer layers) is spread by DDP, FSDP, FSDP+prefetch and TP, tables by MP and DDP: one
over all devices, or one inside nodes and another between them (MAD-Max's rules have no FSDP between
nodes). Transformer layers keep their activations, or compute them again. Models that Campanile
trains have one way each, and are compared with the first of them.")]
pub struct Args {
    #[command(flatten)]
    request: request::Request,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Number of strategies to list, fastest first
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    top: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write points, distribution and tables as a page that opens in any browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// A space of strategies, and the results of its simulation.
struct Explored {
    space: Space,
    cost: CostKind,
    summary: Summary,
    seconds: f64,
}

impl Explored {
    /// Whether all points were simulated.
    fn is_whole(&self) -> bool {
        self.summary.count() == self.space.len() as u64
    }

    /// Fails if nothing could be simulated.
    fn check(&self) -> Result<()> {
        let as_is = &self.summary.as_is;
        if let Some((_, why)) = &as_is.refused.first {
            ensure!(
                as_is.refused.impossible < as_is.count,
                "no combination of these models, strategies and systems can be simulated: {why}"
            );
        }
        Ok(())
    }
}

impl Args {
    /// Threads that were asked for, or one for each core.
    fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        self.threads.map_or_else(cores, usize::from)
    }
}

/// All points as JSON and as a page; `stop` ends the work early.
pub fn answer(args: &Args, stop: &AtomicBool) -> Result<Answer> {
    let (space, cost) = (args.request.space()?, args.request.cost());
    let began = Instant::now();
    let watch = ExploreProgress::default();
    let summary = std::thread::scope(|scope| {
        let exploring = scope.spawn(|| explore(&space, cost, args.threads(), args.top.into(), &watch));
        while !exploring.is_finished() {
            watch.stop.store(stop.load(Ordering::Relaxed), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(5));
        }
        exploring.join()
    });
    let summary = summary.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let explored = Explored { seconds: began.elapsed().as_secs_f64(), space, cost, summary };
    ensure!(explored.is_whole(), "stopped after {} points", explored.summary.count());
    explored.check()?;
    Ok(Answer { json: json::to_json(&explored), html: html::page(&explored).to_html() })
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let html = Output::check_if_any(args.html.as_deref(), args.force.force, &args.request.inputs())?;
    let space = args.request.space()?;
    let cost = args.request.cost();
    let threads = args.threads();
    let began = Instant::now();
    let stop = stop_on_signals()?;
    let summary = with_progress(&space, cost, threads, args.top.into(), &stop, console)?;
    let explored = Explored { seconds: began.elapsed().as_secs_f64(), space, cost, summary };
    if explored.summary.count() == 0 {
        return stop.ended(Err(anyhow!("stopped before anything was found")));
    }
    let end = match explored.is_whole() {
        true => Ok(()),
        false => {
            let (done, all) = (explored.summary.count(), explored.space.len());
            Err(stop.interrupted(format!("stopped after {done} of {all} points")).into())
        }
    };
    explored.check()?;
    if let Some(html) = &html {
        html.write(html::page(&explored).to_html().as_bytes())?;
    }
    if args.json {
        println!("{}", json::to_json(&explored));
        return end;
    }
    print!("{}", text::to_text(&explored));
    if let Some(path) = &args.html {
        println!("Written: {}", path.display());
    }
    end
}

/// Explores with a progress bar, until all is done or a signal arrives.
fn with_progress(
    space: &Space,
    cost: CostKind,
    threads: usize,
    top: usize,
    stop: &Stop,
    console: Console,
) -> Result<Summary> {
    let watch = ExploreProgress::default();
    let progress = console.progress("exploring", space.len() as u64, Unit::Count("points"));
    let summary = std::thread::scope(|scope| {
        let exploring = scope.spawn(|| explore(space, cost, threads, top, &watch));
        while !exploring.is_finished() {
            progress.at(watch.done.load(Ordering::Relaxed) as u64, "");
            watch.stop.store(stop.load(Ordering::Relaxed), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
        exploring.join()
    });
    drop(progress);
    Ok(summary.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
