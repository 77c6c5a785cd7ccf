//! Presets: models that are known by name.

use crate::feature::{Feature, Hotness};
use crate::model::{Architecture, Model, ModelError};
use crate::towers::{Assignment, Module};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Preset: a named set of tables and widths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Small tables and layers that learn the built-in synthetic log within a minute on two cores.
    #[default]
    Demo,
    /// Criteo Kaggle: N = 16, the setting of the quantised-collectives paper.
    Kaggle,
    /// MLPerf's DLRM: Criteo Terabyte tables capped at 40 M rows, N = 128.
    Mlperf,
    /// Criteo Terabyte as in the DMT paper: 22.78 G parameters, N = 128.
    Terabyte,
}

/// Architecture that a preset builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// DLRM, with dot interaction.
    #[default]
    Dlrm,
    /// DCN-v2, with cross layers.
    Dcn,
    /// DeepFM: a factorization machine beside an MLP.
    #[serde(rename = "deepfm")]
    DeepFm,
}

const DEMO_ROWS: [usize; 26] = [
    10, 11, 13, 15, 17, 20, 23, 26, 30, 34, 39, 45, 51, 59, 67, 77, 88, 101, 116, 133, 152, 174, 199, 229,
    262, 300,
];

const KAGGLE_ROWS: [usize; 26] = [
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
    5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
];

const TERABYTE_ROWS: [usize; 26] = [
    45833188, 36746, 17245, 7413, 20243, 3, 7114, 1441, 62, 29275261, 1572176, 345138, 10, 2209, 11267, 128,
    4, 974, 14, 48937457, 11316796, 40094537, 452104, 12606, 104, 35,
];

/// Outline of a model: the tables and widths of a preset, before flags change them.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// Number of rows of each table; features are named C1, C2, …
    pub rows: Vec<usize>,
    /// Number of dense inputs.
    pub dense_features: usize,
    /// Embedding dimension.
    pub dim: usize,
    /// Widths of the bottom MLP, without the last layer, whose width is the embedding dimension.
    pub bottom: Vec<usize>,
    /// Widths of the top MLP.
    pub top: Vec<usize>,
    /// Top MLP of a DLRM whose towers have modules. One layer of 1024 less than [`top`](Self::top), where that begins with two:
    /// inferred from the FLOPs of the DMT paper's Table 4, which prints no widths.
    pub tower_top: Vec<usize>,
    /// Number of cross layers of a DCN.
    pub cross_layers: usize,
    /// Matrix rank of the cross layers of a DCN; `None` for full rank.
    pub cross_rank: Option<usize>,
    /// Widths of the MLP of a DeepFM, over all vectors and dense inputs.
    pub deep: Vec<usize>,
}

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 4] = [Preset::Demo, Preset::Kaggle, Preset::Mlperf, Preset::Terabyte];

    /// Name of the preset as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Demo => "demo",
            Preset::Kaggle => "kaggle",
            Preset::Mlperf => "mlperf",
            Preset::Terabyte => "terabyte",
        }
    }

    /// Tables and widths of the preset.
    pub fn outline(self) -> Outline {
        let (rows, dim, bottom, top, cross_rank): (Vec<usize>, usize, &[usize], &[usize], usize) = match self
        {
            Preset::Demo => (DEMO_ROWS.to_vec(), 16, &[64], &[128, 64, 1], 32),
            Preset::Kaggle => (KAGGLE_ROWS.to_vec(), 16, &[512, 256, 64], &[512, 256, 1], 64),
            Preset::Mlperf => {
                let rows = TERABYTE_ROWS.iter().map(|&rows| rows.min(40_000_000)).collect();
                (rows, 128, &[512, 256], &[1024, 1024, 512, 256, 1], 512)
            }
            Preset::Terabyte => (TERABYTE_ROWS.to_vec(), 128, &[512, 256], &[1024, 1024, 512, 256, 1], 512),
        };
        // On Criteo's log of seven days, the MLP of the DeepFM paper (§3.1); else that of the other models.
        let deep: &[usize] = if self == Preset::Kaggle { &[400, 400, 400, 1] } else { top };
        // Inferred: 8T-DLRM has 8.95 MFlops a sample in DMT's Table 4, and would have 15.24 with the top MLP of the flat model.
        let tower_top = if top.starts_with(&[1024, 1024]) { &top[1..] } else { top };
        Outline {
            rows,
            dense_features: 13,
            dim,
            bottom: bottom.to_vec(),
            top: top.to_vec(),
            tower_top: tower_top.to_vec(),
            cross_layers: 3,
            cross_rank: Some(cross_rank),
            deep: deep.to_vec(),
        }
    }

    /// Model of the preset, with another embedding dimension or fewer rows per table if these are given.
    pub fn model(
        self,
        kind: ModelKind,
        dim: Option<usize>,
        rows_cap: Option<usize>,
    ) -> Result<Model, ModelError> {
        let mut outline = self.outline();
        outline.dim = dim.unwrap_or(outline.dim);
        outline.cap_rows(rows_cap);
        outline.model(kind)
    }
}

impl Outline {
    /// Limits every table to `cap` rows, if `cap` is given.
    pub fn cap_rows(&mut self, cap: Option<usize>) {
        let cap = cap.unwrap_or(usize::MAX);
        self.rows.iter_mut().for_each(|rows| *rows = (*rows).min(cap));
    }

    /// Model of the outline, without towers.
    pub fn model(self, kind: ModelKind) -> Result<Model, ModelError> {
        self.model_with_towers(kind, None, Module::None)
    }

    /// Model of the given kind, with towers.
    pub fn model_with_towers(
        self,
        kind: ModelKind,
        assignment: Option<&Assignment>,
        module: Module,
    ) -> Result<Model, ModelError> {
        let architecture = self.architecture(kind, module);
        Model::with_towers(self.features(), self.dense_features, self.dim, architecture, assignment, module)
    }

    /// Sparse features of the preset, all single-hot.
    pub fn features(&self) -> Vec<Feature> {
        let feature = |(i, &rows): (usize, &usize)| Feature {
            name: format!("C{}", i + 1),
            rows,
            pooling: Default::default(),
            hotness: Hotness::One,
            weighted: false,
            dim: None,
            format: None,
            cache: None,
            tt_rank: None,
        };
        self.rows.iter().enumerate().map(feature).collect()
    }

    /// Network of the preset, for a model of the given kind over towers with the given module.
    pub fn architecture(&self, kind: ModelKind, module: Module) -> Architecture {
        let bottom = |last: usize| match self.dense_features {
            0 => Vec::new(),
            _ => self.bottom.iter().copied().chain([last]).collect(),
        };
        match (kind, module) {
            (ModelKind::Dlrm, Module::None) => {
                Architecture::Dlrm { bottom: bottom(self.dim), top: self.top.clone() }
            }
            (ModelKind::Dlrm, Module::Dlrm { d, .. } | Module::Dcn { d, .. }) => {
                Architecture::Dlrm { bottom: bottom(d), top: self.tower_top.clone() }
            }
            (ModelKind::Dcn, _) => Architecture::Dcn {
                bottom: bottom(self.dim),
                cross_layers: self.cross_layers,
                cross_rank: self.cross_rank,
                top: self.top.clone(),
            },
            (ModelKind::DeepFm, _) => Architecture::DeepFm { deep: self.deep.clone() },
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Preset::ALL
            .into_iter()
            .find(|p| p.name() == s)
            .ok_or_else(|| format!("unknown preset {s:?}; use demo, kaggle, mlperf or terabyte"))
    }
}

impl ModelKind {
    /// All kinds of models.
    pub const ALL: [ModelKind; 3] = [ModelKind::Dlrm, ModelKind::Dcn, ModelKind::DeepFm];

    /// Name of the kind, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Dlrm => "dlrm",
            ModelKind::Dcn => "dcn",
            ModelKind::DeepFm => "deepfm",
        }
    }
}

impl FromStr for ModelKind {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "dlrm" => Ok(ModelKind::Dlrm),
            "dcn" => Ok(ModelKind::Dcn),
            "deepfm" => Ok(ModelKind::DeepFm),
            _ => Err(format!("unknown model {s:?}; use dlrm, dcn or deepfm")),
        }
    }
}

#[cfg(test)]
mod tests;
