//! Evaluations of models with several labels, as records.

use super::{Bin, MetricValues, number};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use training::metrics::breakdown::{GroupScores, SliceScores};

/// Metrics of one of several labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelEval {
    /// Metrics in the order of `training::metrics::METRICS`.
    #[serde(flatten)]
    pub metrics: MetricValues,
    /// Mean probability.
    #[serde(deserialize_with = "number")]
    pub mean_prediction: f64,
    /// Mean label.
    #[serde(deserialize_with = "number")]
    pub click_rate: f64,
    /// A reliability diagram.
    #[serde(default)]
    pub bins: Vec<Bin>,
    /// AUC averaged over groups, where a column of groups was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupScores>,
    /// Metrics by the values of requested columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceScores>,
}

/// Labels by name, in the order of the model's outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelEvals(pub Vec<(String, LabelEval)>);

impl LabelEvals {
    /// Whether there are none: the model has one label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for LabelEvals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, label)| (name, label)))
    }
}

impl<'de> Deserialize<'de> for LabelEvals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LabelVisitor)
    }
}

/// Reads labels in the order of the record.
struct LabelVisitor;

impl<'de> Visitor<'de> for LabelVisitor {
    type Value = LabelEvals;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("metrics by label")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LabelEvals, A::Error> {
        let mut labels = LabelEvals::default();
        while let Some(entry) = map.next_entry()? {
            labels.0.push(entry);
        }
        Ok(labels)
    }
}
