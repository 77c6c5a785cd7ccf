//! Interactions in the precisions of a CPU: bf16 against the reference on rounded operands, f32x3 against sums in f64.

use super::support::*;
use ground::precision::Precision;
use kernels::{Buffer, Cpu, Device, DotShape};
use proptest::prelude::*;

/// Pools with 1 to 3 threads, and with each set of instructions below those of this machine, in a precision.
fn cpus(precision: Precision) -> Vec<Device> {
    let first = Cpu::new(2).unwrap();
    let below = std::iter::successors(first.below(), Cpu::below);
    let all = [1, 2, 3].into_iter().map(|threads| Cpu::new(threads).unwrap()).chain(below);
    all.map(|cpu| Device::Cpu(cpu.in_precision(precision))).collect()
}

/// Rounds to the nearest bf16, an even one of two.
fn rounded(values: &[f32]) -> Vec<f32> {
    values.iter().map(|&value| half::bf16::from_f32(value).to_f32()).collect()
}

/// Outputs of both passes. The first `dim` numbers of a sample's output are copies, and so are their gradients.
fn run(device: &Device, shape: DotShape, vectors: &[f32], dout: &[f32]) -> [Vec<f32>; 2] {
    let [vectors, dout] = [vectors, dout].map(|values| Buffer::from_slice(device, values).unwrap());
    let [mut out, mut dvectors] = [dout.len(), vectors.len()].map(|len| on(device, &numbers_like(len)));
    device.dot_forward(shape, &vectors, &mut out).unwrap();
    device.dot_backward(shape, &vectors, &dout, &mut dvectors).unwrap();
    [out, dvectors].map(|buffer| buffer.to_vec().unwrap())
}

/// What the passes give in bf16: operands of products are rounded, copies are not.
fn in_bf16(shape: DotShape, vectors: &[f32], dout: &[f32]) -> [Vec<f32>; 2] {
    let (width, dim) = (shape.width(), shape.dim);
    // The gradients of the copies count as they are: they are left out of the products and added behind.
    let mut of_pairs = rounded(dout);
    of_pairs.chunks_exact_mut(width.max(1)).for_each(|dout| dout[..dim].fill(0.0));
    let [mut out, mut dvectors] = run(&Device::Reference, shape, &rounded(vectors), &of_pairs);
    for r in 0..shape.rows {
        let first = r * shape.count * dim;
        for i in (0..dim).filter(|_| shape.count > 0) {
            out[r * width + i] = vectors[first + i];
            dvectors[first + i] += dout[r * width + i];
        }
    }
    [out, dvectors]
}

fn numbers(shape: DotShape, seed: u64) -> [Vec<f32>; 2] {
    let mut numbers = Numbers(seed);
    [shape.rows * shape.count * shape.dim, shape.rows * shape.width()]
        .map(|len| (0..len).map(|_| numbers.float()).collect())
}

fn compare_bf16(shape: DotShape, seed: u64) {
    let [vectors, dout] = numbers(shape, seed);
    let expected = in_bf16(shape, &vectors, &dout);
    let terms = shape.dim.max(shape.count) as f32;
    let results: Vec<_> =
        cpus(Precision::Bf16).iter().map(|device| run(device, shape, &vectors, &dout)).collect();
    for (d, result) in results.iter().enumerate() {
        for (got, expected) in result.iter().flatten().zip(expected.iter().flatten()) {
            let close =
                (got - expected).abs() <= (1e-6 + terms * 1e-7) * (1.0 + expected.abs() + terms.sqrt());
            assert!(close, "device {d}, {shape:?}: {got}, expected {expected}");
        }
    }
    for threads in [2, 3] {
        let same = results[0].iter().flatten().zip(results[threads - 1].iter().flatten());
        assert!(same.into_iter().all(|(a, b)| a.to_bits() == b.to_bits()), "{threads} threads, {shape:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn in_bf16_of_rounded_operands(
        rows in 0..12usize, count in prop_oneof![4 => 0..40usize, 1 => 60..100usize],
        dim in prop_oneof![4 => 0..40usize, 1 => Just(64), 1 => Just(128), 1 => 120..140usize], seed: u64,
    ) {
        compare_bf16(DotShape { rows, count, dim }, seed);
    }
}

/// Gradients beyond the caches are written past them.
#[test]
fn in_bf16_with_many_samples() {
    compare_bf16(DotShape { rows: 4100, count: 4, dim: 128 }, 3);
    compare_bf16(DotShape { rows: 5500, count: 3, dim: 128 }, 4);
}

#[test]
fn f32x3_is_as_good_as_f32() {
    let shape = DotShape { rows: 9, count: 27, dim: 128 };
    let [vectors, dout] = numbers(shape, 11);
    // The reference adds in f32 too: sums in f64 decide.
    let vector = |r: usize, i: usize| &vectors[(r * shape.count + i) * shape.dim..][..shape.dim];
    let mut pairs = Vec::new();
    for r in 0..shape.rows {
        pairs.extend(vector(r, 0).iter().map(|&x| f64::from(x)));
        for (i, j) in (1..shape.count).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let product = |(&a, &b): (&f32, &f32)| f64::from(a) * f64::from(b);
            pairs.push(vector(r, i).iter().zip(vector(r, j)).map(product).sum());
        }
    }
    for device in cpus(Precision::F32x3) {
        let [out, _] = run(&device, shape, &vectors, &dout);
        let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
        let error = square(&mut out.iter().zip(&pairs).map(|(&got, exact)| f64::from(got) - exact));
        let relative = (error / square(&mut pairs.iter().copied())).sqrt();
        assert!(relative <= 1e-5, "relative error {relative} of the root mean square");
    }
}
