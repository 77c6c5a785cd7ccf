//! Factorization machines on every device against the reference, whose gradient is its finite difference.

use crate::gpu::{self, on};
use kernels::{Buffer, Device, FmShape};
use proptest::prelude::*;

fn floats(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state ^ state >> 29) >> 16) % (1 << 20)
    };
    (0..len).map(|_| next() as f32 / (1 << 19) as f32 - 1.0).collect()
}

fn buffer(data: &[f32]) -> Buffer<f32> {
    Buffer::from_slice(&Device::Reference, data).unwrap()
}

/// Output and gradient of `vectors` on a device.
fn both(device: &Device, shape: FmShape, vectors: &[f32], dout: &[f32]) -> [Vec<f32>; 2] {
    // What was there before must not matter.
    let [mut out, mut dvectors] =
        [(shape.rows, 1), (vectors.len(), 2)].map(|(len, seed)| on(device, &buffer(&floats(len, seed))));
    let [vectors, dout] = [vectors, dout].map(|operand| on(device, &buffer(operand)));
    device.fm_forward(shape, &vectors, &mut out).unwrap();
    device.fm_backward(shape, &vectors, &dout, &mut dvectors).unwrap();
    [out.to_vec().unwrap(), dvectors.to_vec().unwrap()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn devices_agree(rows in 0..60usize, count in 0..40usize, dim in 0..70usize, seed: u64) {
        let shape = FmShape { rows, count, dim };
        let (vectors, dout) = (floats(rows * count * (dim + 1), seed), floats(rows, seed ^ 7));
        let expected = both(&Device::Reference, shape, &vectors, &dout);
        // A sum of count² · dim products, each at most 1, and of count weights.
        let size = (count * (count * dim + 1)) as f32;
        if let Some(gpu) = gpu::device() {
            let got = both(&gpu, shape, &vectors, &dout);
            for (expected, got) in expected.iter().flatten().zip(got.iter().flatten()) {
                prop_assert!((expected - got).abs() <= 1e-6 * (1.0 + size), "GPU: {expected} {got}");
            }
        }
        let mut bits = None;
        for threads in 1..4 {
            let cpu = kernels::Cpu::new(threads).unwrap();
            let portable = both(&Device::Cpu(cpu.portable()), shape, &vectors, &dout);
            let got = both(&Device::Cpu(cpu), shape, &vectors, &dout);
            for got in [&got, &portable] {
                for (expected, got) in expected.iter().flatten().zip(got.iter().flatten()) {
                    prop_assert!((expected - got).abs() <= 1e-6 * (1.0 + size), "{expected} {got}");
                }
            }
            let these: Vec<u32> = got.iter().flatten().map(|x| x.to_bits()).collect();
            prop_assert_eq!(bits.get_or_insert_with(|| these.clone()), &these, "threads change bits");
        }
    }
}

#[test]
fn the_gradient_is_the_finite_difference() {
    let shape = FmShape { rows: 2, count: 4, dim: 3 };
    let (vectors, dout) = (floats(32, 5), [0.7, -1.3]);
    let [_, gradient] = both(&Device::Reference, shape, &vectors, &dout);
    let loss = |vectors: &[f32]| -> f64 {
        let [out, _] = both(&Device::Reference, shape, vectors, &dout);
        out.iter().zip(dout).map(|(out, dout)| f64::from(*out) * f64::from(dout)).sum()
    };
    for i in 0..vectors.len() {
        let moved = |by: f32| {
            let mut moved = vectors.clone();
            moved[i] += by;
            loss(&moved)
        };
        // The output is linear in every single element.
        let difference = (moved(0.5) - moved(-0.5)) as f32;
        assert!((difference - gradient[i]).abs() < 1e-5, "{i}: {difference} and {}", gradient[i]);
    }
}

#[test]
fn short_operands_are_refused() {
    let shape = FmShape { rows: 2, count: 2, dim: 2 };
    let zeros = |len| Buffer::<f32>::zeroed(&Device::Idle, len).unwrap();
    let refused = Device::Idle.fm_forward(shape, &zeros(11), &mut zeros(2));
    assert!(refused.unwrap_err().to_string().contains("vectors holds 11 elements, but 12 are needed"));
}
