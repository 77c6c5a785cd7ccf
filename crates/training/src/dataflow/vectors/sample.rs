//! Vectors of a sample as rows of a codec, and blocks of such samples.

use kernels::Rows;
use spec::codec::{Codec, Row};

/// Vectors of one sample, side by side, and their encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Rows of the vectors; one for all of them where the codec is not by rows.
    rows: Vec<Row>,
    /// Floats of the sample.
    pub floats: usize,
    /// Encoded bytes of the sample.
    pub bytes: usize,
}

impl Sample {
    /// Vectors of these widths.
    pub fn new(codec: Codec, widths: &[usize]) -> Self {
        let mut sample = Self { rows: Vec::new(), floats: 0, bytes: 0 };
        let whole = [widths.iter().sum()];
        for &width in if codec.by_rows() { widths } else { &whole[..] } {
            sample.rows.push(Row { at: sample.floats, byte: sample.bytes, width });
            sample.floats += width;
            sample.bytes += codec.encoded_bytes(1, width as u64) as usize;
        }
        sample
    }

    /// Number of samples that have so many floats.
    pub fn of_floats(&self, floats: usize) -> usize {
        floats.checked_div(self.floats).unwrap_or(0)
    }

    /// Rows of a block whose floats begin at `at`, in the memory of `rows`.
    pub fn rows<'a>(&self, codec: Codec, block: &Block, at: usize, rows: &'a mut Vec<Row>) -> Rows<'a> {
        rows.clear();
        if codec.by_rows() {
            rows.extend(self.rows.iter().map(|row| Row { at: at + row.at, ..*row }));
            return Rows { rows, count: block.samples, floats: self.floats, bytes: self.bytes };
        }
        rows.push(Row { at, byte: 0, width: block.samples * self.floats });
        Rows::once(rows)
    }
}

/// Consecutive samples with the same vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Index of what a sample has.
    pub sample: usize,
    /// Number of samples.
    pub samples: usize,
    /// Offset of the block in the floats.
    pub floats: usize,
    /// Offset of the block in the encoded bytes.
    pub bytes: usize,
}

impl Block {
    /// What each sample of the block has.
    pub fn of<'a>(&self, samples: &'a [Sample]) -> &'a Sample {
        &samples[self.sample]
    }

    /// Blocks without the empty ones, those that follow each other and have the same vectors joined.
    pub fn merged<'a>(blocks: &'a [Block], samples: &'a [Sample]) -> impl Iterator<Item = Block> + 'a {
        let follows = |a: &Block, b: &Block| {
            let of = a.of(samples);
            a.sample == b.sample
                && a.floats + a.samples * of.floats == b.floats
                && a.bytes + a.samples * of.bytes == b.bytes
        };
        let joined = blocks.chunk_by(follows).map(|run| {
            let samples = run.iter().map(|block| block.samples).sum();
            Block { samples, ..run[0] }
        });
        joined.filter(|block| block.samples > 0)
    }
}
