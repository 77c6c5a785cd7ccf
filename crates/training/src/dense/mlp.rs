//! `y = act(x·Wᵀ + b)`, and stacks of it.

use super::Parameters;
use kernels::{Buffer, Device, KernelError, LinearAt, LinearShape};
use spec::Activation;
use spec::model::LinearLayer;
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
    /// The layer whose matrix and bias are the parameters of these names.
    pub fn new(layer: &LinearLayer, parameters: &Parameters, matrix: &str, bias: &str) -> Self {
        let (bucket, at) = parameters.locate(layer, matrix, bias);
        Self {
            inputs: layer.inputs,
            outputs: layer.outputs,
            activation: layer.activation,
            input_gradient: layer.input_gradient,
            bucket,
            at,
        }
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
        device.linear_forward(self.shape(rows), x, weights, self.at, self.activation, y)
    }

    /// Fills the gradients of its parameters, and `dx` (adding to it when the flag says so). Changes `dy`.
    pub fn backward(
        &self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        x: &Buffer<f32>,
        y: &Buffer<f32>,
        dy: &mut Buffer<f32>,
        dx: Option<(&mut Buffer<f32>, bool)>,
    ) -> Result {
        let bucket = &mut parameters.buckets[self.bucket];
        let (shape, weights) = (self.shape(rows), &bucket.weights);
        device.linear_backward(shape, x, weights, self.at, self.activation, y, dy, dx, &mut bucket.gradient)
    }
}

/// Linear layers one after the other.
#[derive(Debug)]
pub struct Mlp {
    layers: Vec<Linear>,
    outputs: Vec<Buffer<f32>>,
    /// Gradient of the output of the layer that backward comes to next; at the end, of the MLP's input.
    pub gradient: Buffer<f32>,
    spare: Buffer<f32>,
}

impl Mlp {
    /// The MLP of these layers.
    pub fn new(layers: &[LinearLayer], parameters: &Parameters) -> Self {
        let layers: Vec<Linear> = layers
            .iter()
            .map(|l| Linear::new(l, parameters, &format!("{}.weight", l.name), &format!("{}.bias", l.name)))
            .collect();
        let outputs = layers.iter().map(|_| Buffer::empty()).collect();
        Self { layers, outputs, gradient: Buffer::empty(), spare: Buffer::empty() }
    }

    /// Runs `rows` samples through all layers.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        input: &Buffer<f32>,
    ) -> Result {
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, rest) = self.outputs.split_at_mut(i);
            layer.forward(device, parameters, rows, before.last().unwrap_or(input), &mut rest[0])?;
        }
        Ok(())
    }

    /// What the last layer gave. Panics when there is no layer.
    pub fn output(&self) -> &Buffer<f32> {
        self.outputs.last().expect("an MLP with layers")
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
            let x = if i == 0 { input } else { &self.outputs[i - 1] };
            let dx = if layer.input_gradient {
                self.spare.resize(rows * layer.inputs)?;
                Some((&mut self.spare, false))
            } else {
                None
            };
            layer.backward(device, parameters, rows, x, &self.outputs[i], &mut self.gradient, dx)?;
            std::mem::swap(&mut self.gradient, &mut self.spare);
        }
        Ok(())
    }
}
