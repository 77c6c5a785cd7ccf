//! Cross layers: the bits of their parts on every device, and rows that a GPU keeps near the reference in every precision.

use super::chains::{as_kept, in_bf16, single_backward, single_forward};
use super::support::*;
use ground::Activation;
use ground::precision::Precision;
use kernels::{
    Buffer, ChainLayer, CrossBackward, CrossInputs, CrossKept, CrossLayerBackward, CrossLayersBackward,
    CrossLayersForward, CrossMaps, CrossX0Gradient, Device, InputGradient, KernelError, LinearAt,
    LinearCrossForward, LinearShape, PackLinear, PackedLinear, Stored,
};
use proptest::prelude::*;

/// How cross layers are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// By operations of their parts.
    Parts,
    /// Layer by layer; shares of `x0` are added up on the way.
    Summed,
    /// Layer by layer; shares of `x0` are added up at the end.
    Kept,
    /// All layers at once.
    Together,
}

/// Cross layers of full rank if `rank` is 0, and their operands.
struct Cross {
    rows: usize,
    width: usize,
    rank: usize,
    count: usize,
    parameters: Buffer<f32>,
    x0: Buffer<f32>,
    gradient: Buffer<f32>,
    /// Which buffers are rows as the device keeps them, by bit; others are plain.
    kept: u64,
    /// Number of buffers that the gradients of parameters go to.
    shares: usize,
    packs: bool,
}

/// Buffers of a run.
struct Buffers {
    kept: Vec<CrossKept>,
    /// Gradient of the first layer's input, then of each layer's output.
    of_outputs: Vec<Buffer<f32>>,
    dz: Buffer<f32>,
    dh: Buffer<f32>,
    dx0: Buffer<f32>,
    gradients: Vec<Buffer<f32>>,
}

impl Cross {
    /// Bits of the buffers that only products read: `h`, and the gradients of `z` and `h`.
    const HIDDEN: u64 = 1 << 0 | 1 << 6 | 1 << 7;

    fn new([rows, width, rank, count]: [usize; 4], seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let inner = if rank == 0 { width } else { rank };
        let each = rank * width + width * inner + width;
        let [parameters, x0, gradient] =
            [count * each, rows * width, rows * width].map(|len| numbers.floats(len));
        Self { rows, width, rank, count, parameters, x0, gradient, kept: 0, shares: 2, packs: false }
    }

    /// Places of the maps of layer `i`.
    fn at(&self, i: usize) -> [LinearAt; 2] {
        let inner = if self.rank == 0 { self.width } else { self.rank };
        let (of_v, of_w) = (self.rank * self.width, self.width * inner);
        let weight = i * (of_v + of_w + self.width) + of_v;
        let w = LinearAt { weight, bias: Some(weight + of_w) };
        [LinearAt { weight: weight - of_v, bias: None }, w]
    }

    fn pack(&self, device: &Device, parameters: &Buffer<f32>) -> Vec<[PackedLinear; 2]> {
        let inner = if self.rank == 0 { self.width } else { self.rank };
        let shapes = [[self.width, self.rank], [inner, self.width]];
        let pack = |[inputs, outputs]: [usize; 2], at: LinearAt| {
            let (shape, mut packed) =
                (LinearShape { rows: self.rows, inputs, outputs }, PackedLinear::new(device));
            let args =
                PackLinear { shape, parameters, at, backward: true, masked: true, packed: &mut packed };
            device.pack_linear(args).unwrap();
            packed
        };
        let layers = 0..if self.packs { self.count } else { 0 };
        layers.map(|i| [0, 1].map(|map| pack(shapes[map], self.at(i)[map]))).collect()
    }

    fn maps<'a>(
        &self,
        parameters: &'a Buffer<f32>,
        packed: &'a [[PackedLinear; 2]],
        i: usize,
    ) -> CrossMaps<'a> {
        let [v, w] = self.at(i);
        let inner = if self.rank == 0 { self.width } else { self.rank };
        let map = |inputs, outputs, at, which: usize| {
            let (activation, packed) = (Activation::Identity, packed.get(i).map(|packed| &packed[which]));
            ChainLayer { inputs, outputs, activation, parameters, at, packed }
        };
        CrossMaps {
            v: (self.rank > 0).then(|| map(self.width, self.rank, v, 0)),
            w: map(inner, self.width, w, 1),
        }
    }

    /// Room for rows, as the device keeps them if the bit says so: by themselves, or where only products read them.
    fn room(&self, device: &Device, bit: u32, width: usize) -> Buffer<f32> {
        let mut room = on(device, &numbers_like(self.rows * width));
        if self.kept >> bit & 1 == 1 {
            let hidden = Self::HIDDEN >> bit & 1 == 1;
            let stored = if hidden { device.keeps_hidden(width, self.width) } else { device.keeps(width) };
            room.resize_rows(stored, self.rows, width).unwrap();
        }
        room
    }

    /// An operand as the device keeps it if the bit says so.
    fn operand(&self, device: &Device, bit: u32, of: &Buffer<f32>) -> Buffer<f32> {
        let mut to = self.room(device, bit, self.width);
        device.copy_rows(self.rows, self.width, &on(device, of), &mut to).unwrap();
        to
    }

    fn buffers(&self, device: &Device) -> Buffers {
        let room = |bit, width| self.room(device, bit, width);
        let (width, rank) = (self.width, self.rank);
        let kept = |_| CrossKept { h: room(0, rank), z: room(1, width), output: room(2, width) };
        let mut kept: Vec<CrossKept> = (0..self.count).map(kept).collect();
        kept.last_mut().unwrap().output = room(3, width);
        let mut of_outputs: Vec<Buffer<f32>> = (0..=self.count).map(|_| room(4, width)).collect();
        *of_outputs.last_mut().unwrap() = self.operand(device, 5, &self.gradient);
        let of_parameters = |_| on(device, &numbers_like(self.parameters.len()));
        let gradients = (0..self.shares).map(of_parameters).collect();
        let dx0 = on(device, &numbers_like(self.rows * width));
        Buffers { kept, of_outputs, dz: room(6, width), dh: room(7, rank), dx0, gradients }
    }

    /// Everything that the layers compute: [`results`], and then the gradients of the first layer's input, of its `z` and `h`, unless
    /// layers go together, when those are room.
    fn run(&self, device: &Device, how: How) -> Vec<Vec<f32>> {
        let parameters = on(device, &self.parameters);
        let packed = self.pack(device, &parameters);
        let layers: Vec<CrossMaps> = (0..self.count).map(|i| self.maps(&parameters, &packed, i)).collect();
        let (x0, mut buffers) = (self.operand(device, 8, &self.x0), self.buffers(device));
        self.forward(device, how, &layers, &x0, &mut buffers.kept);
        if how == How::Together {
            return self.together(device, &layers, &x0, buffers);
        }
        for (i, &maps) in layers.iter().enumerate().rev() {
            self.backward(device, how, (i, maps), &x0, &mut buffers);
        }
        let Buffers { kept, mut of_outputs, dz, dh, mut dx0, gradients } = buffers;
        if how == How::Kept {
            let (rows, width) = (self.rows, self.width);
            let (dx, gradients) = (&of_outputs[0], &of_outputs[1..]);
            let mut room = self.room(device, 6, width);
            let (room, dx0) = (&mut room, &mut dx0);
            device
                .cross_x0_gradient(CrossX0Gradient { rows, width, kept: &kept, gradients, dx, room, dx0 })
                .unwrap();
        }
        let dx = of_outputs.swap_remove(if how == How::Kept { 0 } else { self.count });
        let of_layers = [&dx, &dz, &dh].map(|buffer| buffer.to_vec().unwrap());
        results(&kept, &dx0, &gradients).into_iter().chain(of_layers).collect()
    }

    /// The backward pass of all layers at once, after their forward pass.
    fn together(
        &self,
        device: &Device,
        layers: &[CrossMaps],
        x0: &Buffer<f32>,
        buffers: Buffers,
    ) -> Vec<Vec<f32>> {
        let (rows, Buffers { kept, mut of_outputs, mut dz, mut dh, mut dx0, mut gradients }) =
            (self.rows, buffers);
        let args = CrossLayersBackward {
            rows,
            layers,
            x0,
            kept: &kept,
            of_outputs: &mut of_outputs,
            dz: &mut dz,
            dh: &mut dh,
            dx0: &mut dx0,
            gradients: &mut gradients,
        };
        device.cross_layers_backward(args).unwrap();
        results(&kept, &dx0, &gradients)
    }

    fn forward(
        &self,
        device: &Device,
        how: How,
        layers: &[CrossMaps],
        x0: &Buffer<f32>,
        kept: &mut [CrossKept],
    ) {
        let rows = self.rows;
        if how != How::Parts {
            // In two calls, as a net of very many layers is.
            for (start, end) in [(0, 1), (1, self.count)] {
                let (before, kept) = kept.split_at_mut(start);
                let x = before.last().map_or(x0, |kept| &kept.output);
                let layers = &layers[start..end];
                device.cross_layers_forward(CrossLayersForward { rows, layers, x0, x, kept }).unwrap();
            }
            return;
        }
        for (i, CrossMaps { v, w }) in layers.iter().enumerate() {
            let (before, rest) = kept.split_at_mut(i);
            let x = before.last().map_or(x0, |kept| &kept.output);
            let CrossKept { h, z, output: out } = &mut rest[0];
            if let Some(v) = v {
                single_forward(device, rows, v, x, h);
            }
            let shape = LinearShape { rows, inputs: w.inputs, outputs: w.outputs };
            let (h, at, parameters) = (if v.is_some() { &*h } else { x }, w.at, w.parameters);
            let args = LinearCrossForward { shape, h, parameters, at, packed: None, x0, x, z, out };
            device.linear_cross_forward(args).unwrap();
        }
    }

    fn backward(
        &self,
        device: &Device,
        how: How,
        (i, maps): (usize, CrossMaps),
        x0: &Buffer<f32>,
        buffers: &mut Buffers,
    ) {
        let (rows, accumulate, first) = (self.rows, i + 1 != self.count, i == 0);
        let Buffers { kept, of_outputs, dz, dh, dx0, gradients } = buffers;
        let (x, kept) = (if first { x0 } else { &kept[i - 1].output }, &kept[i]);
        let (below, above) = of_outputs.split_at_mut(i + 1);
        let (gradient, inputs) = if how == How::Kept {
            (&mut above[0], CrossInputs::Kept { dx: &mut below[i] })
        } else {
            (above.last_mut().unwrap(), CrossInputs::Summed { dx0: &mut *dx0, accumulate, first })
        };
        if how != How::Parts {
            let args = CrossLayerBackward { rows, maps, x0, x, kept, gradient, dz, dh, inputs, gradients };
            return device.cross_layer_backward(args).unwrap();
        }
        let (len, z, dout) = (rows * self.width, &kept.z, &*gradient);
        device.cross_backward(CrossBackward { len, x0, z, dout, dz, dx0, accumulate }).unwrap();
        let added = InputGradient { accumulate: true, relu: false };
        match &maps.v {
            Some(v) => {
                let set = Some((&mut *dh, InputGradient::default()));
                single_backward(device, rows, &maps.w, &kept.h, dz, set, gradients);
                single_backward(device, rows, v, x, dh, Some((&mut *gradient, added)), gradients);
            }
            None => single_backward(device, rows, &maps.w, x, dz, Some((&mut *gradient, added)), gradients),
        }
        if first {
            device.add(len, gradient, dx0).unwrap();
        }
    }
}

/// What every way of computing the layers gives, in the same order; ways that go layer by layer give more behind it.
fn results(kept: &[CrossKept], dx0: &Buffer<f32>, gradients: &[Buffer<f32>]) -> Vec<Vec<f32>> {
    let kept = kept.iter().flat_map(|kept| [&kept.h, &kept.z, &kept.output]);
    kept.chain([dx0]).chain(gradients).map(|buffer| buffer.to_vec().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn cross_layers_have_the_bits_of_their_parts(
        rows in 0..500usize, width in 1..80usize, rank in 0..20usize, count in 1..4usize, shares in 1..3usize, seed: u64,
    ) {
        let of_each = |one: Vec<f32>| one.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let bits = |all: Vec<Vec<f32>>| all.into_iter().map(of_each).collect::<Vec<_>>();
        // Every second width comes in whole pieces.
        let width = if seed % 2 == 0 { width.next_multiple_of(8) } else { width };
        let cross = Cross { shares, ..Cross::new([rows, width, rank, count], seed) };
        for device in devices() {
            let run = |how| bits(cross.run(&device, how));
            let parts = run(How::Parts);
            assert_eq!(run(How::Summed), parts);
            assert_eq!(run(How::Kept), parts);
            assert_eq!(run(How::Together), parts[..parts.len() - 3]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// What only products read may be kept in bf16, for products round or split it in any case; gradients of biases alone are sums of rounded
    /// gradients.
    #[test]
    fn values_kept_in_bf16_give_the_bits_of_floats(
        rows in 0..500usize, width in 1..80usize, rank in 0..40usize, count in 1..4usize, shares in 1..3usize,
        packs: bool, seed: u64,
    ) {
        let mut cross = Cross { shares, packs, ..Cross::new([rows, width, rank, count], seed) };
        // Zeros of both signs among the gradients of z.
        let mut gradient = cross.gradient.to_vec().unwrap();
        gradient.iter_mut().step_by(5).for_each(|value| *value = 0.0);
        cross.gradient = buffer(&gradient);
        for device in in_bf16() {
            cross.kept = 0;
            let mut expected = cross.run(&device, How::Summed);
            cross.kept = Cross::HIDDEN;
            let mut got = cross.run(&device, How::Summed);
            let stored = |width: usize| device.keeps_hidden(width, cross.width);
            // Behind the results of layers: the gradients of x0, of parameters, of x, z and h.
            let (of_parameters, last) = (3 * count + 1, expected.len() - 1);
            for h in (0..count).map(|layer| 3 * layer).chain([last]) {
                expected[h].iter_mut().for_each(|value| *value = as_kept(*value, stored(rank)));
            }
            expected[last - 1].iter_mut().for_each(|value| *value = as_kept(*value, stored(width)));
            for share in 0..shares {
                let samples = ground::share(rows, shares, share);
                for layer in 0..count {
                    let bias = cross.at(layer)[1].bias.unwrap();
                    let bias = bias..bias + width;
                    // Of the layers above, no gradient of z is left to add up.
                    if layer > 0 {
                        let exact = &expected[of_parameters + share][bias.clone()];
                        got[of_parameters + share][bias].copy_from_slice(exact);
                        continue;
                    }
                    let dz = expected[last - 1].clone();
                    for (column, sum) in expected[of_parameters + share][bias].iter_mut().enumerate() {
                        let dz = |row: usize| dz[row * width + column];
                        *sum = samples.clone().map(dz).fold(0.0, |sum, dz| sum + dz);
                    }
                }
            }
            let of_each = |one: Vec<f32>| one.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let bits = |all: Vec<Vec<f32>>| all.into_iter().map(of_each).collect::<Vec<_>>();
            for (i, (got, expected)) in bits(got).into_iter().zip(bits(expected)).enumerate() {
                let of = format!("{rows} rows, width {width}, rank {rank}, {count} layers");
                assert!(got == expected, "result {i} of {of}");
            }
        }
    }
}

/// On a GPU, rows in any mixture of forms stay near the reference in every precision, widths that pad rows included.
#[test]
fn kept_rows_are_near_the_reference_on_a_gpu() {
    let shapes =
        [[1, 8, 3, 1], [77, 27, 0, 2], [300, 64, 16, 3], [130, 24, 1, 5], [200, 264, 40, 2], [5, 1, 1, 2]];
    for (seed, shape) in (1..).zip(shapes) {
        let mut cross = Cross { shares: 1, packs: seed % 2 == 1, ..Cross::new(shape, seed) };
        // Magnitudes that stay near 1 from layer to layer.
        let parameters = cross.parameters.to_vec().unwrap();
        cross.parameters = buffer(&parameters.iter().map(|w| w / 8.0).collect::<Vec<_>>());
        let expected = cross.run(&Device::Reference, How::Kept);
        for (precision, most) in [(Precision::F32, 1e-5), (Precision::Tf32, 5e-3), (Precision::Bf16, 4e-2)] {
            let Some(device) = crate::gpu::in_precision(precision) else { continue };
            // All kept, the output plain, nothing kept, and mixtures.
            for kept in [0x1ff, 0x1f7, 0, 0x0df, 0x155, 0x0aa, 0x02f, 0x1d0] {
                cross.kept = kept;
                for how in [How::Kept, How::Summed, How::Together] {
                    let results = cross.run(&device, how);
                    assert_eq!(results, cross.run(&device, how), "a second time");
                    for (o, (got, expected)) in results.iter().zip(&expected).enumerate() {
                        let error = relative_error(got, expected);
                        let of =
                            format!("output {o} of {shape:?}, kept {kept:x}, {how:?}, {}", precision.name());
                        assert!(error <= most, "{of}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn gradients_of_x0_that_do_not_fit_are_refused() {
    let device = Device::cpu(1).unwrap();
    let kept = CrossKept { h: zeros(0), z: zeros(6), output: zeros(6) };
    let x0_gradient = |gradients: &[Buffer<f32>], dx: usize| {
        let (rows, width, kept) = (2, 3, std::slice::from_ref(&kept));
        let (dx, room, dx0) = (&zeros(dx), &mut zeros(6), &mut zeros(6));
        device.cross_x0_gradient(CrossX0Gradient { rows, width, kept, gradients, dx, room, dx0 })
    };
    assert_eq!(x0_gradient(&[zeros(6)], 6), Ok(()));
    let (op, what) = ("cross_x0_gradient", "gradients of layers");
    assert_eq!(x0_gradient(&[], 6), Err(KernelError::Mismatch { op, what, expected: 1, got: 0 }));
    let (operand, expected, got) = ("dx", 6, 5);
    assert_eq!(x0_gradient(&[zeros(6)], 5), Err(KernelError::TooShort { op, operand, expected, got }));
    assert_eq!(device.keeps(3), Stored::Plain);
}
