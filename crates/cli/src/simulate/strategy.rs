//! Strategies as flags: `fsdp` for all devices, or `tp,ddp` for devices of a node and for nodes.

use anyhow::{Context, Result, bail, ensure};
use planning::system::System;
use planning::workload::{
    Activations, Job, LayerGroup, Layered, LookupLoads, Parallel, Strategies, Strategy, TaskKind,
};

/// Strategies of the classes of layers.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Flags {
    /// How MLPs are spread: ddp, fsdp, fsdp+prefetch (layers are gathered early) or tp over all devices, or two of them, inside nodes
    /// first: tp,ddp [default: fsdp]
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub mlp: Option<String>,
    /// How the bottom MLP is spread, if otherwise than --mlp says
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub bottom: Option<String>,
    /// How the top MLP is spread, if otherwise than --mlp says
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub top: Option<String>,
    /// How experts are spread, if otherwise than the MLPs or transformer layers that they stand for
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub experts: Option<String>,
    /// How tables are spread: mp (sharded) or ddp (replicated), or both [default: mp, for language models ddp]
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub embedding: Option<String>,
    /// How transformer layers are spread, as MLPs [default: fsdp]
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub transformer: Option<String>,
    /// What transformer layers keep for the backward pass: keep (all that it needs) or recompute (the output of each layer alone:
    /// activation checkpointing) [default: keep]
    #[arg(long, value_name = "CHOICE", help_heading = "Strategies of simulated models")]
    pub activations: Option<Activations>,
    /// Lookups of devices beside each other, repeated over all devices: 1,1,1,2 has every fourth look up twice as much as the
    /// others [default: all alike]
    #[arg(long, value_name = "N,N…", value_delimiter = ',', help_heading = "Strategies of simulated models")]
    pub lookup_loads: Option<Vec<f64>>,
}

impl Flags {
    /// Name of the first flag that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--mlp", self.mlp.is_some()),
            ("--bottom", self.bottom.is_some()),
            ("--top", self.top.is_some()),
            ("--experts", self.experts.is_some()),
            ("--embedding", self.embedding.is_some()),
            ("--transformer", self.transformer.is_some()),
            ("--activations", self.activations.is_some()),
            ("--lookup-loads", self.lookup_loads.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The job of a task with these strategies, and defaults for what was not given.
    pub fn job(&self, model: &Layered, task: TaskKind, per_device: f64, system: &System) -> Result<Job> {
        let strategies = self.strategies(model, system)?;
        let mut job = Job::new(model, task, &strategies, per_device, system);
        if let Some(activations) = self.activations {
            ensure!(
                activations == Activations::Keep || model.has(LayerGroup::Transformer),
                "--activations {activations}: {} has no transformer layers, and all others have nothing to compute again",
                model.name
            );
            job.activations = activations;
        }
        if let Some(loads) = &self.lookup_loads {
            job.loads = LookupLoads::new(loads).context("--lookup-loads")?;
        }
        Ok(job)
    }

    /// Strategies for a model: those given, and defaults for the others.
    fn strategies(&self, model: &Layered, system: &System) -> Result<Strategies> {
        let class = |flag: &str, given: &Option<String>, groups: &[LayerGroup]| {
            let Some(text) = given else { return Ok(None) };
            let has = groups.iter().any(|&group| model.has(group));
            ensure!(has, "{flag} {text}: {} has no such layers; leave it out", model.name);
            let of_tables = groups == [LayerGroup::Tables];
            parse(text, of_tables, system).with_context(|| format!("{flag} {text}")).map(Some)
        };
        use LayerGroup::{Bottom, Experts, Tables, Top, Transformer};
        let mut strategies = Strategies::default_for(model, system);
        let mlps: &[LayerGroup] = if model.has_large_tables() { &[Bottom, Top, Experts] } else { &[] };
        if let Some(mlp) = class("--mlp", &self.mlp, mlps)? {
            strategies = strategies.with_mlp(model, mlp);
        }
        if let Some(transformer) = class("--transformer", &self.transformer, &[Transformer])? {
            strategies = strategies.with_transformer(model, transformer);
        }
        if let Some(bottom) = class("--bottom", &self.bottom, &[Bottom])? {
            strategies.bottom = bottom;
        }
        if let Some(top) = class("--top", &self.top, &[Top])? {
            strategies.top = top;
        }
        if let Some(experts) = class("--experts", &self.experts, &[Experts])? {
            strategies.experts = experts;
        }
        if let Some(embedding) = class("--embedding", &self.embedding, &[Tables])? {
            strategies.embedding = embedding;
        }
        Ok(strategies)
    }
}

fn parse(text: &str, of_tables: bool, system: &System) -> Result<Strategy> {
    let levels: Vec<Parallel> = text
        .split(',')
        .map(|name| name.trim().parse())
        .collect::<Result<_, planning::workload::WorkloadError>>()?;
    for &level in &levels {
        match (of_tables, level) {
            (true, Parallel::Fsdp | Parallel::FsdpPrefetch | Parallel::Tp) => {
                bail!("tables are mp or ddp, not {level}")
            }
            (false, Parallel::Mp) => {
                bail!("MP applies to tables only; layers are ddp, fsdp, fsdp+prefetch or tp")
            }
            _ => {}
        }
    }
    match levels[..] {
        [one] => Ok(Strategy::flat(one, system)),
        [inside, between] if !inside.is_like(between) => Ok(Strategy::nested(inside, between, system)),
        [inside, _] => bail!("both levels are {inside}; give it once to use it on all devices"),
        _ => bail!(
            "{} levels, but a strategy has one or two: for all devices, or inside nodes and between them",
            levels.len()
        ),
    }
}
