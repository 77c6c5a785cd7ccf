//! Peaks of a card: bare products, streams, and random rows that are only touched (`kernels/peak.cu`).

use super::Cuda;
use super::arrays::Scratch;
use super::memory::Pointer;
use super::product::{Epilogue, Form, Operands, Product, alignment};
use crate::peak::{Stream, Touch};
use crate::{Buffer, Device, KernelError, LinearShape, Stopwatch, Stored};
use ground::precision::Precision;
use ground::random::RandomSequence;
use std::time::Duration;

/// Bytes that are written to fill the caches with other contents: several times the largest.
const FLUSHED: usize = 256 << 20;
/// Bytes of random rows that are touched in a round.
const ROUND: usize = 256 << 20;
/// Laps of a round, of which the first does not count and the best does.
const LAPS: usize = 4;
/// Rows that a group of threads has on their way.
const TOGETHER: [usize; 4] = [1, 2, 4, 8];

impl Cuda {
    /// Keeps the queue busy for `time`.
    pub(crate) fn hold(&self, time: Duration) -> Result<(), KernelError> {
        self.kernel("peak_hold").block(1).grid(1).arg(time.as_nanos() as u64).launch()
    }
}

/// Operands of a bare product: both have their sums' terms contiguous, as tensor cores read them fastest. In bf16 rows begin at
/// multiples of 16 bytes, and the result is bf16 too, as between the layers of a step.
#[derive(Debug)]
pub(crate) struct CardProduct {
    cuda: Cuda,
    shape: LinearShape,
    x: Operand,
    w: Operand,
    y: Operand,
}

/// Numbers in the form in which products read them.
#[derive(Debug)]
enum Operand {
    Single(Buffer<f32>),
    Half(Buffer<u16>),
}

impl Operand {
    /// `len` numbers that are not zero: a card computes with zeros at a higher clock.
    fn random(cuda: &Cuda, len: usize, seed: u64) -> Result<Self, KernelError> {
        let device = Device::Cuda(cuda.clone());
        let half = cuda.precision() == Precision::Bf16;
        let operand = match half {
            true => Operand::Half(Buffer::zeroed(&device, len)?),
            false => Operand::Single(Buffer::zeroed(&device, len)?),
        };
        let to = operand.address();
        cuda.kernel("peak_fill").threads(len).arg(to).arg(len).arg(u32::from(half)).arg(seed).launch()?;
        Ok(operand)
    }

    fn address(&self) -> Pointer {
        match self {
            Operand::Single(buffer) => buffer.card_address(),
            Operand::Half(buffer) => buffer.card_address(),
        }
    }
}

/// Elements from row to row, of rows of `width`.
fn stride(cuda: &Cuda, width: usize) -> usize {
    if cuda.precision() == Precision::Bf16 { Stored::stride(width) } else { width }
}

impl CardProduct {
    pub(crate) fn new(cuda: &Cuda, shape: LinearShape) -> Result<Self, KernelError> {
        let LinearShape { rows, inputs, outputs } = shape;
        Ok(Self {
            x: Operand::random(cuda, rows * stride(cuda, inputs), 1)?,
            w: Operand::random(cuda, outputs * stride(cuda, inputs), u64::MAX / 2)?,
            y: Operand::random(cuda, rows * stride(cuda, outputs), u64::MAX / 4)?,
            cuda: cuda.clone(),
            shape,
        })
    }

    /// Puts the product into the queue: `y = x·wᵀ`, where rows are contiguous.
    pub(crate) fn run(&mut self) -> Result<(), KernelError> {
        let LinearShape { rows, inputs, outputs } = self.shape;
        let (a, b, d) = (self.w.address(), self.x.address(), self.y.address());
        let (from, to) = (stride(&self.cuda, inputs), stride(&self.cuda, outputs));
        // Columns are contiguous for cuBLASLt: there the output is outputs × rows.
        let product = Product {
            precision: self.cuda.precision(),
            transposed: [true, false],
            sizes: [outputs, rows, inputs],
            strides: [from, from, to],
            alignments: [a, b, d].map(alignment),
            output: if matches!(self.y, Operand::Half(_)) { Form::Bf16 } else { Form::F32 },
            epilogue: Epilogue::None,
            add: false,
        };
        self.cuda.product(product, Operands { a, b, d, bias: None }).map(|_| ())
    }
}

/// Memory of a card that bare kernels run over.
#[derive(Debug)]
pub(crate) struct CardPeaks {
    cuda: Cuda,
    memory: Buffer<f32>,
    /// Receives a number that is never written.
    out: Buffer<f32>,
    watch: Stopwatch,
    rounds: u64,
}

impl CardPeaks {
    pub(crate) fn new(cuda: &Cuda, bytes: usize) -> Result<Self, KernelError> {
        let device = Device::Cuda(cuda.clone());
        // Two halves of whole vectors of four.
        let floats = (bytes / size_of::<f32>()).next_multiple_of(8).max(1 << 10);
        let memory = Buffer::zeroed(&device, floats)?;
        cuda.kernel("peak_fill").threads(floats).arg(&memory).arg(floats).arg(0u32).arg(1u64).launch()?;
        let out = Buffer::zeroed(&device, 1)?;
        Ok(Self { cuda: cuda.clone(), memory, out, watch: Stopwatch::new(&device), rounds: 0 })
    }

    /// Streaming bandwidth, the best of some laps.
    pub(crate) fn stream(&mut self) -> Result<Stream, KernelError> {
        let Self { cuda, memory, out, watch, .. } = self;
        let bytes = memory.len() * size_of::<f32>();
        let blocks = 8 * cuda.multiprocessors() as usize;
        for _ in 0..LAPS {
            watch.lap(|| {
                let read = cuda.kernel("peak_read").grid(blocks).arg(&*memory);
                read.arg(memory.len() / 4).arg(&*out).launch()
            })?;
        }
        let read = best(&watch.read()?);
        let from = memory.card_address();
        for _ in 0..LAPS {
            watch.lap(|| cuda.stream().copy(from.plus(bytes / 2).0, from.0, bytes / 2))?;
        }
        let copy = best(&watch.read()?);
        // A copied byte is read and written, and half of the bytes are copied.
        Ok(Stream { read: bytes as f64 / read, copy: bytes as f64 / copy })
    }

    /// Bytes a second of random rows, in the best of all ways.
    pub(crate) fn random_rows(&mut self, touch: Touch, row_bytes: usize) -> Result<f64, KernelError> {
        let dim = (row_bytes / size_of::<f32>()).clamp(1, self.memory.len());
        let rows = (self.memory.len() / dim).min(u32::MAX as usize);
        let count = (ROUND / (dim * size_of::<f32>())).clamp(1, rows);
        self.rounds += 1;
        let numbers = RandomSequence::new(self.rounds, "peak.rows");
        let key = |i: usize| ((u128::from(numbers.bits(i as u64)) * rows as u128) >> 64) as u64;
        let keys: Vec<u64> = (0..count).map(key).collect();
        let keys = Buffer::from_slice(&Device::Cuda(self.cuda.clone()), &keys)?;
        let base = self.memory.card_address().0;
        let mut shortest = f64::INFINITY;
        for together in TOGETHER {
            for _ in 0..LAPS {
                self.flush_some()?;
                let Self { cuda, watch, .. } = self;
                watch.lap(|| touch_rows(cuda, touch, &[base], dim, &keys, together))?;
            }
            shortest = shortest.min(best(&self.watch.read()?));
        }
        Ok(touch.bytes_per_byte() * (count * dim * size_of::<f32>()) as f64 / shortest)
    }

    /// Writes over the caches, in the queue.
    pub(crate) fn flush(&mut self) -> Result<(), KernelError> {
        self.flush_some()
    }

    fn flush_some(&self) -> Result<(), KernelError> {
        let words = self.memory.len().min(FLUSHED / size_of::<f32>());
        let one = 1f32.to_bits();
        self.cuda.kernel("set_words").threads(words).arg(&self.memory).arg(words).arg(one).launch()
    }
}

/// The shortest lap but the first.
fn best(seconds: &[f64]) -> f64 {
    let counted = if seconds.len() > 1 { &seconds[1..] } else { seconds };
    counted.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Touches the rows of tables at the addresses `bases` that keys name.
pub(crate) fn touch_rows(
    cuda: &Cuda,
    touch: Touch,
    bases: &[u64],
    dim: usize,
    keys: &Buffer<u64>,
    together: usize,
) -> Result<(), KernelError> {
    let (rows, name) = match (touch, together) {
        (Touch::Read, 0..=1) => (1, "peak_gather_1"),
        (Touch::Read, 2..=3) => (2, "peak_gather_2"),
        (Touch::Read, 4..=7) => (4, "peak_gather_4"),
        (Touch::Read, _) => (8, "peak_gather_8"),
        (Touch::Change, 0..=1) => (1, "peak_change_1"),
        (Touch::Change, 2..=3) => (2, "peak_change_2"),
        (Touch::Change, 4..=7) => (4, "peak_change_4"),
        (Touch::Change, _) => (8, "peak_change_8"),
    };
    // A thread has four floats of a row at a time.
    let lanes = dim.div_ceil(4).next_power_of_two().clamp(1, 32);
    let keys_at = keys.card_range("touch_rows", 0, keys.len())?;
    cuda.kernel(name)
        .threads(keys.len().div_ceil(rows) * lanes)
        .arg(cuda.constant(bases)?)
        .arg(keys_at)
        .arg(keys.len())
        .arg(dim as u32)
        .arg(lanes as u32)
        .arg(cuda.scratch(Scratch::Sums, size_of::<f32>())?)
        .launch()
}
