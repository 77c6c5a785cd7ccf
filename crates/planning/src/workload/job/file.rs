//! A task's file.

use super::super::{LayerGroup, Layered, LayeredKind, Level, Parallel, Strategies, Strategy, WorkloadError};
use super::{Frozen, Job, LookupLoads, TaskKind};
use crate::system::System;
use serde::{Deserialize, Serialize};

/// A task's file: MAD-Max's fields, in JSON or TOML. Beyond these, bottom MLP, top MLP and experts may have a strategy of their own
/// (`bot_mlp_parallel`, `top_mlp_parallel`, `expert_parallel`), activations may be recomputed (`activations`), and lookups
/// unevenly spread (`lookup_loads`). `local_mlp_bs` is the batch of devices that share the top MLP or the experts. FSDP of a vision
/// model is FSDP+prefetch, since MAD-Max's vision tasks gather layers early under that name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The names are MAD-Max's.
pub struct JobFile {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub mlp_parallel: Option<Vec<String>>,
    pub mlp_parallel_degree: Option<Vec<usize>>,
    pub bot_mlp_parallel: Option<Vec<String>>,
    pub bot_mlp_parallel_degree: Option<Vec<usize>>,
    pub top_mlp_parallel: Option<Vec<String>>,
    pub top_mlp_parallel_degree: Option<Vec<usize>>,
    pub expert_parallel: Option<Vec<String>>,
    pub expert_parallel_degree: Option<Vec<usize>>,
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
    pub freeze_transformer: Option<bool>,
    pub freeze_experts: Option<bool>,
    /// The first transformer layer that is frozen with all after it.
    pub min_frozen_layer: Option<usize>,
    pub activations: Option<String>,
    pub lookup_loads: Option<Vec<f64>>,
}

/// A strategy as a file has it: names and degrees of its levels, and the names of both fields.
struct Given<'a> {
    names: &'a Option<Vec<String>>,
    degrees: &'a Option<Vec<usize>>,
    fields: (&'static str, &'static str),
}

impl Job {
    /// Builds the job that a file describes, for a model on a system.
    pub fn from_file(file: &JobFile, model: &Layered, system: &System) -> Result<Self, WorkloadError> {
        let task = file.task(model)?;
        let strategies = file.strategies(model, system)?;
        let mut job = Self::new(model, task, &strategies, 1.0, system);
        job.per_device = file.per_device(&job, model)?;
        job.name = file.name.clone();
        if let Some(activations) = &file.activations {
            job.activations = activations.parse()?;
        }
        if let Some(loads) = &file.lookup_loads {
            job.loads = LookupLoads::new(loads)?;
            job.loads.check(system)?;
        }
        // MAD-Max's files carry fields of other models along; ours do not.
        let own = [
            ("bot_mlp_parallel", file.bot_mlp_parallel.is_some(), LayerGroup::Bottom),
            ("top_mlp_parallel", file.top_mlp_parallel.is_some(), LayerGroup::Top),
            ("expert_parallel", file.expert_parallel.is_some(), LayerGroup::Experts),
            ("activations", file.activations.is_some(), LayerGroup::Transformer),
        ];
        match own.into_iter().find(|(_, given, group)| *given && !model.has(*group)) {
            Some((field, ..)) => Err(WorkloadError::Superfluous { field, kind: model.kind.to_string() }),
            None => Ok(job),
        }
    }
}

impl JobFile {
    fn strategies(&self, model: &Layered, system: &System) -> Result<Strategies, WorkloadError> {
        let mlp =
            given(&self.mlp_parallel, &self.mlp_parallel_degree, ("mlp_parallel", "mlp_parallel_degree"));
        let bottom = given(
            &self.bot_mlp_parallel,
            &self.bot_mlp_parallel_degree,
            ("bot_mlp_parallel", "bot_mlp_parallel_degree"),
        );
        let top = given(
            &self.top_mlp_parallel,
            &self.top_mlp_parallel_degree,
            ("top_mlp_parallel", "top_mlp_parallel_degree"),
        );
        let experts = given(
            &self.expert_parallel,
            &self.expert_parallel_degree,
            ("expert_parallel", "expert_parallel_degree"),
        );
        let transformer = given(
            &self.transformer_parallel,
            &self.transformer_parallel_degree,
            ("transformer_parallel", "transformer_parallel_degree"),
        );
        let tables =
            given(&self.emb_parallel, &self.emb_parallel_degree, ("emb_parallel", "emb_parallel_degree"));
        let of_experts = if model.has_large_tables() { &mlp } else { &transformer };
        let default = Strategies::default_for(model, system);
        // The strategy of a class: its own, or that of the class that it is a part of.
        let class = |group: LayerGroup, given: [&Given; 2]| {
            let chosen = given.into_iter().find(|given| given.is_there()).unwrap_or(given[1]);
            // Vision tasks may leave it out: what maps patches to tokens is replicated.
            let needed = model.has(group) && !(group == LayerGroup::Tables && model.kind == LayeredKind::Vit);
            let strategy = chosen.read(model.has(group), needed, default.of(group).clone())?;
            strategy.check(chosen.fields.0, system)?;
            Ok::<Strategy, WorkloadError>(strategy)
        };
        let mut strategies = Strategies {
            bottom: class(LayerGroup::Bottom, [&bottom, &mlp])?,
            top: class(LayerGroup::Top, [&top, &mlp])?,
            experts: class(LayerGroup::Experts, [&experts, of_experts])?,
            transformer: class(LayerGroup::Transformer, [&transformer; 2])?,
            embedding: class(LayerGroup::Tables, [&tables; 2])?,
        };
        if model.kind == LayeredKind::Vit {
            // MAD-Max's vision tasks gather layers early, and its files have no name for it.
            for level in &mut strategies.transformer.0 {
                if level.parallel == Parallel::Fsdp {
                    level.parallel = Parallel::FsdpPrefetch;
                }
            }
        }
        Ok(strategies)
    }

    /// Samples a device, as each field of a batch has them: all must say the same.
    fn per_device(&self, one: &Job, model: &Layered) -> Result<f64, WorkloadError> {
        let mlps = [LayerGroup::Top, LayerGroup::Experts, LayerGroup::Bottom];
        let mlp = mlps.into_iter().find(|&group| model.has(group) && model.top_layers > 0);
        let batches = [
            ("local_mlp_bs", self.local_mlp_bs, mlp),
            ("local_emb_bs", self.local_emb_bs, Some(LayerGroup::Tables)),
            ("local_transformer_bs", self.local_transformer_bs, Some(LayerGroup::Transformer)),
        ];
        let mut per_device: Option<(&str, f64)> = None;
        for (field, given, group) in batches {
            let Some(group) = group.filter(|&group| model.has(group)) else { continue };
            let Some(given) = given else { continue };
            if !(given > 0.0 && given <= 1e15) {
                return Err(WorkloadError::Number {
                    field: field.into(),
                    value: given,
                    must: "more than 0 and at most 1e15".into(),
                });
            }
            let together = one.batch(group);
            let samples = given / together;
            if let Some((other, expected)) = per_device
                && (samples / expected - 1.0).abs() > 1e-9
            {
                return Err(WorkloadError::Contradiction(format!(
                    "{field} is {given}, for {together} devices: {samples} samples a device; {other} makes it {expected}"
                )));
            }
            per_device = Some((field, samples));
        }
        let Some((_, per_device)) = per_device else {
            let field = if mlp.is_some() { "local_mlp_bs" } else { "local_transformer_bs" };
            return Err(WorkloadError::Missing { field, kind: model.kind.to_string() });
        };
        Ok(per_device)
    }

    fn task(&self, model: &Layered) -> Result<TaskKind, WorkloadError> {
        let is = |field: Option<bool>| field.unwrap_or(false);
        let layers = model.transformer.map_or(0, |transformer| transformer.layers);
        let frozen = Frozen {
            bottom: is(self.freeze_bot_mlp),
            top: is(self.freeze_top_mlp),
            experts: is(self.freeze_experts),
            transformer: is(self.freeze_transformer),
            // MAD-Max's files name the number of layers where none is frozen.
            transformer_from: self.min_frozen_layer.filter(|&first| first < layers),
            towers: false,
            embedding: is(self.freeze_emb),
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
                "the task is {task}, and freezes parts (freeze_bot_mlp, freeze_top_mlp, freeze_experts, freeze_transformer, \
                 min_frozen_layer, freeze_emb): only fine-tuning does"
            )));
        }
        Ok(task)
    }
}

fn given<'a>(
    names: &'a Option<Vec<String>>,
    degrees: &'a Option<Vec<usize>>,
    fields: (&'static str, &'static str),
) -> Given<'a> {
    Given { names, degrees, fields }
}

impl Given<'_> {
    fn is_there(&self) -> bool {
        self.names.is_some() || self.degrees.is_some()
    }

    /// The strategy; `default` where the model does not have such layers, or need not say how they are spread.
    fn read(&self, has: bool, needed: bool, default: Strategy) -> Result<Strategy, WorkloadError> {
        let (field, degree_field) = self.fields;
        let (Some(names), Some(degrees)) = (self.names, self.degrees) else {
            let missing = if self.names.is_none() { field } else { degree_field };
            return match needed || self.is_there() {
                true => Err(WorkloadError::Contradiction(format!(
                    "{missing} is missing; give {field} and {degree_field} together, as [\"TP\", \"DDP\"] and [8, 16]"
                ))),
                false => Ok(default),
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
}
