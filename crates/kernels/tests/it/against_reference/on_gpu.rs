//! What only a GPU has: products of rounded operands, shapes too large for shared memory, and steps that allocate nothing. Without
//! a GPU these tests do nothing.

use super::support::*;
use crate::gpu::{device, in_precision};
use ground::Activation;
use ground::optimizer::UpdateRule;
use ground::precision::Precision;
use half::bf16;
use kernels::{
    BlockCopy, Buffer, Device, DotShape, InputGradient, LinearAt, LinearBackward, LinearForward, LinearShape,
    Update, UpdateDense,
};

/// A linear map of some samples, and what its gradients are computed from.
struct Layer {
    shape: LinearShape,
    at: LinearAt,
    x: Buffer<f32>,
    parameters: Buffer<f32>,
    dy: Buffer<f32>,
    dx: Buffer<f32>,
}

impl Layer {
    fn new([rows, inputs, outputs]: [usize; 3], seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        // A matrix at an odd address in every second layer.
        let before = seed as usize % 2 * 3;
        let at = LinearAt { weight: before, bias: Some(before + outputs * inputs) };
        Self {
            shape: LinearShape { rows, inputs, outputs },
            at,
            x: numbers.floats(rows * inputs),
            parameters: numbers.floats(before + outputs * (inputs + 1)),
            dy: numbers.floats(rows * outputs),
            dx: numbers.floats(rows * inputs),
        }
    }

    /// The same layer with operands of products as bf16 has them; biases stay.
    fn rounded(&self) -> Self {
        let round = |values: &mut [f32]| values.iter_mut().for_each(|v| *v = bf16::from_f32(*v).to_f32());
        let whole = |of: &Buffer<f32>| {
            let mut values = of.to_vec().unwrap();
            round(&mut values);
            buffer(&values)
        };
        let mut parameters = self.parameters.to_vec().unwrap();
        round(&mut parameters[..self.at.bias.unwrap()]);
        let (x, dy) = (whole(&self.x), whole(&self.dy));
        Self { shape: self.shape, at: self.at, x, parameters: buffer(&parameters), dy, dx: copy(&self.dx) }
    }

    /// Output, gradient of the input (added to what was there), and gradients of the parameters for two shares of the samples.
    fn run(&self, device: &Device, relu: bool) -> [Vec<f32>; 4] {
        let [x, parameters, dy, mut dx] =
            [&self.x, &self.parameters, &self.dy, &self.dx].map(|operand| on(device, operand));
        let mut y = on(device, &numbers_like(self.shape.rows * self.shape.outputs));
        let activation = if relu { Activation::Relu } else { Activation::Identity };
        let (shape, at, parameters) = (self.shape, self.at, &parameters);
        device
            .linear_forward(LinearForward {
                shape,
                x: &x,
                parameters,
                at,
                packed: None,
                activation,
                y: &mut y,
            })
            .unwrap();
        let mut gradients = [(); 2].map(|()| on(device, &zeros(parameters.len())));
        device
            .linear_backward(LinearBackward {
                shape,
                x: &x,
                parameters,
                at,
                packed: None,
                dy: &dy,
                dx: Some((&mut dx, InputGradient { accumulate: true, relu })),
                gradients: &mut gradients,
            })
            .unwrap();
        let [first, second] = gradients;
        [y, dx, first, second].map(|buffer| buffer.to_vec().unwrap())
    }
}

const SHAPES: [[usize; 3]; 6] =
    [[64, 13, 24], [33, 479, 65], [128, 256, 128], [5, 8, 16], [300, 16, 3], [70, 100, 1]];

fn assert_close(got: &[Vec<f32>; 4], expected: &[Vec<f32>; 4], tolerance: f32, what: &str) {
    for (o, (got, expected)) in got.iter().zip(expected).enumerate() {
        for (i, (g, e)) in got.iter().zip(expected).enumerate() {
            assert!(
                (g - e).abs() <= tolerance * (1.0 + e.abs()),
                "{what}, output {o}, element {i}: {g}, expected {e}"
            );
        }
    }
}

/// Products in bf16 are those of rounded operands; gradients of biases are sums of `dy` as it is, and so is all of a layer with one
/// output.
#[test]
fn products_in_bf16() {
    let Some(gpu) = in_precision(Precision::Bf16) else { return };
    for (shape, seed) in SHAPES.into_iter().zip(1..) {
        let layer = Layer::new(shape, seed);
        let [exact, mut expected] =
            [&layer, &layer.rounded()].map(|of| of.run(&Device::Reference, seed % 3 == 0));
        for (exact, expected) in exact[2..].iter().zip(&mut expected[2..]) {
            let bias = layer.at.bias.unwrap();
            expected[bias..].copy_from_slice(&exact[bias..]);
        }
        let expected = if shape[2] == 1 { exact } else { expected };
        let terms = shape.into_iter().max().unwrap() as f32;
        let got = layer.run(&gpu, seed % 3 == 0);
        assert_close(&got, &expected, 1e-5 * (1.0 + terms.sqrt()), &format!("bf16 {shape:?}"));
        assert_eq!(got, layer.run(&gpu, seed % 3 == 0), "the same bits again");
    }
}

/// Products in tf32 are within the rounding of their operands to 11 bits.
#[test]
fn products_in_tf32() {
    let Some(gpu) = in_precision(Precision::Tf32) else { return };
    for (shape, seed) in SHAPES.into_iter().zip(1..) {
        let layer = Layer::new(shape, seed);
        let terms = shape.into_iter().max().unwrap() as f32;
        let [expected, got] = [&Device::Reference, &gpu].map(|device| layer.run(device, seed % 3 == 0));
        assert_close(&got, &expected, (1.0 + terms.sqrt()) / 512.0, &format!("tf32 {shape:?}"));
        assert_eq!(got, layer.run(&gpu, seed % 3 == 0), "the same bits again");
    }
}

/// Vectors of a sample, and gradients of their pairs, that exceed the shared memory of a multiprocessor.
#[test]
fn dot_products_of_many_vectors() {
    let Some(gpu) = device() else { return };
    for [rows, count, dim] in [[1, 300, 200], [2, 300, 203], [3, 27, 128], [65, 27, 128]] {
        let shape = DotShape { rows, count, dim };
        let mut numbers = Numbers(count as u64);
        let (vectors, dout) = (numbers.floats(rows * count * dim), numbers.floats(rows * shape.width()));
        let [expected, got] = [&Device::Reference, &gpu].map(|device| {
            let [vectors, dout] = [&vectors, &dout].map(|operand| on(device, operand));
            let [mut out, mut dvectors] =
                [dout.len(), vectors.len()].map(|len| on(device, &numbers_like(len)));
            device.dot_forward(shape, &vectors, &mut out).unwrap();
            device.dot_backward(shape, &vectors, &dout, &mut dvectors).unwrap();
            [out, dvectors].map(|buffer| buffer.to_vec().unwrap())
        });
        for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
            assert!(
                (got - expected).abs() <= 1e-4 * (1.0 + expected.abs()),
                "{shape:?}: {got}, expected {expected}"
            );
        }
    }
}

/// Rules that look at each weight alone have the bits of the reference, with all that comes before the rule.
#[test]
fn updates_have_the_bits_of_the_reference() {
    let Some(gpu) = device() else { return };
    let alone = |rule: &UpdateRule| rule.for_dense() && !matches!(rule, UpdateRule::Lamb { .. });
    for (rule, how) in rules().into_iter().filter(alone).flat_map(|rule| (0..4).map(move |how| (rule, how))) {
        let mut numbers = Numbers(how as u64);
        let len = 5003;
        let (weights, gradients) = (numbers.floats(len), [(); 3].map(|()| numbers.floats(len)));
        let [expected, got] = [&Device::Reference, &gpu].map(|device| {
            let [mut w, mut state] =
                [&weights, &zeros(rule.state_per_row(len))].map(|operand| on(device, operand));
            let mut changed = Vec::new();
            for (gradient, step) in gradients.iter().zip(1..) {
                let (update, mut gradient) =
                    (regularised(Update::new(rule, 0.1, step), how), on(device, gradient));
                let (weights, gradient, state) = (&mut w, &mut gradient, &mut state);
                device
                    .update_dense(UpdateDense {
                        update,
                        tensors: &[0..len / 2, len / 2..len],
                        weights,
                        gradient,
                        state,
                    })
                    .unwrap();
                changed.push(bits(gradient));
            }
            (bits(&w), bits(&state), changed)
        });
        assert!(expected == got, "{rule:?} {how}");
    }
}

/// Operations that ran before allocate nothing, and never make the host wait.
#[test]
fn nothing_is_allocated_after_warm_up() {
    let Some(gpu) = in_precision(Precision::Bf16) else { return };
    let layer = Layer::new([64, 13, 24], 1);
    let [x, parameters, dy, mut dx] =
        [&layer.x, &layer.parameters, &layer.dy, &layer.dx].map(|operand| on(&gpu, operand));
    let (mut y, mut gradient) = (on(&gpu, &zeros(dy.len())), on(&gpu, &zeros(parameters.len())));
    let blocks = [BlockCopy { from: 3, to: 0, len: 5 }, BlockCopy { from: 0, to: 5, len: 2 }];
    let mut step = || {
        let (shape, at, parameters, activation) = (layer.shape, layer.at, &parameters, Activation::Relu);
        gpu.linear_forward(LinearForward {
            shape,
            x: &x,
            parameters,
            at,
            packed: None,
            activation,
            y: &mut y,
        })
        .unwrap();
        let (dy, dx) = (&dy, Some((&mut dx, InputGradient::default())));
        let gradients = std::slice::from_mut(&mut gradient);
        gpu.linear_backward(LinearBackward { shape, x: &x, parameters, at, packed: None, dy, dx, gradients })
            .unwrap();
        gpu.copy_blocks(&blocks, dy, &mut y).unwrap();
        gpu.counts()
    };
    let (first, second) = (step(), step());
    assert_eq!(second.allocations, first.allocations);
    assert_eq!(second.synchronisations, first.synchronisations);
    assert!(second.launches > first.launches);
}
