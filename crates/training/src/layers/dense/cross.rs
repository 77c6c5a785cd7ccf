//! `x ← x₀ ⊙ (W·(V·x) + b) + x`, layer by layer: DCN-v2's interaction. Without `V` at full rank.
//!
//! Backward, with `g` the gradient of a layer's output: `dz = g ⊙ x₀`, `dx₀ += g ⊙ z`, `dh = dz·W`, `g += dh·V`.

use super::{Back, Linear, Parameters};
use crate::Error;
use kernels::{Buffer, CrossBackward, Device, InputGradient, KernelError};
use spec::model::CrossLayer;
use std::ops::Range;

type Result = std::result::Result<(), KernelError>;

const PLAIN: InputGradient = InputGradient { accumulate: false, relu: false };
const ADDED: InputGradient = InputGradient { accumulate: true, relu: false };

/// A stack of cross layers.
#[derive(Debug)]
pub struct CrossNet {
    width: usize,
    layers: Vec<Layer>,
    gradient: Buffer<f32>,
    dz: Buffer<f32>,
    dh: Buffer<f32>,
}

#[derive(Debug)]
struct Layer {
    v: Option<Linear>,
    rank: usize,
    w: Linear,
    h: Buffer<f32>,
    z: Buffer<f32>,
    output: Buffer<f32>,
}

impl CrossNet {
    /// Cross layers over inputs of `width` columns.
    pub fn new(
        width: usize,
        layers: &[CrossLayer],
        parameters: &Parameters,
    ) -> std::result::Result<Self, Error> {
        let instantiate = |layer: &CrossLayer| {
            let v = layer.v.as_ref().map(|v| Linear::new(v, parameters, &v.name, "")).transpose()?;
            Ok(Layer {
                v,
                rank: layer.v.as_ref().map_or(0, |v| v.outputs),
                w: Linear::new(&layer.w, parameters, &layer.w.name, &layer.bias)?,
                h: parameters.buffer(),
                z: parameters.buffer(),
                output: parameters.buffer(),
            })
        };
        Ok(Self {
            width,
            layers: layers.iter().map(instantiate).collect::<std::result::Result<_, Error>>()?,
            gradient: parameters.buffer(),
            dz: parameters.buffer(),
            dh: parameters.buffer(),
        })
    }

    /// Output of the forward pass.
    pub fn output(&self) -> &Buffer<f32> {
        &self.layers.last().expect("a model has at least one cross layer").output
    }

    /// Runs `rows` samples through all layers.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        x0: &Buffer<f32>,
    ) -> Result {
        for i in 0..self.layers.len() {
            let (before, rest) = self.layers.split_at_mut(i);
            let x = before.last().map_or(x0, |layer| &layer.output);
            let Layer { v, w, h, z, output, .. } = &mut rest[0];
            match v {
                Some(v) => {
                    v.forward(device, parameters, rows, x, h)?;
                    w.forward_cross(device, parameters, rows, h, [x0, x], [z, output])?;
                }
                None => w.forward_cross(device, parameters, rows, x, [x0, x], [z, output])?,
            }
        }
        Ok(())
    }

    /// Takes a gradient back through `layers`, last first. The first call (with the last layer) takes the gradient of
    /// the output out of [`Back::gradient`]; [`Back::input_gradient`] is complete after the call with layer 0.
    pub fn backward(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        back: Back<'_>,
        layers: Range<usize>,
    ) -> Result {
        let Back { input: x0, gradient, input_gradient: dx0 } = back;
        let len = rows * self.width;
        let last = self.layers.len() - 1;
        if layers.contains(&last) {
            std::mem::swap(&mut self.gradient, gradient);
        }
        dx0.resize(len)?;
        self.dz.resize(len)?;
        for i in layers.rev() {
            let (before, rest) = self.layers.split_at_mut(i);
            let x = before.last().map_or(x0, |layer| &layer.output);
            let Layer { v, rank, w, h, z, .. } = &mut rest[0];
            device.cross_backward(CrossBackward {
                len,
                x0,
                z,
                dout: &self.gradient,
                dz: &mut self.dz,
                dx0,
                accumulate: i != last,
            })?;
            match v {
                Some(v) => {
                    self.dh.resize(rows * *rank)?;
                    w.backward(device, parameters, rows, h, &self.dz, Some((&mut self.dh, PLAIN)))?;
                    v.backward(device, parameters, rows, x, &self.dh, Some((&mut self.gradient, ADDED)))?;
                }
                None => {
                    w.backward(device, parameters, rows, x, &self.dz, Some((&mut self.gradient, ADDED)))?
                }
            }
            if i == 0 {
                device.add(len, &self.gradient, dx0)?;
            }
        }
        Ok(())
    }
}
