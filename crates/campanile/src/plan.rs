//! Plans: which ranks hold which rows and columns of each table, found by a planner that says why.
//!
//! ```
//! use campanile::Config;
//! use campanile::plan::Planning;
//! let run = planning::check(&Config::default()).unwrap();
//! let planned = Planning::new(run).plan().unwrap();
//! assert_eq!(planned.to_json()["fits"], true);
//! // The plan as a file, which `train --plan` executes.
//! assert_eq!(planned.file().tables.len(), 26);
//! ```

mod fit;
mod json;
mod words;

pub use fit::{auto, explanation};
pub use json::{difference_to_json, unfit_to_json};
pub use words::in_words;

use planning::cost::CostKind;
use planning::planner::{MemoryLimit, Plan, Search, Unfit, Weights};
use planning::system::System;
use planning::{PlanOptions, plan_run};
use spec::plan::PlanFile;
use spec::run::Run;
use spec::statistics::LogStatistics;

/// A run whose tables are to be planned. Everything but the run is optional.
#[derive(Clone, Debug)]
pub struct Planning {
    run: Run,
    statistics: Option<LogStatistics>,
    memory: Option<MemoryLimit>,
    system: System,
    cost: CostKind,
    weights: Weights,
    search: Search,
}

/// A plan of a run's tables, and what it was made for.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Request that the plan answers.
    pub asked: Planning,
    /// Placement of the tables, loads of the ranks, and the reasons.
    pub plan: Plan,
}

impl Planning {
    /// Plans the tables of `run`, whose own placement does not matter: on ranks of CPUs, by the best search, without a memory
    /// limit.
    pub fn new(run: Run) -> Self {
        Self {
            statistics: None,
            memory: None,
            system: System::cpu(run.topology()),
            cost: CostKind::Hierarchical,
            weights: Weights::default(),
            search: Search::Best,
            run,
        }
    }

    /// Uses the counts of a real log.
    pub fn statistics(self, statistics: Option<LogStatistics>) -> Self {
        Self { statistics, ..self }
    }

    /// Limits the memory of every rank.
    pub fn memory(self, memory: Option<MemoryLimit>) -> Self {
        Self { memory, ..self }
    }

    /// Prices on this hardware, laid on the hosts and ranks of the run.
    pub fn system(self, system: System) -> Self {
        Self { system: system.on(self.run.topology()), ..self }
    }

    /// Prices by this cost model.
    pub fn cost(self, cost: CostKind) -> Self {
        Self { cost, ..self }
    }

    /// Weighs communication, computation and imbalance.
    pub fn weights(self, weights: Weights) -> Self {
        Self { weights, ..self }
    }

    /// Searches in this way.
    pub fn search(self, search: Search) -> Self {
        Self { search, ..self }
    }

    /// The run whose tables are planned.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Makes the plan.
    pub fn plan(self) -> Result<Planned, Unfit> {
        let cost = self.cost.model();
        let plan = plan_run(
            &self.run,
            &PlanOptions {
                statistics: self.statistics.as_ref(),
                memory: self.memory,
                system: &self.system,
                cost: cost.as_ref(),
                weights: self.weights,
                search: self.search,
            },
        )?;
        Ok(Planned { plan, asked: self })
    }
}

impl Planned {
    /// The plan as a file.
    pub fn file(&self) -> PlanFile {
        let run = &self.asked.run;
        let hosts_per_tower = run.dataflow.sptt().map(|sptt| sptt.groups().hosts_per_group());
        let memory_bytes = self.plan.ranks.iter().map(|rank| rank.memory_bytes).collect();
        PlanFile { memory_bytes, ..PlanFile::of(&run.model, &self.plan.placement, hosts_per_tower) }
    }

    /// Name, number of rows and embedding dimension of a table.
    pub fn table(&self, feature: usize) -> (&str, usize, usize) {
        let model = &self.asked.run.model;
        let of_table = &model.features()[feature];
        (&of_table.name, of_table.rows, model.dim_of(feature))
    }

    /// Ranks that hold a shard of a table, in ascending order.
    pub fn ranks_of(&self, feature: usize) -> Vec<usize> {
        let shards = self.plan.placement.shards_of(feature).iter();
        let mut ranks: Vec<usize> = shards.flat_map(|shard| shard.holders.ranks().iter().copied()).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Name of the search that found the plan.
    pub fn search(&self) -> &'static str {
        self.asked.search.name()
    }

    /// What the plan was made for, in a line.
    pub fn described(&self) -> String {
        let Planning { run, system, cost, memory, .. } = &self.asked;
        let (topology, tables) = (run.topology(), run.model.features().len());
        let groups = match run.dataflow.sptt() {
            None => "flat".into(),
            Some(sptt) => format!("sptt, {} per tower", count(sptt.groups().hosts_per_group(), "host")),
        };
        let memory = match memory {
            None => "no memory limit".into(),
            Some(MemoryLimit { bytes_per_rank, reserve }) => {
                format!("{} a rank, {:.0} % in reserve", pages::text::bytes(*bytes_per_rank), 100.0 * reserve)
            }
        };
        format!(
            "{} on {} × {}, {groups}; batch {}; {memory}; priced by {cost} on {}",
            count(tables, "table"),
            count(topology.hosts(), "host"),
            count(topology.ranks_per_host(), "rank"),
            run.batch,
            system.name
        )
    }
}

/// A number of things, as `1 host` or `2 hosts`.
fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
