//! Products alone: no bias, no activation, operands in the numbers that products read.

use crate::cuda::peak::CardProduct;
use crate::{Buffer, Cuda, Device, KernelError, LinearAt, LinearForward, LinearShape, Stopwatch, peak};
use ground::Activation;
use ground::precision::Precision;

/// Sizes of the square products of which a GPU's best counts.
const SQUARES: [usize; 3] = [4096, 8192, 12_288];
/// Times that each is measured, the first of which does not count.
const TRIES: usize = 6;

/// The product of a matrix of rows × inputs and one of inputs × outputs, alone.
///
/// On a GPU it is cuBLASLt's, of operands that are in the precision already. On the host it is [`Device::linear_forward`] without a
/// bias.
///
/// ```
/// use kernels::peak::BareProduct;
/// use kernels::{Device, LinearShape};
/// let mut product = BareProduct::new(&Device::cpu(1)?, LinearShape { rows: 8, inputs: 4, outputs: 2 })?;
/// product.run()?;
/// assert_eq!(product.flops(), 128.0);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug)]
pub struct BareProduct {
    shape: LinearShape,
    operands: Operands,
}

#[derive(Debug)]
enum Operands {
    Host { device: Device, x: Buffer<f32>, w: Buffer<f32>, y: Buffer<f32> },
    Card(CardProduct),
}

impl BareProduct {
    /// Makes the operands of a product in the precision of `device`.
    pub fn new(device: &Device, shape: LinearShape) -> Result<Self, KernelError> {
        let LinearShape { rows, inputs, outputs } = shape;
        let operands = match device {
            Device::Cuda(cuda) => Operands::Card(CardProduct::new(cuda, shape)?),
            _ => {
                let filled = |len: usize| {
                    let values: Vec<f32> = (0..len).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
                    Buffer::from_slice(device, &values)
                };
                let (x, w) = (filled(rows * inputs)?, filled(inputs * outputs)?);
                Operands::Host { device: device.clone(), x, w, y: Buffer::zeroed(device, rows * outputs)? }
            }
        };
        Ok(Self { shape, operands })
    }

    /// Bytes that the operands and the result of a product take.
    pub fn bytes(precision: Precision, on_gpu: bool, shape: LinearShape) -> usize {
        let LinearShape { rows, inputs, outputs } = shape;
        let number = if on_gpu && precision == Precision::Bf16 { 2 } else { 4 };
        number * (rows * inputs + inputs * outputs + rows * outputs)
    }

    /// Computes the product, or puts it into the device's queue.
    pub fn run(&mut self) -> Result<(), KernelError> {
        match &mut self.operands {
            Operands::Host { device, x, w, y } => device.linear_forward(LinearForward {
                shape: self.shape,
                x,
                parameters: w,
                at: LinearAt { weight: 0, bias: None },
                packed: None,
                activation: Activation::Identity,
                y,
            }),
            Operands::Card(product) => product.run(),
        }
    }

    /// FLOPs of the product.
    pub fn flops(&self) -> f64 {
        2.0 * (self.shape.rows * self.shape.inputs) as f64 * self.shape.outputs as f64
    }
}

/// FLOP/s of products of `device`, in its precision: on the CPU those of [`products`](peak::products), on a GPU those of the fastest
/// of a few large square products.
pub fn products_of(device: &Device) -> Result<f64, KernelError> {
    match device {
        Device::Cuda(cuda) => best_square(device, cuda),
        Device::Cpu(cpu) => peak::products(cpu.precision(), cpu.threads()),
        Device::Reference | Device::Idle => peak::products(Precision::F32, 1),
    }
}

fn best_square(device: &Device, cuda: &Cuda) -> Result<f64, KernelError> {
    let mut best = 0f64;
    for size in SQUARES {
        let shape = LinearShape { rows: size, inputs: size, outputs: size };
        let (free, _) = cuda.gpu().memory()?;
        if best > 0.0 && BareProduct::bytes(device.precision(), true, shape) as u64 > free / 2 {
            break;
        }
        let mut product = BareProduct::new(device, shape)?;
        let mut watch = Stopwatch::new(device);
        for _ in 0..TRIES {
            watch.lap(|| product.run())?;
        }
        let seconds = watch.read()?[1..].iter().copied().fold(f64::INFINITY, f64::min);
        best = best.max(product.flops() / seconds);
    }
    Ok(best)
}
