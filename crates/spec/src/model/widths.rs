//! Lengths of the embeddings of a model's features, and where they stand side by side.

use super::architecture::PROJECT;
use super::{BlockName, Model, ModelError, Tower};
use crate::feature::Feature;

/// Place where the embeddings of all features of a sample stand side by side at one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignedVectors {
    /// Block whose output has the embeddings; `None` if they are read as they come from the tables.
    pub block: Option<BlockName>,
    /// Number of columns of the buffer.
    pub width: usize,
    /// First column of the first embedding.
    pub first: usize,
    /// Number of columns from one embedding to the next.
    pub stride: usize,
    /// Length of an embedding.
    pub dim: usize,
}

impl Model {
    /// Length of the embedding vectors of features that give none, N. Where vectors of several lengths interact, they are mapped
    /// to this one.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Length of the embedding vectors of a feature.
    pub fn dim_of(&self, feature: usize) -> usize {
        self.features[feature].dim.unwrap_or(self.dim)
    }

    /// Whether a feature has embeddings of another length than the model's N.
    pub fn has_other_dims(&self) -> bool {
        (0..self.features.len()).any(|feature| self.dim_of(feature) != self.dim)
    }

    /// Lengths of all embeddings in words: `dimension 16`, or `dimensions 4 to 384`.
    pub fn dims_text(&self) -> String {
        let dims = || (0..self.features.len()).map(|feature| self.dim_of(feature));
        match (dims().min(), dims().max()) {
            (Some(least), Some(most)) if least < most => format!("dimensions {least} to {most}"),
            (_, most) => format!("dimension {}", most.unwrap_or(self.dim)),
        }
    }

    /// Number of columns of a row of a feature's table: those of a vector and, if the model has linear weights, one more behind
    /// them.
    pub fn row_width(&self, feature: usize) -> usize {
        self.starts[feature + 1] - self.starts[feature]
    }

    /// Place where the embeddings of a sample stand side by side at one length. Fails if they nowhere do; the model must have no
    /// tower modules.
    pub fn aligned_vectors(&self) -> Result<AlignedVectors, ModelError> {
        let dim = self.dim_of(0);
        let Some(other) = (1..self.features.len()).find(|&feature| self.dim_of(feature) != dim) else {
            let (first, stride) = (self.feature_offset(0, 0), self.row_width(0));
            return Ok(AlignedVectors {
                block: None,
                width: self.network.features_width(),
                first,
                stride,
                dim,
            });
        };
        let Some(project) = self.network.blocks().iter().find(|block| block.name == PROJECT) else {
            let [one, another] = [0, other].map(|feature| &self.features[feature].name);
            let problem = format!(
                "embeddings of {one} and {another} have no cosine: they have different lengths, which a {} model never maps to one; \
                 use the model dlrm, or one dim for all features",
                self.kind()
            );
            return Err(ModelError::new(format!("model.features[{other}].dim ({another})"), problem));
        };
        let (dim, width) = (self.dim, project.layers.output_width());
        let stride = self.architecture.row_width(dim);
        let first = width - self.features.len() * stride;
        Ok(AlignedVectors { block: Some(PROJECT), width, first, stride, dim })
    }
}

/// Number of columns that tables whose rows begin at these columns, or else towers, bring to the network.
pub(super) fn sparse_width(starts: &[usize], towers: &[Tower]) -> usize {
    match towers {
        [] => starts.last().copied().unwrap_or(0),
        towers => towers.iter().map(Tower::output_width).sum(),
    }
}

/// Names of the features and lengths of their embeddings; none if tower modules stand between them and the network.
pub(super) fn vectors_of<'a>(features: &'a [Feature], dim: usize, towers: &[Tower]) -> Vec<(&'a str, usize)> {
    if towers.iter().any(|tower| !tower.passes_through()) {
        return Vec::new();
    }
    features.iter().map(|feature| (feature.name.as_str(), feature.dim.unwrap_or(dim))).collect()
}

/// Sums of the widths before each feature, and of all at the end.
pub(super) fn starts_of(widths: &[usize]) -> Vec<usize> {
    let mut start = 0;
    let ends = widths.iter().map(|width| {
        start += width;
        start
    });
    std::iter::once(0).chain(ends).collect()
}
