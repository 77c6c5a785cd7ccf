//! Tasks of a simulated model: by name, or from a file.

use super::read::Described;
use anyhow::{Context, Result, bail};
use planning::workload::{Frozen, JobFile, TaskKind};
use std::path::Path;

/// A task as the user named it.
pub enum RequestedTask {
    /// A task by its name.
    Kind(TaskKind),
    /// A task file with strategies and batch sizes, and its path.
    File(Box<JobFile>, String),
}

const KNOWN: &str = "use pretrain, inference or finetune[:bot,top,emb] (the parts that are not trained), \
                     or give a .json or .toml file";

/// A task by its name or from its file.
pub fn task(text: &str) -> Result<RequestedTask> {
    let (name, frozen) = text.split_once(':').map_or((text, None), |(name, frozen)| (name, Some(frozen)));
    Ok(RequestedTask::Kind(match (name, frozen) {
        ("pretrain", None) => TaskKind::PreTraining,
        ("inference", None) => TaskKind::Inference,
        ("finetune", frozen) => TaskKind::FineTuning(parts(text, frozen.unwrap_or(""))?),
        _ if Path::new(text).extension().is_some() => {
            let file = Described::read(text).with_context(|| format!("--task {text}: {KNOWN}"))?;
            return Ok(RequestedTask::File(file.parse()?, file.name()));
        }
        _ => bail!("--task {text}: {KNOWN}"),
    }))
}

fn parts(text: &str, names: &str) -> Result<Frozen> {
    let mut frozen = Frozen::default();
    for name in names.split(',').filter(|_| !names.is_empty()) {
        let part = match name.trim() {
            "bot" => &mut frozen.bottom,
            "top" => &mut frozen.top,
            "emb" => &mut frozen.embedding,
            _ => bail!("--task {text}: unknown part of a model {name:?}; use bot, top or emb"),
        };
        if std::mem::replace(part, true) {
            bail!("--task {text}: {name} is named twice");
        }
    }
    Ok(frozen)
}
