//! Chains of linear layers: each thread takes blocks of samples through all layers before threads meet.
//!
//! A block is one thread's work from the first layer to the last, so its activations are near when the next layer reads them,
//! and no result depends on which thread takes which block. Sums over samples come afterwards: threads share the product of each layer.
#![allow(unsafe_code)]

use super::linear::{Weights, gradients_of, input_gradient, map, map_cross};
use super::shared::Shared;
use super::values::{SharedValues, Values, ValuesMut};
use super::{Cpu, cross, elementwise};
use crate::op::chain::CHAIN_LAYERS;
use crate::{
    Buffer, ChainBackward, ChainForward, ChainLayer, CrossInputs, CrossKept, CrossLayerBackward,
    CrossLayersForward, InputGradient,
};
use ground::share;
use std::ops::Range;

/// Samples of a block at least and at most, in whole panels of 32 rows: few enough that their activations stay near.
const SAMPLES: [usize; 2] = [128, 384];

pub(crate) fn forward(cpu: &Cpu, args: ChainForward) {
    let ChainForward { rows, layers, x, outputs } = args;
    let (x, outputs) = (Values::of(x, layers[0].inputs), shared(rows, layers, outputs));
    cpu.take_blocks(rows, SAMPLES, &|cpu, block| {
        for (i, (layer, y)) in layers.iter().zip(outputs).enumerate() {
            let shape = layer.shape(block.len());
            // SAFETY: blocks do not overlap, and the outputs of two layers lie in two buffers.
            let (below, y) = unsafe {
                let below = i.checked_sub(1).map(|below| outputs[below].some(&block, layer.inputs));
                (below, y.some(&block, layer.outputs))
            };
            let x = below.as_ref().map_or_else(|| x.some(&block, layer.inputs), ValuesMut::read);
            map(cpu, shape, x, weights(layer), layer.relu(), y);
        }
    });
}

pub(crate) fn backward(cpu: &Cpu, args: ChainBackward) {
    let ChainBackward { rows, layers, outputs, output_gradients, activated, .. } = args;
    let x = |layer: usize| {
        let buffer = if layer == 0 { args.x } else { &outputs[layer - 1] };
        Values::of(buffer, layers[layer].inputs)
    };
    let last = layers.len() - 1;
    let masked = activated && layers[last].relu();
    let dx = args.dx.map(|(dx, into)| (SharedValues::of(dx, rows, layers[0].inputs), into));
    if dx.is_some() || masked || last > 0 {
        let dys = shared(rows, layers, output_gradients);
        cpu.take_blocks(rows, SAMPLES, &|cpu, block| {
            if masked {
                let outputs_of = of(&block, layers[last].outputs);
                // SAFETY: blocks do not overlap, and nothing else of this block is in use.
                let dy = unsafe { dys[last].plain().piece(outputs_of.clone()) };
                elementwise::relu_backward(cpu, &outputs[last].host()[outputs_of], dy);
            }
            for (i, layer) in layers.iter().enumerate().rev() {
                let below = i.checked_sub(1).map(|below| {
                    (dys[below], InputGradient { accumulate: false, relu: layers[below].relu() })
                });
                let Some((dx, into)) = below.or(dx) else { break };
                let shape = layer.shape(block.len());
                // SAFETY: blocks do not overlap, and the gradients of two layers lie in two buffers.
                let (dy, dx) = unsafe { (dys[i].some(&block, layer.outputs), dx.some(&block, layer.inputs)) };
                let x = x(i).some(&block, layer.inputs);
                input_gradient(cpu, shape, x, weights(layer), dy.read(), (dx, into));
            }
        });
    }
    let operand = |i: usize| (layers[i], x(i), Values::of(&output_gradients[i], layers[i].outputs));
    parameter_gradients(cpu, rows, layers.len(), operand, args.gradients);
}

pub(crate) fn cross_forward(cpu: &Cpu, args: CrossLayersForward) {
    let CrossLayersForward { rows, layers, x0, x, kept } = args;
    let mut each = layers.iter().zip(kept);
    let outputs: [(SharedValues, [Shared<f32>; 2]); CHAIN_LAYERS] =
        std::array::from_fn(|_| match each.next() {
            Some((layer, CrossKept { h, z, output })) => {
                let len = rows * layer.w.outputs;
                let wide = [z, output].map(|buffer| Shared::new(&mut buffer.host_mut()[..len]));
                (SharedValues::of(h, rows, layer.v.map_or(0, |v| v.outputs)), wide)
            }
            None => (SharedValues::none(), [(); 2].map(|()| Shared::new(&mut []))),
        });
    let (x0, x) = (x0.host(), x.host());
    cpu.take_blocks(rows, SAMPLES, &|cpu, block| {
        let width = of(&block, layers[0].w.outputs);
        let (x0, mut x) = (&x0[width.clone()], &x[width]);
        for (layer, (h, [z, out])) in layers.iter().zip(outputs) {
            let width = of(&block, layer.w.outputs);
            // SAFETY: blocks do not overlap.
            let (z, out) = unsafe { (z.piece(width.clone()), out.piece(width)) };
            if let Some(v) = layer.v {
                // SAFETY: blocks do not overlap.
                let h = unsafe { h.some(&block, v.outputs) };
                map(cpu, v.shape(block.len()), Values::Plain(x), weights(&v), false, h);
            }
            // SAFETY: nothing else of this block is in use.
            let h = layer.v.map(|v| unsafe { h.some(&block, v.outputs) });
            let inner = h.as_ref().map_or(Values::Plain(x), ValuesMut::read);
            map_cross(cpu, layer.w.shape(block.len()), inner, weights(&layer.w), [x0, x], [z, out]);
            x = out;
        }
    });
}

pub(crate) fn cross_backward(cpu: &Cpu, args: CrossLayerBackward) {
    let CrossLayerBackward { rows, maps, x0, x, inputs, .. } = args;
    let CrossInputs::Summed { dx0, accumulate, first } = inputs else { return };
    let (w, width) = (maps.w, maps.w.outputs);
    let rank = maps.v.map_or(0, |v| v.outputs);
    let ([x0, x, z], h) = ([x0, x, &args.kept.z].map(Buffer::host), Values::of(&args.kept.h, rank));
    {
        let (g, dx0) = (Shared::new(args.gradient.host_mut()), Shared::new(dx0.host_mut()));
        let (dz, dh) = (SharedValues::of(args.dz, rows, width), SharedValues::of(args.dh, rows, rank));
        cpu.take_blocks(rows, SAMPLES, &|cpu, block| {
            let (shape, wide) = (w.shape(block.len()), of(&block, width));
            // SAFETY: blocks do not overlap.
            let (g, dx0) = unsafe { (g.piece(wide.clone()), dx0.piece(wide.clone())) };
            let operands = [&x0[wide.clone()], &z[wide.clone()], g];
            // SAFETY: blocks do not overlap.
            cross::gradients(cpu, width, operands, unsafe { dz.some(&block, width) }, dx0, accumulate);
            // SAFETY: nothing else of this block is in use.
            let dz = unsafe { dz.some(&block, width) };
            let x = Values::Plain(&x[wide]);
            let added = InputGradient { accumulate: true, relu: false };
            match maps.v {
                None => input_gradient(cpu, shape, x, weights(&w), dz.read(), (ValuesMut::Plain(g), added)),
                Some(v) => {
                    // SAFETY: blocks do not overlap.
                    let to = (unsafe { dh.some(&block, rank) }, InputGradient::default());
                    input_gradient(cpu, shape, h.some(&block, rank), weights(&w), dz.read(), to);
                    // SAFETY: nothing else of this block is in use.
                    let dh = unsafe { dh.some(&block, rank) };
                    let shape = v.shape(block.len());
                    input_gradient(cpu, shape, x, weights(&v), dh.read(), (ValuesMut::Plain(g), added));
                }
            }
            if first {
                elementwise::add(cpu, g, dx0);
            }
        });
    }
    let (dz, dh, x) = (Values::of(args.dz, width), Values::of(args.dh, rank), Values::Plain(x));
    match maps.v {
        None => parameter_gradients(cpu, rows, 1, |_| (w, x, dz), args.gradients),
        Some(v) => parameter_gradients(cpu, rows, 2, |i| [(w, h, dz), (v, x, dh)][i], args.gradients),
    }
}

/// Gradients of matrix and bias of `count` layers; `operand` gives each with its input and the gradient of its output. Threads share
/// the product of a layer, for which they pack the inputs together.
fn parameter_gradients<'a>(
    cpu: &Cpu,
    rows: usize,
    count: usize,
    operand: impl Fn(usize) -> (ChainLayer<'a>, Values<'a>, Values<'a>),
    gradients: &mut [Buffer<f32>],
) {
    let shares = gradients.len();
    for (i, gradient) in gradients.iter_mut().enumerate() {
        let samples = share(rows, shares, i);
        for l in 0..count {
            let (layer, x, dy) = operand(l);
            let shape = layer.shape(samples.len());
            let (x, dy) = (x.some(&samples, layer.inputs), dy.some(&samples, layer.outputs));
            gradients_of(cpu, shape, x, dy, layer.at.find_mut(shape, gradient.host_mut()));
        }
    }
}

fn weights<'a>(layer: &ChainLayer<'a>) -> Weights<'a> {
    Weights::find(layer.shape(0), layer.parameters, layer.at, layer.packed)
}

/// Elements of the samples `block` in a matrix that is so wide.
fn of(block: &Range<usize>, width: usize) -> Range<usize> {
    block.start * width..block.end * width
}

/// Buffers of as many layers, to be written by all threads.
fn shared<'a>(
    rows: usize,
    layers: &[ChainLayer],
    buffers: &'a mut [Buffer<f32>],
) -> [SharedValues<'a>; CHAIN_LAYERS] {
    let mut each = layers.iter().zip(buffers);
    std::array::from_fn(|_| match each.next() {
        Some((layer, buffer)) => SharedValues::of(buffer, rows, layer.outputs),
        None => SharedValues::none(),
    })
}
