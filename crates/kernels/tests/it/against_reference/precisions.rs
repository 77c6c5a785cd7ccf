//! Products of linear maps in bf16 and f32x3 on the host's cores: with every set of instructions that the machine has, with
//! 1 to 3 threads, with packed matrices and without.
//!
//! In bf16 the reference multiplies operands that were rounded before, so that what remains is the order of sums. In f32x3 the
//! error against exact products of f32 is at most 1e-5 of the root mean square of the results.

use super::support::*;
use ground::Activation;
use ground::precision::Precision;
use kernels::{
    Buffer, Cpu, Device, InputGradient, KernelError, LinearAt, LinearBackward, LinearCrossForward,
    LinearForward, LinearShape, PackLinear, PackedLinear,
};
use proptest::prelude::*;

/// Operands of all products of a linear map.
struct Layer {
    shape: LinearShape,
    relu: bool,
    accumulate: bool,
    at: LinearAt,
    x: Vec<f32>,
    parameters: Vec<f32>,
    dy: Vec<f32>,
    old: Vec<f32>,
}

impl Layer {
    fn new([rows, inputs, outputs]: [usize; 3], [relu, bias, accumulate]: [bool; 3], seed: u64) -> Self {
        let shape = LinearShape { rows, inputs, outputs };
        let mut numbers = Numbers(seed);
        let mut floats = |len| numbers.floats(len).to_vec().unwrap();
        // The parameters of this layer among others, at addresses that nothing is aligned to.
        let at = LinearAt { weight: 3, bias: bias.then_some(outputs * inputs + 5) };
        let (x, parameters) = (floats(rows * inputs), floats(outputs * inputs + outputs + 5));
        let (dy, old) = (floats(rows * outputs), floats(rows * inputs));
        Self { shape, relu, accumulate, at, x, parameters, dy, old }
    }

    /// The layer with operands in bf16; bias and old gradients stay as they are.
    fn rounded(&self) -> Self {
        let round = |values: &[f32]| -> Vec<f32> {
            values.iter().map(|&value| half::bf16::from_f32(value).to_f32()).collect()
        };
        let mut parameters = self.parameters.clone();
        let matrix = self.at.weight..self.at.weight + self.shape.outputs * self.shape.inputs;
        parameters[matrix.clone()].copy_from_slice(&round(&self.parameters[matrix]));
        Self { x: round(&self.x), dy: round(&self.dy), parameters, old: self.old.clone(), ..*self }
    }

    /// Outputs, gradient of the input, gradients of the parameters (of all samples, and of two shares), and both outputs of a
    /// cross layer.
    fn run(&self, device: &Device, packs: bool) -> Vec<Vec<f32>> {
        let Self { shape, relu, at, .. } = *self;
        let LinearShape { rows, outputs, .. } = shape;
        let [x, parameters, dy, mut dx] =
            [&self.x, &self.parameters, &self.dy, &self.old].map(|values| buffer(values));
        let mut packed = PackedLinear::new(device);
        if packs {
            let packed = &mut packed;
            let args =
                PackLinear { shape, parameters: &parameters, at, backward: true, masked: true, packed };
            device.pack_linear(args).unwrap();
        }
        let (packed, parameters) = (packs.then_some(&packed), &parameters);
        let activation = if relu { Activation::Relu } else { Activation::Identity };
        let mut y = numbers_like(rows * outputs);
        let y_to = &mut y;
        device
            .linear_forward(LinearForward { shape, x: &x, parameters, at, packed, activation, y: y_to })
            .unwrap();
        let backward = |dx: Option<(&mut Buffer<f32>, InputGradient)>, count: usize| {
            let mut gradients: Vec<_> = (0..count).map(|_| numbers_like(parameters.len())).collect();
            let (x, dy, gradients_to) = (&x, &dy, &mut gradients[..]);
            let gradients_to =
                LinearBackward { shape, x, parameters, at, packed, dy, dx, gradients: gradients_to };
            device.linear_backward(gradients_to).unwrap();
            gradients
        };
        let mut all = backward(Some((&mut dx, InputGradient { accumulate: self.accumulate, relu })), 1);
        all.extend(backward(None, 2));
        let (mut z, mut out) = (numbers_like(rows * outputs), numbers_like(rows * outputs));
        let (z_to, out_to) = (&mut z, &mut out);
        let cross =
            LinearCrossForward { shape, h: &x, parameters, at, packed, x0: &dy, x: &y, z: z_to, out: out_to };
        device.linear_cross_forward(cross).unwrap();
        all.extend([y, dx, z, out]);
        all.iter().map(|buffer| buffer.to_vec().unwrap()).collect()
    }

    /// What the reference gives on operands in bf16; the bias' gradient is a sum of f32, and so is whatever
    /// belongs to a single output, but for cross layers.
    fn expected_in_bf16(&self) -> Vec<Vec<f32>> {
        let plain = self.run(&Device::Reference, false);
        let mut expected = self.rounded().run(&Device::Reference, false);
        if self.shape.outputs == 1 {
            expected[..5].clone_from_slice(&plain[..5]);
        } else if let Some(bias) = self.at.bias {
            for (expected, plain) in expected.iter_mut().zip(&plain).take(3) {
                expected[bias..].copy_from_slice(&plain[bias..]);
            }
        }
        // Operands of the cross layer that are not products' stay in f32.
        let (y, z) = (expected[3].clone(), expected[5].clone());
        for (i, out) in expected[6].iter_mut().enumerate() {
            *out = self.dy[i] * z[i] + y[i];
        }
        expected
    }
}

/// Pools of 1 to 3 threads with each set of instructions, from the best down.
fn levels() -> Vec<[Cpu; 3]> {
    let best = [1, 2, 3].map(|threads| Cpu::new(threads).unwrap());
    let below = |cpus: &[Cpu; 3]| {
        let [Some(one), Some(two), Some(three)] = [0, 1, 2].map(|i| cpus[i].below()) else { return None };
        Some([one, two, three])
    };
    std::iter::successors(Some(best), below).collect()
}

/// Runs the layer everywhere, holds thread counts and packing to the same bits, and gives what each set of instructions computed.
fn at_every_level(layer: &Layer, precision: Precision) -> Vec<(&'static str, Vec<Vec<f32>>)> {
    let bits = |results: &[Vec<f32>]| -> Vec<Vec<u32>> {
        results.iter().map(|values| values.iter().map(|value| value.to_bits()).collect()).collect()
    };
    let at_level = |cpus: [Cpu; 3]| {
        let name = cpus[0].matrix_instructions();
        let devices = cpus.map(|cpu| Device::Cpu(cpu).in_precision(precision));
        let first = layer.run(&devices[0], false);
        for (threads, device) in (1..).zip(&devices) {
            for packs in [false, true] {
                let again = layer.run(device, packs);
                assert!(
                    bits(&again) == bits(&first),
                    "{name}, {precision}: bits differ with {threads} threads, packed: {packs}"
                );
            }
        }
        (name, first)
    };
    levels().into_iter().map(at_level).collect()
}

fn bf16(sizes: [usize; 3], flags: [bool; 3], seed: u64) {
    let layer = Layer::new(sizes, flags, seed);
    let expected = layer.expected_in_bf16();
    let terms = sizes.into_iter().max().unwrap_or(0) as f32;
    for (name, results) in at_every_level(&layer, Precision::Bf16) {
        for (output, (got, expected)) in results.iter().zip(&expected).enumerate() {
            for (i, (g, e)) in got.iter().zip(expected).enumerate() {
                let close = (g - e).abs() <= (1e-6 + terms * 1e-7) * (1.0 + e.abs() + terms.sqrt());
                assert!(close, "{name}, {sizes:?}, output {output}, element {i}: {g}, expected {e}");
            }
        }
    }
}

fn f32x3(sizes: [usize; 3], flags: [bool; 3], seed: u64) {
    let layer = Layer::new(sizes, flags, seed);
    let expected = layer.run(&Device::Reference, false);
    for (name, results) in at_every_level(&layer, Precision::F32x3) {
        for (output, (got, expected)) in results.iter().zip(&expected).enumerate() {
            let squares = |of: &mut dyn Iterator<Item = f64>| of.map(|value| value * value).sum::<f64>();
            let pairs = || got.iter().zip(expected);
            let error = squares(&mut pairs().map(|(g, e)| *g as f64 - *e as f64)).sqrt();
            let size = squares(&mut expected.iter().map(|e| *e as f64)).sqrt();
            // Few sums may cancel: then they are held to the size that sums of so many products of numbers in ±1 have.
            let terms = sizes.into_iter().max().unwrap_or(0);
            let size = size.max((expected.len() as f64 * terms as f64).sqrt() / 3.0);
            assert!(error <= 1e-5 * size, "{name}, {sizes:?}, output {output}: {error} of {size}");
        }
    }
}

#[test]
fn products_at_the_edges() {
    let shapes = [
        [0, 3, 5],
        [5, 0, 3],
        // No terms, and several panels of columns.
        [5, 0, 60],
        [5, 3, 0],
        [1, 1, 1],
        [1, 1, 2],
        [32, 32, 32],
        [33, 31, 65],
        [100, 13, 64],
        [40, 60, 1],
        [17, 479, 33],
        // More than one group of rows.
        [560, 70, 40],
        // More than one block of terms in gradients.
        [2100, 20, 34],
        [2100, 272, 33],
        // Results of more than 1 MB in whole lines, which matrix units write past the caches: outputs, and gradients of inputs.
        [1040, 33, 272],
        [1040, 272, 33],
    ];
    for (i, sizes) in shapes.into_iter().enumerate() {
        let flags = [i % 2 == 0, i % 3 == 0, i % 4 < 2];
        bf16(sizes, flags, 3);
        f32x3(sizes, flags, 4);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn products_in_bf16(
        rows in 1..70usize, inputs in 1..70usize, outputs in 1..70usize, relu: bool, bias: bool, accumulate: bool, seed: u64,
    ) {
        bf16([rows, inputs, outputs], [relu, bias, accumulate], seed);
    }

    #[test]
    fn products_in_f32x3(
        rows in 1..70usize, inputs in 1..70usize, outputs in 1..70usize, relu: bool, bias: bool, accumulate: bool, seed: u64,
    ) {
        f32x3([rows, inputs, outputs], [relu, bias, accumulate], seed);
    }
}

/// Long sums of larger layers, the best instructions alone.
#[test]
fn errors_of_long_sums() {
    let layer = Layer::new([150, 700, 130], [false, true, true], 9);
    let expected = layer.run(&Device::Reference, false);
    let device = Device::cpu(2).unwrap();
    let relative = |precision| {
        let results = layer.run(&device.in_precision(precision), true);
        let errors = results.iter().zip(&expected).map(|(got, expected)| {
            let sum = |of: &mut dyn Iterator<Item = f64>| of.map(|value| value * value).sum::<f64>();
            sum(&mut got.iter().zip(expected).map(|(g, e)| *g as f64 - *e as f64))
                / sum(&mut expected.iter().map(|e| *e as f64))
        });
        errors.fold(0.0, f64::max).sqrt()
    };
    let [f32, f32x3, bf16] = [Precision::F32, Precision::F32x3, Precision::Bf16].map(relative);
    assert!(f32 < 1e-6 && f32x3 < 1e-5 && bf16 < 1e-2, "{f32}, {f32x3}, {bf16}");
    assert!(bf16 > 1e-4, "operands were not rounded: {bf16}");
}

#[test]
fn packed_matrices_are_checked() {
    let device = Device::cpu(1).unwrap().in_precision(Precision::Bf16);
    let shape = LinearShape { rows: 2, inputs: 3, outputs: 4 };
    let at = LinearAt { weight: 0, bias: None };
    let (x, parameters, mut y) = (zeros(6), zeros(12), zeros(10));
    let mut packed = PackedLinear::new(&device);
    let packs = PackLinear {
        shape,
        parameters: &parameters,
        at,
        backward: false,
        masked: false,
        packed: &mut packed,
    };
    device.pack_linear(packs).unwrap();
    let bytes = kernels::packed_bytes(shape, Precision::Bf16, false);
    assert_eq!((packed.bytes(), packed.is_empty()), (bytes, false));
    // Both sides of twelve numbers, in whole panels.
    assert!(kernels::packed_bytes(shape, Precision::F32, true) >= 2 * 12 * size_of::<f32>());
    let mut forward = |device: &Device, outputs| {
        let shape = LinearShape { outputs, ..shape };
        let (packed, activation, y) = (Some(&packed), Activation::Identity, &mut y);
        device.linear_forward(LinearForward {
            shape,
            x: &x,
            parameters: &parameters,
            at,
            packed,
            activation,
            y,
        })
    };
    // One of another precision is ignored.
    forward(&device.in_precision(Precision::F32), 4).unwrap();
    forward(&device.in_precision(Precision::F32x3), 4).unwrap();
    forward(&device, 4).unwrap();
    let refused = forward(&device, 3).unwrap_err();
    let what = "outputs of the packed matrix";
    assert_eq!(refused, KernelError::Mismatch { op: "linear_forward", what, expected: 3, got: 4 });
    let short = zeros(11);
    let packs =
        PackLinear { shape, parameters: &short, at, backward: false, masked: false, packed: &mut packed };
    assert!(matches!(device.pack_linear(packs), Err(KernelError::TooShort { expected: 12, got: 11, .. })));
}
