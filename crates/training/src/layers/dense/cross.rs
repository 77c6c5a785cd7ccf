//! `x ← x₀ ⊙ (W·(V·x) + b) + x`, layer by layer: DCN-v2's interaction. Without `V` at full rank.
//!
//! Backward, with `g` the gradient of a layer's output: `dz = g ⊙ x₀`, `dx₀ += g ⊙ z`, `dh = dz·W`, `g += dh·V`.

use super::{Back, Linear, Parameters, Weights};
use crate::Error;
use kernels::{
    Buffer, CHAIN_LAYERS, CrossKept, CrossLayerBackward, CrossLayersForward, CrossMaps, Device, KernelError,
};
use spec::model::CrossLayer;
use std::ops::Range;

type Result = std::result::Result<(), KernelError>;

/// A stack of cross layers.
#[derive(Debug)]
pub struct CrossNet {
    width: usize,
    layers: Vec<Layer>,
    /// Results of each layer's forward pass.
    kept: Vec<CrossKept>,
    gradient: Buffer<f32>,
    dz: Buffer<f32>,
    dh: Buffer<f32>,
}

#[derive(Debug)]
struct Layer {
    v: Option<Linear>,
    rank: usize,
    w: Linear,
}

impl Layer {
    /// The maps of the layer; `weights` gives the weights of a bucket.
    fn maps<'a>(&'a self, weights: impl Fn(usize) -> &'a Weights) -> CrossMaps<'a> {
        let map = |linear: &'a Linear| linear.in_chain(weights(linear.bucket()));
        CrossMaps { v: self.v.as_ref().map(map), w: map(&self.w) }
    }
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
            })
        };
        Ok(Self {
            width,
            layers: layers.iter().map(instantiate).collect::<std::result::Result<_, Error>>()?,
            kept: layers.iter().map(|_| CrossKept::new(parameters.space())).collect(),
            gradient: parameters.buffer(),
            dz: parameters.buffer(),
            dh: parameters.buffer(),
        })
    }

    /// Output of the forward pass.
    pub fn output(&self) -> &Buffer<f32> {
        &self.kept.last().expect("a model has at least one cross layer").output
    }

    /// Runs `rows` samples through all layers.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        x0: &Buffer<f32>,
    ) -> Result {
        for (layer, CrossKept { h, z, output }) in self.layers.iter_mut().zip(&mut self.kept) {
            let Layer { v, w, .. } = &mut *layer;
            v.iter_mut().chain([w]).try_for_each(|map| map.pack(device, parameters))?;
            h.resize(rows * layer.rank)?;
            z.resize(rows * self.width)?;
            output.resize(rows * self.width)?;
        }
        for (run, start) in self.layers.chunks(CHAIN_LAYERS).zip((0..).step_by(CHAIN_LAYERS)) {
            let (before, kept) = self.kept.split_at_mut(start);
            let x = before.last().map_or(x0, |layer| &layer.output);
            let maps: [CrossMaps; CHAIN_LAYERS] = std::array::from_fn(|i| {
                let weights = |bucket: usize| &parameters.buckets[bucket].weights;
                run[i.min(run.len() - 1)].maps(weights)
            });
            let layers = &maps[..run.len()];
            device.cross_layers_forward(CrossLayersForward { rows, layers, x0, x, kept })?;
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
            let layer = &self.layers[i];
            let (before, rest) = self.kept.split_at(i);
            self.dh.resize(rows * layer.rank)?;
            let (weights, gradients) = parameters.buckets[layer.w.bucket()].weights_and_gradients();
            device.cross_layer_backward(CrossLayerBackward {
                rows,
                maps: layer.maps(|_| weights),
                x0,
                x: before.last().map_or(x0, |layer| &layer.output),
                kept: &rest[0],
                gradient: &mut self.gradient,
                dz: &mut self.dz,
                dh: &mut self.dh,
                dx0,
                accumulate: i != last,
                first: i == 0,
                gradients,
            })?;
        }
        Ok(())
    }
}
