//! Plans as JSON.

use super::{Planned, Planning};
use planning::planner::{RankLoad, TablePlan, Unfit};
use serde_json::{Value, json};
use spec::plan::{PlanDifference, PlanFile};

impl Planned {
    /// The plan as one object.
    pub fn to_json(&self) -> Value {
        let Planning { run, system, cost, search, memory, .. } = &self.asked;
        let (plan, model) = (&self.plan, &run.model);
        let rank = |(number, load): (usize, &RankLoad)| {
            json!({
                "rank": number,
                "memory_bytes": load.memory_bytes,
                "lookup_bytes": load.lookup_bytes,
                "sent_bytes": load.sent_bytes,
                "predicted_ms": 1e3 * load.predicted_s,
            })
        };
        let table = |table: &TablePlan| {
            json!({
                "name": model.features()[table.feature].name,
                "rows": model.features()[table.feature].rows,
                "dim": model.dim_of(table.feature),
                "scheme": table.scheme,
                "shards": table.shards,
                "ranks": self.ranks_of(table.feature),
                "cost_ms": 1e3 * table.cost_s,
                "reason": table.reason,
                "second": table.second.as_ref().map(|second| json!({
                    "scheme": second.scheme,
                    "cost_ms": 1e3 * second.cost_s,
                    "why_not": second.why_not,
                })),
                "refused": table.refused.iter().map(|refused| json!({
                    "scheme": refused.scheme,
                    "why": refused.why,
                })).collect::<Vec<_>>(),
            })
        };
        json!({
            "fits": true,
            "seconds": plan.planning_s,
            "imbalance": plan.imbalance(),
            "bound_ratio": plan.bound_ratio(),
            "cost_ms": 1e3 * plan.cost_s,
            "bound_ms": 1e3 * plan.bound_s,
            "search": search.name(),
            "cost": cost.name(),
            "system": system.name,
            "hosts": run.topology().hosts(),
            "ranks_per_host": run.topology().ranks_per_host(),
            "hosts_per_tower": run.dataflow.sptt().map(|sptt| sptt.groups().hosts_per_group()),
            "batch": run.batch,
            "memory_per_rank_bytes": memory.map(|memory| memory.bytes_per_rank),
            "reserve": memory.map(|memory| memory.reserve),
            "ranks": plan.ranks.iter().enumerate().map(rank).collect::<Vec<_>>(),
            "tables": plan.tables.iter().map(table).collect::<Vec<_>>(),
        })
    }
}

/// The answer that nothing fits as one object, after so many seconds.
pub fn unfit_to_json(unfit: &Unfit, seconds: f64) -> Value {
    json!({
        "fits": false,
        "seconds": seconds,
        "message": unfit.to_string(),
        "too_large": unfit.what,
        "need_bytes": unfit.need_bytes,
        "room_bytes": unfit.room_bytes,
        "memory_per_rank_bytes": unfit.bytes_per_rank,
        "ranks": unfit.ranks,
        "remedies": unfit.remedies,
    })
}

/// The difference of two plans as one object.
pub fn difference_to_json(before: &PlanFile, after: &PlanFile, difference: &PlanDifference) -> Value {
    let world = |plan: &PlanFile| {
        json!({
            "hosts": plan.hosts,
            "ranks_per_host": plan.ranks_per_host,
            "hosts_per_tower": plan.hosts_per_tower,
            "tables": plan.tables.len(),
        })
    };
    json!({
        "before": world(before),
        "after": world(after),
        "unchanged": difference.unchanged,
        "tables": difference.tables,
        "ranks": difference.ranks,
        "memory": if difference.counted { "planned" } else { "weights" },
    })
}
