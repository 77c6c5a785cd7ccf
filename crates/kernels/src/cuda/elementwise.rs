//! Passes over memory: activations, losses and sums.

use super::Cuda;
use super::arrays::Scratch;
use super::memory::Pointer;
use crate::op::Result;
use crate::{Bce, Buffer, Dropout};

pub(super) fn relu_backward(cuda: &Cuda, len: usize, y: &Buffer<f32>, dy: &mut Buffer<f32>) -> Result {
    cuda.kernel("relu_backward").grid(cuda.blocks_for(len)).arg(len).arg(y).arg(dy).launch()
}

pub(super) fn add(cuda: &Cuda, len: usize, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result {
    cuda.kernel("add").grid(cuda.blocks_for(len)).arg(len).arg(x).arg(y).launch()
}

pub(super) fn scale(cuda: &Cuda, len: usize, factor: f32, y: &mut Buffer<f32>) -> Result {
    cuda.kernel("scale").grid(cuda.blocks_for(len)).arg(len).arg(factor).arg(y).launch()
}

pub(super) fn dropout(cuda: &Cuda, args: Dropout) -> Result {
    let (below, scale) = (args.below(), args.scale());
    let Dropout { rows, width, first, sequence, y, .. } = args;
    let blocks = if width == 0 { 0 } else { rows.min(cuda.most_blocks()) };
    cuda.kernel("dropout")
        .block(width.next_multiple_of(32).clamp(32, 256) as u32)
        .grid(blocks)
        .arg(rows)
        .arg(width as u32)
        .arg(first)
        .arg(sequence.key())
        .arg(below)
        .arg(scale)
        .arg(y)
        .launch()
}

pub(super) fn bce(cuda: &Cuda, args: Bce) -> Result {
    let sums = Sums::new(cuda, args.rows)?;
    cuda.kernel("bce")
        .grid(sums.count)
        .arg(args.rows)
        .arg(args.logits)
        .arg(args.labels)
        .arg(args.weights)
        .arg(args.smoothing)
        .arg(args.scale)
        .arg(args.dlogits)
        .arg(args.probabilities.as_deref())
        .arg(sums.parts)
        .launch()?;
    sums.add_up(cuda, args.loss.card_address())
}

pub(super) fn sigmoid(cuda: &Cuda, rows: usize, logits: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
    cuda.kernel("sigmoid").grid(cuda.blocks_for(rows)).arg(rows).arg(logits).arg(out).launch()
}

pub(super) fn sum(cuda: &Cuda, x: &Buffer<f32>) -> Result<Option<f64>> {
    let sums = Sums::new(cuda, x.len())?;
    cuda.kernel("sum").grid(sums.count).arg(x.len()).arg(x).arg(sums.parts).launch()?;
    sums.read(cuda).map(Some)
}

pub(super) fn sum_of_squares(cuda: &Cuda, gradient: &Buffer<f32>, limit: f32) -> Result<Option<f64>> {
    let sums = Sums::new(cuda, gradient.len())?;
    cuda.kernel("sum_of_squares")
        .grid(sums.count)
        .arg(gradient.len())
        .arg(limit)
        .arg(gradient)
        .arg(sums.parts)
        .launch()?;
    sums.read(cuda).map(Some)
}

/// A sum in two stages: a kernel sums by block, a second one adds the parts. The number of parts follows from the number of
/// elements alone, so that no bit depends on the card.
struct Sums {
    count: usize,
    parts: Pointer,
}

impl Sums {
    fn new(cuda: &Cuda, len: usize) -> Result<Self> {
        let count = len.div_ceil(512).clamp(1, 1024);
        // One place more, for a sum that the host reads.
        Ok(Self { count, parts: cuda.scratch(Scratch::Sums, (count + 1) * size_of::<f64>())? })
    }

    fn add_up(&self, cuda: &Cuda, to: Pointer) -> Result {
        cuda.kernel("sum_parts").grid(1).arg(self.count as u32).arg(self.parts).arg(to).launch()
    }

    /// The sum on the host, which waits for it.
    fn read(&self, cuda: &Cuda) -> Result<f64> {
        let to = self.parts.plus(self.count * size_of::<f64>());
        self.add_up(cuda, to)?;
        let mut sum = [0f64];
        cuda.read_back(to, &mut sum)?;
        Ok(sum[0])
    }
}

impl Cuda {
    /// Blocks of a pass over `len` elements, four for each thread and more where there are many.
    pub(super) fn blocks_for(&self, len: usize) -> usize {
        len.div_ceil(1024).min(self.most_blocks())
    }

    /// Blocks that keep every multiprocessor busy.
    pub(super) fn most_blocks(&self) -> usize {
        16 * self.multiprocessors() as usize
    }
}
