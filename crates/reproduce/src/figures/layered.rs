//! Layered models under strategies, as MAD-Max's figures need them.

use crate::error::Result;
use planning::cost::CostKind;
use planning::memory::Memory;
use planning::simulator::Simulation;
use planning::system::System;
use planning::workload::{Job, Layered, Parallel, Strategies, Strategy, TaskKind};

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
        let job = Job::new(&self.model, self.task, strategies, self.batch, &self.system);
        let step = job.step(&self.model, &self.system, self.cost.convention())?;
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
        let strategies = Strategies {
            mlp: strategy.clone(),
            transformer: strategy.clone(),
            ..Strategies::default_for(&self.model, &self.system)
        };
        self.run(&strategies)
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

    /// Every strategy of every class of layers that the model has; tables are sharded, or replicated.
    pub fn all(&self) -> Result<Vec<Outcome>> {
        let default = Strategies::default_for(&self.model, &self.system);
        let choices =
            |has: bool, default: &Strategy| if has { self.strategies() } else { vec![default.clone()] };
        let mlps = choices(self.model.top_layers > 0, &default.mlp);
        let transformers = choices(self.model.transformer.is_some(), &default.transformer);
        let mut tables = vec![default.embedding.clone()];
        if self.model.has_large_tables() {
            tables.push(Strategy::flat(Parallel::Ddp, &self.system));
        }
        let mut outcomes = Vec::new();
        for mlp in &mlps {
            for transformer in &transformers {
                for embedding in &tables {
                    let (mlp, transformer) = (mlp.clone(), transformer.clone());
                    let strategies = Strategies { mlp, transformer, embedding: embedding.clone() };
                    outcomes.push(self.run(&strategies)?);
                }
            }
        }
        Ok(outcomes)
    }
}

impl Outcome {
    pub fn throughput(&self) -> f64 {
        self.simulation.samples_per_s
    }

    /// The strategies of what the model has, for people.
    pub fn name(&self, model: &Layered) -> String {
        let Strategies { mlp, embedding, transformer } = &self.strategies;
        let mut names = Vec::new();
        if model.top_layers > 0 {
            names.push(kinds(mlp));
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
