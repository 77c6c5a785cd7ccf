//! Layered models under strategies, as MAD-Max's figures need them.

use crate::error::Result;
use planning::cost::CostKind;
use planning::memory::Memory;
use planning::simulator::Simulation;
use planning::step::{StepGraph, Work};
use planning::system::System;
use planning::workload::{Activations, Job, LayerGroup, Layered, Parallel, Strategies, Strategy, TaskKind};

/// A model on a system, with a batch size for each device.
#[derive(Clone)]
pub struct Setting {
    pub model: Layered,
    pub system: System,
    pub batch: f64,
    pub task: TaskKind,
    pub cost: CostKind,
}

/// A simulated step of a setting under given strategies.
pub struct Outcome {
    pub strategies: Strategies,
    pub simulation: Simulation,
    pub memory: Memory,
    pub fits: bool,
}

impl Setting {
    /// Pre-training, by MAD-Max's rules.
    pub fn new(model: &str, system: &str, batch: f64) -> Result<Self> {
        Ok(Self {
            model: Layered::named(model)?,
            system: System::named(system)?,
            batch,
            task: TaskKind::PreTraining,
            cost: CostKind::MadMax,
        })
    }

    pub fn inference(self) -> Self {
        Self { task: TaskKind::Inference, ..self }
    }

    pub fn with_cost(self, cost: CostKind) -> Self {
        Self { cost, ..self }
    }

    pub fn run(&self, strategies: &Strategies) -> Result<Outcome> {
        let mut job = Job::new(&self.model, self.task, strategies, self.batch, &self.system);
        let mut step = job.step(&self.model, &self.system, self.cost.convention())?;
        if self.cost == CostKind::MadMax {
            as_in_the_paper(&mut step, &self.model, strategies);
            // The paper counts parameters, gradients and optimizer states: nothing of what lies inside layers.
            job.activations = Activations::Recompute;
        }
        let simulation = Simulation::new(&*self.cost.model(), &step, &self.system);
        let memory = Memory::of_job(&job, &self.model, &self.system);
        let fits = memory.fits(&self.system).is_ok();
        Ok(Outcome { strategies: strategies.clone(), simulation, memory, fits })
    }

    /// Simulates the baseline of MAD-Max: FSDP everywhere, tables model-parallel.
    pub fn baseline(&self) -> Result<Outcome> {
        self.run(&Strategies::default_for(&self.model, &self.system))
    }

    /// Simulates the setting with one strategy for MLPs and transformer layers.
    pub fn with(&self, strategy: &Strategy) -> Result<Outcome> {
        let embedding = Strategies::default_for(&self.model, &self.system).embedding;
        self.run(&Strategies::new(&self.model, strategy.clone(), strategy.clone(), embedding))
    }

    /// The strategies of MAD-Max: one level of DDP, FSDP or TP, or one inside nodes and another between them. FSDP has the
    /// first level only, with DDP between nodes.
    pub fn strategies(&self) -> Vec<Strategy> {
        use Parallel::{Ddp, Fsdp, Tp};
        let flat = [Ddp, Fsdp, Tp].map(|parallel| Strategy::flat(parallel, &self.system));
        let nested = [(Tp, Ddp), (Ddp, Tp), (Fsdp, Ddp)]
            .map(|(inside, between)| Strategy::nested(inside, between, &self.system));
        flat.into_iter().chain(nested).collect()
    }

    /// Every strategy of MLPs, of transformer layers and of tables that the model has, as the paper explores them.
    pub fn all(&self) -> Result<Vec<Outcome>> {
        use Parallel::{Ddp, Mp};
        let default = Strategies::default_for(&self.model, &self.system);
        let choices =
            |has: bool, default: &Strategy| if has { self.strategies() } else { vec![default.clone()] };
        let mlps = choices(self.model.top_layers > 0, &default.top);
        let transformers = choices(self.model.transformer.is_some(), &default.transformer);
        let mut tables = vec![default.embedding.clone()];
        if self.model.has_large_tables() {
            tables.push(Strategy::flat(Ddp, &self.system));
            tables.extend(
                [(Mp, Ddp), (Ddp, Mp)]
                    .map(|(inside, between)| Strategy::nested(inside, between, &self.system)),
            );
        }
        let mut outcomes = Vec::new();
        for mlp in &mlps {
            for transformer in &transformers {
                for embedding in &tables {
                    let (mlp, transformer) = (mlp.clone(), transformer.clone());
                    outcomes.push(self.run(&Strategies::new(
                        &self.model,
                        mlp,
                        transformer,
                        embedding.clone(),
                    ))?);
                }
            }
        }
        Ok(outcomes)
    }
}

/// Two rules of the paper's figures that are not those of the public tool today, found from the numbers that the text prints: replicas
/// inside nodes reduce whole layers, even where tensor parallelism between nodes has cut these (2.24 × for DLRM-A MoE, where the
/// tool's rule makes it 3.28); and all exchanges with experts are in the backward pass (5.27 and 12.13 × in inference, where
/// exchanges in both passes make it 4.45 and 8.27), as insight 4 says.
fn as_in_the_paper(step: &mut StepGraph, model: &Layered, strategies: &Strategies) {
    let replicas_of_shards = |strategy: &Strategy| match strategy.0[..] {
        [inside, between] if (inside.parallel, between.parallel) == (Parallel::Ddp, Parallel::Tp) => {
            between.degree as f64
        }
        _ => 1.0,
    };
    for op in &mut step.operations {
        let (Some((layer, _)), Work::Transfer(transfer)) = (op.label.layer, &mut op.work) else { continue };
        let strategy = match layer {
            "bottom" => &strategies.bottom,
            "top" if model.has(LayerGroup::Top) => &strategies.top,
            "feed-forward" if !model.has(LayerGroup::Experts) => &strategies.transformer,
            "attention" => &strategies.transformer,
            _ => &strategies.experts,
        };
        transfer.bytes *= match &*op.label.action {
            "all-reduce" => replicas_of_shards(strategy),
            "to experts" | "from experts" => 0.0,
            "gradients to experts" | "gradients from experts" => 2.0,
            _ => 1.0,
        };
    }
}

impl Outcome {
    pub fn throughput(&self) -> f64 {
        self.simulation.samples_per_s
    }

    /// The strategies of what the model has, for people.
    pub fn name(&self, model: &Layered) -> String {
        let Strategies { top, embedding, transformer, .. } = &self.strategies;
        let mut names = Vec::new();
        if model.top_layers > 0 {
            names.push(kinds(top));
        }
        if model.transformer.is_some() {
            names.push(kinds(transformer));
        }
        if model.has_large_tables() {
            names.push(kinds(embedding));
        }
        names.join(" ")
    }
}

/// `(TP, DDP)`: a strategy without its degrees.
pub fn kinds(strategy: &Strategy) -> String {
    let levels: Vec<String> = strategy.0.iter().map(|level| level.parallel.to_string()).collect();
    format!("({})", levels.join(", "))
}

/// The quickest of those that may be chosen.
pub fn best(outcomes: &[Outcome], within_memory: bool) -> Option<&Outcome> {
    let may = outcomes.iter().filter(|outcome| outcome.fits || !within_memory);
    may.max_by(|a, b| a.throughput().total_cmp(&b.throughput()))
}
