//! Tables of a model that are tensor trains.

use super::block::BlockName;
use super::layer::Parameter;
use super::{Model, ModelError, Tower};
use crate::feature::Feature;
use crate::tensor_train::TensorTrain;

/// Refuses ranks that no tensor train has, and number formats of tensor trains.
pub(super) fn check(features: &[Feature], widths: &[usize]) -> Result<(), ModelError> {
    for (i, (feature, &width)) in features.iter().zip(widths).enumerate() {
        let Some(rank) = rank_of(feature) else { continue };
        let field = |key: &str| format!("model.features[{i}].{key} ({})", feature.name);
        TensorTrain::new(feature.rows, width, rank)
            .map_err(|problem| ModelError::new(field("tt_rank"), problem))?;
        if let Some(format) = feature.format.filter(|format| format.rounds()) {
            let problem = format!(
                "the cores of a tensor train are f32, not {format}; leave the format out, or tt_rank"
            );
            return Err(ModelError::new(field("format"), problem));
        }
    }
    Ok(())
}

/// Refuses towers that read slices of a tensor train, which is not cut.
pub(super) fn check_towers(
    features: &[Feature],
    widths: &[usize],
    towers: &[Tower],
) -> Result<(), ModelError> {
    let sliced = |&f: &usize| rank_of(&features[f]).is_some() && is_sliced(f, widths[f], towers);
    match (0..features.len()).find(sliced) {
        None => Ok(()),
        Some(f) => Err(ModelError::new(
            format!("model.features[{f}].tt_rank ({})", features[f].name),
            "several towers read slices of its columns, but a tensor train is not cut; leave tt_rank out, or give the feature to one tower",
        )),
    }
}

/// Whether some tower reads a slice of a feature's columns.
fn is_sliced(feature: usize, width: usize, towers: &[Tower]) -> bool {
    let mut members = towers.iter().flat_map(|tower| &tower.members);
    members.any(|member| member.feature == feature && member.columns != (0..width))
}

/// Rank of the tensor train that a feature asks for; 0 asks for rows.
pub(super) fn rank_of(feature: &Feature) -> Option<usize> {
    feature.tt_rank.filter(|&rank| rank > 0)
}

impl Model {
    /// The model with tensor trains of `rank` for tables of at least `rows` rows, where a feature says nothing else
    /// and no tower reads a slice of it.
    pub fn with_tensor_trains(mut self, rank: usize, rows: usize) -> Result<Self, ModelError> {
        for f in 0..self.features.len() {
            let width = self.row_width(f);
            if is_sliced(f, width, &self.towers) {
                continue;
            }
            let feature = &mut self.features[f];
            // What the feature itself asks for goes first.
            let keeps_rows =
                feature.tt_rank.is_some() || feature.format.is_some_and(|format| format.rounds());
            if !keeps_rows && feature.rows >= rows && rank > 0 {
                let made = TensorTrain::new(feature.rows, width, rank);
                made.map_err(|problem| {
                    ModelError::new("tables.tt_rank (--tt-rank)", format!("{}: {problem}", feature.name))
                })?;
                feature.tt_rank = Some(rank);
            }
        }
        Ok(self)
    }

    /// Shape of the tensor train that the table of a feature is; `None` for a table of rows.
    pub fn tensor_train(&self, feature: usize) -> Option<TensorTrain> {
        let of = &self.features[feature];
        TensorTrain::new(of.rows, self.row_width(feature), rank_of(of)?).ok()
    }

    /// Features whose tables are tensor trains.
    pub fn tensor_trains(&self) -> impl Iterator<Item = (usize, TensorTrain)> {
        (0..self.features.len()).filter_map(|feature| Some((feature, self.tensor_train(feature)?)))
    }

    /// Cores of the table of a feature; none for a table of rows.
    pub fn cores_of(&self, feature: usize) -> Vec<Parameter> {
        let Some(train) = self.tensor_train(feature) else { return Vec::new() };
        let Feature { name, rows, .. } = &self.features[feature];
        let core = |core: usize| Parameter {
            name: format!("tables.{name}.core.{core}"),
            owner: (BlockName::TENSOR_TRAINS, feature),
            shape: vec![train.rows[core], train.slices()[core]],
            len: train.cores()[core],
            bound: train.initial_bound(*rows),
        };
        (0..3).map(core).collect()
    }

    /// Part of [`training_flops`](Model::training_flops) that tensor trains account for, if no two samples of a batch name the same row.
    pub fn tensor_train_flops(&self) -> u64 {
        let of = |(feature, train): (usize, TensorTrain)| {
            self.features[feature].hotness.mean() * (train.row_flops() + train.gradient_flops())
        };
        self.tensor_trains().map(of).sum()
    }
}
