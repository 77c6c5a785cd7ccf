//! `bench mlp`: MLPs forward and backward, of a model or of equal layers.

use super::stack::{self, Sizes};
use super::{filled, setup};
use crate::args::RunArgs;
use crate::bench::target::{Target, percent, speed, time, unit};
use crate::text::columns;
use anyhow::Result;
use kernels::Device;
use kernels::peak::products_of;
use serde_json::json;
use spec::model::{Layers, LinearLayer};
use spec::run::Run;
use spec::schedule::Task;
use training::dense::{Mlp, Parameters};

/// Arguments of `bench mlp`.
#[derive(clap::Args)]
#[command(long_about = "The MLPs of a model, forward and backward

With --widths the MLPs are stacks of equal layers instead, each with a bias and ReLU, for every batch of --batches: forward, backward \
and the update by SGD, as in Appendix A of Neo's paper (20 layers of 1024, 2048 and 4096). All are set against the peak of products of \
the same run. On a GPU times are those of events on the device, with the queue full.")]
#[command(after_help = "Examples:
  campanile bench mlp --preset mlperf --rows-cap 1000 --batch 8192 --precision bf16
  campanile bench mlp --widths 1024,2048,4096 --device cuda --precision bf16 --json
  campanile bench mlp --widths 256 --layers 4 --batches 512")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Widths of stacks of equal layers to measure instead of the model's MLPs [default: none]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    widths: Vec<usize>,
    /// Number of layers of a stack
    #[arg(long, value_name = "N", default_value_t = 20, requires = "widths")]
    layers: usize,
    /// Batches of a stack
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [128, 256, 512, 1024, 2048, 4096], requires = "widths")]
    batches: Vec<usize>,
    /// Number of repetitions of each measurement
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    let (run, target) = setup(&args.run)?;
    if args.widths.is_empty() {
        return of_model(&run, &target, &args);
    }
    let sizes =
        Sizes { widths: args.widths, layers: args.layers, batches: args.batches, rounds: args.rounds };
    stack::run(&run, &target, &sizes, args.json)
}

/// An MLP with its input and the gradient of its output in place.
pub(super) struct Pass<'a> {
    pub(super) device: &'a Device,
    pub(super) layers: &'a [LinearLayer],
    pub(super) rows: usize,
    pub(super) rounds: usize,
}

impl Pass<'_> {
    /// Median seconds forward and backward.
    pub(super) fn time(&self, parameters: &mut Parameters) -> Result<(f64, f64)> {
        let Pass { device, layers, rows, rounds } = *self;
        let width = |layer: Option<&LinearLayer>, of: fn(&LinearLayer) -> usize| layer.map_or(0, of);
        let mut mlp = Mlp::new(layers, parameters)?;
        let input = filled(device, rows * width(layers.first(), |layer| layer.inputs))?;
        let gradient = filled(device, rows * width(layers.last(), |layer| layer.outputs))?.to_vec()?;
        let forward = time(device, rounds, || Ok(mlp.forward(device, parameters, rows, &input, None)?))?;
        let (_, of_output) = mlp.output_and_gradient();
        of_output.resize(gradient.len())?;
        // What the pass does to it, it does only once: what was masked stays so.
        of_output.write(0, &gradient)?;
        let backward =
            time(device, rounds, || Ok(mlp.backward(device, parameters, rows, &input, 0..layers.len())?))?;
        Ok((forward, backward))
    }
}

fn of_model(run: &Run, target: &Target, args: &Args) -> Result<()> {
    let rows = run.batch;
    let schedule = run.schedule(Task::Train);
    let (network, rule) = (run.model.network(), run.dense_optimizer.update);
    let mut parameters =
        Parameters::new(&target.device, network.parameters(), schedule.buckets(), &rule, run.seed)?;
    let mut results = Vec::new();
    let unit = unit(&target.device);
    let mut table = vec![["MLP", "forward ms", "backward ms", unit, "of peak"].map(String::from).to_vec()];
    for block in network.blocks() {
        let Layers::Mlp(layers) = &block.layers else { continue };
        let device = target.in_precision(run.precision.of(block.name));
        let pass = Pass { device: &device, layers, rows, rounds: args.rounds };
        let (forward, backward) = pass.time(&mut parameters)?;
        let flops = block.layers.training_flops();
        let gflops = (flops * rows as u64) as f64 / (forward + backward) / 1e9;
        let of_peak = 1e9 * gflops / products_of(&device)?;
        let times = [1e3 * forward, 1e3 * backward].map(|v| format!("{v:.3}"));
        let speeds = [speed(&device, gflops), percent(of_peak)];
        table.push([vec![block.name.to_string()], times.to_vec(), speeds.to_vec()].concat());
        results.push(json!({
            "mlp": block.name, "forward_ms": 1e3 * forward, "backward_ms": 1e3 * backward, "gflops": gflops,
            "precision": device.precision(), "of_peak": of_peak,
        }));
    }
    if args.json {
        let record = json!({ "batch": rows, "precision": run.precision, "mlps": results });
        println!("{}", target.record(record));
    } else {
        println!("MLPs of {} at batch {rows} in {}, {}", run.model.kind(), run.precision, target.described());
        print!("{}", columns(&table));
    }
    Ok(())
}
