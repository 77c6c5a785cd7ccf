//! Warnings about logs that can be trained on but look wrong.
//!
//! ```
//! use data::warnings::of_schema;
//! use spec::schema::{Schema, SparseColumn};
//! let mut schema = Schema::criteo();
//! assert!(of_schema(&schema).is_empty());
//! schema.sparse.push(SparseColumn::hashed("label".into()));
//! assert!(of_schema(&schema)[0].contains("label is also a feature"));
//! ```

use crate::Samples;
use serde::{Deserialize, Serialize};
use spec::schema::{Schema, Transform};

/// Number of rows below which no warning about order or columns is given.
const ENOUGH: u64 = 50;
/// Number of rows at the beginning whose numbers are examined: enough to recognize times, and cheap for long logs.
const LOOKED_AT: u64 = 100_000;
/// Share of the rows that must look like times for a column to count as one of times.
const NEARLY_ALL: f64 = 0.99;
/// Range of seconds since 1970 in the years 1998 to 2039.
const SECONDS: std::ops::Range<f64> = 0.9e9..2.2e9;
/// Units of time per second: seconds, milliseconds, microseconds and nanoseconds.
const UNITS: [f64; 4] = [1.0, 1e3, 1e6, 1e9];

/// Observations about a log, collected while it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noticed {
    /// Number of samples whose label differs from that of the sample before.
    pub label_changes: u64,
    /// Names of the dense columns whose numbers look like times since 1970.
    pub like_times: Vec<String>,
}

/// Collects observations about samples as they are read, in order.
#[derive(Clone, Debug)]
pub struct SampleObserver {
    last: Option<f32>,
    label_changes: u64,
    /// Number of rows whose numbers were examined.
    looked_at: u64,
    dense: Vec<ObservedColumn>,
}

#[derive(Clone, Debug)]
struct ObservedColumn {
    name: String,
    /// Range of times after the transform of the column, for each unit.
    times: [std::ops::Range<f32>; 4],
    missing: f32,
    like_times: u64,
    others: u64,
}

impl SampleObserver {
    /// Observer of samples with this schema.
    pub fn new(schema: &Schema) -> Self {
        let dense = schema.dense.iter().map(|column| ObservedColumn {
            name: column.column.clone(),
            times: UNITS.map(|unit| {
                let through = |x: f64| match column.transform {
                    Transform::None => (x * unit) as f32,
                    Transform::Log => (x * unit).ln_1p() as f32,
                    // Whoever chose another transform looked at the column; no input lies in an empty range.
                    _ => 0.0,
                };
                through(SECONDS.start)..through(SECONDS.end)
            }),
            missing: column.missing,
            like_times: 0,
            others: 0,
        });
        Self { last: None, label_changes: 0, looked_at: 0, dense: dense.collect() }
    }

    /// Adds samples to the observations.
    pub fn add(&mut self, samples: &Samples) {
        for label in samples.first_labels() {
            self.label_changes += u64::from(self.last.is_some_and(|last| last != label));
            self.last = Some(label);
        }
        let columns = self.dense.len();
        if columns == 0 {
            return;
        }
        let left = LOOKED_AT.saturating_sub(self.looked_at) as usize;
        for row in samples.dense.chunks_exact(columns).take(left) {
            self.looked_at += 1;
            for (column, value) in self.dense.iter_mut().zip(row) {
                if column.times.iter().any(|times| times.contains(value)) {
                    column.like_times += 1;
                } else if *value != column.missing {
                    column.others += 1;
                }
            }
        }
    }

    /// Returns the observations.
    pub fn noticed(&self) -> Noticed {
        let like_time = |column: &&ObservedColumn| {
            let seen = column.like_times + column.others;
            column.like_times >= ENOUGH
                && column.like_times >= self.looked_at / 2
                && column.like_times as f64 >= NEARLY_ALL * seen as f64
        };
        let like_times = self.dense.iter().filter(like_time).map(|column| column.name.clone()).collect();
        Noticed { label_changes: self.label_changes, like_times }
    }
}

/// Warnings about a schema.
pub fn of_schema(schema: &Schema) -> Vec<String> {
    let mut warnings = vec![];
    let is_input = |label: &str| {
        let dense = schema.dense.iter().map(|column| &column.column);
        let weights = schema.sparse.iter().filter_map(|column| column.weights.as_ref());
        let sparse = schema.sparse.iter().map(|column| &column.column);
        dense.chain(sparse).chain(weights).any(|column| column == label)
    };
    for label in schema.all_labels().map(|label| label.column).filter(|label| is_input(label)) {
        warnings.push(format!(
            "column {label:?}: the label is also a feature, so the model is told the answer; take it out of the schema's \
             inputs"
        ));
    }
    if let Some(time) = schema.time.as_deref()
        && schema.dense.iter().any(|dense| dense.column == time)
    {
        warnings.push(of_time(time));
    }
    warnings
}

/// Warnings about the samples of a log.
pub fn of_samples(schema: &Schema, samples: u64, clicks: u64, noticed: &Noticed) -> Vec<String> {
    let mut warnings = vec![];
    if samples >= ENOUGH && clicks > 0 && clicks < samples && noticed.label_changes <= 2 {
        warnings.push(sorted(noticed.label_changes, samples));
    }
    let known = schema.time.as_deref();
    let times = noticed.like_times.iter().filter(|&column| Some(column.as_str()) != known);
    warnings.extend(times.map(|column| of_time(column)));
    warnings
}

/// Warning about a log that is sorted by label: the label changes only this often over its samples.
pub fn sorted(changes: u64, samples: u64) -> String {
    let times = if changes == 1 { "once".into() } else { format!("{changes} times") };
    format!(
        "the log is sorted by label, which changes {times} in {samples} rows: in this order steps see one label only, and so \
         does a split by it; mix the rows (shuf), or name a column of time with --split-by"
    )
}

fn of_time(column: &str) -> String {
    format!(
        "column {column:?}: a time used as a number grows beyond all that was trained on; name it as `time` in the schema \
         and take it out of [[dense]], or use parts of it such as the hour"
    )
}

#[cfg(test)]
mod tests;
