//! Results that are larger than the caches, which are written past them: the bits are those of the reference.

use super::support::*;
use kernels::{Buffer, ColumnCopy, CrossBackward, Device, Matrix, MatrixMut};

/// More floats than are written through the caches, and not of whole lines.
const FLOATS: usize = (2 << 20) + 77;

/// `len` numbers, of which those far apart are equal: fast to make.
fn many(len: usize, seed: u64) -> Buffer<f32> {
    let some: Vec<f32> = numbers(seed);
    buffer(&(0..len).map(|i| some[i % some.len()]).collect::<Vec<_>>())
}

fn numbers(seed: u64) -> Vec<f32> {
    let mut numbers = Numbers(seed);
    (0..10_007).map(|_| numbers.float()).collect()
}

/// Runs `work` on the host's devices and compares all bits with those of the reference.
fn equal(work: impl Fn(&Device) -> Vec<Buffer<f32>>) {
    let devices = host_devices();
    let expected = work(&devices[0]);
    for (d, device) in devices.iter().enumerate().skip(1) {
        for (got, expected) in work(device).iter().zip(&expected) {
            assert!(bits(got) == bits(expected), "device {d} gives other bits than the reference");
        }
    }
}

#[test]
fn cross_layers() {
    let [x0, z, dout, dx0] = [1, 2, 3, 4].map(|seed| many(FLOATS, seed));
    for accumulate in [false, true] {
        equal(|device| {
            let (mut dz, mut dx0) = (zeros(FLOATS), copy(&dx0));
            let len = FLOATS;
            let args =
                CrossBackward { len, x0: &x0, z: &z, dout: &dout, dz: &mut dz, dx0: &mut dx0, accumulate };
            device.cross_backward(args).unwrap();
            vec![dz, dx0]
        });
    }
}

#[test]
fn columns() {
    let (width, gap) = (1043, 3);
    let rows = FLOATS / width + 1;
    let from = many(rows * (width + gap), 5);
    equal(|device| {
        let mut to = zeros(2 + rows * width);
        let copies =
            [ColumnCopy { from: 0, to: 43, width: 1000 }, ColumnCopy { from: 1000 + gap, to: 0, width: 43 }];
        let (from, to_matrix) = (
            Matrix { buffer: &from, at: 0, width: width + gap },
            MatrixMut { buffer: &mut to, at: 2, width },
        );
        device.copy_columns(rows, &copies, from, to_matrix).unwrap();
        vec![to]
    });
}
