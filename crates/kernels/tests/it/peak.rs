//! Peaks and the stopwatch, on host devices and on the GPU that CAMPANILE_TEST_DEVICE names. Nothing here depends on how fast they are.

use crate::gpu;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use ground::precision::Precision;
use kernels::peak::{BareProduct, DeviceMemory, Touch, products_of, touch_rows};
use kernels::{Buffer, Device, KernelError, LinearShape, Stopwatch, Table};

fn devices() -> Vec<Device> {
    gpu::and_gpu(vec![Device::cpu(2).unwrap()])
}

fn tables(device: &Device, rows: usize, dim: usize) -> Vec<Table> {
    let table = |t: usize| {
        let mut table = Table::zeroed(device, rows, dim, Pooling::Sum, &UpdateRule::Sgd).unwrap();
        let values: Vec<f32> = (0..rows * dim).map(|i| (i + 7 * t) as f32 + 0.5).collect();
        table.weights.write(0, &values).unwrap();
        table
    };
    (0..3).map(table).collect()
}

/// Whatever the dim and the number of rows on their way: exactly the rows that keys name are changed, and reading changes none.
#[test]
fn touched_rows_are_those_of_the_keys() {
    for device in devices() {
        for dim in [1, 3, 4, 7, 8, 32, 128, 132, 512] {
            for together in [1, 2, 4, 8] {
                let (rows, mut all) = (37, tables(&device, 37, dim));
                let keys: Vec<u64> =
                    (0..3u64).flat_map(|t| [0, 5, 36].map(|row| (t << 32) | ((row + t) % 37))).collect();
                let on_device = Buffer::from_slice(&device, &keys).unwrap();
                let before: Vec<_> = all.iter().map(|table| table.weights.to_vec().unwrap()).collect();
                touch_rows(&device, Touch::Read, &mut all, &on_device, together).unwrap();
                let read: Vec<_> = all.iter().map(|table| table.weights.to_vec().unwrap()).collect();
                assert_eq!(read, before, "{}: dim {dim}", device.name());
                touch_rows(&device, Touch::Change, &mut all, &on_device, together).unwrap();
                for (t, table) in all.iter().enumerate() {
                    let after = table.weights.to_vec().unwrap();
                    for row in 0..rows {
                        let named = keys.contains(&((t as u64) << 32 | row as u64));
                        let range = row * dim..(row + 1) * dim;
                        // A change by a share of 1e-7 is more than half of the last bit.
                        let same = after[range.clone()] == before[t][range];
                        assert!(
                            named || same,
                            "{}: dim {dim}, table {t}, row {row} was changed",
                            device.name()
                        );
                        assert!(
                            !named || !same,
                            "{}: dim {dim}, table {t}, row {row} was not",
                            device.name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn peaks_are_numbers_above_zero() {
    for device in devices() {
        let mut memory = DeviceMemory::new(&device, 8 << 20).unwrap();
        let stream = memory.stream().unwrap();
        memory.flush().unwrap();
        let rates = [stream.read, stream.copy, memory.gather(128).unwrap(), memory.update(128).unwrap()];
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{}: {rates:?}", device.name());
    }
    for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
        let Some(device) = gpu::in_precision(precision) else { continue };
        let shape = LinearShape { rows: 256, inputs: 64, outputs: 128 };
        BareProduct::new(&device, shape).unwrap().run().unwrap();
        assert!(products_of(&device).unwrap() > 0.0, "{precision}");
        device.check().unwrap();
    }
}

#[test]
fn a_stopwatch_gives_every_lap_once_and_passes_errors_on() {
    for device in devices() {
        let x = Buffer::from_slice(&device, &[1.0f32; 1 << 16]).unwrap();
        let mut y = Buffer::zeroed(&device, 1 << 16).unwrap();
        let mut watch = Stopwatch::new(&device);
        for laps in [3, 5] {
            for _ in 0..laps {
                watch.lap(|| device.add(1 << 16, &x, &mut y)).unwrap();
            }
            let times = watch.read().unwrap();
            assert_eq!(times.len(), laps);
            assert!(times.iter().all(|time| (0.0..60.0).contains(time)), "{}: {times:?}", device.name());
        }
        assert!(watch.lap(|| Err(KernelError::NoContents { op: "test" })).is_err());
        assert!(watch.read().unwrap().is_empty(), "a lap that failed is none");
        assert_eq!(y.to_vec().unwrap(), vec![8.0; 1 << 16], "the work was done");
    }
}
