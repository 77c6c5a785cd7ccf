//! Offsets of the parts of a block, in words of four bytes.

use super::ALIGNMENT;
use super::manifest::Manifest;
use bytemuck::cast_slice;
use xxhash_rust::xxh3::xxh3_64;

/// Number of words before the counts: the checksum (2), samples, features.
const FIXED: usize = 4;
/// Number of words of the checksum.
const CHECKSUM: usize = 2;
/// Alignment of a block, in words.
const WORDS: usize = ALIGNMENT / 4;
/// Number of samples between two stored offsets of bags; between them, lengths are added up.
const STRIDE: usize = 32;

/// Columns of a log, from which the offsets in its blocks follow.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Number of dense columns.
    pub(super) dense: usize,
    /// The sparse features.
    pub(super) sparse: Vec<Column>,
    /// Number of labels of a sample, at least 1.
    pub(super) labels: usize,
    /// Whether samples have weights.
    pub(super) weighted: bool,
    /// Number of columns that are kept besides the inputs.
    pub(super) kept: usize,
}

/// Properties of one feature, from which its offsets follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) many: bool,
    pub(super) weighted: bool,
}

/// Offsets of the parts of one block, from its beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockLayout {
    pub(super) samples: usize,
    pub(super) labels: usize,
    /// Offset of the sample weights, which is also the end of the labels.
    pub(super) sample_weights: usize,
    pub(super) dense: usize,
    pub(super) dense_end: usize,
    pub(super) sparse: Vec<Sections>,
    /// Offset of the keys of kept columns.
    pub(super) kept: usize,
    /// End of the last part.
    pub(super) end: usize,
}

/// Offsets of the parts of one feature. Those of lengths and weights are meaningless for a feature without them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sections {
    /// Number of ids.
    pub(super) count: usize,
    pub(super) lengths: usize,
    pub(super) values: usize,
    pub(super) weights: usize,
    /// Index of the feature's first offset in [`Starts`].
    starts: usize,
}

/// Offset of every [`STRIDE`]-th bag of a block, for the features with many ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts(Vec<u32>);

impl Shape {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let column = |f: &super::PreparedFeature| Column { many: f.many, weighted: f.weighted };
        Self {
            dense: manifest.dense.len(),
            sparse: manifest.features.iter().map(column).collect(),
            labels: manifest.schema.label_count(),
            weighted: manifest.schema.weight.is_some(),
            kept: manifest.schema.keep.len(),
        }
    }
}

impl BlockLayout {
    /// Computes the offsets in a block of `samples` samples with `counts` ids of each feature. They cannot overflow: both numbers
    /// are below 2³², and a manifest has fewer than 2²⁶ columns.
    pub(super) fn set(&mut self, shape: &Shape, samples: usize, counts: &[u32]) {
        let mut at = FIXED + shape.sparse.len();
        let mut take = |words: usize| {
            at += words;
            at - words
        };
        self.samples = samples;
        self.labels = take(samples * shape.labels);
        self.sample_weights = take(if shape.weighted { samples } else { 0 });
        self.dense = take(samples * shape.dense);
        self.dense_end = take(0);
        self.sparse.clear();
        let mut starts = 0;
        for (column, &count) in shape.sparse.iter().zip(counts) {
            let mut sections = Sections { count: count as usize, starts, ..Sections::default() };
            if column.many {
                sections.lengths = take(samples);
                starts += samples / STRIDE + 1;
            }
            self.sparse.push(sections);
        }
        for sections in &mut self.sparse {
            sections.values = take(sections.count);
        }
        for (sections, column) in self.sparse.iter_mut().zip(&shape.sparse) {
            if column.weighted {
                sections.weights = take(sections.count);
            }
        }
        self.kept = take(2 * samples * shape.kept);
        self.end = at;
    }

    /// Reads the offsets of the block in `words`, which should have `samples` samples. The error says what is wrong with it.
    pub(super) fn read(&mut self, shape: &Shape, samples: usize, words: &[u32]) -> Result<(), String> {
        let features = shape.sparse.len();
        let Some(counts) = words.get(FIXED..FIXED + features) else {
            return Err(format!("{} bytes are too few for the header of a block", words.len() * 4));
        };
        for (what, got, expected) in
            [("samples", words[CHECKSUM], samples), ("features", words[CHECKSUM + 1], features)]
        {
            if got as usize != expected {
                return Err(format!("the header of the block has {got} {what}, expected {expected}"));
            }
        }
        for (feature, (column, &count)) in shape.sparse.iter().zip(counts).enumerate() {
            if !column.many && count as usize != samples {
                return Err(format!("{count} ids of feature {feature} for {samples} samples, one each"));
            }
        }
        self.set(shape, samples, counts);
        let expected = self.end.next_multiple_of(WORDS);
        if words.len() != expected {
            return Err(format!("{} bytes, but its header describes {}", words.len() * 4, expected * 4));
        }
        Ok(())
    }

    /// Writes the head of a block into `words`, which hold the rest of the block, pads them, and returns the checksum.
    pub(super) fn seal(&self, words: &mut Vec<u32>) -> u64 {
        words.resize(self.end.next_multiple_of(WORDS), 0);
        words[CHECKSUM] = self.samples as u32;
        words[CHECKSUM + 1] = self.sparse.len() as u32;
        for (word, sections) in words[FIXED..].iter_mut().zip(&self.sparse) {
            *word = sections.count as u32;
        }
        let checksum = computed_checksum(words);
        words[..CHECKSUM].copy_from_slice(&[checksum as u32, (checksum >> 32) as u32]);
        checksum
    }

    /// Offset of the bag of `sample` among the values of `feature`; for the number of samples, the end of the values. `words` is
    /// the block.
    #[inline]
    pub(super) fn bag_start(&self, starts: &Starts, words: &[u32], feature: usize, sample: usize) -> usize {
        let sections = &self.sparse[feature];
        let rest = &words[sections.lengths..][sample / STRIDE * STRIDE..sample];
        let start = starts.0[sections.starts + sample / STRIDE];
        rest.iter().fold(start as usize, |at, &length| at + length as usize)
    }
}

impl Starts {
    /// Adds up the lengths of the block in `words`. The error names a feature whose lengths do not match its count.
    pub(super) fn set(&mut self, shape: &Shape, layout: &BlockLayout, words: &[u32]) -> Result<(), String> {
        self.0.clear();
        for (feature, (column, sections)) in shape.sparse.iter().zip(&layout.sparse).enumerate() {
            if !column.many {
                continue;
            }
            let mut at = 0u64;
            let lengths = &words[sections.lengths..][..layout.samples];
            let (whole, rest) = lengths.as_chunks::<STRIDE>();
            let sum = |lengths: &[u32]| lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
            // If the sum is right, none of these numbers was truncated.
            self.0.push(0);
            for chunk in whole {
                at += sum(chunk);
                self.0.push(at as u32);
            }
            at += sum(rest);
            if at != sections.count as u64 {
                let count = sections.count;
                return Err(format!("{count} ids of feature {feature}, but its lengths add up to {at}"));
            }
        }
        Ok(())
    }
}

/// Checksum that is stored in the block.
pub(super) fn stated_checksum(words: &[u32]) -> Option<u64> {
    let [low, high] = words.first_chunk::<CHECKSUM>()?;
    Some(u64::from(*low) | u64::from(*high) << 32)
}

/// Checksum computed from the contents of the block.
pub(super) fn computed_checksum(words: &[u32]) -> u64 {
    xxh3_64(cast_slice(words.get(CHECKSUM..).unwrap_or_default()))
}
