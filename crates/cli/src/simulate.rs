//! `campanile simulate`: predicts the time and memory of a step on other hardware.

mod hints;
mod html;
mod json;
mod prediction;
pub mod read;
mod request;
mod strategy;
pub mod task;
mod text;
mod trace;

use crate::Answer;
use crate::output::{Force, Output};
use anyhow::Result;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  DLRM on 64 H100s, and the same with 8 towers: what DMT gains
    campanile simulate
    campanile simulate --model 8t-dlrm --system h100:64
  As MAD-Max predicts it
    campanile simulate --model dlrm-a --system zionex:128 --cost madmax --mlp ddp
  Does it fit?
    campanile simulate --model gpt-3 --system llm-a100 --transformer tp,ddp --batch 1
    campanile simulate --model llama2-70b --system llm-a100 --task inference
  Tables and bottom MLP stay as they are
    campanile simulate --model dlrm-a --task finetune:emb,bot
  A run and a cluster of your own, as pages
    campanile simulate --model run.toml --system cluster.toml --html step.html --trace step.json

Models that are only simulated: dlrm-a dlrm-b dlrm-f, each of a and b also as -transformer and
-moe, neo-a gpt-3 llama-65b llama2-70b llm-moe vit-l vit-10b. Models that Campanile trains: dlrm dcn,
sptt- 2t- 4t- 8t- 16t- 26t- of both, 8t-dlrm-cr4 to -cr16, deepfm sptt-deepfm, xlrm sptt-xlrm
16t-xlrm.
Systems: v100 a100 a100-80 h100 h100-superpod h200 zionex llm-a100, each with :GPUS, at most 4096.

Files are JSON or TOML. Models, systems and tasks have MAD-Max's fields; a system may also have ours
(examples/cluster.toml), or be what `campanile calibrate` wrote; a model may be a run as
`campanile train` takes it, laid on the system. Unknown fields are refused.

Cost models: madmax has MAD-Max's rules and no latency; roofline is Neo's bound by Equation 1;
hierarchical has latencies, message sizes and links that collectives share.")]
pub struct Args {
    #[command(flatten)]
    request: request::Request,
    /// Draw the timeline with bars, a line for every operation, instead of a table with bytes and rates
    #[arg(long, conflicts_with = "json")]
    bars: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write the timeline and tables as a page that opens in any browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the timeline for chrome://tracing or ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// The prediction as JSON and as a page.
pub fn answer(args: &Args) -> Result<Answer> {
    let prediction = args.request.predict()?;
    Ok(Answer { json: json::to_json(&prediction), html: html::page(&prediction).to_html() })
}

pub fn run(args: Args) -> Result<()> {
    let (inputs, force) = (args.request.inputs(), args.force.force);
    let trace = Output::check_if_any(args.trace.as_deref(), force, &inputs)?;
    let html = Output::check_if_any(args.html.as_deref(), force, &inputs)?;
    Output::distinct(trace.iter().chain(&html))?;
    let prediction = args.request.predict()?;
    if let Some(trace) = &trace {
        trace.write(trace::to_json(&prediction).to_string().as_bytes())?;
    }
    if let Some(html) = &html {
        html.write(html::page(&prediction).to_html().as_bytes())?;
    }
    if args.json {
        println!("{}", json::to_json(&prediction));
        return Ok(());
    }
    print!("{}", text::to_text(&prediction, args.bars));
    for path in [&args.trace, &args.html].into_iter().flatten() {
        println!("Written: {}", path.display());
    }
    Ok(())
}
