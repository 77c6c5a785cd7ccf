//! Tasks of a simulated model: by name, or from a file.

use super::read::Described;
use anyhow::{Context, Result, bail};
use planning::workload::{JobFile, TaskKind};
use std::path::Path;

/// A task as the user named it.
pub enum RequestedTask {
    /// A task by its name.
    Kind(TaskKind),
    /// A task file with strategies and batch sizes, and its path.
    File(Box<JobFile>, String),
}

const KNOWN: &str = "use pretrain, inference or finetune[:bot,top,experts,transformer,transformer>=N,towers,emb] (the parts that are not trained), \
                     or give a .json or .toml file";

/// A task by its name or from its file.
pub fn task(text: &str) -> Result<RequestedTask> {
    let (name, frozen) = text.split_once(':').map_or((text, None), |(name, frozen)| (name, Some(frozen)));
    Ok(RequestedTask::Kind(match (name, frozen) {
        ("pretrain", None) => TaskKind::PreTraining,
        ("inference", None) => TaskKind::Inference,
        ("finetune", frozen) => {
            let frozen = frozen.unwrap_or("").parse().with_context(|| format!("--task {text}"))?;
            TaskKind::FineTuning(frozen)
        }
        _ if Path::new(text).extension().is_some() => {
            let file = Described::read(text).with_context(|| format!("--task {text}: {KNOWN}"))?;
            return Ok(RequestedTask::File(file.parse()?, file.name()));
        }
        _ => bail!("--task {text}: {KNOWN}"),
    }))
}
