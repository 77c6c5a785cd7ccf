//! Job: a task, a strategy for each class of layers, and batch sizes.

use super::{Layered, Level, Parallel, Strategies, Strategy, WorkloadError};
use crate::system::System;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A task on a system.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of the job.
    pub name: String,
    /// Task of the job.
    pub task: TaskKind,
    /// Strategy for each class of layers.
    pub strategies: Strategies,
    /// Samples of the devices that share a shard of the MLPs: with tensor parallelism of degree 8, of 8 devices.
    pub mlp_batch: f64,
    /// Samples of the devices that share the tables.
    pub embedding_batch: f64,
    /// Samples of a device in transformer layers.
    pub transformer_batch: f64,
}

/// Task that a model is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// Forward, backward, update.
    PreTraining,
    /// Training with some parts frozen.
    FineTuning(Frozen),
    /// Forward only.
    Inference,
}

/// Parts of a model that are not trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frozen {
    /// The bottom MLP.
    pub bottom: bool,
    /// The top MLP.
    pub top: bool,
    /// The tables.
    pub embedding: bool,
}

/// A task's file: MAD-Max's fields, in JSON or TOML.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The names are MAD-Max's.
pub struct JobFile {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub mlp_parallel: Option<Vec<String>>,
    pub mlp_parallel_degree: Option<Vec<usize>>,
    pub emb_parallel: Option<Vec<String>>,
    pub emb_parallel_degree: Option<Vec<usize>>,
    pub transformer_parallel: Option<Vec<String>>,
    pub transformer_parallel_degree: Option<Vec<usize>>,
    pub local_mlp_bs: Option<f64>,
    pub local_emb_bs: Option<f64>,
    pub local_transformer_bs: Option<f64>,
    pub freeze_top_mlp: Option<bool>,
    pub freeze_bot_mlp: Option<bool>,
    pub freeze_emb: Option<bool>,
}

impl Job {
    /// Pre-training with so many samples a device.
    pub fn pre_training(
        model: &Layered,
        strategies: &Strategies,
        per_device: usize,
        system: &System,
    ) -> Self {
        Self::new(model, TaskKind::PreTraining, strategies, per_device as f64, system)
    }

    /// A task with so many samples a device.
    pub fn new(
        model: &Layered,
        task: TaskKind,
        strategies: &Strategies,
        per_device: f64,
        system: &System,
    ) -> Self {
        let together = |strategy: &Strategy| {
            strategy.degree(|parallel| matches!(parallel, Parallel::Tp | Parallel::Mp)) as f64
        };
        Self {
            name: format!("{} of {} on {}", task, model.name, system.name),
            task,
            strategies: strategies.clone(),
            mlp_batch: per_device * together(&strategies.mlp),
            embedding_batch: per_device * together(&strategies.embedding),
            transformer_batch: per_device * together(&strategies.transformer),
        }
    }

    /// Builds the job that a file describes, for a model on a system.
    pub fn from_file(file: &JobFile, model: &Layered, system: &System) -> Result<Self, WorkloadError> {
        let task = file.task()?;
        let has_mlp = model.bottom_layers + model.top_layers > 0;
        let default = Strategies::default_for(model, system);
        let class = |names: &Option<Vec<String>>,
                     degrees: &Option<Vec<usize>>,
                     fields: (&'static str, &'static str),
                     has,
                     default| {
            let strategy = read(names, degrees, fields, has, default)?;
            strategy.check(fields.0, system)?;
            Ok::<Strategy, WorkloadError>(strategy)
        };
        let strategies = Strategies {
            mlp: class(
                &file.mlp_parallel,
                &file.mlp_parallel_degree,
                ("mlp_parallel", "mlp_parallel_degree"),
                has_mlp,
                default.mlp,
            )?,
            embedding: class(
                &file.emb_parallel,
                &file.emb_parallel_degree,
                ("emb_parallel", "emb_parallel_degree"),
                model.sparse.is_some(),
                default.embedding,
            )?,
            transformer: class(
                &file.transformer_parallel,
                &file.transformer_parallel_degree,
                ("transformer_parallel", "transformer_parallel_degree"),
                model.transformer.is_some(),
                default.transformer,
            )?,
        };
        let batches = [
            ("local_mlp_bs", file.local_mlp_bs, has_mlp),
            ("local_emb_bs", file.local_emb_bs, model.sparse.is_some()),
            ("local_transformer_bs", file.local_transformer_bs, model.transformer.is_some()),
        ];
        let mut job = Self::new(model, task, &strategies, 1.0, system);
        // Samples a device, as each field has them: all must say the same.
        let mut per_device: Option<(&str, f64)> = None;
        for ((field, given, has), one) in
            batches.into_iter().zip([job.mlp_batch, job.embedding_batch, job.transformer_batch])
        {
            let Some(given) = given.filter(|_| has) else { continue };
            if !(given > 0.0 && given <= 1e15) {
                return Err(WorkloadError::Number {
                    field: field.into(),
                    value: given,
                    must: "more than 0 and at most 1e15".into(),
                });
            }
            let samples = given / one;
            if let Some((other, expected)) = per_device
                && (samples / expected - 1.0).abs() > 1e-9
            {
                return Err(WorkloadError::Contradiction(format!(
                    "{field} is {given}, for {one} devices: {samples} samples a device; {other} makes it {expected}"
                )));
            }
            per_device = Some((field, samples));
        }
        let Some((_, per_device)) = per_device else {
            let field = if has_mlp { "local_mlp_bs" } else { "local_transformer_bs" };
            return Err(WorkloadError::Missing { field, kind: model.kind.to_string() });
        };
        job = Self::new(model, task, &strategies, per_device, system);
        job.name = file.name.clone();
        Ok(job)
    }

    /// Samples that the whole system takes in a step.
    pub fn samples(&self, model: &Layered, system: &System) -> f64 {
        let (batch, strategy) = match model.bottom_layers + model.top_layers {
            0 => (self.transformer_batch, &self.strategies.transformer),
            _ => (self.mlp_batch, &self.strategies.mlp),
        };
        batch * (system.devices() / strategy.degree(|parallel| parallel == Parallel::Tp).max(1)) as f64
    }
}

/// A strategy of a file.
fn read(
    names: &Option<Vec<String>>,
    degrees: &Option<Vec<usize>>,
    (field, degree_field): (&'static str, &'static str),
    has: bool,
    default: Strategy,
) -> Result<Strategy, WorkloadError> {
    let (Some(names), Some(degrees)) = (names, degrees) else {
        let missing = if names.is_none() { field } else { degree_field };
        return match (has, names.is_none() && degrees.is_none()) {
            (true, _) | (false, false) => Err(WorkloadError::Contradiction(format!(
                "{missing} is missing; give {field} and {degree_field} together, as [\"TP\", \"DDP\"] and [8, 16]"
            ))),
            (false, true) => Ok(default),
        };
    };
    if !has {
        return Ok(default);
    }
    if names.len() != degrees.len() {
        return Err(WorkloadError::Contradiction(format!(
            "{field} has {} levels and {degree_field} has {}; they must have the same",
            names.len(),
            degrees.len()
        )));
    }
    let levels =
        names.iter().zip(degrees).map(|(name, &degree)| Ok(Level { parallel: name.parse()?, degree }));
    Ok(Strategy(levels.collect::<Result<_, WorkloadError>>()?))
}

impl JobFile {
    fn task(&self) -> Result<TaskKind, WorkloadError> {
        let frozen = Frozen {
            bottom: self.freeze_bot_mlp.unwrap_or(false),
            top: self.freeze_top_mlp.unwrap_or(false),
            embedding: self.freeze_emb.unwrap_or(false),
        };
        let normal: String =
            self.kind.to_ascii_lowercase().chars().filter(char::is_ascii_alphabetic).collect();
        let task = match normal.as_str() {
            "pretrain" | "pretraining" | "train" | "training" => TaskKind::PreTraining,
            "finetune" | "finetuning" => TaskKind::FineTuning(frozen),
            "inference" | "infer" => TaskKind::Inference,
            _ => {
                let known = "pretraining, finetuning and inference";
                return Err(WorkloadError::Unknown { what: "task type", name: self.kind.clone(), known });
            }
        };
        if !matches!(task, TaskKind::FineTuning(_)) && frozen != Frozen::default() {
            return Err(WorkloadError::Contradiction(format!(
                "the task is {task}, and freezes parts (freeze_bot_mlp, freeze_top_mlp, freeze_emb): only fine-tuning does"
            )));
        }
        Ok(task)
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskKind::PreTraining => f.pad("pre-training"),
            TaskKind::FineTuning(frozen) => {
                let parts = [(frozen.bottom, "bottom"), (frozen.top, "top"), (frozen.embedding, "tables")];
                let names: Vec<&str> =
                    parts.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
                match names.is_empty() {
                    true => f.pad("fine-tuning"),
                    false => f.pad(&format!("fine-tuning ({} frozen)", names.join(", "))),
                }
            }
            TaskKind::Inference => f.pad("inference"),
        }
    }
}
