//! The dense layers of a model, with their shapes: training instantiates them, `describe` counts them.

use super::Architecture;
use crate::Activation;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The dense layers of a model, in forward order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    /// Maps dense features to one vector of the embedding dimension.
    pub bottom: Vec<LinearLayer>,
    /// Brings the vectors of a sample together.
    pub interaction: Interaction,
    /// Maps the interaction to one logit.
    pub top: Vec<LinearLayer>,
}

/// `y = act(x·Wᵀ + b)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinearLayer {
    /// Prefix of its parameters' names.
    pub name: String,
    /// Input width.
    pub inputs: usize,
    /// Output width.
    pub outputs: usize,
    /// What follows the map.
    pub activation: Activation,
    /// Whether it has a bias.
    pub bias: bool,
    /// Whether anything below needs the gradient of its input.
    pub input_gradient: bool,
}

/// How the vectors of a sample meet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Interaction {
    /// The first vector, then the dot product of every pair.
    Dot {
        /// Vectors per sample.
        vectors: usize,
        /// Their length.
        dim: usize,
    },
    /// `x ← x₀ ⊙ (W·(V·x) + b) + x` for each layer, over the concatenation of all vectors.
    Cross {
        /// Length of the concatenation.
        width: usize,
        /// The layers.
        layers: Vec<CrossLayer>,
    },
}

/// One cross layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrossLayer {
    /// Down to the rank, without bias; `None` for full rank.
    pub v: Option<LinearLayer>,
    /// Back to the width, with bias.
    pub w: LinearLayer,
    /// Name of that bias.
    pub bias: String,
}

/// A part of the network that runs as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// The bottom MLP.
    Bottom,
    /// The interaction.
    Interaction,
    /// The top MLP.
    Top,
    /// The tower modules; here "layer" is a tower.
    Towers,
}

/// One dense tensor that training changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, unique in the model.
    pub name: String,
    /// The block and the layer inside it that own it.
    pub owner: (Block, usize),
    /// Outputs × inputs of a matrix, outputs of a bias; row-major.
    pub shape: Vec<usize>,
    /// Number of weights.
    pub len: usize,
    /// Initial weights are uniform in ± this.
    pub bound: f32,
}

impl Network {
    /// Layers over `vectors` vectors of `dim` for a dot interaction, or over `width` columns for cross layers.
    pub(super) fn new(
        dense_features: usize,
        (vectors, dim): (usize, usize),
        width: usize,
        architecture: &Architecture,
    ) -> Self {
        let (bottom, interaction, top) = match architecture {
            Architecture::Dlrm { bottom, top } => (bottom, Interaction::Dot { vectors, dim }, top),
            Architecture::Dcn { bottom, cross_layers, cross_rank, top } => {
                let layer = |i| CrossLayer::new(&format!("cross.{i}"), width, *cross_rank);
                let layers = (0..*cross_layers).map(layer).collect();
                (bottom, Interaction::Cross { width, layers }, top)
            }
        };
        // The bottom MLP ends in a ReLU, the top MLP in a bare logit.
        let top = mlp("top", interaction.output_width(), top, false);
        Self { bottom: mlp("bottom", dense_features, bottom, true), interaction, top }
    }

    /// Layers of a block.
    pub fn layers(&self, block: Block) -> usize {
        match (block, &self.interaction) {
            (Block::Bottom, _) => self.bottom.len(),
            (Block::Interaction, Interaction::Dot { .. }) => 1,
            (Block::Interaction, Interaction::Cross { layers, .. }) => layers.len(),
            (Block::Top, _) => self.top.len(),
            (Block::Towers, _) => 0,
        }
    }

    /// FLOPs of a block's forward pass, per sample.
    pub fn forward_flops(&self, block: Block) -> u64 {
        match block {
            Block::Bottom => self.bottom.iter().map(LinearLayer::forward_flops).sum(),
            Block::Interaction => match &self.interaction {
                // As a full product, as the papers count it.
                Interaction::Dot { vectors, dim } => 2 * (vectors * vectors * dim) as u64,
                Interaction::Cross { layers, .. } => layers.iter().map(CrossLayer::forward_flops).sum(),
            },
            Block::Top => self.top.iter().map(LinearLayer::forward_flops).sum(),
            Block::Towers => 0,
        }
    }

    /// FLOPs of the backward pass of some of a block's layers, per sample.
    pub fn backward_flops(&self, block: Block, range: Range<usize>) -> u64 {
        match block {
            Block::Bottom => self.bottom[range].iter().map(LinearLayer::backward_flops).sum(),
            Block::Interaction => match &self.interaction {
                Interaction::Dot { .. } => 2 * self.forward_flops(block),
                Interaction::Cross { layers, .. } => {
                    layers[range].iter().map(|l| 2 * l.forward_flops()).sum()
                }
            },
            Block::Top => self.top[range].iter().map(LinearLayer::backward_flops).sum(),
            Block::Towers => 0,
        }
    }

    /// Its parameters in forward order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = Vec::new();
        for (i, layer) in self.bottom.iter().enumerate() {
            all.extend(layer.parameters((Block::Bottom, i)));
        }
        if let Interaction::Cross { layers, .. } = &self.interaction {
            for (i, layer) in layers.iter().enumerate() {
                all.extend(layer.parameters((Block::Interaction, i)));
            }
        }
        for (i, layer) in self.top.iter().enumerate() {
            all.extend(layer.parameters((Block::Top, i)));
        }
        all
    }
}

impl LinearLayer {
    /// A bare linear map with a bias.
    pub(super) fn map(name: String, inputs: usize, outputs: usize) -> Self {
        Self { name, inputs, outputs, activation: Activation::Identity, bias: true, input_gradient: true }
    }

    /// Its matrix, then its bias.
    pub(super) fn parameters(&self, owner: (Block, usize)) -> Vec<Parameter> {
        let mut all = vec![self.matrix(owner, format!("{}.weight", self.name))];
        if self.bias {
            let bound = 1.0 / (self.inputs as f32).sqrt();
            let (name, shape, len) = (format!("{}.bias", self.name), vec![self.outputs], self.outputs);
            all.push(Parameter { name, owner, shape, len, bound });
        }
        all
    }

    fn matrix(&self, owner: (Block, usize), name: String) -> Parameter {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let bound = (6.0 / (inputs + outputs) as f32).sqrt();
        Parameter { name, owner, shape: vec![outputs, inputs], len: inputs * outputs, bound }
    }

    /// Weights of its matrix and its bias.
    pub fn weights(&self) -> u64 {
        (self.inputs * self.outputs + if self.bias { self.outputs } else { 0 }) as u64
    }

    /// FLOPs of one row forward.
    pub fn forward_flops(&self) -> u64 {
        2 * (self.inputs * self.outputs) as u64
    }

    fn backward_flops(&self) -> u64 {
        self.forward_flops() * (1 + u64::from(self.input_gradient))
    }
}

impl CrossLayer {
    /// A layer over `width`, of low or of full rank.
    pub(super) fn new(name: &str, width: usize, rank: Option<usize>) -> Self {
        let linear = |part: &str, inputs, outputs, bias| LinearLayer {
            bias,
            ..LinearLayer::map(format!("{name}.{part}"), inputs, outputs)
        };
        let bias = format!("{name}.bias");
        match rank {
            Some(rank) => {
                Self { v: Some(linear("v", width, rank, false)), w: linear("w", rank, width, true), bias }
            }
            None => Self { v: None, w: linear("w", width, width, true), bias },
        }
    }

    /// Its matrices, then its bias, which begins at zero.
    pub(super) fn parameters(&self, owner: (Block, usize)) -> Vec<Parameter> {
        let mut all = Vec::new();
        all.extend(self.v.as_ref().map(|v| v.matrix(owner, v.name.clone())));
        all.push(self.w.matrix(owner, self.w.name.clone()));
        let width = self.w.outputs;
        all.push(Parameter { name: self.bias.clone(), owner, shape: vec![width], len: width, bound: 0.0 });
        all
    }

    /// Weights of its matrices and its bias.
    pub fn weights(&self) -> u64 {
        self.v.as_ref().map_or(0, LinearLayer::weights) + self.w.weights()
    }

    /// FLOPs of one sample forward.
    pub fn forward_flops(&self) -> u64 {
        self.v.as_ref().map_or(0, LinearLayer::forward_flops) + self.w.forward_flops()
    }
}

impl Interaction {
    /// Length of a sample's input: all its vectors.
    pub fn input_width(&self) -> usize {
        match self {
            Interaction::Dot { vectors, dim } => vectors * dim,
            Interaction::Cross { width, .. } => *width,
        }
    }

    /// Length of what it gives for a sample.
    pub fn output_width(&self) -> usize {
        match self {
            Interaction::Dot { vectors, dim } => dim + vectors * (vectors - 1) / 2,
            Interaction::Cross { width, .. } => *width,
        }
    }
}

fn mlp(name: &str, inputs: usize, widths: &[usize], activate_last: bool) -> Vec<LinearLayer> {
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
            // Nothing lies below the first bottom layer but the data.
            input_gradient: !(name == "bottom" && i == 0),
        });
        inputs = outputs;
    }
    layers
}
