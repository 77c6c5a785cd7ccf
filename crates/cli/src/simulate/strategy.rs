//! Strategies as flags: `fsdp` for all devices, or `tp,ddp` for devices of a node and for nodes.

use anyhow::{Context, Result, bail, ensure};
use planning::system::System;
use planning::workload::{Layered, Parallel, Strategies, Strategy};

/// Strategies of the classes of layers.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Flags {
    /// How MLPs are spread: ddp, fsdp or tp over all devices, or two of them, inside nodes first: tp,ddp [default: fsdp]
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub mlp: Option<String>,
    /// How tables are spread: mp (sharded) or ddp (replicated), or both [default: mp, for language models ddp]
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub embedding: Option<String>,
    /// How transformer layers are spread, as MLPs [default: fsdp]
    #[arg(long, value_name = "STRATEGY", help_heading = "Strategies of simulated models")]
    pub transformer: Option<String>,
}

impl Flags {
    /// Name of the first flag that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given =
            [("--mlp", &self.mlp), ("--embedding", &self.embedding), ("--transformer", &self.transformer)];
        given.into_iter().find(|(_, flag)| flag.is_some()).map(|(name, _)| name)
    }

    /// Strategies for a model: those given, and defaults for the others.
    pub fn strategies(&self, model: &Layered, system: &System) -> Result<Strategies> {
        let default = Strategies::default_for(model, system);
        let class = |flag: &str, given: &Option<String>, has: bool, of_tables: bool, default: Strategy| {
            let Some(text) = given else { return Ok(default) };
            ensure!(has, "{flag} {text}: {} has no such layers; leave it out", model.name);
            parse(text, of_tables, system).with_context(|| format!("{flag} {text}"))
        };
        let has_mlp = model.bottom_layers + model.top_layers > 0;
        Ok(Strategies {
            mlp: class("--mlp", &self.mlp, has_mlp, false, default.mlp)?,
            embedding: class(
                "--embedding",
                &self.embedding,
                model.sparse.is_some(),
                true,
                default.embedding,
            )?,
            transformer: class(
                "--transformer",
                &self.transformer,
                model.transformer.is_some(),
                false,
                default.transformer,
            )?,
        })
    }
}

fn parse(text: &str, of_tables: bool, system: &System) -> Result<Strategy> {
    let levels: Vec<Parallel> = text
        .split(',')
        .map(|name| name.trim().parse())
        .collect::<Result<_, planning::workload::WorkloadError>>()?;
    for &level in &levels {
        match (of_tables, level) {
            (true, Parallel::Fsdp | Parallel::Tp) => bail!("tables are mp or ddp, not {level}"),
            (false, Parallel::Mp) => bail!("MP applies to tables only; layers are ddp, fsdp or tp"),
            _ => {}
        }
    }
    match levels[..] {
        [one] => Ok(Strategy::flat(one, system)),
        [inside, between] if inside != between => Ok(Strategy::nested(inside, between, system)),
        [inside, _] => bail!("both levels are {inside}; give it once to use it on all devices"),
        _ => bail!(
            "{} levels, but a strategy has one or two: for all devices, or inside nodes and between them",
            levels.len()
        ),
    }
}
