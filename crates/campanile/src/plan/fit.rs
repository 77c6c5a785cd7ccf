//! Plans within the memory of the machines, and what to do where a run does not fit.

use super::Planning;
use planning::planner::MemoryLimit;
use spec::plan::PlanFile;
use spec::run::Run;
use training::{Cluster, MemoryNeed, MemoryUse, available_memory};

/// Plan of `train --plan auto` for a run whose plan was made without a memory limit: that one where it fits into this machine,
/// else one within the memory there is.
pub fn auto(run: &Run, cluster: &Cluster, purpose: MemoryUse) -> PlanFile {
    let unlimited = || PlanFile::of_run(run);
    let Some(available) = available_memory() else { return unlimited() };
    let need = MemoryNeed::of(run, cluster, purpose);
    if need.total() <= available {
        return unlimited();
    }
    let limited = Planning::new(run.clone()).memory(Some(limit(run, cluster, &need, available))).plan();
    // Where nothing fits, the check of the run's size says so, with an explanation.
    limited.map_or_else(|_| unlimited(), |planned| planned.file())
}

/// What would make the tables of a run fit that needs more than the `available` bytes; `None` where it is not the tables that are
/// too large.
pub fn explanation(run: &Run, cluster: &Cluster, purpose: MemoryUse, available: u64) -> Option<String> {
    let need = MemoryNeed::of(run, cluster, purpose);
    let of_tables = [need.tables, need.optimizer, need.checkpoint];
    if of_tables.into_iter().fold(0, u64::saturating_add) < need.total() / 2 {
        return None;
    }
    Some(match Planning::new(run.clone()).memory(Some(limit(run, cluster, &need, available))).plan() {
        Err(unfit) => unfit.to_string(),
        Ok(planned) => {
            let largest = planned.plan.ranks.iter().map(|rank| rank.memory_bytes).max().unwrap_or(0);
            let remedy = "--plan auto uses it, `campanile plan` shows it";
            format!("a plan fits, whose largest rank needs {}: {remedy}", pages::text::bytes(largest))
        }
    })
}

/// Memory of each rank, once what a plan does not count has its share: stacks, tables of pairs, the process itself.
fn limit(run: &Run, cluster: &Cluster, need: &MemoryNeed, available: u64) -> MemoryLimit {
    let others = need.pairs + need.ranks + need.evaluation + need.process;
    let ranks = cluster.ranks_here(run.topology()).len().max(1) as u64;
    MemoryLimit { bytes_per_rank: available.saturating_sub(others) / ranks, reserve: 0.0 }
}
