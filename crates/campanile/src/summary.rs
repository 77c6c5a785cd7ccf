//! Summary of a run as JSON, for programs.

use crate::evaluation::Evaluated;
use crate::folder::metrics::Cache;
use crate::train::WarmStarted;
use serde_json::json;
use spec::run::Run;
use spec::wire::WireConfig;
use training::metrics::METRICS;
use training::metrics::breakdown::{GroupScores, SliceScores};
use training::{KeptBest, LabelScores, Outcome, Scores};

/// The result as one object.
pub fn to_json(run: &Run, outcome: &Outcome, warm_start: Option<&WarmStarted>) -> serde_json::Value {
    let scores = outcome.scores.as_ref();
    let evaluation = scores.map(|scores| &scores.evaluation);
    let mut result = json!({
        "best_auc": scores.and_then(|s| s.best_auc),
        "eval_samples": evaluation.map(|e| e.samples),
        "samples_per_s": outcome.samples_per_s(),
        "seconds": outcome.seconds,
        "compute": if outcome.paced { "paced" } else { "real" },
        "overlap": run.overlap,
        "step_time": outcome.step_time(),
        "steps": outcome.steps,
        "timed_steps": outcome.timed,
        "sent_network_bytes": outcome.sent.network,
        "samples": outcome.samples,
        "interrupted": outcome.interrupted,
        "stopped_early": outcome.stopped_early.is_some(),
        "best": outcome.best.as_ref().map(best),
        "final_loss": outcome.losses.last(),
        "threads_per_rank": outcome.threads,
        "device": training::resolve_device(run.device, &run.precision).unwrap_or(run.device),
        "precision": run.precision,
        "dataflow": run.dataflow.kind(),
        "wire": WireConfig::explicit(run.wire),
        "all_reduce": run.all_reduce,
        "towers": run.model.towers().len(),
        "parameters_sha256": outcome.parameters_sha256,
        "reading_s": outcome.reading_s,
        "memory_bytes": outcome.memory.map(|need| need.total()),
        "phases": outcome.phases,
    });
    if let Some(cache) = &outcome.cache {
        result["cache"] = json!(Cache::of(cache));
    }
    if let Some(warm_start) = warm_start {
        result["warm_start"] = json!(warm_start);
    }
    if let Some(why) = why_stopped(outcome) {
        result["stop_reason"] = why.into();
    }
    if !run.regularised().is_empty() {
        result["regularisation"] = regularisation(run);
    }
    for metric in &METRICS {
        result[metric.field] = json!(evaluation.and_then(metric.of));
    }
    if run.positive_weight != 1.0 {
        result["positive_weight"] = json!(shortest(run.positive_weight));
    }
    if let Some(scores) = scores {
        add_breakdown(&mut result, scores);
    }
    result
}

/// The result of an evaluation as one object.
pub fn of_evaluation(evaluated: &Evaluated) -> serde_json::Value {
    let Evaluated { scores, step, checkpoint, used, .. } = evaluated;
    let evaluation = &scores.evaluation;
    let mut result = json!({
        "mean_prediction": evaluation.mean_prediction,
        "click_rate": evaluation.click_rate,
        "samples": evaluation.samples,
        "step": step,
        "checkpoint": checkpoint,
        "used": used.name(),
        "bins": scores.bins,
    });
    for (field, value) in evaluation.metrics() {
        result[field] = json!(value);
    }
    add_breakdown(&mut result, scores);
    result
}

/// Adds what an evaluation has besides the metrics of one label: `group` and `slices` where columns were requested, and
/// `labels` for a model with several.
pub fn add_breakdown(result: &mut serde_json::Value, scores: &Scores) {
    let Scores { group, slices, labels, .. } = scores;
    let add = |result: &mut serde_json::Value, group: &Option<GroupScores>, slices: &[SliceScores]| {
        if let Some(group) = group {
            result["group"] = json!(group);
        }
        if !slices.is_empty() {
            result["slices"] = json!(slices);
        }
    };
    add(result, group, slices);
    for label in labels {
        let LabelScores { name, evaluation, bins, group, slices } = label;
        let mut of_label = json!({
            "mean_prediction": evaluation.mean_prediction,
            "click_rate": evaluation.click_rate,
            "bins": bins,
        });
        for (field, value) in evaluation.metrics() {
            of_label[field] = json!(value);
        }
        add(&mut of_label, group, slices);
        result["labels"][name] = of_label;
    }
}

/// The best state of a run as one object.
fn best(best: &KeptBest) -> serde_json::Value {
    json!({
        "metric": best.metric,
        "value": best.evaluation.value,
        "step": best.evaluation.step,
        "epoch": best.epoch,
        "checkpoint": best.checkpoint,
        "metrics": best.evaluation.metrics,
    })
}

/// Reason why a run stopped before its last step, in words; `None` where it did not.
pub fn why_stopped(outcome: &Outcome) -> Option<String> {
    let evaluations = outcome.stopped_early?;
    let label = outcome.best.as_ref().map_or("metric", |best| best.label.as_str());
    let s = if evaluations == 1 { "" } else { "s" };
    Some(format!("{evaluations} evaluation{s} without a better {label}"))
}

/// Options of regularisation that are on, as an object: names as in a config, and values.
pub fn regularisation(run: &Run) -> serde_json::Value {
    run.regularised().into_iter().map(|(name, value)| (name.to_string(), json!(shortest(value)))).collect()
}

/// The number that a user wrote as an `f32`: 0.1, not 0.10000000149.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// Bytes that all ranks together send to other hosts in a step.
pub fn sent_between_hosts(outcome: &Outcome) -> u64 {
    let sent: u64 = outcome.phases.iter().map(|phase| phase.sent.network).sum();
    sent / outcome.trained.max(1)
}
