//! `metrics.jsonl`: what happened in a run, one JSON object a line.
//!
//! ```text
//! {"event":"start","time":"2026-11-15T07:12:16Z","model":"dlrm","hosts":2,…}
//! {"event":"train","step":20,"samples":40960,"loss":0.6931,…}
//! {"event":"eval","step":400,"auc":0.7712,…}
//! {"event":"end","step":400,"seconds":51.2,…}
//! ```
//!
//! Readers pass over events they do not know, and over a last line that a killed run left unfinished. JSON has no NaN:
//! a loss that is none is written as `null`, and read as NaN.

mod by_name;
mod labels;

pub use by_name::ByName;
pub use labels::LabelEval;

use serde::{Deserialize, Deserializer, Serialize};
use training::metrics::breakdown::{GroupScores, SliceScores};

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum MetricsLine {
    /// The run begins.
    Start(Start),
    /// The run goes on from a checkpoint.
    Resume(Resume),
    /// Training, now and then.
    Train(Train),
    /// The model on samples it does not learn from.
    Eval(Eval),
    /// A checkpoint is complete.
    Checkpoint(Checkpoint),
    /// The run is over, or was asked to stop.
    End(End),
}

/// First line of the metrics: the run that begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// When, in RFC 3339.
    pub time: String,
    /// Campanile's version.
    pub version: String,
    /// The network over the embeddings.
    pub model: String,
    /// Parameters in tables and layers.
    pub parameters: u64,
    /// Number of hosts.
    pub hosts: u64,
    /// Ranks on each of them.
    pub ranks_per_host: u64,
    /// Threads of each rank.
    pub threads_per_rank: u64,
    /// Samples a step, over all ranks.
    pub batch: u64,
    /// Steps in all.
    pub steps: u64,
    /// Training samples of one epoch.
    pub samples: u64,
    /// Evaluation samples.
    pub eval_samples: u64,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Description of the data.
    pub data: String,
    /// Description of the dataflow and the towers; empty in older runs.
    #[serde(default)]
    pub dataflow: String,
    /// `real`, or `paced`: computations were only waited for. Older runs do not say, and are real.
    #[serde(default)]
    pub compute: String,
    /// The command line.
    pub command: Vec<String>,
}

/// Line of the metrics: the run is resumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// When, in RFC 3339.
    pub time: String,
    /// Steps done before.
    pub step: u64,
}

/// Training since the last such record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Train {
    /// Steps done.
    pub step: u64,
    /// Passes over the data so far.
    #[serde(deserialize_with = "number")]
    pub epoch: f64,
    /// Samples so far.
    pub samples: u64,
    /// Mean loss since the last record.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// AUC of all predictions so far, each made before its sample was learnt.
    pub auc: Option<f64>,
    /// Samples a second since the last record.
    #[serde(deserialize_with = "number")]
    pub samples_per_s: f64,
    /// Seconds of training since the start or the last resume.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// Learning rate of dense layers.
    #[serde(deserialize_with = "number")]
    pub rate_dense: f64,
    /// Learning rate of tables.
    #[serde(deserialize_with = "number")]
    pub rate_tables: f64,
    /// Tables larger than memory, since the last record; left out where all tables are in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
}

/// What tables larger than memory did, over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// Share of the rows that batches needed and that were in memory.
    #[serde(deserialize_with = "number")]
    pub hit_rate: f64,
    /// Different rows that batches needed, added up over batches and tables.
    pub rows: u64,
    /// Those that were not in memory.
    pub missing_rows: u64,
    /// Bytes that were read from files.
    pub bytes_read: u64,
    /// Bytes that were written to files.
    pub bytes_written: u64,
    /// Seconds for which the computation waited for rows; mean over ranks.
    #[serde(deserialize_with = "number")]
    pub stall_s: f64,
    /// Seconds for which rows were read and written, beside the computation; mean over ranks.
    #[serde(deserialize_with = "number")]
    pub io_s: f64,
}

/// Line of the metrics: an evaluation. `training::metrics` has the formulas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Eval {
    /// Steps done.
    pub step: u64,
    /// Samples evaluated.
    pub samples: u64,
    /// Metrics in the order of `training::metrics::METRICS`; [`BEST_AUC`] follows the AUC where it is known.
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
    /// Metrics of each label, if the model has several. The fields above are those of the first.
    #[serde(default, skip_serializing_if = "ByName::is_empty")]
    pub labels: ByName<LabelEval>,
}

/// Field of the AUC of the true probabilities, where the data is synthetic and they are known.
pub const BEST_AUC: &str = "best_auc";

/// Metrics of an evaluation by their JSON fields, in the order of the record. A record of another version may have others.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct MetricValues(ByName<Option<f64>>);

impl MetricValues {
    /// Appends a metric; `None` where it is undefined.
    pub fn push(&mut self, field: &str, value: Option<f64>) {
        self.0.0.push((field.to_owned(), value));
    }

    /// The value of a metric; `None` where it is undefined or was not recorded.
    pub fn get(&self, field: &str) -> Option<f64> {
        self.0.0.iter().find(|(name, _)| name == field).and_then(|(_, value)| *value)
    }
}

impl<'de> Deserialize<'de> for MetricValues {
    /// Reads fields that are numbers or `null`, and passes over others.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = ByName::<serde_json::Value>::deserialize(deserializer)?.0.into_iter();
        let metrics = fields.filter(|(_, value)| value.is_number() || value.is_null());
        Ok(Self(ByName(metrics.map(|(field, value)| (field, value.as_f64())).collect())))
    }
}

/// Samples whose predictions lie close together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Samples in the bin.
    pub samples: u64,
    /// Mean probability of these samples.
    #[serde(deserialize_with = "number")]
    pub mean_prediction: f64,
    /// Mean label of these samples.
    #[serde(deserialize_with = "number")]
    pub click_rate: f64,
}

/// A complete checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Steps done.
    pub step: u64,
    /// Folder of the checkpoint.
    pub path: String,
    /// Size of the checkpoint.
    pub bytes: u64,
    /// Step of the checkpoint that it builds on, where it is an increment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
    /// Seconds that training stood still for a copy.
    #[serde(deserialize_with = "number")]
    pub copy_s: f64,
    /// Seconds of writing, beside training.
    #[serde(deserialize_with = "number")]
    pub write_s: f64,
}

/// Last line of the metrics: the outcome of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Steps done.
    pub step: u64,
    /// Seconds of training since the start or the last resume.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// Samples a second over that time.
    #[serde(deserialize_with = "number")]
    pub samples_per_s: f64,
    /// Whether the run was stopped before its last step.
    pub interrupted: bool,
    /// Digest of all parameters; a paced run has none.
    #[serde(default)]
    pub parameters_sha256: Option<String>,
    /// Best state of the run; absent where it was not looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// Reason why the run stopped before its last step, in words; absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_early: Option<String>,
    /// Breakdown of the step time; absent in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_time: Option<StepTime>,
    /// Steps that `seconds` and the times of phases are about, where the first were left out. Bytes are those of all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_steps: Option<u64>,
    /// Times of each phase since the start or the last resume.
    pub phases: Vec<Phase>,
    /// Shards that each rank holds.
    pub placement: Vec<RankTables>,
    /// Threads of each rank.
    pub threads_per_rank: u64,
}

/// Best state of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Field of the metric that decided, such as `auc`.
    pub metric: String,
    /// Name of the metric in texts, such as `AUC`.
    pub label: String,
    /// Value of the metric.
    #[serde(deserialize_with = "number")]
    pub value: f64,
    /// Steps done.
    pub step: u64,
    /// Passes over the data.
    #[serde(deserialize_with = "number")]
    pub epoch: f64,
    /// Folder of the checkpoint; absent where none is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

/// One phase over all steps since the start or the last resume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Lane of the phase.
    pub lane: String,
    /// Seconds at work, mean over ranks.
    #[serde(deserialize_with = "number")]
    pub busy_s: f64,
    /// Seconds from its start until the transport had it done, mean over ranks. Older runs do not say.
    #[serde(default, deserialize_with = "number")]
    pub communication_s: f64,
    /// Seconds waited for with nothing else to do, mean over ranks.
    #[serde(deserialize_with = "number")]
    pub exposed_s: f64,
    /// Bytes sent by all ranks.
    pub sent: Sent,
    /// Times of the phase on each rank. Older runs do not say.
    #[serde(default)]
    pub ranks: Vec<RankTime>,
}

/// One phase on one rank, over all steps since the start or the last resume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankTime {
    /// Seconds at work.
    #[serde(deserialize_with = "number")]
    pub busy_s: f64,
    /// Seconds under way.
    #[serde(deserialize_with = "number")]
    pub communication_s: f64,
    /// Seconds waited for with nothing else to do.
    #[serde(deserialize_with = "number")]
    pub exposed_s: f64,
}

/// Breakdown of the step time, as means over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Seconds of a step.
    #[serde(deserialize_with = "number")]
    pub step_s: f64,
    /// Seconds at work in it.
    #[serde(deserialize_with = "number")]
    pub compute_s: f64,
    /// Seconds that its collectives were under way; those side by side count each.
    #[serde(deserialize_with = "number")]
    pub communication_s: f64,
    /// Seconds waited for them with nothing else to do.
    #[serde(deserialize_with = "number")]
    pub exposed_s: f64,
    /// Share of exposed communication in the step time.
    #[serde(deserialize_with = "number")]
    pub exposed_share: f64,
}

/// Bytes by what they cross.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Inside hosts.
    pub host: u64,
    /// Bytes sent between hosts.
    pub network: u64,
}

/// Tables that one rank holds (proposed name: `RankTables`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankTables {
    /// Number of the rank.
    pub rank: u64,
    /// Host of the rank.
    pub host: u64,
    /// Tables, or pieces of them.
    pub tables: u64,
    /// Rows of these tables.
    pub rows: u64,
    /// Towers whose modules it computes with the others of its group.
    #[serde(default)]
    pub towers: u64,
}

impl MetricsLine {
    /// The step and the numbers that TensorBoard shows; `None` for records without any.
    pub fn scalars(&self) -> Option<(u64, Vec<(String, f64)>)> {
        let (step, scalars) = match self {
            MetricsLine::Train(r) => {
                let scalars = [
                    // A paced run has none.
                    ("train/loss", Some(r.loss).filter(|loss| !loss.is_nan())),
                    ("train/auc", r.auc),
                    ("train/samples_per_s", Some(r.samples_per_s)),
                    ("train/epoch", Some(r.epoch)),
                    ("train/rate_dense", Some(r.rate_dense)),
                    ("train/rate_tables", Some(r.rate_tables)),
                ];
                (r.step, scalars.map(|(tag, value)| (tag.to_owned(), value)).to_vec())
            }
            MetricsLine::Eval(r) => {
                // What is best possible does not change from one evaluation to the next.
                let metrics = r.metrics.0.0.iter().filter(|(field, _)| field != BEST_AUC);
                let mut scalars: Vec<_> =
                    metrics.map(|(field, value)| (format!("eval/{field}"), *value)).collect();
                scalars.extend(r.group.iter().map(|group| ("eval/group_auc".to_owned(), group.auc)));
                for (name, label) in &r.labels.0 {
                    let of_label = label.metrics.0.0.iter();
                    scalars.extend(of_label.map(|(field, value)| (format!("eval/{name}/{field}"), *value)));
                }
                (r.step, scalars)
            }
            MetricsLine::Start(_)
            | MetricsLine::Resume(_)
            | MetricsLine::Checkpoint(_)
            | MetricsLine::End(_) => return None,
        };
        Some((step, scalars.into_iter().filter_map(|(tag, value)| Some((tag, value?))).collect()))
    }
}

/// The records of a file, and what was passed over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// In the order of the file.
    pub records: Vec<MetricsLine>,
    /// Whole lines that are no record known here.
    pub unknown: usize,
    /// Whether the last line is unfinished.
    pub torn: bool,
}

impl Records {
    /// Reads what can be read.
    pub fn parse(text: &str) -> Self {
        let mut read = Records::default();
        for line in text.split_inclusive('\n').filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(record) => read.records.push(record),
                Err(_) if line.ends_with('\n') => read.unknown += 1,
                Err(_) => read.torn = true,
            }
        }
        read
    }
}

/// The lines of a metrics file up to a step: those without a step, and those of no later one. An evaluation after that
/// very step goes, as it is made again. What is no JSON goes too.
pub fn up_to(text: &str, step: u64) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let Ok(record) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let again = record.get("event").is_some_and(|event| event == "eval");
        let after = |at: u64| at > step || (again && at == step);
        if !record.get("step").and_then(serde_json::Value::as_u64).is_some_and(after) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// A number, or the `null` that stands for one that is not finite.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
