//! The dense network of a model: blocks in forward order, each with named inputs.
//!
//! ```
//! use spec::model::{BlockName, Input, BlockSource};
//! use spec::presets::Preset;
//! let model = Preset::Kaggle.model("dlrm".parse().unwrap(), None, None).unwrap();
//! let network = model.network();
//! let names: Vec<&str> = network.blocks().iter().map(|block| block.name.as_str()).collect();
//! assert_eq!(names, ["bottom", "interaction", "top"]);
//! let bottom = BlockName::new("bottom");
//! assert_eq!(network.block(BlockName::new("interaction")).inputs, [Input::Block(bottom), Input::Vectors]);
//! // The output of the bottom MLP is laid out before the vectors, so the interaction reads one buffer.
//! assert_eq!(network.leading().map(|block| block.name), Some(bottom));
//! assert!(network.runs_before_vectors(bottom));
//! ```

use super::block::{Block, BlockName, Input, Layers};
use super::layer::Parameter;
use serde::Serialize;
use std::ops::Range;

/// Dense network of a model: blocks in forward order, of which the last returns a logit for each label.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    blocks: Vec<Block>,
    dense_features: usize,
    sparse_width: usize,
    /// Vectors among the sparse columns, where not all columns are of vectors.
    vectors: Vec<Range<usize>>,
}

/// A buffer that blocks read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockSource {
    /// Dense inputs of the batch.
    Dense,
    /// Columns of the sparse features, behind the output of the [leading](Network::leading) block.
    Features,
    /// Output of a block.
    Output(BlockName),
}

/// Columns of a buffer that a block reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Buffer that is read.
    pub from: BlockSource,
    /// Columns of the buffer, in the order in which the block sees them; adjoining ones are one range.
    pub columns: Vec<Range<usize>>,
}

impl Network {
    /// The network of these blocks, for samples of `dense_features` dense inputs and of `sparse_width` columns that the
    /// sparse features bring.
    pub(super) fn new(blocks: Vec<Block>, dense_features: usize, sparse_width: usize) -> Self {
        Self { blocks, dense_features, sparse_width, vectors: one(0..sparse_width) }
    }

    /// Makes the network over rows of which only these columns are vectors.
    pub(super) fn with_vectors(self, vectors: Vec<Range<usize>>) -> Self {
        Self { vectors, ..self }
    }

    /// Blocks of the network, in forward order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Block with this name. Panics if the network has none.
    pub fn block(&self, name: BlockName) -> &Block {
        let found = self.blocks.iter().find(|block| block.name == name);
        found.unwrap_or_else(|| panic!("the network has no block {name}"))
    }

    /// Last block, whose output is a logit for each label.
    pub fn logit(&self) -> &Block {
        self.blocks.last().expect("a network has blocks")
    }

    /// Block whose output is laid out before the vectors of a sample, so that a block that reads both reads one buffer.
    pub fn leading(&self) -> Option<&Block> {
        let pairs = self.blocks.iter().flat_map(|block| block.inputs.windows(2));
        pairs.into_iter().find_map(|pair| match pair {
            [Input::Block(name), Input::Vectors] if self.runs_before_vectors(*name) => {
                Some(self.block(*name))
            }
            _ => None,
        })
    }

    /// Number of columns of [`BlockSource::Features`]: those of the leading block's output and of the sparse features.
    pub fn features_width(&self) -> usize {
        self.leading_width() + self.sparse_width
    }

    /// Number of columns of the leading block's output: the offset of the sparse features in [`BlockSource::Features`].
    pub fn leading_width(&self) -> usize {
        self.leading().map_or(0, |block| block.layers.output_width())
    }

    /// Whether a block can run before the vectors of the batch have arrived: neither it nor any block below it reads them.
    pub fn runs_before_vectors(&self, name: BlockName) -> bool {
        self.block(name).inputs.iter().all(|input| match input {
            Input::Dense => true,
            Input::Vectors | Input::Rows => false,
            Input::Block(below) => self.runs_before_vectors(*below),
        })
    }

    /// Blocks that can run while vectors are being exchanged, in forward order.
    pub fn before_vectors(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.blocks.iter().filter(|block| self.runs_before_vectors(block.name))
    }

    /// Blocks that run once vectors have arrived, in forward order.
    pub fn after_vectors(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.blocks.iter().filter(|block| !self.runs_before_vectors(block.name))
    }

    /// Number of columns of a buffer.
    pub fn width(&self, source: BlockSource) -> usize {
        match source {
            BlockSource::Dense => self.dense_features,
            BlockSource::Features => self.features_width(),
            BlockSource::Output(name) => self.block(name).layers.output_width(),
        }
    }

    /// Reads of a block, input by input; inputs that adjoin in one buffer are one read.
    pub fn reads(&self, block: &Block) -> Vec<Read> {
        let (leading, first) = (self.leading().map(|leading| leading.name), self.leading_width());
        let mut reads: Vec<Read> = Vec::new();
        for input in &block.inputs {
            let (from, columns) = match *input {
                Input::Dense => (BlockSource::Dense, one(0..self.dense_features)),
                Input::Rows => (BlockSource::Features, one(first..self.features_width())),
                Input::Vectors => {
                    let behind = |columns: &Range<usize>| first + columns.start..first + columns.end;
                    (BlockSource::Features, self.vectors.iter().map(behind).collect())
                }
                Input::Block(name) if Some(name) == leading && block.inputs.contains(&Input::Vectors) => {
                    (BlockSource::Features, one(0..first))
                }
                Input::Block(name) => {
                    (BlockSource::Output(name), one(0..self.width(BlockSource::Output(name))))
                }
            };
            let summed = matches!(block.layers, Layers::Sum { .. });
            match reads.last_mut() {
                Some(last) if last.from == from && !summed => append(&mut last.columns, columns),
                _ => reads.push(Read { from, columns }),
            }
        }
        reads
    }

    /// Blocks that read columns of a buffer, in forward order.
    pub fn readers(&self, source: BlockSource) -> impl DoubleEndedIterator<Item = &Block> {
        let reads = move |block: &&Block| self.reads(block).iter().any(|read| read.from == source);
        self.blocks.iter().filter(reads)
    }

    /// Whether a block reads exactly one buffer, and all of its columns, so that nothing must be joined for it.
    pub fn reads_whole(&self, block: &Block) -> bool {
        match &self.reads(block)[..] {
            [read] => read.is_whole(self.width(read.from)),
            _ => false,
        }
    }

    /// Parameters of all blocks, in forward order.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.blocks.iter().flat_map(Block::parameters).collect()
    }
}

impl Read {
    /// Whether all of the `width` columns of the buffer are read, in their order.
    pub fn is_whole(&self, width: usize) -> bool {
        matches!(&self.columns[..], [all] if *all == (0..width))
    }
}

/// A list of one range.
fn one(columns: Range<usize>) -> Vec<Range<usize>> {
    std::iter::once(columns).collect()
}

/// Adds columns behind others; adjoining ones become one range.
fn append(all: &mut Vec<Range<usize>>, more: Vec<Range<usize>>) {
    for columns in more {
        match all.last_mut() {
            Some(last) if last.end == columns.start => last.end = columns.end,
            _ => all.push(columns),
        }
    }
}
