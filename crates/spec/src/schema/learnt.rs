//! Transforms whose values were learnt from the training rows.
//!
//! ```text
//! log          ln(1 + max(x, 0))
//! clip         min(max(x, low), high)
//! standardise  (x − mean) / deviation
//! bucketise    (number of boundaries below x) / (number of boundaries)
//! ```
//!
//! ```
//! use spec::schema::{LearntStep, LearntTransform};
//! let steps = vec![LearntStep::Clip { low: 0.0, high: 9.0 }, LearntStep::Standardise { mean: 5.0, deviation: 2.0 }];
//! let price = LearntTransform { column: "price".into(), steps };
//! assert_eq!(price.apply(100.0), 2.0);
//! let thirds = LearntStep::Bucketise { boundaries: vec![1.0, 7.5] };
//! assert_eq!([0.5, 1.0, 2.0, 8.0].map(|x| thirds.apply(x)), [0.0, 0.0, 0.5, 1.0]);
//! ```

use super::transform::{MAX_BUCKETS, Transform};
use super::{DenseColumn, Schema};
use serde::{Deserialize, Serialize};

/// Transform of a dense column, with all values that it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearntTransform {
    /// Name of the dense column.
    pub column: String,
    /// Steps that are applied to a number, in order; none if the number is the input.
    pub steps: Vec<LearntStep>,
}

/// Step of a transform, with the values that it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LearntStep {
    /// `ln(1 + max(x, 0))`.
    Log,
    /// `min(max(x, low), high)`.
    Clip {
        /// Smallest result.
        low: f64,
        /// Largest result.
        high: f64,
    },
    /// `(x − mean) / deviation`.
    Standardise {
        /// Mean of the training rows.
        mean: f64,
        /// Standard deviation of the training rows; 1 where all numbers are equal.
        deviation: f64,
    },
    /// `(number of boundaries below x) / (number of boundaries)`; 0 without boundaries.
    Bucketise {
        /// Boundaries between the buckets, ascending. A boundary belongs to the bucket below it.
        boundaries: Vec<f64>,
    },
}

impl LearntStep {
    /// Applies the step to a number.
    pub fn apply(&self, x: f64) -> f64 {
        match self {
            Self::Log => x.max(0.0).ln_1p(),
            // `clamp` would panic on bounds in the wrong order.
            Self::Clip { low, high } => x.max(*low).min(*high),
            Self::Standardise { mean, deviation } => (x - mean) / deviation,
            Self::Bucketise { boundaries } => {
                let bucket = boundaries.partition_point(|boundary| *boundary < x);
                bucket as f64 / boundaries.len().max(1) as f64
            }
        }
    }

    /// Step of a transform that needs no learning; `None` for the others, and where there is nothing to apply.
    pub fn fixed(transform: &Transform) -> Option<Self> {
        match transform {
            Transform::Log => Some(Self::Log),
            Transform::Clip([low, high]) => Some(Self::Clip { low: *low, high: *high }),
            _ => None,
        }
    }

    /// Whether the step may be one that `transform` asks for.
    fn is_of(&self, transform: &Transform) -> bool {
        match (self, transform) {
            (Self::Log, Transform::Log) => true,
            (Self::Clip { low, high }, Transform::Clip(bounds)) => [*low, *high] == *bounds,
            (Self::Clip { low, high }, Transform::ClipQuantiles(_)) => {
                low.is_finite() && high.is_finite() && low <= high
            }
            (Self::Standardise { mean, deviation }, Transform::Standardise) => {
                mean.is_finite() && deviation.is_finite() && *deviation > 0.0
            }
            (Self::Bucketise { boundaries }, Transform::Bucketise(buckets)) => {
                boundaries.len() < *buckets
                    && *buckets <= MAX_BUCKETS
                    && boundaries.iter().all(|boundary| boundary.is_finite())
                    && boundaries.is_sorted_by(|one, other| one < other)
            }
            _ => false,
        }
    }
}

impl LearntTransform {
    /// Input for a number. A result that does not fit into an f32 becomes the largest that does.
    pub fn apply(&self, x: f64) -> f32 {
        let input = self.steps.iter().fold(x, |x, step| step.apply(x));
        (input as f32).clamp(f32::MIN, f32::MAX)
    }

    /// Transforms of the dense columns of a schema that needs no learning; `None` if it does.
    pub fn fixed(schema: &Schema) -> Option<Vec<Self>> {
        let fixed = |column: &DenseColumn| {
            let steps = column.transform.steps().iter().filter_map(LearntStep::fixed).collect();
            Self { column: column.column.clone(), steps }
        };
        (!schema.learns_transforms()).then(|| schema.dense.iter().map(fixed).collect())
    }

    /// Checks that `learnt` has the values that the transforms of `schema` ask for. The error says what is wrong.
    pub fn check(learnt: Option<&[Self]>, schema: &Schema) -> Result<(), String> {
        let Some(learnt) = learnt else {
            return match schema.dense.iter().find(|column| column.transform.is_learnt()) {
                None => Ok(()),
                Some(column) => {
                    Err(format!("the learnt values of the transform of {} are missing", column.column))
                }
            };
        };
        if learnt.len() != schema.dense.len() {
            return Err(format!("learnt transforms of {} columns for {}", learnt.len(), schema.dense.len()));
        }
        for (learnt, column) in learnt.iter().zip(&schema.dense) {
            let asked = column.transform.steps().iter().filter(|step| **step != Transform::None);
            let same = learnt.column == column.column
                && learnt.steps.len() == asked.clone().count()
                && learnt.steps.iter().zip(asked).all(|(step, asked)| step.is_of(asked));
            if !same {
                return Err(format!("the learnt transform of {} is not that of the schema", learnt.column));
            }
        }
        Ok(())
    }
}

impl Schema {
    /// Whether a transform of the schema depends on values that are learnt from the training rows.
    pub fn learns_transforms(&self) -> bool {
        self.dense.iter().any(|column| column.transform.is_learnt())
    }
}
