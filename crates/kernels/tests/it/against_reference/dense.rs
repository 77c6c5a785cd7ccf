//! Linear layers, interactions, element-wise operations, losses and updates of dense weights.

use super::support::*;
use ground::Activation;
use ground::optimizer::UpdateRule;
use ground::random::RandomSequence;
use kernels::{
    Bce, Buffer, ColumnCopy, CrossBackward, Device, DotShape, Dropout, InputGradient, LinearAt,
    LinearBackward, LinearCrossForward, LinearForward, LinearShape, Matrix, MatrixMut, Update, UpdateDense,
};
use proptest::prelude::*;

fn linear(shape: LinearShape, relu: bool, bias: bool, accumulate: Option<bool>, seed: u64) {
    let LinearShape { rows, inputs, outputs } = shape;
    let mut numbers = Numbers(seed);
    // The parameters of this layer among others: something before the matrix, and between matrix and bias.
    let (x, parameters) = (numbers.floats(rows * inputs), numbers.floats(outputs * inputs + outputs + 5));
    let at = LinearAt { weight: 2, bias: bias.then_some(outputs * inputs + 5) };
    let (dy, dx) = (numbers.floats(rows * outputs), numbers.floats(rows * inputs));
    let activation = if relu { Activation::Relu } else { Activation::Identity };
    compare(rows.max(inputs).max(outputs), |device| {
        let [x, parameters, dy] = [&x, &parameters, &dy].map(|operand| on(device, operand));
        let old = |len| on(device, &numbers_like(len));
        let mut y = old(rows * outputs);
        device
            .linear_forward(LinearForward {
                shape,
                x: &x,
                parameters: &parameters,
                at,
                packed: None,
                activation,
                y: &mut y,
            })
            .unwrap();
        let (mut masked, mut dx) = (on(device, &dy), on(device, &dx));
        // ReLU masks by x here, as linear_backward masks dx.
        device.relu_backward(dy.len().min(x.len()), &x, &mut masked).unwrap();
        let mut gradient = old(parameters.len());
        let into = accumulate.map(|accumulate| (&mut dx, InputGradient { accumulate, relu }));
        device
            .linear_backward(LinearBackward {
                shape,
                x: &x,
                parameters: &parameters,
                at,
                packed: None,
                dy: &dy,
                dx: into,
                gradients: std::slice::from_mut(&mut gradient),
            })
            .unwrap();
        // Gradients of each share of the samples.
        let mut gradients = [(); 3].map(|()| old(parameters.len()));
        let shares = LinearBackward {
            shape,
            x: &x,
            parameters: &parameters,
            at,
            packed: None,
            dy: &dy,
            dx: None,
            gradients: &mut gradients,
        };
        device.linear_backward(shares).unwrap();
        let (mut z, mut out) = (old(rows * outputs), old(rows * outputs));
        device
            .linear_cross_forward(LinearCrossForward {
                shape,
                h: &x,
                parameters: &parameters,
                at,
                packed: None,
                x0: &dy,
                x: &masked,
                z: &mut z,
                out: &mut out,
            })
            .unwrap();
        let all = [y, masked, dx, gradient, z, out].into_iter().chain(gradients);
        all.map(|buffer| buffer.to_vec().unwrap()).collect()
    });
}

#[test]
fn linear_at_the_edges() {
    let shapes = [
        [0, 3, 5],
        [0, 64, 96],
        [0, 13, 512],
        [5, 0, 3],
        [5, 3, 0],
        [1, 1, 1],
        [300, 13, 65],
        [40, 600, 1],
        [29, 1, 33],
        [3, 700, 1100],
        // Enough rows for sums of columns in several parts.
        [1100, 37, 24],
        [1100, 20, 1],
    ];
    for [rows, inputs, outputs] in shapes {
        linear(LinearShape { rows, inputs, outputs }, true, true, Some(false), 3);
        linear(LinearShape { rows, inputs, outputs }, false, false, None, 4);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn linear_layers(
        rows in size(), inputs in size(), outputs in prop_oneof![4 => size(), 1 => Just(1usize)],
        relu: bool, bias: bool, accumulate: Option<bool>, seed: u64,
    ) {
        linear(LinearShape { rows, inputs, outputs }, relu, bias, accumulate, seed);
    }

    #[test]
    fn dot_products(
        rows in 0..40usize, count in prop_oneof![4 => 0..40usize, 1 => 40..170usize],
        dim in prop_oneof![4 => 0..40usize, 1 => Just(64), 1 => Just(128)], seed: u64,
    ) {
        let width = dim + count * count.saturating_sub(1) / 2;
        let mut numbers = Numbers(seed);
        let (vectors, dout) = (numbers.floats(rows * count * dim), numbers.floats(rows * width));
        compare(dim.max(count), |device| {
            let [vectors, dout] = [&vectors, &dout].map(|operand| on(device, operand));
            let [mut out, mut dvectors] = [rows * width, rows * count * dim].map(|len| on(device, &numbers_like(len)));
            device.dot_forward(DotShape { rows, count, dim }, &vectors, &mut out).unwrap();
            device.dot_backward(DotShape { rows, count, dim }, &vectors, &dout, &mut dvectors).unwrap();
            vec![out.to_vec().unwrap(), dvectors.to_vec().unwrap()]
        });
    }

    #[test]
    fn cross_layers_and_sums(len in prop_oneof![0..100usize, 40_000..70_000usize], accumulate: bool, seed: u64) {
        let mut numbers = Numbers(seed);
        let [x0, z, x, dx0] = [(); 4].map(|()| numbers.floats(len));
        compare(1, |device| {
            let [x0, z, x, mut dx0, mut dz] = [&x0, &z, &x, &dx0, &numbers_like(len)].map(|operand| on(device, operand));
            device.cross_backward(CrossBackward { len, x0: &x0, z: &z, dout: &x, dz: &mut dz, dx0: &mut dx0, accumulate }).unwrap();
            let mut added = on(device, &z);
            device.add(len, &x, &mut added).unwrap();
            vec![dz.to_vec().unwrap(), dx0.to_vec().unwrap(), added.to_vec().unwrap()]
        });
    }

    #[test]
    fn streaming_sums(len in prop_oneof![0..300usize, 40_000..70_000usize], seed: u64) {
        let x = Numbers(seed).floats(len);
        let exact = Device::Reference.sum(&x).unwrap().unwrap();
        for device in devices() {
            prop_assert!((device.sum(&on(&device, &x)).unwrap().unwrap() - exact).abs() <= 1e-4 * len as f64);
        }
    }

    #[test]
    fn columns(rows in 0..200usize, a in 0..90usize, b in 0..90usize, gap in 0..5usize, seed: u64) {
        let mut numbers = Numbers(seed);
        let from = numbers.floats(3 + rows * (a + b + gap));
        compare(1, |device| {
            let (from, mut to) = (on(device, &from), on(device, &numbers_like(2 + rows * (a + b))));
            let copies = [ColumnCopy { from: 0, to: b, width: a }, ColumnCopy { from: a + gap, to: 0, width: b }];
            device.copy_columns(rows, &copies, Matrix { buffer: &from, at: 3, width: a + b + gap }, MatrixMut { buffer: &mut to, at: 2, width: a + b }).unwrap();
            vec![to.to_vec().unwrap()]
        });
    }

    #[test]
    fn sums_of_columns(rows in 0..200usize, a in 0..90usize, b in 0..90usize, gap in 0..5usize, seed: u64) {
        let mut numbers = Numbers(seed);
        let (from, to) = (numbers.floats(3 + rows * (a + b + gap)), numbers.floats(2 + rows * (a + b)));
        // The last block comes on top of another.
        let copies = [
            ColumnCopy { from: 0, to: b, width: a },
            ColumnCopy { from: a + gap, to: 0, width: b },
            ColumnCopy { from: gap, to: 0, width: a },
        ];
        let (values, mut expected) = (from.to_vec().unwrap(), to.to_vec().unwrap());
        for (r, c) in (0..rows).flat_map(|r| copies.iter().map(move |c| (r, c))) {
            for i in 0..c.width {
                expected[2 + r * (a + b) + c.to + i] += values[3 + r * (a + b + gap) + c.from + i];
            }
        }
        for device in devices() {
            let (from, mut to) = (on(&device, &from), on(&device, &to));
            device.add_columns(rows, &copies, Matrix { buffer: &from, at: 3, width: a + b + gap }, MatrixMut { buffer: &mut to, at: 2, width: a + b }).unwrap();
            prop_assert_eq!(bits(&to), bits(&buffer(&expected)));
        }
    }

    #[test]
    fn dense_updates(len in prop_oneof![0..100usize, 40_000..70_000usize], rule in 0..6usize, how in 0..4usize, seed: u64) {
        let rule = rules().into_iter().filter(UpdateRule::for_dense).nth(rule).expect("six rules for dense layers");
        let mut numbers = Numbers(seed);
        let (weights, gradients) = (numbers.floats(len), [numbers.floats(len), numbers.floats(len)]);
        compare(10, |device| {
            let (mut w, mut state) = (on(device, &weights), on(device, &zeros(rule.state_per_row(len))));
            for (g, step) in gradients.iter().zip(1..) {
                let update = regularised(Update::new(rule, 0.1, step), how);
                device.update_dense(UpdateDense { update, tensors: &[0..len / 3, len / 2..len], weights: &mut w, gradient: &mut on(device, g), state: &mut state }).unwrap();
            }
            vec![w.to_vec().unwrap(), state.to_vec().unwrap()]
        });
    }

    #[test]
    fn dropped_units(rows in 0..300usize, width in 0..150usize, probability in 0.0..1.0f32, first: u32, seed: u64) {
        let y = Numbers(seed).floats(rows * width);
        let sequence = RandomSequence::new(seed, "dropout");
        let mut results = devices().into_iter().map(|device| {
            let (mut whole, mut part) = (on(&device, &y), on(&device, &buffer(&y.to_vec().unwrap()[rows / 3 * width..])));
            let (of_part, first) = (rows - rows / 3, u64::from(first));
            device.dropout(Dropout { rows, width, first, sequence, probability, y: &mut whole }).unwrap();
            let begin = first + (rows / 3) as u64;
            device.dropout(Dropout { rows: of_part, width, first: begin, sequence, probability, y: &mut part }).unwrap();
            // Samples on another rank lose the same units.
            assert_eq!(bits(&part), bits(&whole)[rows / 3 * width..]);
            device.scale(whole.len(), 0.3, &mut whole).unwrap();
            bits(&whole)
        });
        let expected = results.next().unwrap();
        prop_assert!(results.all(|result| result == expected));
    }

    #[test]
    fn norms(len in prop_oneof![0..100usize, 40_000..70_000usize], clip in prop_oneof![Just(None), Just(Some(0.4))], seed: u64) {
        let gradient = Numbers(seed).floats(len);
        compare(1, |device| vec![vec![(device.sum_of_squares(&on(device, &gradient), clip).unwrap().unwrap() / len.max(1) as f64) as f32]]);
    }
}

/// `dloss/dx ≈ (loss(x + h) − loss(x − h)) / 2h` for a loss `Σ cᵢ·outᵢ`, whose gradient at the output is `c`.
fn finite_differences(
    at: &Buffer<f32>,
    analytic: &[f32],
    c: &[f32],
    forward: impl Fn(&Buffer<f32>) -> Vec<f32>,
) {
    let h = 1.0 / 64.0;
    for i in 0..at.len() {
        let loss = |delta: f32| {
            let mut moved = at.to_vec().unwrap();
            moved[i] += delta;
            forward(&buffer(&moved)).iter().zip(c).map(|(out, c)| *out as f64 * *c as f64).sum::<f64>()
        };
        let numeric = (loss(h) - loss(-h)) / (2.0 * h as f64);
        assert!(
            (numeric - analytic[i] as f64).abs() < 2e-3,
            "element {i}: {numeric} against {}",
            analytic[i]
        );
    }
}

#[test]
fn gradients_of_the_reference_are_its_finite_differences() {
    let device = Device::Reference;
    let mut numbers = Numbers(11);
    // A linear map is linear in each operand, a dot product in each element: the differences are exact but for rounding.
    let shape = LinearShape { rows: 4, inputs: 5, outputs: 3 };
    let (x, parameters, c) = (numbers.floats(20), numbers.floats(18), numbers.floats(12));
    let at = LinearAt { weight: 0, bias: Some(15) };
    let forward = |x: &Buffer<f32>, parameters: &Buffer<f32>| {
        let mut y = zeros(12);
        device
            .linear_forward(LinearForward {
                shape,
                x,
                parameters,
                at,
                packed: None,
                activation: Activation::Identity,
                y: &mut y,
            })
            .unwrap();
        y.to_vec().unwrap()
    };
    let (mut dx, mut gradient) = (zeros(20), zeros(18));
    let into = Some((&mut dx, InputGradient::default()));
    device
        .linear_backward(LinearBackward {
            shape,
            x: &x,
            parameters: &parameters,
            at,
            packed: None,
            dy: &c,
            dx: into,
            gradients: std::slice::from_mut(&mut gradient),
        })
        .unwrap();
    finite_differences(&x, &dx.to_vec().unwrap(), &c.to_vec().unwrap(), |x| forward(x, &parameters));
    finite_differences(&parameters, &gradient.to_vec().unwrap(), &c.to_vec().unwrap(), |parameters| {
        forward(&x, parameters)
    });

    let (rows, count, dim) = (2, 5, 3);
    let (vectors, c) = (numbers.floats(30), numbers.floats(26));
    let mut dvectors = zeros(30);
    device.dot_backward(DotShape { rows, count, dim }, &vectors, &c, &mut dvectors).unwrap();
    finite_differences(&vectors, &dvectors.to_vec().unwrap(), &c.to_vec().unwrap(), |vectors| {
        let mut out = zeros(26);
        device.dot_forward(DotShape { rows, count, dim }, vectors, &mut out).unwrap();
        out.to_vec().unwrap()
    });

    let [x0, z, x, c] = [(); 4].map(|()| numbers.floats(9));
    let (mut dz, mut dx0) = (zeros(9), zeros(9));
    device
        .cross_backward(CrossBackward {
            len: 9,
            x0: &x0,
            z: &z,
            dout: &c,
            dz: &mut dz,
            dx0: &mut dx0,
            accumulate: false,
        })
        .unwrap();
    let cross = |x0: &Buffer<f32>, z: &Buffer<f32>, x: &Buffer<f32>| {
        let mut out = vec![0.0; 9];
        kernels::reference::interaction::cross_forward(
            9,
            &x0.to_vec().unwrap(),
            &z.to_vec().unwrap(),
            &x.to_vec().unwrap(),
            &mut out,
        );
        out
    };
    finite_differences(&x0, &dx0.to_vec().unwrap(), &c.to_vec().unwrap(), |x0| cross(x0, &z, &x));
    finite_differences(&z, &dz.to_vec().unwrap(), &c.to_vec().unwrap(), |z| cross(&x0, z, &x));
    finite_differences(&x, &c.to_vec().unwrap(), &c.to_vec().unwrap(), |x| cross(&x0, &z, x));

    let logits = numbers.floats(6);
    let labels = buffer(&[0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
    let (mut dlogits, mut loss) = (zeros(6), buffer(&[0f64]));
    let (smoothing, scale, labels) = (0.3, 1.0, &labels);
    let uneven = buffer(&[1.0, 0.5, 0.0, 2.0, 0.25, 3.0]);
    for weights in [None, Some(&uneven)] {
        let bce = |logits: &Buffer<f32>, dlogits: &mut Buffer<f32>, loss: &mut Buffer<f64>| {
            let (rows, probabilities) = (6, None);
            let args = Bce { rows, logits, labels, weights, smoothing, scale, dlogits, loss, probabilities };
            device.bce(args).unwrap();
        };
        bce(&logits, &mut dlogits, &mut loss);
        finite_differences(&logits, &dlogits.to_vec().unwrap(), &[1.0], |logits| {
            let (dlogits, loss) = (&mut zeros(6), &mut buffer(&[0f64]));
            bce(logits, dlogits, loss);
            vec![loss.to_vec().unwrap()[0] as f32]
        });
    }
}

#[test]
fn bce_is_stable_and_sigmoid_saturates() {
    for device in [Some(Device::cpu(2).unwrap()), crate::gpu::device()].into_iter().flatten() {
        let [logits, labels] = [[1000.0, -1000.0, 1000.0, 0.0], [1.0, 0.0, 0.0, 1.0]]
            .map(|values| Buffer::from_slice(&device, &values).unwrap());
        let (mut dlogits, mut loss) = (on(&device, &zeros(4)), Buffer::zeroed(&device, 1).unwrap());
        device
            .bce(Bce {
                rows: 4,
                logits: &logits,
                labels: &labels,
                weights: None,
                smoothing: 0.0,
                scale: 0.5,
                dlogits: &mut dlogits,
                loss: &mut loss,
                probabilities: None,
            })
            .unwrap();
        assert!((loss.to_vec().unwrap()[0] - (1000.0 + 2f64.ln())).abs() < 1e-9);
        assert_eq!(dlogits.to_vec().unwrap(), [0.0, 0.0, 0.5, -0.25]);
        let mut p = on(&device, &zeros(4));
        device.sigmoid(4, &logits, &mut p).unwrap();
        assert_eq!(p.to_vec().unwrap(), [1.0, 0.0, 1.0, 0.5]);
    }
}

/// Losses of samples: their sum, gradients and probabilities, each with one element more that stays as it was.
fn losses(
    device: &Device,
    [logits, labels]: [&Buffer<f32>; 2],
    weights: Option<&Buffer<f32>>,
) -> (f64, Buffer<f32>, Buffer<f32>) {
    let rows = logits.len();
    let more = numbers_like(rows + 1);
    let [logits, labels, mut dlogits, mut p, mut alone] =
        [logits, labels, &more, &more, &more].map(|operand| on(device, operand));
    let (weights, mut loss) =
        (weights.map(|weights| on(device, weights)), Buffer::zeroed(device, 1).unwrap());
    device
        .bce(Bce {
            rows,
            logits: &logits,
            labels: &labels,
            weights: weights.as_ref(),
            smoothing: 0.1,
            scale: 1.0 / 9000.0,
            dlogits: &mut dlogits,
            loss: &mut loss,
            probabilities: Some(&mut p),
        })
        .unwrap();
    device.sigmoid(rows, &logits, &mut alone).unwrap();
    assert_eq!(alone.to_vec(), p.to_vec());
    (loss.to_vec().unwrap()[0], dlogits, p)
}

/// Enough samples for several threads: losses, their sum and probabilities have the bits of the reference; on a GPU all but the
/// last.
#[test]
fn losses_do_not_depend_on_threads() {
    for rows in [0, 1, 1024, 1025, 9000] {
        let mut numbers = Numbers(rows as u64);
        let logits = buffer(&(0..rows).map(|_| 20.0 * numbers.float()).collect::<Vec<_>>());
        let labels = buffer(&(0..rows).map(|_| (numbers.next() % 2) as f32).collect::<Vec<_>>());
        let ones = buffer(&vec![1.0; rows]);
        let uneven = buffer(&(0..rows).map(|_| numbers.float().abs()).collect::<Vec<_>>());
        let mut all = [None, Some(&ones), Some(&uneven)].into_iter().map(|weights| {
            let of = |device: &Device| losses(device, [&logits, &labels], weights);
            let with_bits = |device: &Device| {
                let (loss, dlogits, p) = of(device);
                (loss.to_bits(), bits(&dlogits), bits(&p))
            };
            let expected = with_bits(&Device::Reference);
            assert!(host_devices().iter().all(|device| with_bits(device) == expected), "{rows} samples");
            if let Some(gpu) = crate::gpu::device() {
                let (reference, on_gpu) = (of(&Device::Reference), of(&gpu));
                let close = |a: f32, b: f32| (a - b).abs() <= 1e-6 * a.abs();
                assert!((reference.0 - on_gpu.0).abs() <= 1e-12 * reference.0.abs(), "{rows} samples");
                for (a, b) in [(reference.1, on_gpu.1), (reference.2, on_gpu.2)] {
                    let (a, b) = (a.to_vec().unwrap(), b.to_vec().unwrap());
                    assert!(a.into_iter().zip(b).all(|(a, b)| close(a, b)), "{rows} samples");
                }
                assert_eq!(with_bits(&gpu), with_bits(&gpu));
            }
            expected
        });
        assert_eq!(all.next(), all.next(), "weights of 1 change no bit");
        assert!(rows < 2 || all.next().unwrap().0 != 0);
    }
}
