//! Results of a sweep, for people and for programs.

use super::{RungRecord, Space};
use serde_json::{Value, json};
use std::path::PathBuf;
use training::metrics::Metric;

/// Results of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// All trials, best first: those that came further before others, and failed ones last.
    pub tried: Vec<TriedSetting>,
    /// Metric that decided.
    pub metric: &'static Metric,
    /// Number of rungs.
    pub rungs: usize,
    /// Settings that varied.
    pub space: Space,
    /// Rows that trials were compared on, in words.
    pub compared_on: String,
    /// The best setting on rows to evaluate on, where it was judged.
    pub judged: Option<FinalResult>,
    /// Folder of the sweep.
    pub folder: PathBuf,
}

/// Results of one trial.
#[derive(Clone, Debug)]
pub struct TriedSetting {
    /// Number of the trial, from 1.
    pub number: usize,
    /// Keys and values of the settings that vary.
    pub settings: Vec<(String, toml::Value)>,
    /// Results of the rungs that the trial had, at least one.
    pub rungs: Vec<RungRecord>,
    /// Steps of the trial's whole run.
    pub whole_steps: u64,
}

/// The best setting, trained on all training rows and judged on rows that no choice has seen.
#[derive(Clone, Debug)]
pub struct FinalResult {
    /// Result of the run.
    pub record: RungRecord,
}

impl TriedSetting {
    pub(super) fn new(
        number: usize,
        settings: Vec<(String, toml::Value)>,
        rungs: Vec<RungRecord>,
        whole_steps: u64,
    ) -> Option<Self> {
        (!rungs.is_empty()).then_some(Self { number, settings, rungs, whole_steps })
    }

    /// Result of the last rung that the trial had.
    pub fn last(&self) -> &RungRecord {
        &self.rungs[self.rungs.len() - 1]
    }

    /// A metric after the last rung; `None` where the trial failed.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        self.last().metric(metric.field)
    }

    /// Seconds of training in all rungs.
    pub fn seconds(&self) -> f64 {
        self.rungs.iter().map(|record| record.seconds).sum()
    }
}

impl Swept {
    /// The best trial; `None` where all failed.
    pub fn best(&self) -> Option<&TriedSetting> {
        self.tried.first().filter(|tried| tried.last().failed.is_none())
    }

    /// The table as cells: a head, and a row for each trial, best first.
    pub fn table(&self) -> Vec<Vec<String>> {
        let keys = self.space.settings().iter().map(|setting| setting.key().to_owned());
        let mut head = vec!["trial".to_owned()];
        head.extend(keys);
        head.extend(
            ["rung", "steps", &format!("validation {}", self.metric.label), "seconds"].map(String::from),
        );
        let mut rows = vec![head];
        for tried in &self.tried {
            let last = tried.last();
            let mut row = vec![tried.number.to_string()];
            row.extend(tried.settings.iter().map(|(_, value)| cell(value)));
            row.push(format!("{} of {}", last.rung, self.rungs));
            row.push(match &last.failed {
                None => format!("{} of {}", last.steps, tried.whole_steps),
                Some(_) => "–".into(),
            });
            row.push(match &last.failed {
                None => Metric::show(tried.value(self.metric)),
                Some(_) => "failed".into(),
            });
            row.push(format!("{:.1}", tried.seconds()));
            rows.push(row);
        }
        rows
    }

    /// A line for each trial that failed, with the cause.
    pub fn failures(&self) -> Vec<String> {
        let why =
            |tried: &TriedSetting| Some(format!("trial {}: {}", tried.number, tried.last().failed.as_ref()?));
        self.tried.iter().filter_map(why).collect()
    }

    /// Results as one object.
    pub fn to_json(&self) -> Value {
        let settings = |tried: &TriedSetting| -> Value {
            tried.settings.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
        };
        let one = |tried: &TriedSetting| {
            let last = tried.last();
            json!({
                "trial": tried.number,
                "settings": settings(tried),
                "rung": last.rung,
                "steps": last.steps,
                "whole_steps": tried.whole_steps,
                "best_step": last.best_step,
                "value": tried.value(self.metric),
                "metrics": last.metrics,
                "seconds": tried.seconds(),
                "parameters_sha256": last.parameters_sha256,
                "failed": last.failed,
            })
        };
        let judged = self.judged.as_ref().map(|FinalResult { record }| {
            json!({
                "trial": record.trial,
                "rows": "rows that no choice has seen",
                "samples": record.samples,
                "steps": record.steps,
                "value": record.metric(self.metric.field),
                "metrics": record.metrics,
                "seconds": record.seconds,
                "parameters_sha256": record.parameters_sha256,
                "failed": record.failed,
            })
        });
        json!({
            "metric": self.metric.field,
            "compared_on": self.compared_on,
            "rungs": self.rungs,
            "trials": self.tried.iter().map(one).collect::<Vec<_>>(),
            "best": self.best().map(one),
            "best_config": self.best().map(|_| self.folder.join("best.toml")),
            "final": judged,
        })
    }
}

/// A value as a cell of a table.
pub(super) fn cell(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => {
            format!("[{}]", values.iter().map(cell).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}
