//! Scores of an evaluation: metrics of every label, and their breakdown by columns of the log.

use crate::Error;
use crate::metrics::breakdown::{GroupScores, Predicted, SliceScores, group_scores, slice_scores};
use crate::metrics::{CalibrationBin, Evaluation, weighted_bins};
use data::prepared::{BoundLog, KeyColumn};
use spec::run::{Breakdown, Run};

/// Bins of the calibration diagram.
const BINS: usize = 20;

/// Scores of an evaluation. Those of a model with several labels are of the first; `labels` has all.
#[derive(Clone, Debug)]
pub struct Scores {
    /// Metrics of the predictions.
    pub evaluation: Evaluation,
    /// Calibration diagram: what was predicted and what happened, bin by bin.
    pub bins: Vec<CalibrationBin>,
    /// AUC of the true probabilities on the same samples, where they are known: no model does better but by luck.
    pub best_auc: Option<f64>,
    /// AUC averaged over groups, where a column of groups was requested.
    pub group: Option<GroupScores>,
    /// Metrics by the values of requested columns.
    pub slices: Vec<SliceScores>,
    /// Scores of each label, in the order of the model's outputs; empty for a model with one label.
    pub labels: Vec<LabelScores>,
}

/// Scores of the predictions of one of several labels.
#[derive(Clone, Debug)]
pub struct LabelScores {
    /// Name of the label: its column in the log.
    pub name: String,
    /// Metrics of the predictions.
    pub evaluation: Evaluation,
    /// Calibration diagram.
    pub bins: Vec<CalibrationBin>,
    /// AUC averaged over groups, where a column of groups was requested.
    pub group: Option<GroupScores>,
    /// Metrics by the values of requested columns.
    pub slices: Vec<SliceScores>,
}

/// Predictions for the evaluation samples, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Probabilities: samples × labels.
    pub predictions: Vec<f32>,
    /// Labels: samples × labels.
    pub labels: Vec<f32>,
    /// Weights of the samples; empty where they have none.
    pub weights: Vec<f32>,
    /// True probabilities, where they are known.
    pub truth: Vec<f32>,
}

/// Columns of the log by which an evaluation is broken down, with the key of every sample.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    group: Option<(String, Vec<u64>)>,
    slices: Vec<(String, KeyColumn, Vec<u64>)>,
}

impl Columns {
    /// Reads the columns of `breakdown` for all samples of `log`.
    pub fn read(log: &BoundLog, breakdown: &Breakdown) -> Result<Self, Error> {
        let read = |name: &String| {
            let column = log.log().key_column(name)?;
            let mut keys = Vec::with_capacity(log.len() as usize);
            log.keys(&column, &mut keys)?;
            Ok::<_, Error>((name.clone(), column, keys))
        };
        let group = breakdown.group.as_ref().map(&read).transpose()?;
        Ok(Self {
            group: group.map(|(name, _, keys)| (name, keys)),
            slices: breakdown.slices.iter().map(read).collect::<Result<_, _>>()?,
        })
    }
}

impl Scores {
    /// Judges all predictions of an evaluation.
    pub(crate) fn of(run: &Run, gathered: &Gathered, columns: &Columns) -> Result<Self, Error> {
        let names: Vec<&str> = match run.model.labels() {
            [] => vec![""],
            labels => labels.iter().map(|label| label.name.as_str()).collect(),
        };
        let each = names.iter().enumerate();
        let labels = each.map(|(at, name)| of_label(run, gathered, columns, at, name));
        let labels = labels.collect::<Result<Vec<_>, Error>>()?;
        let truth = &gathered.truth;
        let best_auc = if truth.is_empty() { None } else { Evaluation::of(truth, &gathered.labels)?.auc };
        let LabelScores { evaluation, bins, group, slices, .. } = labels[0].clone();
        let labels = if names.len() > 1 { labels } else { Vec::new() };
        Ok(Self { evaluation, bins, best_auc, group, slices, labels })
    }
}

/// Judges the predictions of the label with index `at`.
fn of_label(
    run: &Run,
    gathered: &Gathered,
    columns: &Columns,
    at: usize,
    name: &str,
) -> Result<LabelScores, Error> {
    let outputs = run.model.outputs();
    let column = |all: &[f32]| all.iter().skip(at).step_by(outputs).copied().collect::<Vec<f32>>();
    let (own_scores, own_labels);
    let (scores, labels): (&[f32], &[f32]) = match outputs {
        1 => (&gathered.predictions, &gathered.labels),
        _ => {
            (own_scores, own_labels) = (column(&gathered.predictions), column(&gathered.labels));
            (&own_scores, &own_labels)
        }
    };
    let weights = weights(labels, &gathered.weights, run.positive_weight);
    let predicted = Predicted { scores, labels, weights: &weights };
    let group = columns.group.as_ref().map(|(column, keys)| group_scores(column, keys, &predicted));
    let slices = columns.slices.iter();
    let slices =
        slices.map(|(name, column, keys)| slice_scores(name, keys, |key| column.name(key), &predicted));
    Ok(LabelScores {
        name: name.into(),
        evaluation: Evaluation::weighted(scores, labels, &weights)?,
        bins: weighted_bins(scores, labels, &weights, BINS)?,
        group,
        slices: slices.collect::<Result<_, _>>()?,
    })
}

/// Weight of each sample in the metrics of a label, as in its loss: of the sample × of clicks where the label is 1. Empty where
/// all weigh 1.
fn weights(labels: &[f32], of_samples: &[f32], positive: f32) -> Vec<f32> {
    if of_samples.is_empty() && positive == 1.0 {
        return Vec::new();
    }
    let weight = |(i, &label): (usize, &f32)| {
        let of_class = if label == 1.0 { positive } else { 1.0 };
        of_samples.get(i).copied().unwrap_or(1.0) * of_class
    };
    labels.iter().enumerate().map(weight).collect()
}
