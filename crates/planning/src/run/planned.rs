//! Plans of runs: the request to the planner that follows from a run.

use crate::cost::{CostModel, Hierarchical};
use crate::planner::{self, MemoryLimit, Plan, Request, Search, Unfit, Weights};
use crate::system::System;
use spec::placement::Placement;
use spec::run::{Config, PlacementConfig, Run, RunError};
use spec::statistics::LogStatistics;

/// What a planner may use for the tables of a run, besides the run.
#[derive(Clone, Copy)]
pub struct PlanOptions<'a> {
    /// Statistics of the log that the run trains on; without them ids are taken as equally frequent.
    pub statistics: Option<&'a LogStatistics>,
    /// Memory that a rank may use; `None` for any amount.
    pub memory: Option<MemoryLimit>,
    /// Hardware that the ranks run on.
    pub system: &'a System,
    /// Cost model that prices lookups, updates and messages.
    pub cost: &'a dyn CostModel,
    /// Weights of communication, computation and imbalance.
    pub weights: Weights,
    /// Search over placements.
    pub search: Search,
}

impl<'a> PlanOptions<'a> {
    /// Options for the best search on `system` without a memory limit.
    pub fn new(system: &'a System, cost: &'a dyn CostModel) -> Self {
        Self {
            statistics: None,
            memory: None,
            system,
            cost,
            weights: Weights::default(),
            search: Search::Best,
        }
    }

    /// Request to the planner for the tables of `run`, whose own placement does not matter.
    pub fn request(&self, run: &'a Run) -> Request<'a> {
        let PlanOptions { statistics, memory, system, cost, weights, search } = *self;
        Request {
            model: &run.model,
            topology: run.topology(),
            groups: run.dataflow.sptt().map(|sptt| sptt.groups()),
            batch: run.batch,
            wire: run.wire,
            tables: run.table_optimizer.update,
            statistics,
            memory,
            system,
            cost,
            weights,
            search,
            schemes: None,
        }
    }
}

/// Plans the tables of `run`, whose own placement does not matter.
pub fn plan_run(run: &Run, options: &PlanOptions) -> Result<Plan, Unfit> {
    planner::plan(&options.request(run))
}

/// Placement of `placement.plan = "auto"` where nothing is known of the machines: without a memory limit, on ranks of CPUs.
pub(super) fn auto(run: &Run) -> Result<Placement, RunError> {
    let (system, cost) = (System::cpu(run.topology()), Hierarchical::default());
    let plan = plan_run(run, &PlanOptions::new(&system, &cost));
    Ok(plan.map_err(|unfit| RunError::new("placement.plan", unfit.to_string()))?.placement)
}

/// Refuses a plan beside other keys that place tables.
pub(super) fn check_alone(config: &Config) -> Result<(), RunError> {
    let PlacementConfig { replicate_rows, cut, tables, plan } = &config.placement;
    let others = [
        ("placement.replicate_rows (--replicate-rows)", replicate_rows.is_some_and(|rows| rows > 0)),
        ("placement.cut (--cut)", cut.is_some()),
        ("placement.tables", !tables.is_empty()),
    ];
    match others.into_iter().find(|(_, given)| plan.is_some() && *given) {
        None => Ok(()),
        Some((other, _)) => {
            let problem = format!(
                "a plan (--plan) places all tables, but {other} places some as well; leave one of the two out"
            );
            Err(RunError::new("placement.plan", problem))
        }
    }
}
