//! A step from the JSON that `campanile schedule` prints: rebuilt from the config in the file, and compared with its phases.

use crate::schedule::to_json;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use spec::run::{Config, Run};
use spec::schedule::{Schedule, Task};
use spec::volume::BatchSizes;
use std::path::Path;

/// A step to replay.
pub struct ReplayedStep {
    pub config: Config,
    pub run: Run,
    pub schedule: Schedule,
    /// Sizes of a typical batch, whatever the log: no data is read.
    pub sizes: BatchSizes,
}

/// Reads a schedule.
pub fn read(path: &Path) -> Result<ReplayedStep> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown}: cannot be read"))?;
    parse(&text).with_context(|| format!("{shown}"))
}

fn parse(text: &str) -> Result<ReplayedStep> {
    const AGAIN: &str = "write it with `campanile schedule … --json`";
    let file: Value =
        serde_json::from_str(text).with_context(|| format!("the file is not a schedule as JSON; {AGAIN}"))?;
    let (Some(config), Some(task)) = (file.get("config"), file.get("task")) else {
        bail!(
            "the file lacks the config or the task of the schedule, as files of older versions do; {AGAIN}"
        );
    };
    let config: Config = serde_json::from_value(config.clone()).context("its config")?;
    let task: Task = serde_json::from_value(task.clone()).context("its task")?;
    let run = planning::check(&config).context("its config")?;
    let schedule = run.schedule(task);
    let rebuilt = to_json(&schedule, run.batch, &config);
    if let Some(difference) = difference(&file["phases"], &rebuilt["phases"]) {
        bail!("{difference}: another version wrote it, or it was edited; {AGAIN}");
    }
    let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
    Ok(ReplayedStep { config, run, schedule, sizes })
}

/// First difference between the phases of a file and those that its config gives.
fn difference(file: &Value, rebuilt: &Value) -> Option<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (file, rebuilt) = (list(file), list(rebuilt));
    for (id, (ours, theirs)) in rebuilt.iter().zip(&file).enumerate() {
        let fields = ours.as_object().into_iter().flatten();
        if let Some((field, expected)) =
            fields.into_iter().find(|(field, value)| theirs.get(field) != Some(value))
        {
            let got = theirs.get(field).unwrap_or(&Value::Null);
            return Some(format!("phase {id} has {field} {got} where its config gives {expected}"));
        }
    }
    let (expected, got) = (rebuilt.len(), file.len());
    (expected != got).then(|| format!("it has {got} phases where its config gives {expected}"))
}
