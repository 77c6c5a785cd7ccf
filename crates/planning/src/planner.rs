//! Planner: lists what each table may be, prices it, places it, and explains itself (Neo §4).
//!
//! A table may be whole, cut by rows, by columns or by both, or copied. A **price** is what a piece costs its holder in a step:
//!
//! ```text
//! computation    rows read, pooled vectors written, rows and optimizer state updated, ids sorted    × seconds a byte of memory
//! communication  ids received, vectors sent, gradients received; sums of copies reduced             × seconds a byte of the wire
//!                + a fixed cost for each message
//! ```
//!
//! Seconds a byte are the slopes of a [`CostModel`] at the load that a balanced placement has, so planner and simulator agree.
//! Prices add up: the time of a rank is the sum over its pieces, and the cost of a plan is that of its slowest rank. Its lower bound
//! is the larger of the sum of every table's cheapest price over all ranks, and of the largest piece that cannot be cut.
//!
//! The search works on two questions in turn. *What is each table?* A cap on the price and on the memory of a piece decides: each
//! table takes its cheapest scheme whose pieces stay below. *Where is each piece?* [`crate::assignment`] decides. Caps are lowered
//! from "whatever is cheapest" until nothing improves; [`Search::Best`] then changes the schemes of single tables, or tries all of
//! them where there are few.
//!
//! ```
//! use planning::cost::Hierarchical;
//! use planning::planner::{Request, plan};
//! use planning::system::System;
//! use spec::presets::{ModelKind, Preset};
//! use spec::topology::Topology;
//! let model = Preset::Demo.model(ModelKind::Dlrm, None, None).unwrap();
//! let (system, cost) = (System::named("v100:4").unwrap(), Hierarchical::default());
//! let request = Request::new(&model, Topology::new(1, 4).unwrap(), 512, &system, &cost);
//! let plan = plan(&request).unwrap();
//! assert!(plan.bound_ratio() < 1.2 && plan.tables[0].reason.contains("data-parallel"));
//! ```

mod candidates;
mod copies;
mod explain;
mod loads;
mod prices;
mod search;
mod small;
mod solution;
mod unfit;
mod units;
mod words;

pub use loads::loads;
pub use unfit::{Remedy, TooLarge, Unfit};

use crate::cost::CostModel;
use crate::system::System;
use prices::Prices;
use serde::Serialize;
use spec::model::Model;
use spec::optimizer::UpdateRule;
use spec::placement::{Placement, Scheme};
use spec::statistics::LogStatistics;
use spec::topology::{Groups, Topology};
use spec::wire::Wire;
use std::fmt;
use std::str::FromStr;
use std::time::Instant;

/// What is to be planned, for which cluster, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Model whose tables are placed.
    pub model: &'a Model,
    /// Cluster that holds them.
    pub topology: Topology,
    /// Tower groups, for SPTT: the tables of a tower stay in one group. `None` for the flat dataflow.
    pub groups: Option<Groups>,
    /// Samples of a global batch.
    pub batch: usize,
    /// Wire formats of vectors and gradients.
    pub wire: Wire,
    /// Update rule of the tables, whose state takes memory and time.
    pub tables: UpdateRule,
    /// Statistics of real data. Without them every bag has the mean size of its feature, and every row is as likely as any other.
    pub statistics: Option<&'a LogStatistics>,
    /// Memory that a rank has; `None` for no limit.
    pub memory: Option<MemoryLimit>,
    /// Hardware of the ranks.
    pub system: &'a System,
    /// Cost model whose slopes the prices are.
    pub cost: &'a dyn CostModel,
    /// Weights of the parts of a price.
    pub weights: Weights,
    /// Method of the search.
    pub search: Search,
    /// Schemes that tables may have; `None` for all. Schemes that the planner never proposes have no effect.
    pub schemes: Option<&'a [Scheme]>,
}

impl<'a> Request<'a> {
    /// Request for the flat dataflow with every default: f32 on the wire, row-wise Adagrad, no limit of memory, weights of 1, the
    /// strongest search, all schemes.
    pub fn new(
        model: &'a Model,
        topology: Topology,
        batch: usize,
        system: &'a System,
        cost: &'a dyn CostModel,
    ) -> Self {
        Self {
            model,
            topology,
            groups: None,
            batch,
            wire: Wire::default(),
            tables: UpdateRule::RowWiseAdagrad { eps: 1e-8 },
            statistics: None,
            memory: None,
            system,
            cost,
            weights: Weights::default(),
            search: Search::default(),
            schemes: None,
        }
    }
}

/// Memory of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLimit {
    /// Bytes that a rank has.
    pub bytes_per_rank: u64,
    /// Share of these bytes that plans leave free, 0 to 1: for what is not counted here, such as code, stacks and fragmentation.
    pub reserve: f64,
}

impl MemoryLimit {
    /// Share of the memory that plans leave free by default.
    pub const RESERVE: f64 = 0.1;

    /// Bytes that plans may use.
    pub fn usable(&self) -> u64 {
        (self.bytes_per_rank as f64 * (1.0 - self.reserve.clamp(0.0, 1.0))) as u64
    }
}

/// Weights of the parts of a price, and of imbalance (Neo §4.1). All are 1 by default; then prices are seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Weights {
    /// Factor of the seconds of communication.
    pub communication: f64,
    /// Factor of the seconds of computation.
    pub computation: f64,
    /// Weight of imbalance: plans are compared by `mean + imbalance · (largest − mean)` of the ranks' times. At 1 that is the time of
    /// the slowest rank, which a synchronous step waits for. Below 1, cutting a table must save more of the slowest rank than it
    /// adds to all (for ranks that are not synchronised at once, or that have other work to hide); at 0 every table takes its
    /// cheapest scheme. Above 1, even loads are bought with more work in all.
    pub imbalance: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { communication: 1.0, computation: 1.0, imbalance: 1.0 }
    }
}

/// Method of the search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// Pieces go to ranks largest first.
    Greedy,
    /// Pieces go to ranks by the largest differencing method.
    Differencing,
    /// Both, then exchanges of pieces and changes of schemes against the lower bound.
    #[default]
    Best,
}

impl Search {
    /// All methods.
    pub const ALL: [Search; 3] = [Search::Greedy, Search::Differencing, Search::Best];

    /// Name of the method as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Search::Greedy => "greedy",
            Search::Differencing => "differencing",
            Search::Best => "best",
        }
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Search {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|search| search.name() == name);
        found.ok_or_else(|| format!("unknown search {name:?}; use greedy, differencing or best"))
    }
}

/// Plan: where every table is, what that costs, and why.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Placement of the tables.
    pub placement: Placement,
    /// Seconds that planning took.
    pub planning_s: f64,
    /// Time of the slowest rank, in seconds of a step.
    pub cost_s: f64,
    /// Lower bound of the cost, whatever the placement.
    pub bound_s: f64,
    /// Load of every rank.
    pub ranks: Vec<RankLoad>,
    /// Scheme of every table, by feature, and why it was chosen.
    pub tables: Vec<TablePlan>,
}

impl Plan {
    /// Time of the slowest rank over the mean of all ranks.
    pub fn imbalance(&self) -> f64 {
        let mean =
            self.ranks.iter().map(|rank| rank.predicted_s).sum::<f64>() / self.ranks.len().max(1) as f64;
        ratio(self.cost_s, mean)
    }

    /// Cost over its lower bound.
    pub fn bound_ratio(&self) -> f64 {
        ratio(self.cost_s, self.bound_s)
    }
}

fn ratio(of: f64, over: f64) -> f64 {
    if over > 0.0 { of / over } else { 1.0 }
}

/// Load of a rank in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RankLoad {
    /// Bytes of tables, optimizer state, vectors, gradients and ids.
    pub memory_bytes: u64,
    /// Bytes that lookups read and write.
    pub lookup_bytes: u64,
    /// Bytes of ids, vectors, gradients and sums that the rank sends to others.
    pub sent_bytes: u64,
    /// Price of what the rank holds: seconds, if all weights are 1.
    pub predicted_s: f64,
}

/// Scheme of a table, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TablePlan {
    /// Index of the feature.
    pub feature: usize,
    /// Scheme of the table.
    pub scheme: Scheme,
    /// Number of shards; copies count once.
    pub shards: usize,
    /// Price of the table on all its holders together.
    pub cost_s: f64,
    /// Why the scheme was chosen, in a sentence.
    pub reason: String,
    /// What came second: the cheapest of the other schemes.
    pub second: Option<Alternative>,
    /// Schemes that are impossible for the table.
    pub refused: Vec<Refused>,
}

/// Scheme that a table could have had.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// Scheme that was not chosen.
    pub scheme: Scheme,
    /// Price of the table on all its holders together.
    pub cost_s: f64,
    /// Why the scheme was not chosen, in a sentence.
    pub why_not: String,
}

/// Scheme that a table cannot have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// Scheme that is impossible.
    pub scheme: Scheme,
    /// Why, in a sentence.
    pub why: String,
}

/// Plans the placement of a model's tables.
pub fn plan(request: &Request) -> Result<Plan, Unfit> {
    let begin = Instant::now();
    let prices = Prices::new(request);
    let tables = units::tables(&prices);
    let found =
        search::search(&prices, &tables).map_err(|misfit| unfit::explain(&prices, &tables, misfit))?;
    let placement = found.placement(&prices, &tables);
    let ranks = loads::of(&prices, &placement);
    let cost_s = ranks.iter().map(|rank| rank.predicted_s).fold(0.0, f64::max);
    let bound_s = search::bound(&prices, &tables).min(cost_s);
    let tables = explain::tables(&prices, &tables, &found, &placement);
    Ok(Plan { placement, planning_s: begin.elapsed().as_secs_f64(), cost_s, bound_s, ranks, tables })
}
