//! What a row has besides its inputs: labels, a sample weight, and columns that are kept for groups and slices.

use super::{Schema, SchemaError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The most labels of a log.
const MAX_LABELS: usize = 64;
/// The most columns that are kept besides the inputs.
const MAX_KEPT: usize = 64;

/// One of several labels, each of which has an output of the model: an entry of `[[labels]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelHead {
    /// Name of the column of the label.
    pub column: String,
    /// Smallest number that counts as 1, for columns such as ratings. By default the column holds 0 and 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positive_from: Option<f64>,
    /// Factor of the label's loss in the loss of the model, above 0. Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}
fn is_one(weight: &f64) -> bool {
    *weight == 1.0
}

/// Label of a log, whether it has one label or several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelRule<'a> {
    /// Name of the column of the label.
    pub column: &'a str,
    /// Smallest number that counts as 1; `None` if the column holds 0 and 1.
    pub positive_from: Option<f64>,
    /// Factor of the label's loss in the loss of the model.
    pub weight: f64,
}

impl Schema {
    /// Labels of the log, in order: `label` alone, or `labels`.
    pub fn all_labels(&self) -> impl Iterator<Item = LabelRule<'_>> {
        let single = self.labels.is_empty().then(|| LabelRule {
            column: &self.label.column,
            positive_from: self.label.positive_from,
            weight: 1.0,
        });
        let several = self.labels.iter().map(|label| LabelRule {
            column: &label.column,
            positive_from: label.positive_from,
            weight: label.weight,
        });
        single.into_iter().chain(several)
    }

    /// Number of labels.
    pub fn label_count(&self) -> usize {
        self.labels.len().max(1)
    }

    /// Whether a row has more than one label and its inputs: further labels, a sample weight or kept columns.
    pub fn has_extras(&self) -> bool {
        !self.labels.is_empty() || self.weight.is_some() || !self.keep.is_empty()
    }

    /// Checks labels, the column of sample weights and kept columns.
    pub(super) fn check_labels(&self) -> Result<(), SchemaError> {
        let refuse = |field: String, problem: &str| Err(SchemaError { field, problem: problem.into() });
        match (self.label.column.is_empty(), self.labels.is_empty()) {
            (true, true) => {
                return refuse("label".into(), "is missing: name one column, or several under [[labels]]");
            }
            (false, false) => {
                return refuse("labels".into(), "cannot stand beside `label`: keep one of the two");
            }
            _ => {}
        }
        if self.label.positive_from.is_some_and(|x| !x.is_finite()) {
            return refuse("label.positive_from".into(), "must be a finite number");
        }
        if self.labels.len() > MAX_LABELS {
            return refuse("labels".into(), "more than 64 labels");
        }
        let mut names = HashSet::new();
        for label in &self.labels {
            let field = |name: &str| format!("labels.{}.{name}", label.column);
            if label.column.is_empty() {
                return refuse("labels".into(), "a label needs the name of its column");
            }
            if !names.insert(&label.column) {
                return refuse(format!("labels.{}", label.column), "stands twice in the schema");
            }
            if label.positive_from.is_some_and(|x| !x.is_finite()) {
                return refuse(field("positive_from"), "must be a finite number");
            }
            if !(label.weight > 0.0 && (label.weight as f32).is_finite() && label.weight as f32 > 0.0) {
                return refuse(field("weight"), "must be a finite number above 0");
            }
        }
        if self.keep.len() > MAX_KEPT {
            return refuse("keep".into(), "more than 64 columns");
        }
        let mut names = HashSet::new();
        match self.keep.iter().find(|column| !names.insert(*column)) {
            Some(column) => refuse(format!("keep.{column}"), "stands twice in the list"),
            None => Ok(()),
        }
    }
}
