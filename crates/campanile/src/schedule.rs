//! One step of a run, for people and for programs.

use crate::dataflow;
use serde_json::{Value, json};
use spec::dataflow::Sptt;
use spec::run::{Config, Run};
use spec::schedule::{PhaseId, Schedule, Work};
use spec::volume::BatchSizes;
use spec::wire::WireConfig;

/// A step as people read it.
pub fn to_text(run: &Run, schedule: &Schedule) -> String {
    format!(
        "{} on {} ranks, global batch {}, {}{}\n\n{}\n\
         + works on the next step's batch; * brings values from the device to the host.\n\
         after: phases it waits for, ′ of the step before.\n\
         FLOPs and bytes of the busiest rank; (bytes) of memory touched, others sent inside a host / between hosts.\n",
        run.model.kind(),
        run.topology(),
        run.batch,
        dataflow::described(&run.dataflow),
        if run.overlap { "" } else { ", nothing overlaps" },
        schedule.table(run.batch)
    )
}

/// A step as programs read it, with the config, every default written out, that it follows from.
pub fn to_json(schedule: &Schedule, batch: usize, explicit: &Config) -> Value {
    let topology = schedule.placement().topology();
    let dataflow = &schedule.deployment().dataflow;
    let sizes = BatchSizes::typical(schedule.model(), schedule.placement(), batch);
    let phases: Vec<Value> = schedule
        .phases()
        .iter()
        .enumerate()
        .map(|(i, phase)| {
            let per_rank = |of: &dyn Fn(usize) -> u64| (0..topology.ranks()).map(of).collect::<Vec<u64>>();
            let id = PhaseId(i);
            json!({
                "id": i,
                "name": phase.name,
                "lane": phase.lane,
                "ahead": phase.ahead,
                "reads_back": phase.reads_back(),
                "replaces": schedule.replaces(phase),
                "work": match &phase.work {
                    Work::Compute(operation) => json!({ "compute": operation }),
                    Work::Collective(collective) => json!({ "collective": collective }),
                },
                "after": phase.after.iter().map(|(id, d)| json!({ "phase": id, "steps_back": d })).collect::<Vec<_>>(),
                "reads": phase.reads,
                "writes": phase.writes,
                "cost": phase.cost,
                "flops": per_rank(&|rank| schedule.flops(id, &sizes, rank)),
                "memory_bytes": per_rank(&|rank| schedule.memory(id, &sizes, rank)),
                "sent_host_bytes": per_rank(&|rank| schedule.sent(id, &sizes, rank).host),
                "sent_network_bytes": per_rank(&|rank| schedule.sent(id, &sizes, rank).network),
            })
        })
        .collect();
    json!({
        "config": explicit,
        "task": schedule.task(),
        "model": schedule.model().kind(),
        "hosts": topology.hosts(),
        "ranks_per_host": topology.ranks_per_host(),
        "batch": batch,
        "dataflow": dataflow.kind(),
        "wire": WireConfig::explicit(schedule.deployment().wire),
        "all_reduce": schedule.deployment().all_reduce,
        "groups": dataflow.sptt().map(groups_to_json),
        "buckets": schedule.buckets(),
        "tower_buckets": schedule.tower_buckets(),
        "phases": phases,
    })
}

/// The groups of a dataflow, what it permutes, and what each group does.
fn groups_to_json(sptt: &Sptt) -> Value {
    let groups = sptt.groups();
    let group = |index: usize| {
        let plan = sptt.plan(index);
        json!({
            "ranks": groups.members(index).collect::<Vec<_>>(),
            "towers": plan.towers,
            "columns_in": plan.input_width,
            "columns_out": plan.output_width(),
        })
    };
    json!({
        "count": groups.count(),
        "size": groups.size(),
        "hosts_per_group": groups.hosts_per_group(),
        "permuted": sptt.permute(),
        "members": (0..groups.count()).map(group).collect::<Vec<_>>(),
    })
}
