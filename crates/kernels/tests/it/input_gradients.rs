//! Input gradients with mask and sums in one kernel, on the card: against sums in f64 on the host.

use crate::gpu;
use ground::precision::Precision;
use half::bf16;
use kernels::{Buffer, Cuda, Device, GradientProbe};

/// Bits of a NaN: what no result may have, and what no operand has but behind its rows.
const POISON: u16 = 0x7fc1;

fn cuda() -> Option<Cuda> {
    let Some(Device::Cuda(cuda)) = gpu::in_precision(Precision::Bf16) else {
        println!("SKIPPED: no input gradient was computed: CAMPANILE_TEST_DEVICE names no GPU");
        return None;
    };
    if cuda.gpu().capability() != (9, 0) {
        println!("SKIPPED: no input gradient was computed: {} is no Hopper GPU", cuda.gpu().name());
        return None;
    }
    Some(cuda)
}

/// Numbers by a linear congruence (Knuth's).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Whole numbers from -2 to 2: sums of their products are exact in f32.
    fn whole(&mut self) -> f32 {
        (self.next() % 5) as f32 - 2.0
    }

    fn real(&mut self) -> f32 {
        (self.next() % 4_000_001) as f32 / 2e6 - 1.0
    }
}

/// A matrix with NaN behind each row.
struct Matrix {
    columns: usize,
    stride: usize,
    bits: Vec<u16>,
}

impl Matrix {
    fn new(rows: usize, columns: usize, padding: usize, mut number: impl FnMut() -> f32) -> Self {
        let stride = columns.next_multiple_of(8) + padding;
        let bits = (0..rows * stride).map(|i| match i % stride {
            column if column < columns => bf16::from_f32(number()).to_bits(),
            _ => POISON,
        });
        Self { columns, stride, bits: bits.collect() }
    }

    fn row(&self, row: usize) -> Vec<f64> {
        let row = &self.bits[row * self.stride..][..self.columns];
        row.iter().map(|&bits| bf16::from_bits(bits).to_f64()).collect()
    }

    fn on(&self, device: &Device) -> Buffer<u16> {
        Buffer::from_slice(device, &self.bits).unwrap()
    }
}

struct Case {
    sizes: [usize; 3],
    dy: Matrix,
    w: Matrix,
    y: Option<Matrix>,
    /// Elements from row to row of dx.
    stride: usize,
}

impl Case {
    fn new(sizes: [usize; 3], masked: bool, padding: usize, mut number: impl FnMut() -> f32) -> Self {
        let [rows, inputs, outputs] = sizes;
        Self {
            sizes,
            dy: Matrix::new(rows, outputs, padding, &mut number),
            w: Matrix::new(outputs, inputs, padding, &mut number),
            y: masked.then(|| Matrix::new(rows, inputs, 2 * padding, &mut number)),
            stride: inputs.next_multiple_of(8) + padding,
        }
    }

    /// Bits of dx and of the sums, on the card; both are poisoned before.
    fn run(&self, cuda: &Cuda) -> (Vec<u16>, Vec<u32>) {
        let device = &Device::Cuda(cuda.clone());
        let [rows, inputs, _] = self.sizes;
        let (dy, w, y) = (self.dy.on(device), self.w.on(device), self.y.as_ref().map(|y| y.on(device)));
        let mut dx = Buffer::from_slice(device, &vec![POISON; rows * self.stride]).unwrap();
        let mut sums = Buffer::from_slice(device, &vec![f32::NAN; inputs + 1]).unwrap();
        let strides = [self.dy.stride, self.w.stride, self.y.as_ref().map_or(0, |y| y.stride), self.stride];
        let (sizes, y, sums_of) = (self.sizes, y.as_ref(), Some(&mut sums));
        let mut probe = GradientProbe { sizes, strides, dy: &dy, w: &w, y, dx: &mut dx, sums: sums_of };
        assert!(probe.queue(cuda).unwrap(), "{sizes:?} has a kernel");
        device.check().unwrap();
        let sums = sums.to_vec().unwrap().into_iter().map(f32::to_bits).collect();
        (dx.to_vec().unwrap(), sums)
    }

    /// Checks every element, with `allowed` of the sum of absolute terms for the rounding of f32 sums.
    fn check(&self, (dx, sums): &(Vec<u16>, Vec<u32>), allowed: f64) {
        let [rows, inputs, outputs] = self.sizes;
        let w: Vec<_> = (0..outputs).map(|row| self.w.row(row)).collect();
        let (mut sums_of_dx, mut sizes_of_dx) = (vec![0f64; inputs], vec![0f64; inputs]);
        for row in 0..rows {
            let (mut exact, mut size) = (vec![0f64; inputs], vec![0f64; inputs]);
            for (&dy, w) in self.dy.row(row).iter().zip(&w) {
                exact.iter_mut().zip(w).for_each(|(exact, &w)| *exact += dy * w);
                if allowed > 0.0 {
                    size.iter_mut().zip(w).for_each(|(size, &w)| *size += (dy * w).abs());
                }
            }
            let y = self.y.as_ref().map(|y| y.row(row));
            let got = &dx[row * self.stride..][..self.stride];
            for column in 0..inputs {
                let expected = if y.as_ref().is_some_and(|y| y[column] <= 0.0) { 0.0 } else { exact[column] };
                let value = bf16::from_bits(got[column]).to_f64();
                let nearest = bf16::from_f64(expected).to_f64();
                // Whole numbers are exact before they are rounded; others are rounded in f32 too.
                let (error, most) = match allowed {
                    0.0 => ((value - nearest).abs(), 0.0),
                    _ => ((value - expected).abs(), expected.abs() / 256.0 + allowed * size[column]),
                };
                assert!(
                    error <= most,
                    "{:?}, row {row}, column {column}: {value}, expected {nearest}",
                    self.sizes
                );
                sums_of_dx[column] += value;
                sizes_of_dx[column] += value.abs();
            }
            assert!(got[inputs..].iter().all(|&bits| bits == POISON), "row {row} ends at {inputs}");
        }
        for column in 0..inputs {
            let (value, exact) = (f64::from(f32::from_bits(sums[column])), sums_of_dx[column]);
            let most = allowed * sizes_of_dx[column];
            assert!(
                (value - exact).abs() <= most,
                "{:?}, sum of column {column}: {value}, expected {exact}",
                self.sizes
            );
        }
        assert!(f32::from_bits(sums[inputs]).is_nan(), "no sum behind the last");
    }
}

/// Rows, inputs, outputs: one tile, ragged ones, several tiles for each block, and sums that go round the ring.
const SIZES: [[usize; 3]; 12] = [
    [128, 256, 64],
    [1, 8, 8],
    [1, 16, 1],
    [64, 128, 16],
    [129, 136, 65],
    [300, 480, 200],
    [1000, 72, 520],
    [257, 264, 1024],
    [5000, 1024, 64],
    [9000, 1000, 72],
    [8300, 504, 328],
    [16_500, 256, 200],
];

/// The bits that the kernel gives, the first time as the second.
fn bits(cuda: &Cuda, case: &Case) -> (Vec<u16>, Vec<u32>) {
    let bits = case.run(cuda);
    assert!(bits == case.run(cuda), "{:?}: the same bits again", case.sizes);
    bits
}

#[test]
fn whole_numbers_are_exact() {
    let Some(cuda) = cuda() else { return };
    for (sizes, seed) in SIZES.into_iter().zip(1..) {
        for masked in [false, true] {
            println!("{sizes:?}, masked: {masked}");
            let mut numbers = Numbers(seed);
            let case = Case::new(sizes, masked, 8 * (seed as usize % 3), || numbers.whole());
            case.check(&bits(&cuda, &case), 0.0);
        }
    }
}

#[test]
fn real_numbers_are_as_near_as_f32_sums() {
    let Some(cuda) = cuda() else { return };
    for (sizes, seed) in SIZES.into_iter().zip(101..) {
        println!("{sizes:?}, masked: {}", seed % 2 == 0);
        let mut numbers = Numbers(seed);
        let case = Case::new(sizes, seed % 2 == 0, 8 * (seed as usize % 3), || numbers.real());
        case.check(&bits(&cuda, &case), 2e-6);
    }
}

/// Operands that the copy engine cannot read are refused, and nothing is written.
#[test]
fn rows_that_are_not_aligned_are_left_to_others() {
    let Some(cuda) = cuda() else { return };
    let device = &Device::Cuda(cuda.clone());
    let [dy, w] = [(); 2].map(|()| Buffer::from_slice(device, &[0u16; 144]).unwrap());
    let mut dx = Buffer::from_slice(device, &[POISON; 144]).unwrap();
    for strides in [[12, 16, 0, 16], [16, 9, 0, 16], [16, 16, 0, 12]] {
        let (sizes, y, sums) = ([9, 9, 9], None, None);
        let mut probe = GradientProbe { sizes, strides, dy: &dy, w: &w, y, dx: &mut dx, sums };
        assert!(!probe.queue(&cuda).unwrap(), "{strides:?}");
    }
    assert!(dx.to_vec().unwrap().iter().all(|&bits| bits == POISON));
}

/// Times at the sizes of MLPerf's DLRM, beside cuBLASLt's product alone (in f32).
#[test]
#[ignore = "a measurement"]
fn times() {
    let Some(cuda) = cuda() else { return };
    let device = &Device::Cuda(cuda.clone());
    let sizes = [(1024, 1024), (512, 1024), (256, 512), (1024, 480), (128, 256)];
    for (rows, (outputs, inputs)) in
        [16_384, 65_536].into_iter().flat_map(|rows| sizes.map(|size| (rows, size)))
    {
        let mut numbers = Numbers(rows as u64);
        let mut matrix = |rows: usize, columns: usize| {
            let bits: Vec<u16> =
                (0..rows * columns).map(|_| bf16::from_f32(numbers.real()).to_bits()).collect();
            Buffer::from_slice(device, &bits).unwrap()
        };
        let (dy, w, y) = (matrix(rows, outputs), matrix(outputs, inputs), matrix(rows, inputs));
        let mut dx = Buffer::zeroed(device, rows * inputs).unwrap();
        let mut sums = Buffer::zeroed(device, inputs).unwrap();
        let mut d = Buffer::zeroed(device, rows * inputs).unwrap();
        let flops = 2.0 * (rows * inputs * outputs) as f64;
        let report = |name: &str, mut time: Box<dyn FnMut() -> std::time::Duration + '_>| {
            time();
            let mut times: Vec<f64> = (0..20).map(|_| time().as_secs_f64()).collect();
            times.sort_by(f64::total_cmp);
            let median = times[10];
            println!(
                "{rows:6} rows {outputs:5} x {inputs:4} {name:28} {:8.1} us {:6.0} TFLOP/s",
                median * 1e6,
                flops / median / 1e12
            );
        };
        let strides = [outputs, inputs, inputs, inputs];
        let sizes = [rows, inputs, outputs];
        for (name, masked) in [("plain", false), ("mask, sums", true)] {
            let (y, sums) = (masked.then_some(&y), masked.then_some(&mut sums));
            let mut probe = GradientProbe { sizes, strides, dy: &dy, w: &w, y, dx: &mut dx, sums };
            report(name, Box::new(|| probe.time(&cuda, 10).unwrap()));
        }
        let probe = GradientProbe { sizes, strides, dy: &dy, w: &w, y: None, dx: &mut dx, sums: None };
        report("cuBLASLt", Box::new(|| probe.time_of_product(&cuda, &mut d, 10).unwrap()));
    }
}
