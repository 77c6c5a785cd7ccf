//! `campanile describe`: a model in numbers, without allocating it.

mod towers;

use crate::args::RunArgs;
use crate::dataflow;
use crate::text::{bytes, columns, si};
use anyhow::Result;
use serde_json::{Value, json};
use spec::feature::Feature;
use spec::model::{BlockName, Model};
use spec::run::Run;
use spec::schedule::Task;
use spec::wire::WireConfig;
use training::{Cluster, MemoryNeed, MemoryUse};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  campanile describe --preset terabyte --model dlrm
  campanile describe run.toml --towers strided:8 --tower-module dlrm:d=8")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    let run = args.run.run()?;
    if args.json {
        println!("{}", to_json(&run));
    } else {
        print!("{}", to_text(&run));
    }
    Ok(())
}

/// Memory of all ranks as threads of one process, and of the rank that needs most.
fn memory(run: &Run) -> (MemoryNeed, u64) {
    let world = MemoryNeed::of(run, &Cluster::Threads, MemoryUse::TRAINING);
    (world, MemoryNeed::of_largest_rank(run))
}

fn to_json(run: &Run) -> Value {
    let model = &run.model;
    let (world, largest) = memory(run);
    let mut described = json!({
        "model": model.kind(),
        "mflops_per_sample": model.training_flops() as f64 / 1e6,
        "parameters": model.parameters(),
        "table_parameters": model.table_parameters(),
        "dense_parameters": model.dense_parameters(),
        "table_bytes": model.table_bytes(),
        "features": model.features().len(),
        "dense_features": model.dense_features(),
        "dim": model.dim(),
        "dataflow": run.dataflow.kind(),
        "wire": WireConfig::explicit(run.wire),
        "all_reduce": run.all_reduce,
        "towers": towers::of_run(run),
        "compression_ratio": model.compression_ratio(),
        "memory_bytes": world.total(),
        "memory": world,
        "largest_rank_bytes": largest,
    });
    let features = 0..model.features().len();
    if model.row_width(0) != model.dim_of(0)
        && features.clone().all(|f| model.row_width(f) == model.row_width(0))
    {
        described["row_width"] = model.row_width(0).into();
    }
    if model.has_other_dims() {
        described["dims"] = features.map(|feature| model.dim_of(feature)).collect();
    }
    if model.table_formats_text().is_some() {
        let formats =
            model.table_formats().into_iter().map(|(format, count)| (format.to_string(), count.into()));
        described["table_formats"] = Value::Object(formats.collect());
    }
    if model.tensor_trains().next().is_some() {
        let trains = model.tensor_trains().map(|(feature, train)| {
            let Feature { name, rows, .. } = &model.features()[feature];
            let (rank, parameters) = (train.rank, train.parameters());
            json!({ "feature": name, "rank": rank, "parameters": parameters, "replaced": rows * train.width })
        });
        described["tensor_trains"] = trains.collect();
    }
    if !run.regularised().is_empty() {
        described["regularisation"] = campanile::summary::regularisation(run);
    }
    described
}

fn to_text(run: &Run) -> String {
    let model = &run.model;
    let towers = towers::of_run(run);
    let tower_table =
        if towers.is_empty() { String::new() } else { format!("towers\n{}", towers::table(&towers)) };
    let (world, largest) = memory(run);
    let regularised = run.regularisation_text().map_or(String::new(), |text| format!("  {text}\n"));
    let formats = model.table_formats_text().map_or(String::new(), |text| {
        format!(" ({text}, {}; rounding {})", bytes(model.table_bytes()), run.table_rounding)
    });
    let linear = if model.row_width(0) > model.dim_of(0) { " and a linear weight" } else { "" };
    format!(
        "{} with {} tables of {}{linear}, {} dense features\n  \
         {:.3} MFlops a sample to train\n  \
         {} parameters: {} in tables{formats}, {} in dense layers\n  \
         dataflow {}\n\
         {regularised}{}{tower_table}\
         on {} ranks: {} of memory, {} on the largest rank; {} gradient buckets\n  \
         {world}\n",
        model.kind(),
        model.features().len(),
        model.dims_text(),
        model.dense_features(),
        model.training_flops() as f64 / 1e6,
        si(model.parameters() as f64),
        si(model.table_parameters() as f64),
        si(model.dense_parameters() as f64),
        dataflow::of_run(run),
        block_table(model),
        run.topology(),
        bytes(world.total()),
        bytes(largest),
        run.schedule(Task::Train).buckets().len()
    )
}

/// A row for each block of dense layers, and their sum.
fn block_table(model: &Model) -> String {
    let parameters = model.dense_parameter_list();
    let row = |name: &str, layers: String, parameters: u64, flops: u64| {
        vec![name.to_string(), layers, si(parameters as f64), format!("{:.3}", flops as f64 / 1e6)]
    };
    let head = ["block", "layers", "parameters", "MFlops/sample"];
    let mut rows = vec![head.map(String::from).to_vec()];
    let weights = |block: BlockName| -> u64 {
        parameters.iter().filter(|p| p.owner.0 == block).map(|p| p.len as u64).sum()
    };
    if model.has_tower_modules() {
        let towers = model.towers().iter().filter(|tower| !tower.passes_through()).count();
        let name = BlockName::TOWERS;
        rows.push(row(name.as_str(), towers.to_string(), weights(name), model.tower_flops()));
    }
    let trains = model.tensor_trains().count();
    if trains > 0 {
        let name = BlockName::TENSOR_TRAINS;
        rows.push(row(name.as_str(), trains.to_string(), weights(name), model.tensor_train_flops()));
    }
    for block in model.network().blocks() {
        let (name, layers) = (block.name, &block.layers);
        rows.push(row(name.as_str(), layers.count().to_string(), weights(name), layers.training_flops()));
    }
    rows.push(row("all", String::new(), model.dense_parameters(), model.training_flops()));
    columns(&rows)
}
