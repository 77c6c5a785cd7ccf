//! `y = act(x·Wᵀ + b)`, and stacks of it.

use super::{BucketState, Parameters};
use crate::Error;
use kernels::{
    Buffer, Device, Dropout, InputGradient, KernelError, LinearAt, LinearBackward, LinearCrossForward,
    LinearForward, LinearShape,
};
use spec::Activation;
use spec::model::LinearLayer;
use spec::random::RandomSequence;
use std::ops::Range;

type Result<T = ()> = std::result::Result<T, KernelError>;

/// A linear map, and where its parameters are.
#[derive(Clone, Debug)]
pub struct Linear {
    inputs: usize,
    outputs: usize,
    activation: Activation,
    input_gradient: bool,
    bucket: usize,
    at: LinearAt,
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
        })
    }

    fn shape(&self, rows: usize) -> LinearShape {
        LinearShape { rows, inputs: self.inputs, outputs: self.outputs }
    }

    /// Fills `y`.
    pub fn forward(
        &self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        x: &Buffer<f32>,
        y: &mut Buffer<f32>,
    ) -> Result {
        y.resize(rows * self.outputs)?;
        let weights = &parameters.buckets[self.bucket].weights;
        device.linear_forward(LinearForward {
            shape: self.shape(rows),
            x,
            parameters: weights,
            at: self.at,
            packed: None,
            activation: self.activation,
            y,
        })
    }

    /// Fills `z`, without activation, and `out`, the output of the cross layer that the map belongs to: `out = x0 ⊙ z + x`.
    pub fn forward_cross(
        &self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        h: &Buffer<f32>,
        x0_x: [&Buffer<f32>; 2],
        [z, out]: [&mut Buffer<f32>; 2],
    ) -> Result {
        z.resize(rows * self.outputs)?;
        out.resize(rows * self.outputs)?;
        let weights = &parameters.buckets[self.bucket].weights;
        device.linear_cross_forward(LinearCrossForward {
            shape: self.shape(rows),
            h,
            parameters: weights,
            at: self.at,
            packed: None,
            x0: x0_x[0],
            x: x0_x[1],
            z,
            out,
        })
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
        let BucketState { weights, gradient, node_gradients, .. } = &mut parameters.buckets[self.bucket];
        // Nodes that are emulated have a gradient each, of their samples.
        let gradients = match node_gradients.as_mut_slice() {
            [] => std::slice::from_mut(gradient),
            nodes => nodes,
        };
        let shape = self.shape(rows);
        device.linear_backward(LinearBackward {
            shape,
            x,
            parameters: weights,
            at: self.at,
            packed: None,
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
    /// Gradient of the MLP's output; while backward goes on, of the layer it comes to next, before its activation; at the
    /// end, of the MLP's input.
    pub gradient: Buffer<f32>,
    spare: Buffer<f32>,
    dropout: Option<HiddenDropout>,
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
        let layers = named.collect::<std::result::Result<Vec<Linear>, Error>>()?;
        let outputs = layers.iter().map(|_| parameters.buffer()).collect();
        let (gradient, spare) = (parameters.buffer(), parameters.buffer());
        Ok(Self { layers, outputs, gradient, spare, dropout: None })
    }

    /// Drops hidden units of the MLP of `layers` with a probability from now on. `seed` is that of the run.
    pub fn set_dropout(&mut self, layers: &[LinearLayer], probability: f32, seed: u64) {
        let hidden = &layers[..layers.len().saturating_sub(1)];
        let sequence = |layer: &LinearLayer| RandomSequence::new(seed, &format!("dropout.{}", layer.name));
        let sequences = hidden.iter().map(sequence).collect();
        self.dropout = (probability > 0.0).then_some(HiddenDropout { probability, sequences });
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
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, rest) = self.outputs.split_at_mut(i);
            layer.forward(device, parameters, rows, before.last().unwrap_or(input), &mut rest[0])?;
            if let (Some(dropout), Some(first)) = (&self.dropout, first)
                && let Some(&sequence) = dropout.sequences.get(i)
            {
                let (width, probability, y) = (layer.outputs, dropout.probability, &mut rest[0]);
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
        (self.outputs.last().expect("an MLP with layers"), &mut self.gradient)
    }

    /// Number of layers.
    pub fn count(&self) -> usize {
        self.layers.len()
    }

    /// Takes [`Mlp::gradient`] back through `layers`, last first.
    pub fn backward(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        input: &Buffer<f32>,
        layers: Range<usize>,
    ) -> Result {
        for i in layers.rev() {
            let layer = &self.layers[i];
            if i + 1 == self.layers.len() && layer.activation == Activation::Relu {
                device.relu_backward(rows * layer.outputs, &self.outputs[i], &mut self.gradient)?;
            }
            let x = if i == 0 { input } else { &self.outputs[i - 1] };
            let dx = if layer.input_gradient {
                self.spare.resize(rows * layer.inputs)?;
                // The gradient of the layer below before its activation, in one go.
                let relu = i > 0 && self.layers[i - 1].activation == Activation::Relu;
                Some((&mut self.spare, InputGradient { accumulate: false, relu }))
            } else {
                None
            };
            layer.backward(device, parameters, rows, x, &self.gradient, dx)?;
            if let (Some(dropout), true) = (&self.dropout, i > 0) {
                // A unit that was dropped gave 0, as one below the ReLU's threshold: its gradient is 0 already.
                device.scale(rows * layer.inputs, 1.0 / (1.0 - dropout.probability), &mut self.spare)?;
            }
            std::mem::swap(&mut self.gradient, &mut self.spare);
        }
        Ok(())
    }
}
