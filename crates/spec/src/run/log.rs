//! Data of a run, and the facts about a log that are needed to check a config.

use crate::Pooling;
use crate::feature::{Feature, Hotness};
use crate::model::ModelLabel;
use crate::schema::{IdRule, LabelHead, Schema};
use crate::synthetic::Synthetic;

/// Data that a run trains and evaluates on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    /// A log that is generated as it is read.
    Synthetic(Synthetic),
    /// A log on disk.
    Log {
        /// Number of training samples.
        samples: u64,
        /// Number of evaluation samples.
        eval_samples: u64,
        /// Number of samples of a window within which every epoch is shuffled; `None` to keep the order of the log.
        shuffle: Option<u64>,
    },
}

impl Data {
    /// Number of training samples.
    pub fn samples(&self) -> u64 {
        match self {
            Data::Synthetic(log) => log.samples,
            Data::Log { samples, .. } => *samples,
        }
    }

    /// Number of evaluation samples.
    pub fn eval_samples(&self) -> u64 {
        match self {
            Data::Synthetic(log) => log.eval_samples,
            Data::Log { eval_samples, .. } => *eval_samples,
        }
    }
}

/// Facts about a log on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFacts {
    /// Number of training samples.
    pub samples: u64,
    /// Number of evaluation samples.
    pub eval_samples: u64,
    /// Whether the rows lie in the order of time, so that shuffling would mix the days.
    pub in_time_order: bool,
    /// Number of dense columns.
    pub dense_features: usize,
    /// Sparse columns.
    pub features: Vec<LogFeature>,
    /// Labels of a log with several; empty for a log with one.
    pub labels: Vec<ModelLabel>,
    /// Whether samples have weights.
    pub sample_weights: bool,
}

/// Sparse column of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFeature {
    /// Name of the column.
    pub name: String,
    /// Number of table rows that the ids of the column need.
    pub rows: LogRows,
    /// Mean number of ids per sample, if a sample may have any number.
    pub mean_ids: Option<u32>,
    /// How the rows of a bag become one vector.
    pub pooling: Pooling,
    /// Whether ids have weights.
    pub weighted: bool,
}

/// Number of table rows that the ids of a column need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRows {
    /// Exactly this number, for a vocabulary or row numbers.
    Fixed(usize),
    /// Any number, since ids are hashed; the number in the schema, if it gives one.
    Hashed(Option<usize>),
}

impl LogFacts {
    /// Facts that follow from a schema alone: the number of samples is unknown, and a vocabulary may have any number of
    /// rows.
    pub fn of_schema(schema: &Schema) -> Self {
        let features = schema.sparse.iter().map(|column| LogFeature {
            name: column.column.clone(),
            rows: match (column.ids, column.rows) {
                // How many ids a vocabulary has is known when it is made.
                (IdRule::Hash | IdRule::Vocabulary | IdRule::Buckets, rows) => LogRows::Hashed(rows),
                (IdRule::Index, rows) => LogRows::Fixed(rows.unwrap_or(0)),
            },
            mean_ids: column.many().then(|| column.mean_ids.unwrap_or(1)),
            pooling: column.pooling,
            weighted: column.weighted(),
        });
        let features = features.collect();
        let (in_time_order, dense_features) = (schema.in_time_order, schema.dense.len());
        let (labels, sample_weights) = (Self::labels_of(schema), schema.weight.is_some());
        Self { samples: 0, eval_samples: 0, in_time_order, dense_features, features, labels, sample_weights }
    }

    /// Labels of a schema with several; none for a schema with one.
    pub fn labels_of(schema: &Schema) -> Vec<ModelLabel> {
        let label =
            |label: &LabelHead| ModelLabel { name: label.column.clone(), weight: label.weight as f32 };
        schema.labels.iter().map(label).collect()
    }

    /// Facts about the log of a model, from the model's features.
    pub fn of_features(features: &[Feature], dense_features: usize) -> Self {
        let features = features.iter().map(|feature| LogFeature {
            name: feature.name.clone(),
            rows: LogRows::Hashed(Some(feature.rows)),
            mean_ids: match feature.hotness {
                Hotness::One => None,
                Hotness::Many { mean } => Some(mean),
            },
            pooling: feature.pooling,
            weighted: feature.weighted,
        });
        let features = features.collect();
        Self {
            samples: 0,
            eval_samples: 0,
            in_time_order: false,
            dense_features,
            features,
            labels: Vec::new(),
            sample_weights: false,
        }
    }
}
