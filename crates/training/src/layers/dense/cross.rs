//! `x ← x₀ ⊙ (W·(V·x) + b) + x`, layer by layer: DCN-v2's interaction. Without `V` at full rank.
//!
//! Backward, with `g` the gradient of a layer's output: `dz = g ⊙ x₀`, `dx₀ += g ⊙ z`, `dh = dz·W`, `g += dh·V`.
//!
//! Where a device keeps rows in less than floats, it keeps the gradient of every layer too, and `dx₀` is summed once at the end.

use super::mlp::{pack_all, pack_bucket};
use super::{Back, Linear, Parameters, Weights};
use crate::Error;
use kernels::{
    Buffer, CHAIN_LAYERS, CrossInputs, CrossKept, CrossLayerBackward, CrossLayersBackward,
    CrossLayersForward, CrossMaps, CrossX0Gradient, Device, KernelError, Stored,
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
    /// Input of the first layer as the device keeps it, where that is not how it comes.
    x0: Buffer<f32>,
    /// Gradient of the input of the first layer, then of the output of each layer. The last is that of all layers in turn, where the
    /// device keeps floats.
    gradients: Vec<Buffer<f32>>,
    dz: Buffer<f32>,
    dh: Buffer<f32>,
    /// Whether the output goes to a reader that takes it as the device keeps it.
    pub keeps_output: bool,
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
            x0: parameters.buffer(),
            gradients: (0..=layers.len()).map(|_| parameters.buffer()).collect(),
            dz: parameters.buffer(),
            dh: parameters.buffer(),
            keeps_output: false,
        })
    }

    /// Output of the forward pass.
    pub fn output(&self) -> &Buffer<f32> {
        &self.kept.last().expect("a model has at least one cross layer").output
    }

    /// All linear maps.
    fn maps(&mut self) -> impl Iterator<Item = &mut Linear> {
        self.layers.iter_mut().flat_map(|Layer { v, w, .. }| v.iter_mut().chain([w]))
    }

    /// Packs the matrices of a bucket that has changed, as [`Mlp::pack`](super::Mlp::pack) does.
    pub fn pack(&mut self, device: &Device, parameters: &Parameters, bucket: usize) -> Result {
        pack_bucket(device, parameters, bucket, self.maps())
    }

    /// Runs `rows` samples through all layers.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        x0: &Buffer<f32>,
    ) -> Result {
        let (width, stored, last) = (self.width, device.keeps(self.width), self.layers.len() - 1);
        pack_all(device, parameters, self.maps())?;
        for (i, (layer, CrossKept { h, z, output })) in self.layers.iter().zip(&mut self.kept).enumerate() {
            h.resize_rows(device.keeps_hidden(layer.rank, width), rows, layer.rank)?;
            z.resize_rows(stored, rows, width)?;
            let given = if i == last && !self.keeps_output { Stored::Plain } else { stored };
            output.resize_rows(given, rows, width)?;
        }
        let x0 = if x0.stored() == stored {
            x0
        } else {
            self.x0.resize_rows(stored, rows, width)?;
            device.copy_rows(rows, width, x0, &mut self.x0)?;
            &self.x0
        };
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
        let Back { input, gradient, input_gradient: dx0 } = back;
        let (width, stored, last) = (self.width, device.keeps(self.width), self.layers.len() - 1);
        if layers.contains(&last) {
            let of_output = &mut self.gradients[last + 1];
            if gradient.stored() == stored {
                std::mem::swap(of_output, gradient);
            } else {
                of_output.resize_rows(stored, rows, width)?;
                device.copy_rows(rows, width, gradient, of_output)?;
            }
        }
        dx0.resize(rows * width)?;
        self.dz.resize_rows(device.keeps_hidden(width, width), rows, width)?;
        let (complete, summed) = (layers.start == 0, stored == Stored::Plain);
        if !summed && layers == (0..last + 1) && self.can_go_together() {
            return self.backward_together(device, parameters, rows, (input, dx0));
        }
        let x0 = if input.stored() == stored { input } else { &self.x0 };
        for i in layers.rev() {
            let layer = &self.layers[i];
            let (before, rest) = self.kept.split_at(i);
            self.dh.resize_rows(device.keeps_hidden(layer.rank, width), rows, layer.rank)?;
            let (below, above) = self.gradients.split_at_mut(i + 1);
            let (gradient, inputs) = if summed {
                let (accumulate, first) = (i != last, i == 0);
                (&mut above[last - i], CrossInputs::Summed { dx0: &mut *dx0, accumulate, first })
            } else {
                let dx = &mut below[i];
                dx.resize_rows(stored, rows, width)?;
                (&mut above[0], CrossInputs::Kept { dx })
            };
            let (weights, gradients) = parameters.buckets[layer.w.bucket()].weights_and_gradients();
            device.cross_layer_backward(CrossLayerBackward {
                rows,
                maps: layer.maps(|_| weights),
                x0,
                x: before.last().map_or(x0, |layer| &layer.output),
                kept: &rest[0],
                gradient,
                dz: &mut self.dz,
                dh: &mut self.dh,
                inputs,
                gradients,
            })?;
        }
        if summed || !complete {
            return Ok(());
        }
        let (kept, dx, gradients) = (&self.kept, &self.gradients[0], &self.gradients[1..]);
        device.cross_x0_gradient(CrossX0Gradient {
            rows,
            width,
            kept,
            gradients,
            dx,
            room: &mut self.dz,
            dx0,
        })
    }

    /// Whether one operation can take a gradient back through all layers.
    fn can_go_together(&self) -> bool {
        let first = &self.layers[0];
        let alike = |layer: &Layer| layer.rank == first.rank && layer.w.bucket() == first.w.bucket();
        self.layers.len() <= CHAIN_LAYERS && self.layers.iter().all(alike)
    }

    /// Takes the gradient of the output back through all layers at once, where the gradient of every layer is kept.
    fn backward_together(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        (input, dx0): (&Buffer<f32>, &mut Buffer<f32>),
    ) -> Result {
        let (width, stored, rank) = (self.width, device.keeps(self.width), self.layers[0].rank);
        let Self { layers, kept, gradients: of_outputs, dz, dh, x0: own, .. } = self;
        let x0 = if input.stored() == stored { input } else { own };
        of_outputs.iter_mut().try_for_each(|gradient| gradient.resize_rows(stored, rows, width))?;
        dh.resize_rows(device.keeps(rank), rows, rank)?;
        let (weights, gradients) = parameters.buckets[layers[0].w.bucket()].weights_and_gradients();
        let maps: [CrossMaps; CHAIN_LAYERS] =
            std::array::from_fn(|i| layers[i.min(layers.len() - 1)].maps(|_| weights));
        let layers = &maps[..layers.len()];
        device.cross_layers_backward(CrossLayersBackward {
            rows,
            layers,
            x0,
            kept,
            of_outputs,
            dz,
            dh,
            dx0,
            gradients,
        })
    }
}
