//! `campanile describe`: a model in numbers, without allocating it.

use crate::args::RunArgs;
use crate::text::{bytes, columns, si};
use anyhow::Result;
use serde_json::json;
use spec::model::Block;
use spec::schedule::Schedule;
use spec::schedule::Task;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    let run = args.run.run()?;
    let model = &run.model;
    let ranks = 0..run.topology().ranks();
    let largest = ranks.clone().map(|rank| run.memory(rank)).max().unwrap_or(0);
    let world: u64 = ranks.map(|rank| run.memory(rank)).sum();
    let mflops = model.training_flops() as f64 / 1e6;
    if args.json {
        let description = json!({
            "model": model.kind(),
            "mflops_per_sample": mflops,
            "parameters": model.parameters(),
            "table_parameters": model.table_parameters(),
            "dense_parameters": model.dense_parameters(),
            "features": model.features().len(),
            "dense_features": model.dense_features(),
            "dim": model.dim(),
            "memory_bytes": world,
            "largest_rank_bytes": largest,
        });
        println!("{description}");
        return Ok(());
    }
    let schedule: Schedule = run.schedule(Task::Train);
    let network = model.network();
    let mut rows = vec![vec!["block".into(), "layers".into(), "parameters".into(), "MFlops/sample".into()]];
    for block in [Block::Bottom, Block::Interaction, Block::Top] {
        let layers = network.layers(block);
        let parameters: usize =
            network.parameters().iter().filter(|p| p.owner.0 == block).map(|p| p.len).sum();
        let flops = network.forward_flops(block) + network.backward_flops(block, 0..layers);
        rows.push(vec![
            block.to_string(),
            layers.to_string(),
            si(parameters as f64),
            format!("{:.3}", flops as f64 / 1e6),
        ]);
    }
    println!(
        "{} with {} tables of dimension {}, {} dense features",
        model.kind(),
        model.features().len(),
        model.dim(),
        model.dense_features()
    );
    println!("  {:.3} MFlops a sample to train", mflops);
    println!(
        "  {} parameters: {} in tables, {} in dense layers",
        si(model.parameters() as f64),
        si(model.table_parameters() as f64),
        si(model.dense_parameters() as f64)
    );
    print!("{}", columns(&rows));
    println!(
        "on {} ranks: {} of memory, {} on the largest rank; {} gradient buckets",
        run.topology(),
        bytes(world),
        bytes(largest),
        schedule.buckets().len()
    );
    Ok(())
}
