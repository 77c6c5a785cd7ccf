//! What training reports, as records.

use super::metrics::{
    BEST_AUC, Bin, ByName, Cache, Eval, LabelEval, MetricValues, Phase, RankTables, RankTime, Sent, StepTime,
};
use spec::run::Run;
use training::metrics::{CalibrationBin, Evaluation};
use training::{CacheCounts, LabelScores, PhaseReport, Scores};

impl Cache {
    /// What was counted.
    pub fn of(counts: &CacheCounts) -> Self {
        let CacheCounts { rows, missing, bytes_read, bytes_written, stall_s, io_s } = *counts;
        let (hit_rate, missing_rows) = (counts.hit_rate(), missing);
        Self { hit_rate, rows, missing_rows, bytes_read, bytes_written, stall_s, io_s }
    }
}

impl Eval {
    /// An evaluation after `step` steps, with its breakdown and all labels.
    pub fn of_scores(step: u64, scores: &Scores) -> Self {
        let Scores { evaluation, bins, best_auc, group, slices, labels } = scores;
        let labels = labels.iter().map(|label| (label.name.clone(), LabelEval::of(label)));
        Self {
            group: group.clone(),
            slices: slices.clone(),
            labels: ByName(labels.collect()),
            ..Self::of(step, evaluation, *best_auc, bins)
        }
    }

    /// An evaluation after `step` steps.
    pub fn of(step: u64, evaluation: &Evaluation, best_auc: Option<f64>, bins: &[CalibrationBin]) -> Self {
        let mut metrics = MetricValues::default();
        for (field, value) in evaluation.metrics() {
            metrics.push(field, value);
            if field == "auc" && best_auc.is_some() {
                metrics.push(BEST_AUC, best_auc);
            }
        }
        Self {
            step,
            samples: evaluation.samples as u64,
            metrics,
            mean_prediction: evaluation.mean_prediction,
            click_rate: evaluation.click_rate,
            bins: bins.iter().map(Bin::from).collect(),
            ..Self::default()
        }
    }
}

impl LabelEval {
    /// Metrics of one of several labels.
    fn of(label: &LabelScores) -> Self {
        let mut metrics = MetricValues::default();
        label.evaluation.metrics().for_each(|(field, value)| metrics.push(field, value));
        Self {
            metrics,
            mean_prediction: label.evaluation.mean_prediction,
            click_rate: label.evaluation.click_rate,
            bins: label.bins.iter().map(Bin::from).collect(),
            group: label.group.clone(),
            slices: label.slices.clone(),
        }
    }
}

impl From<&CalibrationBin> for Bin {
    fn from(bin: &CalibrationBin) -> Self {
        Self { samples: bin.samples, mean_prediction: bin.mean_prediction, click_rate: bin.click_rate }
    }
}

impl From<&PhaseReport> for Phase {
    fn from(phase: &PhaseReport) -> Self {
        Self {
            name: phase.name.clone(),
            lane: phase.lane.to_string(),
            busy_s: phase.busy_s,
            communication_s: phase.communication_s,
            exposed_s: phase.exposed_s,
            sent: Sent { host: phase.sent.host, network: phase.sent.network },
            ranks: phase.ranks.iter().map(RankTime::from).collect(),
        }
    }
}

impl From<&training::RankTime> for RankTime {
    fn from(time: &training::RankTime) -> Self {
        let training::RankTime { busy_s, communication_s, exposed_s, .. } = *time;
        Self { busy_s, communication_s, exposed_s }
    }
}

impl From<training::StepTime> for StepTime {
    fn from(time: training::StepTime) -> Self {
        let training::StepTime { step_s, compute_s, communication_s, exposed_s, exposed_share } = time;
        Self { step_s, compute_s, communication_s, exposed_s, exposed_share }
    }
}

/// What each rank of a run holds.
pub fn placement(run: &Run) -> Vec<RankTables> {
    let topology = run.topology();
    let place = |rank| {
        let shards = run.placement.owned_by(rank);
        RankTables {
            rank: rank as u64,
            host: topology.host_of(rank) as u64,
            tables: shards.len() as u64,
            rows: shards.iter().map(|shard| shard.rows.len() as u64).sum(),
            towers: run.dataflow.sptt().map_or(0, |sptt| {
                let group = sptt.groups().group_of(rank);
                sptt.plan(group).towers.len() as u64
            }),
        }
    };
    (0..topology.ranks()).map(place).collect()
}

#[cfg(test)]
mod tests;
