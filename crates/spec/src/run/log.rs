//! What a run learns from, and what must be known of a log before a run can be checked.

use crate::Pooling;
use crate::feature::{Feature, Hotness};
use crate::schema::{IdRule, Schema};
use crate::synthetic::Synthetic;

/// What a run learns from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    /// A log that is generated as it is read.
    Synthetic(Synthetic),
    /// A log on disk.
    Log {
        /// Training samples.
        samples: u64,
        /// Evaluation samples.
        eval_samples: u64,
        /// Samples of a window within which every epoch is shuffled.
        shuffle: Option<u64>,
    },
}

impl Data {
    /// Training samples.
    pub fn samples(&self) -> u64 {
        match self {
            Data::Synthetic(log) => log.samples,
            Data::Log { samples, .. } => *samples,
        }
    }

    /// Evaluation samples.
    pub fn eval_samples(&self) -> u64 {
        match self {
            Data::Synthetic(log) => log.eval_samples,
            Data::Log { eval_samples, .. } => *eval_samples,
        }
    }
}

/// What a log on disk says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFacts {
    /// Training samples.
    pub samples: u64,
    /// Evaluation samples.
    pub eval_samples: u64,
    /// Whether the rows lie in the order of time, so that shuffling would mix the days.
    pub in_time_order: bool,
    /// Columns of numbers.
    pub dense_features: usize,
    /// Columns of ids.
    pub features: Vec<LogFeature>,
}

/// A column of ids.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFeature {
    /// Name of the column.
    pub name: String,
    /// Rows that its ids reach.
    pub rows: LogRows,
    /// Ids per sample on average, where there may be any number.
    pub mean_ids: Option<u32>,
    /// How several rows become one vector.
    pub pooling: Pooling,
    /// Whether ids have weights.
    pub weighted: bool,
}

/// Rows that the ids of a column reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRows {
    /// Exactly these: a vocabulary, or row numbers.
    Fixed(usize),
    /// Any number, by hashing; perhaps the schema says how many.
    Hashed(Option<usize>),
}

impl LogFacts {
    /// What a schema alone tells: no samples are known, and a vocabulary may have any number of rows.
    pub fn of_schema(schema: &Schema) -> Self {
        let features = schema.sparse.iter().map(|column| LogFeature {
            name: column.column.clone(),
            rows: match (column.ids, column.rows) {
                // How many ids a vocabulary has is known when it is made.
                (IdRule::Hash | IdRule::Vocabulary, rows) => LogRows::Hashed(rows),
                (IdRule::Index, rows) => LogRows::Fixed(rows.unwrap_or(0)),
            },
            mean_ids: column.many().then(|| column.mean_ids.unwrap_or(1)),
            pooling: column.pooling,
            weighted: column.weighted(),
        });
        let features = features.collect();
        let (in_time_order, dense_features) = (schema.in_time_order, schema.dense.len());
        Self { samples: 0, eval_samples: 0, in_time_order, dense_features, features }
    }

    /// What the features of a model tell of the log it was made for.
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
        Self { samples: 0, eval_samples: 0, in_time_order: false, dense_features, features }
    }
}
