//! Chains of layers: the bits of single layers on every device, whatever the number of threads.

use super::support::*;
use ground::Activation;
use ground::precision::Precision;
use kernels::{
    Buffer, CHAIN_LAYERS, ChainBackward, ChainForward, ChainLayer, Cpu, Device, InputGradient, KernelError,
    LinearAt, LinearBackward, LinearForward, LinearShape, PackLinear, PackedLinear, Stored,
};
use proptest::prelude::*;

/// Takes samples through a chain and back.
fn chain(
    device: &Device,
    rows: usize,
    layers: &[ChainLayer],
    x: &Buffer<f32>,
    (outputs, output_gradients): (&mut [Buffer<f32>], &mut [Buffer<f32>]),
    dx: Option<(&mut Buffer<f32>, InputGradient)>,
    gradients: &mut [Buffer<f32>],
) {
    device.chain_forward(ChainForward { rows, layers, x, outputs }).unwrap();
    let activated = true;
    let back = ChainBackward { rows, layers, x, outputs, output_gradients, activated, dx, gradients };
    device.chain_backward(back).unwrap();
}

/// A chain of layers of these widths, with some ReLUs and some biases, and its operands.
struct Chain {
    rows: usize,
    widths: Vec<usize>,
    relu: Vec<bool>,
    at: Vec<LinearAt>,
    parameters: Buffer<f32>,
    x: Buffer<f32>,
    dy: Buffer<f32>,
}

impl Chain {
    fn new(rows: usize, widths: Vec<usize>, seed: u64) -> Self {
        let (mut numbers, mut end) = (Numbers(seed), 3);
        let mut at = Vec::new();
        for pair in widths.windows(2) {
            let (weight, bias) = (end, (numbers.next() % 3 > 0).then_some(end + pair[0] * pair[1] + 1));
            end += pair[0] * pair[1] + 1 + pair[1];
            at.push(LinearAt { weight, bias });
        }
        let relu = at.iter().map(|_| numbers.next().is_multiple_of(2)).collect();
        let [first, last] = [widths[0], widths[widths.len() - 1]];
        let [parameters, x, dy] = [end, rows * first, rows * last].map(|len| numbers.floats(len));
        Self { rows, widths, relu, at, parameters, x, dy }
    }

    fn layers<'a>(&self, parameters: &'a Buffer<f32>, packed: &'a [PackedLinear]) -> Vec<ChainLayer<'a>> {
        let layer = |(i, &at): (usize, &LinearAt)| ChainLayer {
            inputs: self.widths[i],
            outputs: self.widths[i + 1],
            activation: if self.relu[i] { Activation::Relu } else { Activation::Identity },
            parameters,
            at,
            packed: packed.get(i),
        };
        self.at.iter().enumerate().map(layer).collect()
    }

    /// Matrices as the device reads them fastest.
    fn packed(&self, device: &Device, parameters: &Buffer<f32>) -> Vec<PackedLinear> {
        let pack = |(i, &at): (usize, &LinearAt)| {
            let (shape, mut packed) = (self.shape(i), PackedLinear::new(device));
            let args =
                PackLinear { shape, parameters, at, backward: true, masked: true, packed: &mut packed };
            device.pack_linear(args).unwrap();
            packed
        };
        self.at.iter().enumerate().map(pack).collect()
    }

    fn shape(&self, layer: usize) -> LinearShape {
        LinearShape { rows: self.rows, inputs: self.widths[layer], outputs: self.widths[layer + 1] }
    }

    /// Buffers of all outputs as the device keeps rows that products read.
    fn kept(&self, device: &Device) -> Vec<Buffer<f32>> {
        let kept = |&width: &usize| {
            let mut buffer = Buffer::new(device);
            buffer.resize_rows(device.keeps(width), self.rows, width).unwrap();
            buffer
        };
        self.widths[1..].iter().map(kept).collect()
    }

    /// Outputs, gradients of outputs, of the input and of the parameters, with rows that the device keeps as it likes.
    fn run_kept(&self, device: &Device) -> Vec<Vec<f32>> {
        let (rows, (x, parameters)) = (self.rows, (on(device, &self.x), on(device, &self.parameters)));
        let packed = self.packed(device, &parameters);
        let layers = self.layers(&parameters, &packed);
        let (mut outputs, mut dys, mut dx) = (self.kept(device), self.kept(device), Buffer::new(device));
        dx.resize_rows(device.keeps(self.widths[0]), rows, self.widths[0]).unwrap();
        *dys.last_mut().unwrap() = on(device, &self.dy);
        let mut gradients = [on(device, &numbers_like(parameters.len()))];
        let into = Some((&mut dx, InputGradient { accumulate: false, relu: false }));
        chain(device, rows, &layers, &x, (&mut outputs, &mut dys), into, &mut gradients);
        let all = outputs.iter().chain(&dys).chain([&dx]).chain(&gradients);
        all.map(|buffer| buffer.to_vec().unwrap()).collect()
    }

    fn buffers(&self, device: &Device) -> Vec<Buffer<f32>> {
        self.widths[1..].iter().map(|width| on(device, &numbers_like(self.rows * width))).collect()
    }

    /// Buffers of all outputs as the device keeps rows between layers; the last one is plain.
    fn hidden(&self, device: &Device) -> Vec<Buffer<f32>> {
        let mut buffers = self.buffers(device);
        for (pair, buffer) in self.widths[1..].windows(2).zip(&mut buffers) {
            buffer.resize_rows(device.keeps_hidden(pair[0], pair[1]), self.rows, pair[0]).unwrap();
        }
        buffers
    }

    /// A chain whose values between layers are kept in bf16 gives the bits of one that keeps floats, for products round or split them in any
    /// case; gradients of biases alone are sums of rounded gradients.
    fn compare_hidden(&self, device: &Device, input: Option<bool>, shares: usize) {
        let rows = self.rows;
        let floats = self.run(device, true, input, shares);
        let (x, parameters) = (on(device, &self.x), on(device, &self.parameters));
        let packed = self.packed(device, &parameters);
        let layers = self.layers(&parameters, &packed);
        let (mut outputs, mut dys) = (self.hidden(device), self.hidden(device));
        *dys.last_mut().unwrap() = on(device, &self.dy);
        let mut dx = on(device, &numbers_like(rows * self.widths[0]));
        let mut gradients: Vec<_> =
            (0..shares).map(|_| on(device, &numbers_like(parameters.len()))).collect();
        let into = input.map(|accumulate| (&mut dx, InputGradient { accumulate, relu: true }));
        chain(device, rows, &layers, &x, (&mut outputs, &mut dys), into, &mut gradients);
        let kept = |buffer: &Buffer<f32>| buffer.stored() != Stored::Plain;
        let mut expected = floats;
        let (values, rest) = expected.split_at_mut(2 * layers.len());
        for (buffer, expected) in outputs.iter().chain(&dys).zip(&mut *values) {
            if kept(buffer) {
                expected.iter_mut().for_each(|value| *value = as_kept(*value, buffer.stored()));
            }
        }
        let dy_values = &values[layers.len()..];
        for (share, gradient) in rest[1..].iter_mut().enumerate() {
            let samples = ground::share(rows, shares, share);
            for (i, layer) in layers.iter().enumerate().filter(|&(i, _)| kept(&dys[i])) {
                let Some(bias) = layer.at.bias else { continue };
                for (output, sum) in gradient[bias..bias + layer.outputs].iter_mut().enumerate() {
                    let dy = |sample: usize| dy_values[i][sample * layer.outputs + output];
                    *sum = samples.clone().map(dy).fold(0.0, |sum, dy| sum + dy);
                }
            }
        }
        let all = outputs.iter().chain(&dys).chain([&dx]).chain(&gradients);
        for (i, (got, expected)) in all.zip(&expected).enumerate() {
            let [got, expected] = [&got.to_vec().unwrap(), expected]
                .map(|values| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
            assert!(got == expected, "result {i}: {rows} rows, widths {:?}, {shares} shares", self.widths);
        }
    }

    /// Outputs, gradients of outputs, of the input and of the parameters, by chains or layer by layer.
    fn run(&self, device: &Device, chained: bool, input: Option<bool>, shares: usize) -> Vec<Vec<f32>> {
        let rows = self.rows;
        let (x, parameters) = (on(device, &self.x), on(device, &self.parameters));
        let packed = if chained { self.packed(device, &parameters) } else { Vec::new() };
        let layers = self.layers(&parameters, &packed);
        let (mut outputs, mut dys) = (self.buffers(device), self.buffers(device));
        *dys.last_mut().unwrap() = on(device, &self.dy);
        let mut dx = on(device, &numbers_like(rows * self.widths[0]));
        let mut gradients: Vec<_> =
            (0..shares).map(|_| on(device, &numbers_like(parameters.len()))).collect();
        let into = input.map(|accumulate| InputGradient { accumulate, relu: true });
        if chained {
            let into = into.map(|into| (&mut dx, into));
            chain(device, rows, &layers, &x, (&mut outputs, &mut dys), into, &mut gradients);
        } else {
            for (i, layer) in layers.iter().enumerate() {
                let (below, y) = outputs.split_at_mut(i);
                single_forward(device, rows, layer, below.last().unwrap_or(&x), &mut y[0]);
            }
            let last = layers.len() - 1;
            if self.relu[last] {
                device.relu_backward(self.dy.len(), &outputs[last], &mut dys[last]).unwrap();
            }
            for (i, layer) in layers.iter().enumerate().rev() {
                let (below, dy) = dys.split_at_mut(i);
                let (x, dx) = match below.last_mut() {
                    None => (&x, into.map(|into| (&mut dx, into))),
                    Some(dx) => {
                        let relu = self.relu[i - 1];
                        (&outputs[i - 1], Some((dx, InputGradient { accumulate: false, relu })))
                    }
                };
                single_backward(device, rows, layer, x, &dy[0], dx, &mut gradients);
            }
        }
        let all = outputs.iter().chain(&dys).chain([&dx]).chain(&gradients);
        all.map(|buffer| buffer.to_vec().unwrap()).collect()
    }

    fn compare(&self, input: Option<bool>, shares: usize) {
        let bits = |all: Vec<Vec<f32>>| all.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let in_bf16 = [(1, Precision::Bf16), (2, Precision::Bf16), (3, Precision::F32x3)];
        let in_bf16 = in_bf16.map(|(threads, p)| Device::cpu(threads).unwrap().in_precision(p));
        for (d, device) in devices().iter().chain(&in_bf16).enumerate() {
            let run = |chained| bits(self.run(device, chained, input, shares));
            let same = run(true) == run(false);
            assert!(same, "device {d}: {} rows, widths {:?}", self.rows, self.widths);
        }
    }
}

pub fn single_forward(
    device: &Device,
    rows: usize,
    layer: &ChainLayer,
    x: &Buffer<f32>,
    y: &mut Buffer<f32>,
) {
    let &ChainLayer { inputs, outputs, activation, parameters, at, packed } = layer;
    let shape = LinearShape { rows, inputs, outputs };
    device.linear_forward(LinearForward { shape, x, parameters, at, packed, activation, y }).unwrap();
}

pub fn single_backward(
    device: &Device,
    rows: usize,
    layer: &ChainLayer,
    x: &Buffer<f32>,
    dy: &Buffer<f32>,
    dx: Option<(&mut Buffer<f32>, InputGradient)>,
    gradients: &mut [Buffer<f32>],
) {
    let &ChainLayer { inputs, outputs, parameters, at, packed, .. } = layer;
    let shape = LinearShape { rows, inputs, outputs };
    device.linear_backward(LinearBackward { shape, x, parameters, at, packed, dy, dx, gradients }).unwrap();
}

#[test]
fn chains_at_the_edges() {
    for (rows, widths) in [
        (0, vec![3, 5, 2]),
        (1, vec![1, 1]),
        (113, vec![13, 40, 24, 1]),
        // Several blocks of samples and of outputs.
        (480, vec![13, 130, 40, 16]),
        (340, vec![1; CHAIN_LAYERS + 1]),
        (225, vec![520, 33]),
    ] {
        let chain = Chain::new(rows, widths, 5);
        chain.compare(None, 1);
        chain.compare(Some(true), 1);
        chain.compare(Some(false), 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn chains_have_the_bits_of_their_layers(
        rows in 0..700usize,
        widths in prop::collection::vec(prop_oneof![4 => 1..90usize, 1 => Just(1usize)], 2..6),
        input: Option<bool>, shares in 1..3usize, seed: u64,
    ) {
        Chain::new(rows, widths, seed).compare(input, shares);
    }
}

/// A float as panels of bf16 store it.
pub fn as_kept(value: f32, stored: Stored) -> f32 {
    let round = |value: f32| half::bf16::from_f32(value).to_f32();
    match stored {
        Stored::Bf16Panels { split: true, .. } => round(value) + round(value - round(value)),
        Stored::Bf16Panels { split: false, .. } => round(value),
        _ => value,
    }
}

/// Pools whose products are made of bf16, by all instructions that this machine has for it.
pub fn in_bf16() -> Vec<Device> {
    let all = |threads| std::iter::successors(Some(Cpu::new(threads).unwrap()), Cpu::below);
    let cpus = [1, 2, 3].into_iter().flat_map(all);
    let of = |cpu: Cpu| [Precision::Bf16, Precision::F32x3].map(|p| Device::Cpu(cpu.clone()).in_precision(p));
    cpus.flat_map(of).collect()
}

#[test]
fn values_kept_in_bf16_at_the_edges() {
    for device in in_bf16() {
        for (rows, widths) in [
            (0, vec![3, 5, 2]),
            (1, vec![2, 3, 2]),
            (113, vec![13, 40, 24, 1]),
            (480, vec![13, 130, 40, 16]),
            // Sums of more terms than are packed at a time, and more samples.
            (33, vec![40, 2100, 70, 5]),
            (2300, vec![33, 64, 32]),
        ] {
            let chain = Chain::new(rows, widths, 5);
            chain.compare_hidden(&device, None, 1);
            chain.compare_hidden(&device, Some(true), 1);
            chain.compare_hidden(&device, Some(false), 3);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn values_kept_in_bf16_give_the_bits_of_floats(
        rows in 0..700usize,
        widths in prop::collection::vec(prop_oneof![4 => 1..90usize, 1 => Just(1usize)], 3..6),
        input: Option<bool>, shares in 1..3usize, seed: u64,
    ) {
        let chain = Chain::new(rows, widths, seed);
        in_bf16().iter().for_each(|device| chain.compare_hidden(device, input, shares));
    }
}

/// Panels are read by chains on a CPU in bf16, and by nothing else.
#[test]
fn panels_are_refused_where_nothing_reads_them() {
    let device = Device::cpu(1).unwrap();
    let stored = Stored::Bf16Panels { width: 2, split: false };
    let mut panels = Buffer::new(&device);
    panels.resize_rows(stored, 3, 2).unwrap();
    assert_eq!((panels.len(), panels.stored()), (6, stored));
    let parameters = zeros(20);
    let layer = |outputs| ChainLayer {
        inputs: 2,
        outputs,
        activation: Activation::Relu,
        parameters: &parameters,
        at: LinearAt { weight: 0, bias: None },
        packed: None,
    };
    let mut outputs = [zeros(12)];
    let mut forward = |device: &Device, outputs_of: usize| {
        let layers = &[layer(outputs_of)];
        device.chain_forward(ChainForward { rows: 3, layers, x: &panels, outputs: &mut outputs })
    };
    let refused = Err(KernelError::StoredAsRows { op: "chain_forward" });
    assert_eq!(forward(&device, 4), refused);
    assert_eq!(forward(&device.in_precision(Precision::F32x3), 4), refused);
    assert_eq!(forward(&device.in_precision(Precision::Bf16), 1), refused);
    assert_eq!(panels.write(0, &[1.0]), Err(KernelError::StoredAsRows { op: "write" }));
    assert_eq!(device.scale(6, 2.0, &mut panels), Err(KernelError::StoredAsRows { op: "scale" }));
}

#[test]
fn chains_that_do_not_fit_are_refused() {
    let device = Device::cpu(1).unwrap();
    let (parameters, x) = (zeros(100), zeros(6));
    let layer = |inputs, outputs, weight| ChainLayer {
        inputs,
        outputs,
        activation: Activation::Relu,
        parameters: &parameters,
        at: LinearAt { weight, bias: None },
        packed: None,
    };
    let forward = |layers: &[ChainLayer], outputs: &mut [Buffer<f32>]| {
        device.chain_forward(ChainForward { rows: 2, layers, x: &x, outputs }).map_err(|e| e.to_string())
    };
    let mut outputs = [zeros(4), zeros(4)];
    assert_eq!(forward(&[], &mut []), Ok(()));
    assert_eq!(forward(&[layer(3, 2, 0), layer(2, 2, 6)], &mut outputs), Ok(()));
    let refused = |layers: &[ChainLayer], outputs: &mut [Buffer<f32>]| forward(layers, outputs).unwrap_err();
    let apart = refused(&[layer(3, 2, 0), layer(3, 2, 6)], &mut outputs);
    assert_eq!(apart, "chain_forward: inputs of a layer: expected 2, got 3");
    assert_eq!(
        refused(&[layer(1, 1, 0); CHAIN_LAYERS + 1], &mut outputs),
        "chain_forward: most layers of a chain: expected 8, got 9"
    );
    assert_eq!(
        refused(&[layer(3, 2, 95)], &mut outputs),
        "chain_forward: parameters holds 100 elements, but 101 are needed"
    );
    assert_eq!(
        refused(&[layer(4, 2, 0)], &mut outputs),
        "chain_forward: x holds 6 elements, but 8 are needed"
    );
    assert_eq!(
        refused(&[layer(3, 3, 0)], &mut outputs),
        "chain_forward: outputs holds 4 elements, but 6 are needed"
    );
    let (mut output_gradients, mut gradient) = ([zeros(4), zeros(4)], zeros(100));
    let overlapping = device.chain_backward(ChainBackward {
        rows: 2,
        layers: &[layer(3, 2, 5), layer(2, 2, 2)],
        x: &x,
        outputs: &outputs,
        output_gradients: &mut output_gradients,
        activated: false,
        dx: None,
        gradients: std::slice::from_mut(&mut gradient),
    });
    let (op, what) = ("chain_backward", "start of a layer's parameters");
    assert_eq!(overlapping, Err(KernelError::Mismatch { op, what, expected: 6, got: 5 }));
}

/// On a GPU, rows that products write and read stay near those of the reference in every precision, widths that pad rows included.
/// Parameters that no layer has keep what was there.
#[test]
fn kept_rows_are_near_the_reference_on_a_gpu() {
    let cases = [vec![13, 64, 40, 24], vec![479, 96, 50, 33, 1], vec![8, 8], vec![130, 257, 1]];
    for (seed, widths) in cases.into_iter().enumerate() {
        for rows in [1, 77, 700] {
            let mut chain = Chain::new(rows, widths.clone(), seed as u64 + 1);
            // Magnitudes that stay near 1 from layer to layer.
            let parameters = chain.parameters.to_vec().unwrap();
            chain.parameters = buffer(&parameters.iter().map(|w| w / 8.0).collect::<Vec<_>>());
            let expected = chain.run_kept(&Device::Reference);
            for (precision, most) in [(Precision::F32, 1e-5), (Precision::Tf32, 3e-2), (Precision::Bf16, 0.1)]
            {
                let Some(device) = crate::gpu::in_precision(precision) else { continue };
                let results = chain.run_kept(&device);
                assert_eq!(results, chain.run_kept(&device), "a second time");
                for (o, (got, expected)) in results.iter().zip(&expected).enumerate() {
                    let error = relative_error(got, expected);
                    assert!(
                        error <= most,
                        "output {o} of {widths:?}, {rows} rows, {}: {error}",
                        precision.name()
                    );
                }
            }
        }
    }
}
