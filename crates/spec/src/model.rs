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

mod architecture;
mod block;
mod labels;
mod layer;
mod network;
mod tensor_trains;
mod tower;
mod widths;

pub use architecture::Architecture;
pub use block::{Block, BlockName, Input, Layers, Projected};
pub use labels::ModelLabel;
pub use layer::{CrossLayer, LinearLayer, Parameter};
pub use network::{BlockSource, Network, Read};
pub use tower::{Member, Tower, TowerModule};
pub use widths::AlignedVectors;

use crate::feature::{Feature, Hotness};
use crate::table_format::TableFormat;
use crate::towers::{Assignment, Module};
use architecture::Sample;
use serde::Serialize;
use std::collections::HashSet;
use widths::{sparse_width, starts_of, vectors_of};

/// A recommendation model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    features: Vec<Feature>,
    dense_features: usize,
    dim: usize,
    architecture: Architecture,
    towers: Vec<Tower>,
    module: Module,
    /// Labels, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<ModelLabel>,
    network: Network,
    /// Number of columns of the rows of all tables before each table, and of all at the end.
    #[serde(skip)]
    starts: Vec<usize>,
    #[serde(skip_serializing_if = "is_zero")]
    dropout: f32,
}

fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

/// Error in the description of a model: the field as it is named in a config, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ModelError {
    /// Name of the field that is wrong.
    pub field: String,
    /// Description of the problem, and what to do about it.
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
/// The most rows of a table that can be planned and simulated; [`Model::check_trainable`] has the limit of training.
const MAX_ROWS: usize = 1 << 40;
const MAX_DIM: usize = 65_536;
const MAX_HOTNESS: u32 = 65_536;

impl Model {
    /// Checks a description without towers and lays out its network.
    pub fn new(
        features: Vec<Feature>,
        dense_features: usize,
        dim: usize,
        architecture: Architecture,
    ) -> Result<Self, ModelError> {
        Self::with_towers(features, dense_features, dim, architecture, None, Module::None)
    }

    /// Checks a description and lays out its towers and its network.
    pub fn with_towers(
        features: Vec<Feature>,
        dense_features: usize,
        dim: usize,
        architecture: Architecture,
        assignment: Option<&Assignment>,
        module: Module,
    ) -> Result<Self, ModelError> {
        check_features(&features)?;
        module
            .check()
            .map_err(|problem| ModelError::new("model.tower_module", format!("{module}: {problem}")))?;
        architecture.check_module(module)?;
        check_sizes(dense_features, dim)?;
        let widths: Vec<usize> =
            features.iter().map(|feature| architecture.row_width(feature.dim.unwrap_or(dim))).collect();
        tensor_trains::check(&features, &widths)?;
        let meets = architecture.meeting_dim(dim, module);
        architecture.check(dense_features, dim, meets)?;
        let starts = starts_of(&widths);
        let row_widths = starts[features.len()];
        let mapped = features.len() * architecture.row_width(dim);
        if row_widths.max(mapped) + architecture.row_width(dim) > 64 * MAX_WIDTH {
            let widest = widths.iter().copied().max().unwrap_or(0).max(dim);
            let problem = format!("{} vectors of up to {widest} columns are too wide", features.len());
            return Err(ModelError::new("model.dim", problem));
        }
        let towers = lay_out_towers(&features, &widths, &architecture, assignment, module)?;
        tensor_trains::check_towers(&features, &widths, &towers)?;
        let sparse_width = sparse_width(&starts, &towers);
        let dense_width = if dense_features > 0 { meets } else { 0 };
        if dense_width + sparse_width > 64 * MAX_WIDTH {
            let problem = format!("{} towers give {sparse_width} columns: too wide", towers.len());
            return Err(ModelError::new("model.tower_module", problem));
        }
        let vectors = vectors_of(&features, dim, &towers);
        let sample = Sample { dense_features, dim: meets, sparse_width, vectors, outputs: 1 };
        let network = architecture.network(sample)?;
        let labels = Vec::new();
        Ok(Self {
            features,
            dense_features,
            dim,
            architecture,
            towers,
            module,
            labels,
            network,
            starts,
            dropout: 0.0,
        })
    }

    /// What a sample brings to the network, and takes from one with so many outputs.
    fn sample(&self, outputs: usize) -> Sample<'_> {
        let dim = self.architecture.meeting_dim(self.dim, self.module);
        Sample {
            dense_features: self.dense_features,
            dim,
            sparse_width: sparse_width(&self.starts, &self.towers),
            vectors: vectors_of(&self.features, self.dim, &self.towers),
            outputs,
        }
    }

    /// The model with dropout: in training, hidden units of the MLPs are set to zero with probability `dropout`, and the others
    /// are scaled by `1/(1 − dropout)`. The last layer of an MLP and tower modules have none.
    pub fn with_dropout(self, dropout: f32) -> Result<Self, ModelError> {
        if !(0.0..1.0).contains(&dropout) {
            let problem = format!("{dropout} must lie in 0..1 (0.1 to 0.5 is usual, 0 is off)");
            return Err(ModelError::new("model.dropout (--dropout)", problem));
        }
        Ok(Self { dropout, ..self })
    }

    /// The model with tables of `format` where a feature says no other.
    pub fn with_table_format(mut self, format: TableFormat) -> Self {
        for feature in self.features.iter_mut().filter(|feature| tensor_trains::rank_of(feature).is_none()) {
            // Where f32 is the default, saying it changes nothing.
            let said = feature.format.or(Some(format));
            feature.format = said.filter(|said| said.rounds() || format.rounds());
        }
        self
    }

    /// Number format of the table of a feature; cores of tensor trains are f32.
    pub fn table_format(&self, feature: usize) -> TableFormat {
        self.features[feature].format.unwrap_or_default()
    }

    /// Number of tables of rows in each number format that some of them has, from the widest on.
    pub fn table_formats(&self) -> Vec<(TableFormat, usize)> {
        let count = |format| self.tables_with_rows().filter(|(f, _)| self.table_format(*f) == format).count();
        TableFormat::ALL
            .map(|format| (format, count(format)))
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// The number formats of tables as text, such as `26 tables of f16`; `None` where all are f32.
    pub fn table_formats_text(&self) -> Option<String> {
        let formats = self.table_formats();
        let all_wide = formats.iter().all(|(format, _)| !format.rounds());
        let text = |(format, count): &(TableFormat, usize)| {
            format!("{count} {} of {format}", if *count == 1 { "table" } else { "tables" })
        };
        (!all_wide).then(|| formats.iter().map(text).collect::<Vec<_>>().join(", "))
    }

    /// Bytes of all tables that have rows, without optimizer state.
    pub fn table_bytes(&self) -> u64 {
        let bytes = |(f, feature): (usize, &Feature)| {
            (feature.rows as u64).saturating_mul(self.table_format(f).row_bytes(self.row_width(f)) as u64)
        };
        self.tables_with_rows().map(bytes).fold(0, u64::saturating_add)
    }

    /// Probability with which training sets hidden units of the MLPs to zero.
    pub fn dropout(&self) -> f32 {
        self.dropout
    }

    /// Sparse features of the model, in order.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Number of dense inputs.
    pub fn dense_features(&self) -> usize {
        self.dense_features
    }

    /// Architecture that the model was made from.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Dense network of the model.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Parts of the model that compute matrix products, each of which may do so in a precision of its own: blocks with linear
    /// maps or dot products in forward order, and then the modules of towers.
    pub fn parts_with_products(&self) -> Vec<BlockName> {
        let has_products =
            |block: &&Block| matches!(block.layers, Layers::Dot { .. }) || !block.layers.maps().is_empty();
        let blocks = self.network.blocks().iter().filter(has_products);
        let towers = self.towers.iter().any(|tower| !tower.passes_through());
        blocks.map(|block| block.name).chain(towers.then_some(BlockName::TOWERS)).collect()
    }

    /// Name of the architecture: `dlrm`, `dcn` or `deepfm`.
    pub fn kind(&self) -> &'static str {
        self.architecture.name()
    }

    /// Module over the features of each tower.
    pub fn tower_module(&self) -> Module {
        self.module
    }

    /// Dense parameters: of the network in forward order, then of the towers, then the cores of tensor trains.
    pub fn dense_parameter_list(&self) -> Vec<Parameter> {
        let towers = self.towers.iter().enumerate().flat_map(|(t, tower)| tower.parameters(t));
        let cores = (0..self.features.len()).flat_map(|feature| self.cores_of(feature));
        self.network.parameters().into_iter().chain(towers).chain(cores).collect()
    }

    /// Whether ids carry weights.
    pub fn weighted(&self) -> bool {
        self.features.iter().any(|f| f.weighted)
    }

    /// Number of parameters in all tables that have rows; the largest number there is for more.
    pub fn table_parameters(&self) -> u64 {
        let parameters = |(f, feature): (usize, &Feature)| feature.rows as u64 * self.row_width(f) as u64;
        self.tables_with_rows().map(parameters).fold(0, u64::saturating_add)
    }

    /// Features whose tables have rows of their own, which are all but the tensor trains.
    fn tables_with_rows(&self) -> impl Iterator<Item = (usize, &Feature)> {
        self.features.iter().enumerate().filter(|(f, _)| self.tensor_train(*f).is_none())
    }

    /// Refuses tables of more rows than training can name: batches hold ids of 32 bits. Larger tables can be planned and simulated.
    pub fn check_trainable(&self) -> Result<(), ModelError> {
        match self.features.iter().position(|feature| feature.rows > u32::MAX as usize) {
            None => Ok(()),
            Some(i) => {
                let Feature { name, rows, .. } = &self.features[i];
                let problem = format!(
                    "{rows} rows can be planned and simulated, but not trained: ids of batches have 32 bits. Use at most {} rows \
                     (model.rows_cap or --rows-cap caps all tables)",
                    u32::MAX
                );
                Err(ModelError::new(format!("model.features[{i}].rows ({name})"), problem))
            }
        }
    }

    /// Number of parameters in dense layers, including those of towers and the cores of tensor trains.
    pub fn dense_parameters(&self) -> u64 {
        self.dense_parameter_list().iter().map(|p| p.len as u64).sum()
    }

    /// Number of parameters of the model.
    pub fn parameters(&self) -> u64 {
        self.table_parameters().saturating_add(self.dense_parameters())
    }

    /// Floating-point operations to train on one sample: the matrix products of forward and of both gradients, less
    /// the gradients that nothing needs. Element-wise work is not counted.
    pub fn training_flops(&self) -> u64 {
        let network = self.network.blocks().iter().map(|block| block.layers.training_flops());
        network.sum::<u64>() + self.tower_flops() + self.tensor_train_flops()
    }

    /// Part of [`training_flops`](Self::training_flops) that the towers account for.
    pub fn tower_flops(&self) -> u64 {
        self.towers.iter().map(Tower::training_flops).sum()
    }
}

/// The towers of an assignment, each with its layers.
fn lay_out_towers(
    features: &[Feature],
    widths: &[usize],
    architecture: &Architecture,
    assignment: Option<&Assignment>,
    module: Module,
) -> Result<Vec<Tower>, ModelError> {
    let Some(assignment) = assignment else {
        if module != Module::None {
            let problem =
                format!("{module} stands over the features of a tower; say which with model.towers");
            return Err(ModelError::new("model.tower_module", problem));
        }
        return Ok(Vec::new());
    };
    let usual_rank = match architecture {
        Architecture::Dcn { cross_rank, .. } => *cross_rank,
        Architecture::Dlrm { .. } | Architecture::DeepFm { .. } => None,
    };
    let members = assignment.members(features, widths)?.into_iter().enumerate();
    Ok(members.map(|(t, members)| Tower::new(t, members, module, usual_rank)).collect())
}

fn check_sizes(dense_features: usize, dim: usize) -> Result<(), ModelError> {
    if !(1..=MAX_DIM).contains(&dim) {
        return Err(ModelError::new("model.dim", format!("{dim} is not between 1 and {MAX_DIM}")));
    }
    if dense_features > MAX_WIDTH {
        let problem = format!("{dense_features} is too large; use at most {MAX_WIDTH}");
        return Err(ModelError::new("model.dense_features", problem));
    }
    Ok(())
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
        if !(1..=MAX_ROWS).contains(&feature.rows) {
            return Err(ModelError::new(
                format!("model.features[{i}].rows ({})", feature.name),
                format!("{} rows; a table has 1 to {MAX_ROWS} (split larger ones)", feature.rows),
            ));
        }
        if let Some(dim) = feature.dim.filter(|dim| !(1..=MAX_DIM).contains(dim)) {
            return Err(ModelError::new(
                format!("model.features[{i}].dim ({})", feature.name),
                format!("{dim} is not between 1 and {MAX_DIM}; leave it out for model.dim"),
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
