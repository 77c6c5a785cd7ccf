//! Gradients of weights in tf32, of sizes that a kernel of their own takes on a Hopper GPU: against exact sums on the host.

use crate::gpu;
use ground::precision::Precision;
use kernels::{Buffer, Device, LinearAt, LinearBackward, LinearShape};

/// Whole numbers from -2 to 2: tf32 has them all, and sums of their products are exact in f32.
fn whole_numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 5) as f32 - 2.0
    };
    (0..len).map(|_| next()).collect()
}

fn gradient(device: &Device, shape: LinearShape, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let LinearShape { inputs, outputs, .. } = shape;
    let on = |values: &[f32]| Buffer::from_slice(device, values).unwrap();
    let mut gradients = [on(&vec![f32::NAN; outputs * inputs])];
    let args = LinearBackward {
        shape,
        x: &on(x),
        parameters: &on(&vec![0.0; outputs * inputs]),
        at: LinearAt { weight: 0, bias: None },
        packed: None,
        dy: &on(dy),
        dx: None,
        gradients: &mut gradients,
    };
    device.linear_backward(args).unwrap();
    gradients[0].to_vec().unwrap()
}

#[test]
fn sums_of_whole_numbers_are_exact() {
    let Some(device) = gpu::in_precision(Precision::Tf32) else {
        println!("SKIPPED: no gradient was computed: CAMPANILE_TEST_DEVICE names no GPU");
        return;
    };
    // Whole tiles and steps, then neither, and a width whose rows are padded.
    for [rows, outputs, inputs] in [[16_384, 256, 512], [16_411, 500, 760], [20_001, 257, 511]] {
        let shape = LinearShape { rows, inputs, outputs };
        let (x, dy) = (whole_numbers(rows * inputs, 1), whole_numbers(rows * outputs, 2));
        let got = gradient(&device, shape, &x, &dy);
        // A column of outputs at a time, row by row, as whole numbers.
        let mut expected = vec![0i32; outputs * inputs];
        for (x, dy) in x.chunks_exact(inputs).zip(dy.chunks_exact(outputs)) {
            for (sums, &dy) in expected.chunks_exact_mut(inputs).zip(dy) {
                sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum += dy as i32 * x as i32);
            }
        }
        let wrong = got.iter().zip(&expected).position(|(&got, &expected)| got != expected as f32);
        assert_eq!(wrong, None, "{shape:?}: place of the first weight that is wrong");
        assert_eq!(got, gradient(&device, shape, &x, &dy), "{shape:?}: a second time");
    }
}
