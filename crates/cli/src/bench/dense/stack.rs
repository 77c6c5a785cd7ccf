//! Stacks of equal layers, as in Appendix A of Neo's paper: forward, backward and the update by SGD.

use super::mlp::Pass;
use crate::bench::target::{Target, percent, speed, time, unit};
use crate::text::columns;
use anyhow::{Result, ensure};
use kernels::peak::products_of;
use kernels::{Device, Update, UpdateDense};
use serde_json::{Value, json};
use spec::Activation;
use spec::model::{BlockName, LinearLayer, Parameter};
use spec::optimizer::UpdateRule;
use spec::run::Run;
use spec::schedule::Bucket;
use training::dense::Parameters;

/// Stacks to measure.
pub(super) struct Sizes {
    pub(super) widths: Vec<usize>,
    pub(super) layers: usize,
    pub(super) batches: Vec<usize>,
    pub(super) rounds: usize,
}

/// Median times of a stack of one width at one batch.
struct Measured {
    width: usize,
    layers: usize,
    batch: usize,
    forward: f64,
    backward: f64,
    update: f64,
    /// GFLOP/s of all three together.
    gflops: f64,
    of_peak: f64,
}

impl Sizes {
    /// Refuses sizes that cannot be, and those that do not fit into the memory of the device.
    fn check(&self, target: &Target) -> Result<()> {
        let Self { widths, layers, batches, .. } = self;
        ensure!((1..=1000).contains(layers), "--layers {layers}: a stack has between 1 and 1000 layers");
        for (flag, sizes) in [("--widths", widths), ("--batches", batches)] {
            for size in sizes {
                ensure!((1..=1 << 20).contains(size), "{flag} {size}: expected a number from 1 to 1048576");
            }
        }
        let largest = |sizes: &[usize]| sizes.iter().copied().max().unwrap_or(1) as f64;
        let (width, batch, layers) = (largest(widths), largest(batches), *layers as f64);
        // Weights, their gradients and packed copies; outputs and their gradients.
        let bytes = layers * (12.0 * width * (width + 1.0) + 8.0 * batch * width) + 8.0 * batch * width;
        target.check_memory(bytes, "--widths, --layers or --batches")
    }
}

pub(super) fn run(run: &Run, target: &Target, sizes: &Sizes, as_json: bool) -> Result<()> {
    sizes.check(target)?;
    let device = &target.device;
    let peak = products_of(device)? / 1e9;
    let mut all = Vec::new();
    for &width in &sizes.widths {
        let layers = layers(width, sizes.layers);
        let mut parameters = parameters(device, &layers, run.seed)?;
        for &batch in &sizes.batches {
            all.push(measure(device, &layers, &mut parameters, (batch, sizes.rounds), peak)?);
        }
    }
    if as_json {
        let stacks: Vec<Value> = all.iter().map(Measured::to_json).collect();
        let record = json!({ "precision": run.precision, "peak_gflops": peak, "stacks": stacks });
        println!("{}", target.record(record));
        return Ok(());
    }
    println!(
        "Stacks of {} layers in {}, {}; peak {} {}",
        sizes.layers,
        run.precision,
        target.described(),
        speed(device, peak),
        unit(device)
    );
    let head = ["width", "batch", "forward ms", "backward ms", "update ms", unit(device), "of peak"];
    let mut table = vec![head.map(String::from).to_vec()];
    table.extend(all.iter().map(|of| of.cells(device)));
    print!("{}", columns(&table));
    Ok(())
}

/// `count` layers of `width`, with a bias and ReLU. Nothing below the first needs a gradient.
fn layers(width: usize, count: usize) -> Vec<LinearLayer> {
    let layer = |i: usize| LinearLayer {
        name: format!("stack.{i}"),
        inputs: width,
        outputs: width,
        activation: Activation::Relu,
        bias: true,
        input_gradient: i > 0,
    };
    (0..count).map(layer).collect()
}

/// Parameters of the layers, in one bucket.
fn parameters(device: &Device, layers: &[LinearLayer], seed: u64) -> Result<Parameters> {
    let (mut list, mut starts, mut elements) = (Vec::new(), Vec::new(), 0);
    for (i, layer) in layers.iter().enumerate() {
        let bound = (6.0 / (layer.inputs + layer.outputs) as f32).sqrt();
        let shapes = [("weight", vec![layer.outputs, layer.inputs]), ("bias", vec![layer.outputs])];
        for (part, shape) in shapes {
            let (name, len) = (format!("{}.{part}", layer.name), shape.iter().product());
            list.push(Parameter { name, owner: (BlockName::new("stack"), i), shape, len, bound });
            starts.push(elements);
            elements += len;
        }
    }
    let bucket = Bucket { parameters: (0..list.len()).collect(), starts, elements };
    Ok(Parameters::new(device, list, &[bucket], &UpdateRule::Sgd, seed)?)
}

/// Measures a stack at a batch, in so many rounds.
fn measure(
    device: &Device,
    layers: &[LinearLayer],
    parameters: &mut Parameters,
    (batch, rounds): (usize, usize),
    peak: f64,
) -> Result<Measured> {
    let (forward, backward) = Pass { device, layers, rows: batch, rounds }.time(parameters)?;
    let bucket = &mut parameters.buckets[0];
    let update = time(device, rounds, || {
        Ok(device.update_dense(UpdateDense {
            // Weights stay as they are, so that products of later batches do not overflow.
            update: Update::new(UpdateRule::Sgd, 0.0, 1),
            tensors: &bucket.tensors,
            weights: bucket.weights.change(),
            gradient: &mut bucket.gradient,
            state: &mut bucket.state,
        })?)
    })?;
    let (width, count) = (layers[0].inputs, layers.len());
    // Of the first layer the input needs no gradient.
    let flops = 2.0 * (width * width) as f64 * batch as f64 * (3 * count - 1) as f64;
    let gflops = flops / (forward + backward + update) / 1e9;
    Ok(Measured { width, layers: count, batch, forward, backward, update, gflops, of_peak: gflops / peak })
}

impl Measured {
    fn to_json(&self) -> Value {
        let Self { width, layers, batch, forward, backward, update, gflops, of_peak } = self;
        json!({
            "width": width, "layers": layers, "batch": batch, "forward_ms": 1e3 * forward,
            "backward_ms": 1e3 * backward, "update_ms": 1e3 * update, "gflops": gflops, "of_peak": of_peak,
        })
    }

    fn cells(&self, device: &Device) -> Vec<String> {
        let times = [self.forward, self.backward, self.update].map(|s| format!("{:.3}", 1e3 * s));
        let sizes = [self.width, self.batch].map(|size| size.to_string());
        let speeds = [speed(device, self.gflops), percent(self.of_peak)];
        [sizes.to_vec(), times.to_vec(), speeds.to_vec()].concat()
    }
}
