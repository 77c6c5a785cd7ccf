//! Matrix products and MLPs of a model, alone.

use crate::args::RunArgs;
use crate::text::{columns, median};
use anyhow::{Result, ensure};
use kernels::{Buffer, Device, InputGradient, LinearAt, LinearBackward, LinearForward, LinearShape};
use serde_json::{Value, json};
use spec::device::DeviceChoice;
use spec::model::{Layers, LinearLayer, Model};
use spec::schedule::Task;
use std::time::Instant;
use training::Cluster;
use training::dense::{Mlp, Parameters};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Number of repetitions of each measurement
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Seconds of the median of `rounds` calls, after one to warm up.
fn time(rounds: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds.max(1) {
        let began = Instant::now();
        work()?;
        times.push(began.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

struct Setup {
    model: Model,
    device: Device,
    threads: usize,
    rows: usize,
}

fn setup(args: &Args) -> Result<(Setup, spec::run::Run)> {
    let mut config = args.run.config()?;
    config.topology.hosts.get_or_insert(1);
    config.topology.ranks_per_host.get_or_insert(1);
    let run = planning::check(&config)?;
    ensure!(
        run.device == DeviceChoice::Cpu,
        "--device {}: layers alone are measured on the CPU only; leave it out, or use `campanile bench step`",
        run.device
    );
    let threads = training::threads(&run, &Cluster::Threads);
    let device = Device::cpu(threads)?;
    Ok((Setup { model: run.model.clone(), device, threads, rows: run.batch }, run))
}

/// Small values that neither vanish nor overflow through the layers.
fn filled(device: &Device, len: usize) -> Result<Buffer<f32>> {
    let values: Vec<f32> = (0..len).map(|i| ((i * 37 % 101) as f32 - 50.0) / 500.0).collect();
    Ok(Buffer::from_slice(device, &values)?)
}

/// `bench gemm`: forward, and both gradients, of every distinct layer shape.
pub fn gemm(args: Args) -> Result<()> {
    let (Setup { model, device, threads, rows }, _) = setup(&args)?;
    let mut layers: Vec<&LinearLayer> = Vec::new();
    for block in model.network().blocks() {
        match &block.layers {
            // All cross layers are alike.
            Layers::Cross { layers: cross, .. } => layers.extend(cross[0].maps()),
            other => layers.extend(other.maps()),
        }
    }
    let mut results: Vec<Value> = Vec::new();
    let mut table = vec![["layer", "inputs", "outputs", "forward", "backward"].map(String::from).to_vec()];
    for layer in layers {
        let shape = LinearShape { rows, inputs: layer.inputs, outputs: layer.outputs };
        let matrix = layer.inputs * layer.outputs;
        let at = LinearAt { weight: 0, bias: Some(matrix) };
        let (x, w) = (filled(&device, rows * layer.inputs)?, filled(&device, matrix + layer.outputs)?);
        let mut y = filled(&device, rows * layer.outputs)?;
        let dy = filled(&device, rows * layer.outputs)?;
        let mut dx = filled(&device, rows * layer.inputs)?;
        let mut gradient = filled(&device, matrix + layer.outputs)?;
        let (forward, backward) = device.enter(|| -> Result<(f64, f64)> {
            let forward = time(args.rounds, || {
                Ok(device.linear_forward(LinearForward {
                    shape,
                    x: &x,
                    parameters: &w,
                    at,
                    packed: None,
                    activation: layer.activation,
                    y: &mut y,
                })?)
            })?;
            let backward = time(args.rounds, || {
                let into = InputGradient { accumulate: false, relu: true };
                let dx = layer.input_gradient.then_some((&mut dx, into));
                Ok(device.linear_backward(LinearBackward {
                    shape,
                    x: &x,
                    parameters: &w,
                    at,
                    packed: None,
                    dy: &dy,
                    dx,
                    gradients: std::slice::from_mut(&mut gradient),
                })?)
            })?;
            Ok((forward, backward))
        })?;
        let flops = 2.0 * (rows * matrix) as f64;
        let products = if layer.input_gradient { 2.0 } else { 1.0 };
        let (forward, backward) = (flops / forward / 1e9, products * flops / backward / 1e9);
        table.push(vec![
            layer.name.clone(),
            layer.inputs.to_string(),
            layer.outputs.to_string(),
            format!("{forward:.0}"),
            format!("{backward:.0}"),
        ]);
        results.push(json!({
            "layer": layer.name, "rows": rows, "inputs": layer.inputs, "outputs": layer.outputs,
            "forward_gflops": forward, "backward_gflops": backward,
        }));
    }
    if args.json {
        println!("{}", json!({ "threads": threads, "layers": results }));
    } else {
        println!("GFLOP/s of {} at batch {rows}, {threads} threads", model.kind());
        print!("{}", columns(&table));
    }
    Ok(())
}

/// `bench mlp`: every MLP of the network, forward and backward.
pub fn mlp(args: Args) -> Result<()> {
    let (Setup { model, device, threads, rows }, run) = setup(&args)?;
    let schedule = run.schedule(Task::Train);
    let (network, rule) = (model.network(), run.dense_optimizer.update);
    let mut parameters = Parameters::new(&device, network.parameters(), schedule.buckets(), &rule, run.seed)?;
    let mut results = Vec::new();
    let mut table = vec![["MLP", "forward ms", "backward ms", "GFLOP/s"].map(String::from).to_vec()];
    for block in network.blocks() {
        let Layers::Mlp(layers) = &block.layers else { continue };
        let (name, widths) = (block.name, &block.layers);
        let mut mlp = Mlp::new(layers, &parameters)?;
        let input = filled(&device, rows * widths.input_width())?;
        let gradient = filled(&device, rows * widths.output_width())?.to_vec()?;
        let (forward, backward) = device.enter(|| -> Result<(f64, f64)> {
            let forward = time(args.rounds, || Ok(mlp.forward(&device, &parameters, rows, &input, None)?))?;
            let backward = time(args.rounds, || {
                let (_, of_output) = mlp.output_and_gradient();
                of_output.resize(gradient.len())?;
                of_output.write(0, &gradient)?;
                Ok(mlp.backward(&device, &mut parameters, rows, &input, 0..layers.len())?)
            })?;
            Ok((forward, backward))
        })?;
        let flops = widths.training_flops();
        let gflops = (flops * rows as u64) as f64 / (forward + backward) / 1e9;
        let cells = [1e3 * forward, 1e3 * backward, gflops].map(|v| format!("{v:.2}"));
        table.push([vec![name.to_string()], cells.to_vec()].concat());
        results.push(json!({
            "mlp": name, "forward_ms": 1e3 * forward, "backward_ms": 1e3 * backward, "gflops": gflops,
        }));
    }
    if args.json {
        println!("{}", json!({ "threads": threads, "batch": rows, "mlps": results }));
    } else {
        println!("MLPs of {} at batch {rows}, {threads} threads", model.kind());
        print!("{}", columns(&table));
    }
    Ok(())
}
