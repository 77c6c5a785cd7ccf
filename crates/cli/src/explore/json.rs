//! Results of an exploration as JSON.

use super::Explored;
use planning::explore::{Found, Refused, Tally};
use serde_json::{Value, json};

/// Results of an exploration as one JSON object.
pub fn to_json(explored: &Explored) -> Value {
    let Explored { space, summary, seconds, cost } = explored;
    let one = |found: Option<Found>| found.map(|found| point(explored, &found));
    let best = explored.cells().map(|([model, system, batch], cell)| {
        let baseline = explored.baseline(model, system, batch);
        let over =
            |found: Option<Found>| Some(found?.outcome.samples_per_s / baseline?.outcome.samples_per_s);
        json!({
            "model": space.models()[model].name(),
            "system": space.systems()[system].name,
            "batch": space.batches()[batch],
            "baseline": one(baseline),
            "within_memory": one(cell.best.within_memory),
            "within_memory_speedup": over(cell.best.within_memory),
            "memory_free": one(cell.best.memory_free),
            "memory_free_speedup": over(cell.best.memory_free),
        })
    });
    let what_if = explored.what_if().into_iter().map(|([model, system, row], found, speedup)| {
        json!({
            "model": space.models()[model].name(),
            "system": space.systems()[system].name,
            "hardware": space.what_if().scaling_of_row(row).to_string(),
            "best": point(explored, &found),
            "speedup": speedup,
        })
    });
    json!({
        "points": space.len(),
        "evaluated": summary.count(),
        "stopped": !explored.is_whole(),
        "seconds": seconds,
        "points_per_s": summary.count() as f64 / seconds,
        "task": space.task().to_string(),
        "cost": cost.name(),
        "best": best.collect::<Vec<_>>(),
        "as_is": tally(explored, &summary.as_is),
        "what_if": what_if.collect::<Vec<_>>(),
        "changed_hardware": (summary.what_if.count > 0).then(|| tally(explored, &summary.what_if)),
    })
}

fn point(explored: &Explored, found: &Found) -> Value {
    let space = &explored.space;
    let point = space.point(found.index);
    json!({
        "index": found.index,
        "model": space.models()[point.model].name(),
        "system": space.systems()[point.system].name,
        "hardware": space.scaling(&point).to_string(),
        "batch": space.batches()[point.batch],
        "strategy": space.described(&point),
        "iteration_ms": 1e3 * found.outcome.iteration_s,
        "samples_per_s": found.outcome.samples_per_s,
        "exposed_ms": 1e3 * found.outcome.exposed_s,
        "memory_gb": found.outcome.memory_bytes / 1e9,
        "fits": found.outcome.fits,
    })
}

fn tally(explored: &Explored, tally: &Tally) -> Value {
    let points = |found: &[Found]| found.iter().map(|found| point(explored, found)).collect::<Vec<_>>();
    let curve = tally.times.cumulative().into_iter().map(|(seconds, part)| [1e3 * seconds, part]);
    let Refused { too_big, impossible, first } = &tally.refused;
    json!({
        "evaluated": tally.count,
        "too_big": tally.refused.too_big(),
        "too_big_by": too_big,
        "impossible": impossible,
        "first_impossible": first.as_ref().map(|(_, why)| why),
        "top": points(&tally.top),
        "front": points(tally.front.points()),
        "front_thinned": tally.front.is_thinned(),
        "fastest_ms": tally.times.range().map(|(least, _)| 1e3 * least),
        "slowest_ms": tally.times.range().map(|(_, most)| 1e3 * most),
        "cumulative_ms": curve.collect::<Vec<_>>(),
    })
}
