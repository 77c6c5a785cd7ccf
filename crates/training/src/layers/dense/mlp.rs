//! `y = act(x·Wᵀ + b)`, and stacks of it.

use super::{Parameters, Weights};
use crate::Error;
use kernels::{
    Buffer, CHAIN_LAYERS, ChainBackward, ChainForward, ChainLayer, Device, Dropout, InputGradient,
    KernelError, LinearAt, LinearBackward, LinearForward, LinearShape, PackLinear, PackedLinear, Stored,
};
use spec::Activation;
use spec::model::LinearLayer;
use spec::precision::Precision;
use spec::random::RandomSequence;
use std::ops::Range;

type Result<T = ()> = std::result::Result<T, KernelError>;

/// A linear map, and where its parameters are.
#[derive(Debug)]
pub struct Linear {
    inputs: usize,
    outputs: usize,
    activation: Activation,
    input_gradient: bool,
    bucket: usize,
    at: LinearAt,
    /// Whether the map's input is the output of a ReLU, which masks its gradient.
    behind_relu: bool,
    packed: PackedLinear,
    /// Version of the weights that are packed, and the precision of products that they are packed for.
    packed_of: Option<(u64, Precision)>,
}

impl Linear {
    /// The layer whose matrix and bias are named after it.
    pub fn named(layer: &LinearLayer, parameters: &Parameters) -> std::result::Result<Self, Error> {
        Self::new(layer, parameters, &format!("{}.weight", layer.name), &format!("{}.bias", layer.name))
    }

    /// The layer whose matrix and bias are the parameters of these names.
    pub fn new(
        layer: &LinearLayer,
        parameters: &Parameters,
        matrix: &str,
        bias: &str,
    ) -> std::result::Result<Self, Error> {
        let (bucket, at) = parameters.locate(layer, matrix, bias)?;
        Ok(Self {
            inputs: layer.inputs,
            outputs: layer.outputs,
            activation: layer.activation,
            input_gradient: layer.input_gradient,
            bucket,
            at,
            behind_relu: false,
            packed: PackedLinear::new(parameters.space()),
            packed_of: None,
        })
    }

    fn shape(&self, rows: usize) -> LinearShape {
        LinearShape { rows, inputs: self.inputs, outputs: self.outputs }
    }

    /// Packs the matrix as the device reads it fastest, if the weights or the precision have changed since.
    pub fn pack(&mut self, device: &Device, parameters: &Parameters) -> Result {
        match self.take_to_pack(device, parameters) {
            Some(map) => device.pack_linear(map),
            None => Ok(()),
        }
    }

    /// The matrix that is to be packed, if the weights or the precision have changed since: it counts as packed from now on.
    fn take_to_pack<'a>(&'a mut self, device: &Device, parameters: &'a Parameters) -> Option<PackLinear<'a>> {
        let weights = &parameters.buckets[self.bucket].weights;
        let current = Some((weights.version(), device.precision()));
        if self.packed_of == current {
            return None;
        }
        self.packed_of = current;
        let (shape, at, backward, masked) = (self.shape(0), self.at, self.input_gradient, self.behind_relu);
        Some(PackLinear { shape, parameters: weights, at, backward, masked, packed: &mut self.packed })
    }

    /// The matrix as it was packed, if that is the one of `weights`.
    fn packed(&self, weights: &Weights) -> Option<&PackedLinear> {
        let is_current = self.packed_of.is_some_and(|(version, _)| version == weights.version());
        is_current.then_some(&self.packed)
    }

    /// Fills `y`.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        x: &Buffer<f32>,
        y: &mut Buffer<f32>,
    ) -> Result {
        y.resize(rows * self.outputs)?;
        self.pack(device, parameters)?;
        let weights = &parameters.buckets[self.bucket].weights;
        device.linear_forward(LinearForward {
            shape: self.shape(rows),
            x,
            parameters: weights,
            at: self.at,
            packed: self.packed(weights),
            activation: self.activation,
            y,
        })
    }

    /// The map as part of a chain; `weights` are those of its bucket.
    pub(super) fn in_chain<'a>(&'a self, weights: &'a Weights) -> ChainLayer<'a> {
        let &Self { inputs, outputs, activation, at, .. } = self;
        ChainLayer { inputs, outputs, activation, parameters: weights, at, packed: self.packed(weights) }
    }

    /// Bucket of the map's parameters.
    pub(super) fn bucket(&self) -> usize {
        self.bucket
    }

    /// Fills the gradients of the map's parameters, and `dx`. `dy` is the gradient before the activation.
    pub fn backward(
        &self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        x: &Buffer<f32>,
        dy: &Buffer<f32>,
        dx: Option<(&mut Buffer<f32>, InputGradient)>,
    ) -> Result {
        let (weights, gradients) = parameters.buckets[self.bucket].weights_and_gradients();
        let shape = self.shape(rows);
        device.linear_backward(LinearBackward {
            shape,
            x,
            parameters: weights,
            at: self.at,
            packed: self.packed(weights),
            dy,
            dx,
            gradients,
        })
    }
}

/// Multi-layer perceptron: a sequence of linear layers.
#[derive(Debug)]
pub struct Mlp {
    layers: Vec<Linear>,
    outputs: Vec<Buffer<f32>>,
    /// Gradient of each layer's output; before its activation, once backward has come to the layer.
    output_gradients: Vec<Buffer<f32>>,
    /// Gradient of the MLP's input, once backward has come to the first layer.
    pub input_gradient: Buffer<f32>,
    dropout: Option<HiddenDropout>,
    /// Whether the output goes to readers that take it as the device keeps it.
    pub keeps_output: bool,
    /// Whether the gradient of the input goes to a reader that takes it as the device keeps it.
    pub keeps_input_gradient: bool,
}

/// Dropout of the hidden units of an MLP.
#[derive(Debug)]
struct HiddenDropout {
    probability: f32,
    /// Random numbers of each hidden layer, by the position of a sample.
    sequences: Vec<RandomSequence>,
}

impl Mlp {
    /// The MLP of these layers.
    pub fn new(layers: &[LinearLayer], parameters: &Parameters) -> std::result::Result<Self, Error> {
        let named = layers.iter().map(|layer| Linear::named(layer, parameters));
        let mut layers = named.collect::<std::result::Result<Vec<Linear>, Error>>()?;
        for i in 1..layers.len() {
            layers[i].behind_relu = layers[i - 1].activation == Activation::Relu;
        }
        let buffers = || layers.iter().map(|_| parameters.buffer()).collect();
        let (outputs, output_gradients) = (buffers(), buffers());
        Ok(Self {
            layers,
            outputs,
            output_gradients,
            input_gradient: parameters.buffer(),
            dropout: None,
            keeps_output: false,
            keeps_input_gradient: false,
        })
    }

    /// Drops hidden units of the MLP of `layers` with a probability from now on. `seed` is that of the run.
    pub fn set_dropout(&mut self, layers: &[LinearLayer], probability: f32, seed: u64) {
        let hidden = &layers[..layers.len().saturating_sub(1)];
        let sequence = |layer: &LinearLayer| RandomSequence::new(seed, &format!("dropout.{}", layer.name));
        let sequences = hidden.iter().map(sequence).collect();
        self.dropout = (probability > 0.0).then_some(HiddenDropout { probability, sequences });
    }

    /// Packs the matrices of a bucket that has changed, where operations are queued: the next forward pass finds them packed.
    pub fn pack(&mut self, device: &Device, parameters: &Parameters, bucket: usize) -> Result {
        pack_bucket(device, parameters, bucket, self.layers.iter_mut())
    }

    /// Runs `rows` samples through all layers. In training, `first` is the position of the first of them, and hidden units are
    /// dropped by it.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        input: &Buffer<f32>,
        first: Option<u64>,
    ) -> Result {
        pack_all(device, parameters, self.layers.iter_mut())?;
        let dropout = self.dropout.as_ref().zip(first);
        // What is dropped is dropped between two layers.
        let most = if dropout.is_some() { 1 } else { CHAIN_LAYERS };
        for (run, start) in self.layers.chunks(most).zip((0..).step_by(most)) {
            let (below, outputs) = self.outputs.split_at_mut(start);
            for (i, (layer, y)) in run.iter().zip(&mut *outputs).enumerate() {
                let stored = match self.layers.get(start + i + 1) {
                    None => stored(device, self.keeps_output, layer.outputs),
                    Some(above) => hidden(device, &self.dropout, layer.outputs, above),
                };
                y.resize_rows(stored, rows, layer.outputs)?;
            }
            let layers = chain(run, |bucket| &parameters.buckets[bucket].weights);
            let (layers, x) = (&layers[..run.len()], below.last().unwrap_or(input));
            device.chain_forward(ChainForward { rows, layers, x, outputs })?;
            if let Some((dropout, first)) = dropout
                && let Some(&sequence) = dropout.sequences.get(start)
            {
                let (width, probability, y) = (run[0].outputs, dropout.probability, &mut outputs[0]);
                device.dropout(Dropout { rows, width, first, sequence, probability, y })?;
            }
        }
        Ok(())
    }

    /// Output of the last layer. Panics when there is no layer.
    pub fn output(&self) -> &Buffer<f32> {
        self.outputs.last().expect("an MLP with layers")
    }

    /// Output and its gradient, which is borrowed for whoever computes it. Panics when there is no layer.
    pub fn output_and_gradient(&mut self) -> (&Buffer<f32>, &mut Buffer<f32>) {
        let gradient = self.output_gradients.last_mut();
        (self.outputs.last().expect("an MLP with layers"), gradient.expect("a gradient for every output"))
    }

    /// Number of layers.
    pub fn count(&self) -> usize {
        self.layers.len()
    }

    /// Takes the gradient of the output back through `layers`, last first. `device` computes in the precision of the forward pass.
    pub fn backward(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        input: &Buffer<f32>,
        layers: Range<usize>,
    ) -> Result {
        let mut end = layers.end;
        while end > layers.start {
            let start = self.run_before(end).max(layers.start);
            let run = &self.layers[start..end];
            let (below, output_gradients) = self.output_gradients.split_at_mut(start);
            let relu = start > 0 && self.layers[start - 1].activation == Activation::Relu;
            let dx = below.last_mut().unwrap_or(&mut self.input_gradient);
            // The gradient of the layer below before its activation, in one go.
            let mut into = None;
            if run[0].input_gradient {
                let stored = match start {
                    0 => stored(device, self.keeps_input_gradient, run[0].inputs),
                    _ => hidden(device, &self.dropout, run[0].inputs, &run[0]),
                };
                dx.resize_rows(stored, rows, run[0].inputs)?;
                into = Some((&mut *dx, InputGradient { accumulate: false, relu }));
            }
            for (layers, gradient) in run.windows(2).zip(&mut *output_gradients) {
                let width = layers[0].outputs;
                gradient.resize_rows(hidden(device, &self.dropout, width, &layers[1]), rows, width)?;
            }
            let (weights, gradients) = parameters.buckets[run[0].bucket].weights_and_gradients();
            device.chain_backward(ChainBackward {
                rows,
                layers: &chain(run, |_| weights)[..run.len()],
                x: if start == 0 { input } else { &self.outputs[start - 1] },
                outputs: &self.outputs[start..end],
                output_gradients: &mut output_gradients[..end - start],
                activated: end == self.layers.len(),
                dx: into,
                gradients,
            })?;
            if let (Some(dropout), true) = (&self.dropout, start > 0) {
                // A unit that was dropped gave 0, as one below the ReLU's threshold: its gradient is 0 already.
                device.scale(rows * run[0].inputs, 1.0 / (1.0 - dropout.probability), dx)?;
            }
            end = start;
        }
        Ok(())
    }

    /// First layer of the longest run that ends before layer `end` and can go back as a chain: its parameters lie in one bucket,
    /// and nothing is dropped inside.
    fn run_before(&self, end: usize) -> usize {
        let most = if self.dropout.is_some() { 1 } else { CHAIN_LAYERS };
        let bucket = self.layers[end - 1].bucket;
        let alike = self.layers[..end].iter().rev().take(most).take_while(|layer| layer.bucket == bucket);
        end - alike.count()
    }
}

/// Packs the matrices of layers that have changed, all at once where the device is a GPU: a launch for each would take longer.
pub(super) fn pack_all<'a>(
    device: &Device,
    parameters: &'a Parameters,
    mut layers: impl Iterator<Item = &'a mut Linear>,
) -> Result {
    if !device.is_queued() {
        return layers.try_for_each(|layer| layer.pack(device, parameters));
    }
    let mut maps: Vec<PackLinear> =
        layers.filter_map(|layer| layer.take_to_pack(device, parameters)).collect();
    device.pack_linears(&mut maps)
}

/// Packs the matrices of layers of a bucket that has changed. Elsewhere than on a GPU the next forward pass does so.
pub(super) fn pack_bucket<'a>(
    device: &Device,
    parameters: &'a Parameters,
    bucket: usize,
    layers: impl Iterator<Item = &'a mut Linear>,
) -> Result {
    if !device.is_queued() {
        return Ok(());
    }
    pack_all(device, parameters, layers.filter(|layer| layer.bucket == bucket))
}

/// How rows of `width` floats are stored: as the device keeps them, or one after another.
fn stored(device: &Device, kept: bool, width: usize) -> Stored {
    if kept { device.keeps(width) } else { Stored::Plain }
}

/// How rows of `width` floats between two layers are stored, of which `above` reads them; plain where some of them are dropped.
fn hidden(device: &Device, dropout: &Option<HiddenDropout>, width: usize, above: &Linear) -> Stored {
    if dropout.is_none() { device.keeps_hidden(width, above.outputs) } else { Stored::Plain }
}

/// Layers of a chain, the first as many as there are in `run`; `weights` gives the weights of a bucket.
fn chain<'a>(run: &'a [Linear], weights: impl Fn(usize) -> &'a Weights) -> [ChainLayer<'a>; CHAIN_LAYERS] {
    std::array::from_fn(|i| {
        let layer = &run[i.min(run.len() - 1)];
        layer.in_chain(weights(layer.bucket))
    })
}
