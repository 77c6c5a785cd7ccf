//! A block of a network: layers of one kind, with named inputs.

use super::layer::{CrossLayer, LinearLayer, Parameter};
use crate::Activation;
use serde::Serialize;
use std::fmt;
use std::ops::Range;

/// Name of a block: "bottom", "interaction", "top" …; unique in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct BlockName(&'static str);

/// Block of a network: layers of one kind that run as one, and their inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Block {
    /// Name of the block; also the prefix of its phases.
    pub name: BlockName,
    /// Inputs of the block, in this order: side by side, or added up if the layers are a [`Layers::Sum`].
    pub inputs: Vec<Input>,
    /// Layers of the block.
    pub layers: Layers,
}

/// Input of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Dense inputs of a sample.
    Dense,
    /// Vectors of the sparse features of a sample: pooled embeddings, or outputs of tower modules.
    Vectors,
    /// All columns of the sparse features of a sample: vectors, each followed by the linear weight of its ids if rows have
    /// one.
    Rows,
    /// Output of an earlier block.
    Block(BlockName),
}

/// Kinds of layers, with their shapes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layers {
    /// MLP: linear layers one after the other.
    Mlp(Vec<LinearLayer>),
    /// Dot interaction: the first vector, then the dot product of every pair.
    Dot {
        /// Number of vectors per sample.
        vectors: usize,
        /// Length of a vector.
        dim: usize,
    },
    /// Cross layers: `x ← x₀ ⊙ (W·(V·x) + b) + x` for each layer, over all inputs side by side.
    Cross {
        /// Number of columns of the input.
        width: usize,
        /// Layers of the block.
        layers: Vec<CrossLayer>,
    },
    /// A factorization machine over vectors that have a linear weight behind them:
    /// `Σ_f w_f + ½ Σ_d ((Σ_f v_fd)² − Σ_f v_fd²)`.
    Fm {
        /// Number of vectors per sample.
        vectors: usize,
        /// Length of a vector, without its weight.
        dim: usize,
    },
    /// Linear maps of vectors to one length; all other columns pass unchanged.
    Project(Vec<Projected>),
    /// Sum of all inputs, which are equally wide.
    Sum {
        /// Number of columns of each input and of the output.
        width: usize,
    },
}

/// Adjoining input columns of a [`Layers::Project`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Projected {
    /// So many columns pass unchanged.
    Unchanged(usize),
    /// The columns of one vector go through this map.
    Mapped(LinearLayer),
}

impl Projected {
    /// Number of input columns.
    pub fn input_width(&self) -> usize {
        match self {
            Projected::Unchanged(width) => *width,
            Projected::Mapped(map) => map.inputs,
        }
    }

    /// Number of output columns.
    pub fn output_width(&self) -> usize {
        match self {
            Projected::Unchanged(width) => *width,
            Projected::Mapped(map) => map.outputs,
        }
    }

    /// Linear map of the columns; `None` for columns that pass unchanged.
    pub fn map(&self) -> Option<&LinearLayer> {
        match self {
            Projected::Unchanged(_) => None,
            Projected::Mapped(map) => Some(map),
        }
    }
}

impl BlockName {
    /// Name of the tower modules, as a block below the network whose layers are the towers.
    pub const TOWERS: BlockName = BlockName("towers");
    /// Name of the tensor trains, as a block below the network whose layers are the tables of features.
    pub const TENSOR_TRAINS: BlockName = BlockName("tensor trains");

    /// Makes the name of a block.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Name of the block as text.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl Block {
    /// Parameters of the block, in forward order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let owner = |i| (self.name, i);
        match &self.layers {
            Layers::Mlp(layers) => {
                layers.iter().enumerate().flat_map(|(i, layer)| layer.parameters(owner(i))).collect()
            }
            Layers::Cross { layers, .. } => {
                layers.iter().enumerate().flat_map(|(i, layer)| layer.parameters(owner(i))).collect()
            }
            Layers::Project(_) => {
                let maps = self.layers.maps().into_iter().enumerate();
                maps.flat_map(|(i, map)| map.parameters(owner(i))).collect()
            }
            Layers::Dot { .. } | Layers::Fm { .. } | Layers::Sum { .. } => Vec::new(),
        }
    }
}

impl Layers {
    /// An MLP over `inputs` columns: ReLU after every layer but the last, and after that one too if `activate_last`.
    /// `input_gradient` says whether anything below needs the gradient of its input.
    pub(super) fn mlp(
        name: &str,
        inputs: usize,
        widths: &[usize],
        activate_last: bool,
        input_gradient: bool,
    ) -> Self {
        let mut inputs = inputs;
        let mut layers = Vec::with_capacity(widths.len());
        for (i, &outputs) in widths.iter().enumerate() {
            let last = i + 1 == widths.len();
            layers.push(LinearLayer {
                name: format!("{name}.{i}"),
                inputs,
                outputs,
                activation: if last && !activate_last { Activation::Identity } else { Activation::Relu },
                bias: true,
                input_gradient: i > 0 || input_gradient,
            });
            inputs = outputs;
        }
        Layers::Mlp(layers)
    }

    /// Number of layers.
    pub fn count(&self) -> usize {
        match self {
            Layers::Mlp(layers) => layers.len(),
            Layers::Cross { layers, .. } => layers.len(),
            Layers::Project(_) => self.maps().len(),
            Layers::Dot { .. } | Layers::Fm { .. } | Layers::Sum { .. } => 1,
        }
    }

    /// Number of input columns per sample.
    pub fn input_width(&self) -> usize {
        match self {
            Layers::Mlp(layers) => layers.first().map_or(0, |layer| layer.inputs),
            Layers::Dot { vectors, dim } => vectors * dim,
            Layers::Fm { vectors, dim } => vectors * (dim + 1),
            Layers::Project(parts) => parts.iter().map(Projected::input_width).sum(),
            Layers::Cross { width, .. } | Layers::Sum { width } => *width,
        }
    }

    /// Number of output columns per sample.
    pub fn output_width(&self) -> usize {
        match self {
            Layers::Mlp(layers) => layers.last().map_or(0, |layer| layer.outputs),
            Layers::Dot { vectors, dim } => dim + vectors * (vectors - 1) / 2,
            Layers::Fm { .. } => 1,
            Layers::Project(parts) => parts.iter().map(Projected::output_width).sum(),
            Layers::Cross { width, .. } | Layers::Sum { width } => *width,
        }
    }

    /// FLOPs of the forward pass, per sample. Element-wise work is not counted.
    pub fn forward_flops(&self) -> u64 {
        match self {
            Layers::Mlp(layers) => layers.iter().map(LinearLayer::forward_flops).sum(),
            // As a full product, as the papers count it.
            Layers::Dot { vectors, dim } => 2 * (vectors * vectors * dim) as u64,
            Layers::Cross { layers, .. } => layers.iter().map(CrossLayer::forward_flops).sum(),
            // Every element is added, squared and added again.
            Layers::Fm { vectors, dim } => 3 * (vectors * dim) as u64,
            Layers::Project(_) => self.maps().into_iter().map(LinearLayer::forward_flops).sum(),
            Layers::Sum { .. } => 0,
        }
    }

    /// FLOPs of the backward pass of the given layers, per sample.
    pub fn backward_flops(&self, range: Range<usize>) -> u64 {
        match self {
            Layers::Mlp(layers) => layers[range].iter().map(LinearLayer::backward_flops).sum(),
            Layers::Dot { .. } => 2 * self.forward_flops(),
            Layers::Cross { layers, .. } => layers[range].iter().map(|l| 2 * l.forward_flops()).sum(),
            // Every element is added, subtracted and multiplied.
            Layers::Fm { .. } => self.forward_flops(),
            Layers::Project(_) => self.maps()[range].iter().map(|map| map.backward_flops()).sum(),
            Layers::Sum { .. } => 0,
        }
    }

    /// FLOPs to train on one sample: forward, and backward through all layers.
    pub fn training_flops(&self) -> u64 {
        self.forward_flops() + self.backward_flops(0..self.count())
    }

    /// Number of floats that the given layers read and write per sample.
    pub fn floats_touched(&self, range: Range<usize>) -> usize {
        let linear = |layer: &LinearLayer| layer.inputs + layer.outputs;
        // Beside its maps, a cross layer reads what it began with and adds its input.
        let cross = |layer: &CrossLayer| layer.maps().map(linear).sum::<usize>() + 2 * layer.w.outputs;
        match self {
            Layers::Mlp(layers) => layers[range].iter().map(linear).sum(),
            Layers::Cross { layers, .. } => layers[range].iter().map(cross).sum(),
            Layers::Project(parts) => {
                // What passes unchanged does so with the first map.
                let unchanged = parts.iter().filter(|part| range.start == 0 && part.map().is_none());
                let unchanged: usize = unchanged.map(|part| 2 * part.input_width()).sum();
                unchanged + self.maps()[range].iter().map(|map| linear(map)).sum::<usize>()
            }
            Layers::Dot { .. } | Layers::Fm { .. } | Layers::Sum { .. } => {
                self.input_width() + self.output_width()
            }
        }
    }

    /// Number of hidden units that the given layers read per sample: outputs of the layers of an MLP but the last.
    pub fn hidden_units(&self, range: Range<usize>) -> usize {
        match self {
            Layers::Mlp(layers) => {
                layers[range.start.max(1).min(range.end)..range.end].iter().map(|layer| layer.inputs).sum()
            }
            Layers::Dot { .. }
            | Layers::Cross { .. }
            | Layers::Fm { .. }
            | Layers::Project(_)
            | Layers::Sum { .. } => 0,
        }
    }

    /// Linear maps of all layers, in forward order.
    pub fn maps(&self) -> Vec<&LinearLayer> {
        match self {
            Layers::Mlp(layers) => layers.iter().collect(),
            Layers::Cross { layers, .. } => layers.iter().flat_map(CrossLayer::maps).collect(),
            Layers::Project(parts) => parts.iter().filter_map(Projected::map).collect(),
            Layers::Dot { .. } | Layers::Fm { .. } | Layers::Sum { .. } => Vec::new(),
        }
    }
}
