//! Statistics of what a row has besides one label and its inputs: further labels, sample weights and kept columns.

use super::share;
use crate::Samples;
use crate::sketch::Distinct;
use serde::Serialize;
use spec::schema::Schema;

/// Statistics of what a row has besides one label and its inputs; nothing for a log without extras.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExtrasInspection {
    /// Statistics of each label, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelInspection>,
    /// Statistics of the sample weights, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_weight: Option<WeightInspection>,
    /// Statistics of the columns that are kept to group rows by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptInspection>,
}

/// Statistics of one of several labels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelInspection {
    /// Column of the label.
    pub name: String,
    /// Number of samples with label 1.
    pub clicks: u64,
    /// Share of samples with label 1.
    pub click_rate: f64,
}

/// Statistics of sample weights.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WeightInspection {
    /// Column of the weights.
    pub name: String,
    /// The smallest weight.
    pub min: f32,
    /// Mean of the weights.
    pub mean: f64,
    /// The largest weight.
    pub max: f32,
    /// Share of samples with weight 0.
    pub zeros: f64,
}

/// Statistics of a kept column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptInspection {
    /// Name of the column.
    pub name: String,
    /// Number of different values.
    pub distinct: u64,
    /// Whether `distinct` is exact; if not, its standard error is 0.8 %.
    pub distinct_is_exact: bool,
}

/// Collects the statistics as samples are read.
#[derive(Debug)]
pub(super) struct ExtrasInspector {
    labels: Vec<(String, u64)>,
    weight: Option<WeightInspection>,
    kept: Vec<(String, Distinct)>,
}

impl ExtrasInspector {
    pub fn new(schema: &Schema) -> Self {
        let weight = schema.weight.as_ref().map(|name| WeightInspection {
            name: name.clone(),
            min: f32::INFINITY,
            mean: 0.0,
            max: f32::NEG_INFINITY,
            zeros: 0.0,
        });
        Self {
            labels: schema.labels.iter().map(|label| (label.column.clone(), 0)).collect(),
            weight,
            kept: schema.keep.iter().map(|name| (name.clone(), Distinct::default())).collect(),
        }
    }

    pub fn add(&mut self, samples: &Samples) {
        if !self.labels.is_empty() {
            for row in samples.labels.chunks_exact(self.labels.len()) {
                self.labels
                    .iter_mut()
                    .zip(row)
                    .for_each(|(label, &value)| label.1 += u64::from(value == 1.0));
            }
        }
        if let Some(weight) = &mut self.weight {
            // Sums, until `finish` divides them.
            for &value in &samples.weights {
                weight.min = weight.min.min(value);
                weight.max = weight.max.max(value);
                weight.mean += f64::from(value);
                weight.zeros += f64::from(value == 0.0);
            }
        }
        for ((_, distinct), kept) in self.kept.iter_mut().zip(&samples.kept) {
            kept.keys.iter().for_each(|&key| distinct.add(key));
        }
    }

    pub fn finish(self, samples: u64) -> ExtrasInspection {
        let labels = self.labels.into_iter().map(|(name, clicks)| LabelInspection {
            name,
            clicks,
            click_rate: share(clicks, samples),
        });
        let weight = self.weight.map(|weight| {
            let (min, max) = if samples == 0 { (0.0, 0.0) } else { (weight.min, weight.max) };
            let of_samples = |sum: f64| sum / samples.max(1) as f64;
            WeightInspection {
                min,
                max,
                mean: of_samples(weight.mean),
                zeros: of_samples(weight.zeros),
                ..weight
            }
        });
        let kept = self.kept.into_iter().map(|(name, distinct)| KeptInspection {
            name,
            distinct: distinct.count(),
            distinct_is_exact: distinct.is_exact(),
        });
        ExtrasInspection { labels: labels.collect(), sample_weight: weight, kept: kept.collect() }
    }
}
