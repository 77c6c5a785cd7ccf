//! Architecture of the network over the embeddings, and its composition of blocks.

use super::block::{Block, BlockName, Input, Layers, Projected};
use super::layer::{CrossLayer, LinearLayer};
use super::network::Network;
use super::{MAX_FEATURES, MAX_LAYERS, MAX_WIDTH, ModelError};
use crate::towers::Module;
use serde::{Deserialize, Serialize};

/// Architecture of the network over the embeddings. Lists of widths leave out the input, which follows from the layers
/// below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Architecture {
    /// Bottom MLP, pairwise dot products, top MLP (Naumov et al.). Embeddings of other lengths than the model's go through a
    /// linear map first, one for each table, without bias (Ginart et al., 2021).
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
        /// Matrix rank of the cross layers; `None` for full rank.
        cross_rank: Option<usize>,
        /// Widths of the top MLP; the last is 1.
        top: Vec<usize>,
    },
    /// Linear term + factorization machine + MLP over all vectors and dense inputs (Guo et al., 2017). The linear weight of an
    /// id is the last column of its row. The factorization machine sees embeddings of other lengths through a linear map for each
    /// table, as in DLRM; the MLP sees them as they are.
    #[serde(rename = "deepfm")]
    DeepFm {
        /// Widths of the MLP; the last is 1.
        deep: Vec<usize>,
    },
}

/// What a sample brings to the network.
#[derive(Clone, Debug)]
pub(super) struct Sample<'a> {
    /// Number of dense inputs.
    pub dense_features: usize,
    /// Length of the vectors that interact: of embeddings, or of the outputs of tower modules.
    pub dim: usize,
    /// Number of columns of all sparse features.
    pub sparse_width: usize,
    /// Name of each feature and length of its embeddings, where they meet in the network; empty where outputs of tower modules
    /// do.
    pub vectors: Vec<(&'a str, usize)>,
    /// Number of outputs of the network: one for each label.
    pub outputs: usize,
}

const BOTTOM: BlockName = BlockName::new("bottom");
pub(super) const PROJECT: BlockName = BlockName::new("project");
const INTERACTION: BlockName = BlockName::new("interaction");
const TOP: BlockName = BlockName::new("top");
const LINEAR: BlockName = BlockName::new("linear");
const DEEP: BlockName = BlockName::new("deep");
const FM: BlockName = BlockName::new("fm");
const LOGIT: BlockName = BlockName::new("logit");

impl Architecture {
    /// Name of the architecture, as users write it.
    pub fn name(&self) -> &'static str {
        match self {
            Architecture::Dlrm { .. } => "dlrm",
            Architecture::Dcn { .. } => "dcn",
            Architecture::DeepFm { .. } => "deepfm",
        }
    }

    /// Columns of a table's row, for vectors of `dim`: a vector, and for DeepFM the linear weight of the id.
    pub(super) fn row_width(&self, dim: usize) -> usize {
        match self {
            Architecture::Dlrm { .. } | Architecture::Dcn { .. } => dim,
            Architecture::DeepFm { .. } => dim + 1,
        }
    }

    /// Refuses tower modules over rows that are more than vectors.
    pub(super) fn check_module(&self, module: Module) -> Result<(), ModelError> {
        match self {
            Architecture::DeepFm { .. } if module != Module::None => {
                let problem = format!(
                    "{module} cannot stand over the rows of a deepfm model: their last column is the linear weight of an id, \
                     which is no part of a vector, and the factorization machine needs the vectors of all features. Use the \
                     module none, with which vectors pass through towers, or the model dlrm or dcn"
                );
                Err(ModelError::new("model.tower_module", problem))
            }
            _ => Ok(()),
        }
    }

    /// Length of the vectors that meet in the network, for embeddings of `dim` and towers with this module. Dot products
    /// need vectors of one length; cross layers take the dense vector as long as an embedding.
    pub(super) fn meeting_dim(&self, dim: usize, module: Module) -> usize {
        match (self, module) {
            (Architecture::Dlrm { .. }, Module::Dlrm { d, .. } | Module::Dcn { d, .. }) => d,
            _ => dim,
        }
    }

    /// Checks the widths of all layers, for vectors of `meets` columns where embeddings have `dim`.
    pub(super) fn check(&self, dense_features: usize, dim: usize, meets: usize) -> Result<(), ModelError> {
        match self {
            Architecture::Dlrm { bottom, top } => check_mlps(bottom, top, dense_features, dim, meets),
            Architecture::Dcn { bottom, cross_layers, cross_rank, top } => {
                check_mlps(bottom, top, dense_features, dim, meets)?;
                if !(1..=MAX_LAYERS).contains(cross_layers) {
                    let problem = format!("{cross_layers} is not in 1..=256");
                    return Err(ModelError::new("model.cross_layers", problem));
                }
                if cross_rank.is_some_and(|rank| rank == 0 || rank > MAX_WIDTH) {
                    let problem =
                        format!("a rank lies between 1 and {MAX_WIDTH}; in a config, 0 asks for full rank");
                    return Err(ModelError::new("model.cross_rank", problem));
                }
                Ok(())
            }
            Architecture::DeepFm { deep } => {
                check_widths("model.deep", deep)?;
                ends_in_logit("model.deep", deep)
            }
        }
    }

    /// The network of this architecture, for samples of this shape.
    pub(super) fn network(&self, sample: Sample) -> Result<Network, ModelError> {
        let blocks = match self {
            Architecture::Dlrm { bottom, top } => {
                let project = projection(&sample, dense_width(&sample), 0);
                let width = dense_width(&sample) + sample.sparse_width;
                let vectors = project.as_ref().map_or(width, Layers::output_width) / sample.dim;
                if vectors > MAX_FEATURES + 1 {
                    let problem =
                        format!("dot products of {vectors} vectors; at most {} can meet", MAX_FEATURES + 1);
                    return Err(ModelError::new("model.tower_module", problem));
                }
                let interaction = Layers::Dot { vectors, dim: sample.dim };
                stacked(&sample, bottom, Meeting { project, interaction }, top)
            }
            Architecture::Dcn { bottom, cross_layers, cross_rank, top } => {
                let width = dense_width(&sample) + sample.sparse_width;
                let layer = |i| CrossLayer::new(&format!("cross.{i}"), width, *cross_rank);
                let layers = (0..*cross_layers).map(layer).collect();
                let interaction = Layers::Cross { width, layers };
                stacked(&sample, bottom, Meeting { project: None, interaction }, top)
            }
            Architecture::DeepFm { deep } => deep_fm(&sample, deep),
        };
        let network = Network::new(blocks, sample.dense_features, sample.sparse_width);
        let mut next = 0;
        let vector = |&(_, dim): &(&str, usize)| {
            let start = next;
            next += self.row_width(dim);
            start..start + dim
        };
        Ok(match self {
            Architecture::Dlrm { .. } | Architecture::Dcn { .. } => network,
            Architecture::DeepFm { .. } => network.with_vectors(sample.vectors.iter().map(vector).collect()),
        })
    }
}

/// Length of the dense vector that meets the others.
fn dense_width(sample: &Sample) -> usize {
    if sample.dense_features > 0 { sample.dim } else { 0 }
}

/// How the dense vector and the embeddings of a sample meet.
struct Meeting {
    /// Maps to one length, where embeddings have several.
    project: Option<Layers>,
    interaction: Layers,
}

/// Linear maps of the embeddings of other lengths than the sample's, behind `leading` columns that pass unchanged as do the
/// `behind` columns after each embedding; `None` if all have the sample's length. Maps have no bias: an empty bag gives a vector
/// of zeros, mapped or not.
fn projection(sample: &Sample, leading: usize, behind: usize) -> Option<Layers> {
    if sample.vectors.iter().all(|(_, dim)| *dim == sample.dim) {
        return None;
    }
    let mut parts = Vec::new();
    let unchanged = |parts: &mut Vec<Projected>, more: usize| match parts.last_mut() {
        _ if more == 0 => {}
        Some(Projected::Unchanged(width)) => *width += more,
        _ => parts.push(Projected::Unchanged(more)),
    };
    unchanged(&mut parts, leading);
    for &(name, dim) in &sample.vectors {
        if dim == sample.dim {
            unchanged(&mut parts, dim);
        } else {
            let map = LinearLayer::map(format!("{PROJECT}.{name}"), dim, sample.dim);
            parts.push(Projected::Mapped(LinearLayer { bias: false, ..map }));
        }
        unchanged(&mut parts, behind);
    }
    Some(Layers::Project(parts))
}

/// Bottom MLP → maps of the vectors to one length, where they have several → interaction → top MLP. The bottom MLP ends in a
/// ReLU, the top MLP in a bare logit for each label.
fn stacked(sample: &Sample, bottom: &[usize], meeting: Meeting, top: &[usize]) -> Vec<Block> {
    let Meeting { project, interaction } = meeting;
    let mut blocks = Vec::new();
    let mut inputs = Vec::new();
    if !bottom.is_empty() {
        let layers = Layers::mlp("bottom", sample.dense_features, bottom, true, false);
        blocks.push(Block { name: BOTTOM, inputs: vec![Input::Dense], layers });
        inputs.push(Input::Block(BOTTOM));
    }
    inputs.push(Input::Vectors);
    if let Some(layers) = project {
        blocks.push(Block { name: PROJECT, inputs, layers });
        inputs = vec![Input::Block(PROJECT)];
    }
    let mut top = top.to_vec();
    if let Some(last) = top.last_mut() {
        *last = sample.outputs;
    }
    let layers = Layers::mlp("top", interaction.output_width(), &top, false, true);
    blocks.push(Block { name: INTERACTION, inputs, layers: interaction });
    blocks.push(Block { name: TOP, inputs: vec![Input::Block(INTERACTION)], layers });
    blocks
}

/// The sum of a linear map of the dense inputs, an MLP over everything, and a factorization machine, whose linear weights are in
/// the rows. The factorization machine, with the maps below it, comes last because it reads all columns: it is the first to give
/// them a gradient.
fn deep_fm(sample: &Sample, deep: &[usize]) -> Vec<Block> {
    let Sample { dense_features, dim, sparse_width, .. } = *sample;
    let vectors = sample.vectors.len();
    let mut rows = Input::Rows;
    let (mut blocks, mut terms, mut seen) = (Vec::new(), Vec::new(), vec![Input::Vectors]);
    if dense_features > 0 {
        let layers = Layers::mlp("linear", dense_features, &[1], false, false);
        blocks.push(Block { name: LINEAR, inputs: vec![Input::Dense], layers });
        terms.push(Input::Block(LINEAR));
        seen.push(Input::Dense);
    }
    let layers = Layers::mlp("deep", sparse_width - vectors + dense_features, deep, false, true);
    blocks.push(Block { name: DEEP, inputs: seen, layers });
    if let Some(layers) = projection(sample, 0, 1) {
        blocks.push(Block { name: PROJECT, inputs: vec![rows], layers });
        rows = Input::Block(PROJECT);
    }
    blocks.push(Block { name: FM, inputs: vec![rows], layers: Layers::Fm { vectors, dim } });
    terms.extend([Input::Block(DEEP), Input::Block(FM)]);
    blocks.push(Block { name: LOGIT, inputs: terms, layers: Layers::Sum { width: 1 } });
    blocks
}

fn check_mlps(
    bottom: &[usize],
    top: &[usize],
    dense_features: usize,
    dim: usize,
    meets: usize,
) -> Result<(), ModelError> {
    check_widths("model.bottom", bottom)?;
    check_widths("model.top", top)?;
    match (dense_features, bottom.last()) {
        (0, Some(_)) => {
            let problem = "there is no dense feature to feed it; leave it empty, or set model.dense_features";
            return Err(ModelError::new("model.bottom", problem));
        }
        (0, None) => {}
        (_, Some(&last)) if last == meets => {}
        (_, last) => {
            let whose = if meets == dim { "model.dim" } else { "the towers' d" };
            let problem = format!(
                "must end in {whose} = {meets} so that the dense vector can meet the others, got {}",
                last.map_or("no layer".into(), |last| last.to_string())
            );
            return Err(ModelError::new("model.bottom", problem));
        }
    }
    ends_in_logit("model.top", top)
}

fn ends_in_logit(field: &str, widths: &[usize]) -> Result<(), ModelError> {
    match widths.last() {
        Some(1) => Ok(()),
        _ => Err(ModelError::new(field, format!("must end in 1 (the logit), got {widths:?}"))),
    }
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
