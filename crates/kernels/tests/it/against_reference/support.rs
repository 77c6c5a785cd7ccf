//! Devices, numbers and comparisons that all tests share.

use ground::optimizer::UpdateRule;
use kernels::{Buffer, Device, Update};
use proptest::prelude::*;

pub use crate::gpu::{checked, on};

/// The reference first, then the devices held against it: the ones at `1..4` must agree in every bit, a GPU comes last.
pub fn devices() -> Vec<Device> {
    crate::gpu::and_gpu(host_devices())
}

/// Devices that look at the contents of operands before they begin.
pub fn host_devices() -> Vec<Device> {
    let cpus = [1, 2, 3].map(|threads| kernels::Cpu::new(threads).unwrap());
    let portable = Device::Cpu(cpus[1].portable());
    let mut devices = vec![Device::Reference];
    devices.extend(cpus.map(Device::Cpu));
    devices.push(portable);
    devices
}

/// Numbers that depend on nothing but the seed.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 ^ self.0 >> 29) >> 16
    }
    pub fn float(&mut self) -> f32 {
        (self.next() % (1 << 20)) as f32 / (1 << 19) as f32 - 1.0
    }
    pub fn floats(&mut self, len: usize) -> Buffer<f32> {
        buffer(&(0..len).map(|_| self.float()).collect::<Vec<_>>())
    }
}

pub fn buffer<T: kernels::Element>(data: &[T]) -> Buffer<T> {
    Buffer::from_slice(&Device::Reference, data).unwrap()
}

pub fn copy<T: kernels::Element>(of: &Buffer<T>) -> Buffer<T> {
    buffer(&of.to_vec().unwrap())
}

pub fn none() -> Buffer<u32> {
    Buffer::new(&Device::Reference)
}

pub fn zeros(len: usize) -> Buffer<f32> {
    Buffer::zeroed(&Device::Reference, len).unwrap()
}

pub fn bits(of: &Buffer<f32>) -> Vec<u32> {
    of.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Runs `work` on every device and compares what it gives: to the reference within a tolerance for sums of `terms`
/// terms, and bit by bit across thread counts.
pub fn compare(terms: usize, work: impl Fn(&Device) -> Vec<Vec<f32>> + Sync) {
    let results: Vec<_> = devices().iter().map(&work).collect();
    let tolerance = 1e-6 + terms as f32 * 1e-7;
    for (d, result) in results.iter().enumerate().skip(1) {
        for (o, (got, expected)) in result.iter().zip(&results[0]).enumerate() {
            assert_eq!(got.len(), expected.len());
            for (i, (g, e)) in got.iter().zip(expected).enumerate() {
                let close = (g - e).abs() <= tolerance * (1.0 + e.abs() + (terms as f32).sqrt());
                assert!(close, "device {d}, output {o}, element {i}: {g}, expected {e}");
            }
        }
    }
    for threads in 2..=3 {
        for (one, more) in results[1].iter().zip(&results[threads]) {
            let same = one.iter().zip(more).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "bits differ between 1 and {threads} threads");
        }
    }
    // Inside the pool as outside it, and on a GPU a second time as the first.
    let devices = devices();
    for d in [2].into_iter().chain(5..devices.len()) {
        assert_eq!(work(&devices[d]), results[d], "device {d}, again");
    }
}

/// Sizes around the edges of tiles and blocks.
pub fn size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..40usize, 2 => 40..150usize, 1 => Just(256), 1 => 250..300usize]
}

/// Old contents that must be overwritten.
pub fn numbers_like(len: usize) -> Buffer<f32> {
    buffer(&vec![7.5; len])
}

/// The update, or one of three that decay weights, clip gradients or do both and scale them.
pub fn regularised(update: Update, how: usize) -> Update {
    match how {
        0 => update,
        1 => Update { weight_decay: 0.3, ..update },
        2 => Update { clip: Some(0.25), ..update },
        _ => Update { weight_decay: 0.05, clip: Some(0.5), scale: 0.75, ..update },
    }
}

pub fn rules() -> [UpdateRule; 7] {
    [
        UpdateRule::Sgd,
        UpdateRule::Adagrad { eps: 1e-4 },
        UpdateRule::RowWiseAdagrad { eps: 1e-4 },
        UpdateRule::Adam { beta1: 0.9, beta2: 0.99, eps: 1e-4, weight_decay: 0.0 },
        UpdateRule::Adam { beta1: 0.9, beta2: 0.99, eps: 1e-4, weight_decay: 0.1 },
        UpdateRule::Lamb { beta1: 0.9, beta2: 0.99, eps: 1e-4, weight_decay: 0.0 },
        UpdateRule::Lamb { beta1: 0.9, beta2: 0.99, eps: 1e-4, weight_decay: 0.1 },
    ]
}

/// Root mean square of the differences, as a share of that of what is expected.
pub fn relative_error(got: &[f32], expected: &[f32]) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let error = square(&mut got.iter().zip(expected).map(|(g, e)| f64::from(*g) - f64::from(*e)));
    (error / square(&mut expected.iter().map(|&e| f64::from(e))).max(1e-12)).sqrt()
}
