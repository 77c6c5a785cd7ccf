//! `bench gemm`: the products of a model's layers, and of square matrices, against the peak of the same run.

use super::{filled, setup};
use crate::args::RunArgs;
use crate::bench::target::{Target, percent, speed, time, unit};
use crate::text::columns;
use anyhow::{Result, ensure};
use kernels::peak::{BareProduct, products_of};
use kernels::{
    Buffer, Device, InputGradient, LinearAt, LinearBackward, LinearForward, LinearShape, PackLinear,
    PackedLinear,
};
use serde_json::{Value, json};
use spec::Activation;
use spec::model::{Layers, LinearLayer};
use spec::precision::Precision;
use spec::run::Run;
use std::collections::BTreeMap;

/// Arguments of `bench gemm`.
#[derive(clap::Args)]
#[command(long_about = "The matrix products of a model's layers

Every distinct layer is measured three times: forward and backward as a step computes them, with bias, activation and the gradients of \
weights and input, and as a product alone, whose operands are in the precision already. Products of square matrices follow. All are \
set against the peak of the same run: on the CPU a loop of the same instructions on registers, on a GPU the best of a few large square \
products. On a GPU times are those of events on the device, with the queue full, and caches are warm; short products are repeated.")]
#[command(after_help = "Examples:
  campanile bench gemm --preset mlperf --rows-cap 1000 --batch 8192 --precision bf16
  campanile bench gemm --preset mlperf --rows-cap 1000 --batch 65536 --device cuda --precision bf16
  campanile bench gemm --device cuda --precision tf32 --squares 4096,8192 --json")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Number of repetitions of each measurement
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Sizes of square matrices whose products are measured too; 0 for none [default: 1024,2048,4096,8192 on a GPU, none on the CPU]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    squares: Option<Vec<usize>>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Sizes of square matrices on a GPU.
const SQUARES: [usize; 4] = [1024, 2048, 4096, 8192];

pub fn run(args: Args) -> Result<()> {
    let (run, target) = setup(&args.run)?;
    let squares = squares(&args, &target)?;
    let layers = layers(&run);
    let mut peaks: BTreeMap<&str, f64> = BTreeMap::new();
    for precision in layers.iter().map(|(precision, _)| *precision).chain([run.precision.all]) {
        if !peaks.contains_key(precision.name()) {
            peaks.insert(precision.name(), products_of(&target.in_precision(precision))? / 1e9);
        }
    }
    let measured = |(precision, layer): &(Precision, LinearLayer)| {
        Measured::new(&target.in_precision(*precision), layer, run.batch, args.rounds)
    };
    let measured = layers.iter().map(measured).collect::<Result<Vec<_>>>()?;
    let mut of_squares = Vec::with_capacity(squares.len());
    for size in squares {
        let shape = LinearShape { rows: size, inputs: size, outputs: size };
        of_squares.push((size, product_gflops(&target.device, shape, args.rounds)?));
    }
    let peak = |precision: Precision| peaks[precision.name()];
    let all = peak(run.precision.all);
    if args.json {
        let layers: Vec<Value> =
            measured.iter().map(|of| of.to_json(run.batch, peak(of.precision))).collect();
        let squares = of_squares.iter().map(
            |(size, gflops)| json!({ "size": size, "product_gflops": gflops, "product_of_peak": gflops / all }),
        );
        println!(
            "{}",
            target.record(json!({
                "layers": layers, "batch": run.batch, "precision": run.precision, "peak_gflops": all,
                "peaks_gflops": peaks, "squares": squares.collect::<Vec<_>>(), "rounds": args.rounds.max(1),
            }))
        );
        return Ok(());
    }
    let device = &target.device;
    println!(
        "{} of {} at batch {} in {}, {}; peak {}",
        unit(device),
        run.model.kind(),
        run.batch,
        run.precision,
        target.described(),
        speed(device, all)
    );
    let head = ["layer", "inputs", "outputs", "forward", "backward", "product", "of peak"];
    let mut table = vec![head.map(String::from).to_vec()];
    table.extend(measured.iter().map(|of| of.cells(device, peak(of.precision))));
    table.extend(of_squares.iter().map(|(size, gflops)| {
        let size = size.to_string();
        let cells = [speed(device, *gflops), percent(gflops / all)];
        [vec!["square".into(), size.clone(), size, "–".into(), "–".into()], cells.to_vec()].concat()
    }));
    print!("{}", columns(&table));
    Ok(())
}

/// Sizes of the square matrices, which must fit into the memory of the device.
fn squares(args: &Args, target: &Target) -> Result<Vec<usize>> {
    let usual = || if target.is_gpu() { SQUARES.to_vec() } else { Vec::new() };
    let sizes: Vec<usize> =
        args.squares.clone().unwrap_or_else(usual).into_iter().filter(|&n| n > 0).collect();
    for &size in &sizes {
        ensure!(size <= 1 << 17, "--squares {size}: a matrix has at most 131072 rows");
        let shape = LinearShape { rows: size, inputs: size, outputs: size };
        let bytes = BareProduct::bytes(target.device.precision(), target.is_gpu(), shape);
        target.check_memory(bytes as f64, "--squares")?;
    }
    Ok(sizes)
}

/// Layers of different shapes, with the precision of their part of the network.
fn layers(run: &Run) -> Vec<(Precision, LinearLayer)> {
    let mut layers = Vec::new();
    for block in run.model.network().blocks() {
        let precision = run.precision.of(block.name);
        let maps: Vec<&LinearLayer> = match &block.layers {
            // All cross layers are alike.
            Layers::Cross { layers: cross, .. } => cross[0].maps().collect(),
            other => other.maps(),
        };
        layers.extend(maps.into_iter().map(|layer| (precision, layer.clone())));
    }
    layers
}

/// GFLOP/s of a product alone.
fn product_gflops(device: &Device, shape: LinearShape, rounds: usize) -> Result<f64> {
    let mut product = BareProduct::new(device, shape)?;
    let flops = product.flops();
    let seconds = time(device, rounds, || Ok(product.run()?))?;
    Ok(flops / seconds / 1e9)
}

/// Rows of small values as the device keeps them between layers: they are the result of a product.
fn kept(device: &Device, rows: usize, width: usize) -> Result<Buffer<f32>> {
    const TERMS: usize = 8;
    let (x, w) = (filled(device, rows * TERMS)?, filled(device, TERMS * width)?);
    let mut y = Buffer::new(device);
    y.resize_rows(device.keeps(width), rows, width)?;
    device.linear_forward(LinearForward {
        shape: LinearShape { rows, inputs: TERMS, outputs: width },
        x: &x,
        parameters: &w,
        at: LinearAt { weight: 0, bias: None },
        packed: None,
        activation: Activation::Identity,
        y: &mut y,
    })?;
    Ok(y)
}

/// GFLOP/s of a layer.
struct Measured {
    layer: LinearLayer,
    precision: Precision,
    forward: f64,
    backward: f64,
    product: f64,
}

impl Measured {
    fn new(device: &Device, layer: &LinearLayer, rows: usize, rounds: usize) -> Result<Self> {
        let shape = LinearShape { rows, inputs: layer.inputs, outputs: layer.outputs };
        let matrix = layer.inputs * layer.outputs;
        let at = LinearAt { weight: 0, bias: Some(matrix) };
        // Inputs of the first layer come as they are; all others are rows as the device keeps them.
        let x = match layer.input_gradient {
            true => kept(device, rows, layer.inputs)?,
            false => filled(device, rows * layer.inputs)?,
        };
        let w = filled(device, matrix + layer.outputs)?;
        let (mut y, mut dx) = (kept(device, rows, layer.outputs)?, kept(device, rows, layer.inputs)?);
        let dy = kept(device, rows, layer.outputs)?;
        let mut gradient = filled(device, matrix + layer.outputs)?;
        let mut packed = PackedLinear::new(device);
        let backward = layer.input_gradient;
        device.pack_linear(PackLinear {
            shape,
            parameters: &w,
            at,
            backward,
            masked: false,
            packed: &mut packed,
        })?;
        let forward = time(device, rounds, || {
            Ok(device.linear_forward(LinearForward {
                shape,
                x: &x,
                parameters: &w,
                at,
                packed: Some(&packed),
                activation: layer.activation,
                y: &mut y,
            })?)
        })?;
        let backward = time(device, rounds, || {
            let into = InputGradient { accumulate: false, relu: true };
            let dx = layer.input_gradient.then_some((&mut dx, into));
            Ok(device.linear_backward(LinearBackward {
                shape,
                x: &x,
                parameters: &w,
                at,
                packed: Some(&packed),
                dy: &dy,
                dx,
                gradients: std::slice::from_mut(&mut gradient),
            })?)
        })?;
        let flops = 2.0 * (rows * matrix) as f64;
        let products = if layer.input_gradient { 2.0 } else { 1.0 };
        Ok(Self {
            layer: layer.clone(),
            precision: device.precision(),
            forward: flops / forward / 1e9,
            backward: products * flops / backward / 1e9,
            product: product_gflops(device, shape, rounds)?,
        })
    }

    fn to_json(&self, rows: usize, peak: f64) -> Value {
        let Self { layer, forward, backward, product, precision } = self;
        json!({
            "layer": layer.name, "rows": rows, "inputs": layer.inputs, "outputs": layer.outputs,
            "precision": precision,
            "forward_gflops": forward, "backward_gflops": backward, "product_gflops": product,
            "forward_of_peak": forward / peak, "backward_of_peak": backward / peak,
            "product_of_peak": product / peak,
        })
    }

    fn cells(&self, device: &Device, peak: f64) -> Vec<String> {
        let Self { layer, forward, backward, product, .. } = self;
        let speeds = [*forward, *backward, *product].map(|giga| speed(device, giga));
        let sizes = [layer.inputs, layer.outputs].map(|size| size.to_string());
        [vec![layer.name.clone()], sizes.to_vec(), speeds.to_vec(), vec![percent(product / peak)]].concat()
    }
}
