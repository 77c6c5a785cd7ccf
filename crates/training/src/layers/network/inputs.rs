//! What a block reads and where the gradient of that goes, resolved once from the description of the network.

use kernels::{Buffer, ColumnCopy, Device, KernelError, Matrix, MatrixMut};
use spec::model::{Block, BlockName, BlockSource, Layers, Network, Read};

type Result<T = ()> = std::result::Result<T, KernelError>;

/// A buffer that blocks read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Dense inputs of the batch.
    Dense,
    /// The vectors of each sample, behind the output of the leading block.
    Features,
    /// Output of the block at this index.
    Block(usize),
}

/// What a block reads.
#[derive(Debug)]
pub struct Inputs {
    /// The buffer, where the block reads one and all of its columns.
    pub whole: Option<From>,
    /// Columns of the input.
    pub width: usize,
    /// Whether the parts are added up, rather than laid side by side.
    added: bool,
    pub parts: Vec<Part>,
}

/// Columns that a block reads of one buffer.
#[derive(Debug)]
pub struct Part {
    /// The buffer.
    pub from: From,
    /// Columns of the buffer.
    width: usize,
    /// From the buffer to the block's input.
    copies: Vec<ColumnCopy>,
    /// From the gradient of the block's input to that of the buffer.
    back: Vec<ColumnCopy>,
    gradient: Gradient,
}

/// What a block does with its part of a buffer's gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gradient {
    /// Nothing: no one needs it, or it is used where it lies.
    Stays,
    /// Set it, as the first reader of the buffer in backward order.
    Set,
    /// Add to it, as a later one.
    Add,
}

impl Inputs {
    /// Inputs of the block at `index` of `network`.
    pub fn new(network: &Network, index: usize) -> Self {
        let block = &network.blocks()[index];
        let added = matches!(block.layers, Layers::Sum { .. });
        let stays_in_mlp = |from| match from {
            From::Block(below) => gradient_in_reader(network, &network.blocks()[below]).is_some(),
            From::Dense => true,
            From::Features => false,
        };
        let mut to = 0;
        let part = |read: Read| {
            let source = read.from;
            let (from, width) = (resolve(network, source), network.width(source));
            // Later blocks come first on the way back.
            let is_read_later =
                network.readers(source).next_back().is_some_and(|last| last.name != block.name);
            debug_assert!(
                stays_in_mlp(from) || is_read_later || read.is_whole(width),
                "{} is the first to give {source:?} a gradient, and does not read all of it",
                block.name
            );
            let copies: Vec<ColumnCopy> = read
                .columns
                .iter()
                .map(|range| {
                    let copy = ColumnCopy { from: range.start, to, width: range.len() };
                    to += if added { 0 } else { range.len() };
                    copy
                })
                .collect();
            let turned = |c: &ColumnCopy| ColumnCopy { from: c.to, to: c.from, width: c.width };
            let gradient = match (stays_in_mlp(from), is_read_later) {
                (true, _) => Gradient::Stays,
                (false, false) => Gradient::Set,
                (false, true) => Gradient::Add,
            };
            Part { from, width, back: copies.iter().map(turned).collect(), copies, gradient }
        };
        let parts: Vec<Part> = network.reads(block).into_iter().map(part).collect();
        let whole = (network.reads_whole(block) && !added).then(|| parts[0].from);
        Self { whole, width: block.layers.input_width(), added, parts }
    }

    /// Whether the block's layers may write the gradient of their input straight into that of the one buffer that they read.
    pub fn set_whole(&self) -> bool {
        self.whole.is_some() && self.parts[0].gradient == Gradient::Set
    }

    /// Brings the parts together in `joined`, for `rows` samples.
    pub fn join<'a>(
        &self,
        device: &Device,
        rows: usize,
        joined: &mut Buffer<f32>,
        source: impl Fn(From) -> &'a Buffer<f32>,
    ) -> Result {
        joined.resize(rows * self.width)?;
        for (i, Part { from, width, copies, .. }) in self.parts.iter().enumerate() {
            let (from, to_width) = (source(*from), self.width);
            if self.added && i > 0 {
                device.add_columns(
                    rows,
                    copies,
                    Matrix { buffer: from, at: 0, width: *width },
                    MatrixMut { buffer: joined, at: 0, width: to_width },
                )?;
            } else {
                device.copy_columns(
                    rows,
                    copies,
                    Matrix { buffer: from, at: 0, width: *width },
                    MatrixMut { buffer: joined, at: 0, width: to_width },
                )?;
            }
        }
        Ok(())
    }
}

impl Part {
    /// Hands the part's share of the gradient of a block's input, of `width` columns, on to the gradient of the buffer.
    pub fn hand_on(
        &self,
        device: &Device,
        rows: usize,
        gradient: &Buffer<f32>,
        width: usize,
        to: &mut Buffer<f32>,
    ) -> Result {
        match self.gradient {
            Gradient::Stays => Ok(()),
            Gradient::Set => {
                to.resize(rows * self.width)?;
                device.copy_columns(
                    rows,
                    &self.back,
                    Matrix { buffer: gradient, at: 0, width },
                    MatrixMut { buffer: to, at: 0, width: self.width },
                )
            }
            Gradient::Add => device.add_columns(
                rows,
                &self.back,
                Matrix { buffer: gradient, at: 0, width },
                MatrixMut { buffer: to, at: 0, width: self.width },
            ),
        }
    }
}

/// Index of a block.
pub fn position(network: &Network, name: BlockName) -> usize {
    let found = network.blocks().iter().position(|block| block.name == name);
    found.unwrap_or_else(|| panic!("the network has no block {name}"))
}

/// The block that alone reads the output of `block`, if it is an MLP that reads nothing else: the gradient of its input, which
/// it leaves in its own buffer, then is that of the output.
pub fn gradient_in_reader(network: &Network, block: &Block) -> Option<usize> {
    let mut readers = network.readers(BlockSource::Output(block.name));
    match (readers.next(), readers.next()) {
        (Some(reader), None) if network.reads_whole(reader) && matches!(reader.layers, Layers::Mlp(_)) => {
            Some(position(network, reader.name))
        }
        _ => None,
    }
}

fn resolve(network: &Network, source: BlockSource) -> From {
    match source {
        BlockSource::Dense => From::Dense,
        BlockSource::Features => From::Features,
        BlockSource::Output(name) => From::Block(position(network, name)),
    }
}
