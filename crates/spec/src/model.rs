//! The model: sparse features with their tables, and a dense network described layer by layer.
//!
//! Training instantiates the layers, `describe` counts them, the schedule prices them: there is no other description.
//!
//! ```
//! use spec::presets::Preset;
//! let model = Preset::Terabyte.model("dlrm".parse().unwrap(), None, None).unwrap();
//! assert_eq!(format!("{:.2}", model.training_flops() as f64 / 1e6), "14.74");
//! assert_eq!(format!("{:.2}", model.parameters() as f64 / 1e9), "22.78");
//! ```

use crate::Activation;
use crate::feature::{Feature, Hotness};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ops::Range;

/// A recommendation model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    features: Vec<Feature>,
    dense_features: usize,
    dim: usize,
    architecture: Architecture,
    network: Network,
}

/// Which network stands over the embeddings. Widths leave out the input, which follows from what is below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Architecture {
    /// Bottom MLP, pairwise dot products, top MLP (Naumov et al.).
    Dlrm {
        /// Widths of the bottom MLP; the last is the embedding dimension. Empty when there is no dense feature.
        bottom: Vec<usize>,
        /// Widths of the top MLP; the last is 1.
        top: Vec<usize>,
    },
    /// Bottom MLP, cross layers over the concatenation, top MLP (Wang et al., DCN-v2, stacked).
    Dcn {
        /// Widths of the bottom MLP; the last is the embedding dimension. Empty when there is no dense feature.
        bottom: Vec<usize>,
        /// Number of cross layers.
        cross_layers: usize,
        /// Rank of their matrices; `None` for full rank.
        cross_rank: Option<usize>,
        /// Widths of the top MLP; the last is 1.
        top: Vec<usize>,
    },
}

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

/// Why a model cannot be. Names the field as it stands in a config, and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ModelError {
    /// The field at fault.
    pub field: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl ModelError {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// Widest layer, longest MLP and largest dimension accepted: beyond any published model, and small enough that
/// products of two of them cannot overflow.
const MAX_WIDTH: usize = 1 << 20;
const MAX_LAYERS: usize = 256;
const MAX_FEATURES: usize = 65_536;
const MAX_HOTNESS: u32 = 65_536;

impl Model {
    /// Checks a description and lays out its network.
    pub fn new(
        features: Vec<Feature>,
        dense_features: usize,
        dim: usize,
        architecture: Architecture,
    ) -> Result<Self, ModelError> {
        check_features(&features)?;
        if dim == 0 || dim > 65_536 {
            return Err(ModelError::new("model.dim", format!("{dim} is not between 1 and 65536")));
        }
        if dense_features > MAX_WIDTH {
            return Err(ModelError::new(
                "model.dense_features",
                format!("{dense_features} is beyond {MAX_WIDTH}"),
            ));
        }
        let (bottom, top) = match &architecture {
            Architecture::Dlrm { bottom, top } | Architecture::Dcn { bottom, top, .. } => (bottom, top),
        };
        check_widths("model.bottom", bottom)?;
        check_widths("model.top", top)?;
        match (dense_features, bottom.last()) {
            (0, Some(_)) => {
                return Err(ModelError::new(
                    "model.bottom",
                    "there is no dense feature to feed it; leave it empty, or set model.dense_features",
                ));
            }
            (0, None) => {}
            (_, Some(&last)) if last == dim => {}
            (_, last) => {
                return Err(ModelError::new(
                    "model.bottom",
                    format!(
                        "must end in model.dim = {dim} so that the dense vector can meet the embeddings, got {}",
                        last.map_or("no layer".into(), |last| last.to_string())
                    ),
                ));
            }
        }
        if top.last() != Some(&1) {
            return Err(ModelError::new("model.top", format!("must end in 1 (the logit), got {top:?}")));
        }
        if let Architecture::Dcn { cross_layers, cross_rank, .. } = &architecture {
            if !(1..=MAX_LAYERS).contains(cross_layers) {
                return Err(ModelError::new(
                    "model.cross_layers",
                    format!("{cross_layers} is not in 1..=256"),
                ));
            }
            if cross_rank.is_some_and(|rank| rank == 0 || rank > MAX_WIDTH) {
                let problem =
                    format!("a rank lies between 1 and {MAX_WIDTH}; in a config, 0 asks for full rank");
                return Err(ModelError::new("model.cross_rank", problem));
            }
        }
        let vectors = features.len() + usize::from(dense_features > 0);
        if vectors * dim > 64 * MAX_WIDTH {
            return Err(ModelError::new("model.dim", format!("{vectors} vectors of {dim} are too wide")));
        }
        let network = Network::new(dense_features, vectors, dim, &architecture);
        Ok(Self { features, dense_features, dim, architecture, network })
    }

    /// Sparse features, in the model's order.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Number of dense inputs.
    pub fn dense_features(&self) -> usize {
        self.dense_features
    }

    /// Length of an embedding vector, N.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// What the model was made from.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Its dense layers.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// `dlrm` or `dcn`.
    pub fn kind(&self) -> &'static str {
        match self.architecture {
            Architecture::Dlrm { .. } => "dlrm",
            Architecture::Dcn { .. } => "dcn",
        }
    }

    /// Vectors of a sample that meet in the interaction: one per feature, and the dense one where there is one.
    pub fn vectors(&self) -> usize {
        self.features.len() + usize::from(self.dense_features > 0)
    }

    /// Whether ids carry weights.
    pub fn weighted(&self) -> bool {
        self.features.iter().any(|f| f.weighted)
    }

    /// Weights in all tables.
    pub fn table_parameters(&self) -> u64 {
        self.features.iter().map(|f| f.rows as u64 * self.dim as u64).sum()
    }

    /// Weights in the dense network.
    pub fn dense_parameters(&self) -> u64 {
        self.network.parameters().iter().map(|p| p.len as u64).sum()
    }

    /// All weights.
    pub fn parameters(&self) -> u64 {
        self.table_parameters() + self.dense_parameters()
    }

    /// Floating-point operations to train on one sample: the matrix products of forward and of both gradients, less
    /// the gradients that nothing needs. Element-wise work is not counted.
    pub fn training_flops(&self) -> u64 {
        [Block::Bottom, Block::Interaction, Block::Top]
            .into_iter()
            .map(|block| {
                let layers = 0..self.network.layers(block);
                self.network.forward_flops(block) + self.network.backward_flops(block, layers)
            })
            .sum()
    }
}

impl Network {
    fn new(dense_features: usize, vectors: usize, dim: usize, architecture: &Architecture) -> Self {
        let width = vectors * dim;
        let (bottom, interaction, top) = match architecture {
            Architecture::Dlrm { bottom, top } => (bottom, Interaction::Dot { vectors, dim }, top),
            Architecture::Dcn { bottom, cross_layers, cross_rank, top } => {
                let layers = (0..*cross_layers)
                    .map(|i| {
                        let linear = |part: &str, inputs, outputs, bias| LinearLayer {
                            name: format!("cross.{i}.{part}"),
                            inputs,
                            outputs,
                            activation: Activation::Identity,
                            bias,
                            input_gradient: true,
                        };
                        match *cross_rank {
                            Some(rank) => CrossLayer {
                                v: Some(linear("v", width, rank, false)),
                                w: linear("w", rank, width, true),
                            },
                            None => CrossLayer { v: None, w: linear("w", width, width, true) },
                        }
                    })
                    .collect();
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
        }
    }

    /// Dense parameters in forward order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = Vec::new();
        let mut linear =
            |block, index, layer: &LinearLayer, matrix: String, bias: String, zero_bias: bool| {
                let owner = (block, index);
                let (inputs, outputs) = (layer.inputs, layer.outputs);
                let bound = (6.0 / (inputs + outputs) as f32).sqrt();
                let shape = vec![outputs, inputs];
                all.push(Parameter { name: matrix, owner, shape, len: inputs * outputs, bound });
                if layer.bias {
                    let bound = if zero_bias { 0.0 } else { 1.0 / (inputs as f32).sqrt() };
                    let shape = vec![outputs];
                    all.push(Parameter { name: bias, owner, shape, len: outputs, bound });
                }
            };
        let named = |layer: &LinearLayer| (format!("{}.weight", layer.name), format!("{}.bias", layer.name));
        for (i, layer) in self.bottom.iter().enumerate() {
            let (matrix, bias) = named(layer);
            linear(Block::Bottom, i, layer, matrix, bias, false);
        }
        if let Interaction::Cross { layers, .. } = &self.interaction {
            for (i, layer) in layers.iter().enumerate() {
                if let Some(v) = &layer.v {
                    linear(Block::Interaction, i, v, v.name.clone(), String::new(), true);
                }
                linear(
                    Block::Interaction,
                    i,
                    &layer.w,
                    layer.w.name.clone(),
                    format!("cross.{i}.bias"),
                    true,
                );
            }
        }
        for (i, layer) in self.top.iter().enumerate() {
            let (matrix, bias) = named(layer);
            linear(Block::Top, i, layer, matrix, bias, false);
        }
        all
    }
}

impl LinearLayer {
    fn forward_flops(&self) -> u64 {
        2 * (self.inputs * self.outputs) as u64
    }

    fn backward_flops(&self) -> u64 {
        self.forward_flops() * (1 + u64::from(self.input_gradient))
    }
}

impl CrossLayer {
    fn forward_flops(&self) -> u64 {
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

fn check_widths(field: &str, widths: &[usize]) -> Result<(), ModelError> {
    if widths.len() > MAX_LAYERS {
        return Err(ModelError::new(field, format!("{} layers are more than {MAX_LAYERS}", widths.len())));
    }
    match widths.iter().position(|&w| w == 0 || w > MAX_WIDTH) {
        Some(i) => Err(ModelError::new(
            format!("{field}[{i}]"),
            format!("a layer of width {} cannot be; widths lie between 1 and {MAX_WIDTH}", widths[i]),
        )),
        None => Ok(()),
    }
}

fn check_features(features: &[Feature]) -> Result<(), ModelError> {
    if features.is_empty() || features.len() > MAX_FEATURES {
        let problem = format!("{} sparse features; a model has 1 to {MAX_FEATURES}", features.len());
        return Err(ModelError::new("model.features", problem));
    }
    let mut names = HashSet::new();
    for (i, feature) in features.iter().enumerate() {
        if feature.name.is_empty() || !names.insert(feature.name.as_str()) {
            return Err(ModelError::new(
                format!("model.features[{i}].name"),
                format!("{:?} is empty or taken; every feature needs a name of its own", feature.name),
            ));
        }
        if feature.rows == 0 || feature.rows > u32::MAX as usize {
            return Err(ModelError::new(
                format!("model.features[{i}].rows ({})", feature.name),
                format!("{} rows; a table has 1 to {} (split larger ones)", feature.rows, u32::MAX),
            ));
        }
        if let Hotness::Many { mean } = feature.hotness
            && !(1..=MAX_HOTNESS).contains(&mean)
        {
            return Err(ModelError::new(
                format!("model.features[{i}].hotness ({})", feature.name),
                format!("{mean} ids a sample on average; between 1 and {MAX_HOTNESS} are possible"),
            ));
        }
    }
    Ok(())
}
