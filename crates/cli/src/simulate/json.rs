//! A prediction as JSON.

use super::prediction::{Prediction, class, volumes};
use serde_json::{Map, Value, json};

/// A prediction as one JSON object: times in milliseconds, memory in GB of 10⁹ bytes, and every operation. Two collectives that are exposed at once
/// both count that time as theirs.
pub fn to_json(prediction: &Prediction) -> Value {
    let simulation = &prediction.simulation;
    let breakdown = &simulation.breakdown;
    let memory = &prediction.memory;
    let verdict = memory.fits(&prediction.system);
    let parts: Map<String, Value> = memory
        .parts()
        .into_iter()
        .map(|(part, bytes)| (part.replace(' ', "_"), json!(bytes / 1e9)))
        .collect();
    let mut object = json!({
        "model": prediction.model,
        "system": prediction.system.name,
        "devices": prediction.system.devices(),
        "nodes": prediction.system.nodes,
        "task": prediction.task.to_string(),
        "cost": prediction.cost,
        "spread": prediction.spread.described,
        "all_reduce": prediction.spread.trained.as_ref().map(|trained| trained.all_reduce),
        "wire": prediction.spread.trained.as_ref().map(|trained| trained.wire.to_string()),
        "samples_per_step": prediction.step.samples,
        "iteration_ms": 1e3 * simulation.iteration_s(),
        "samples_per_s": simulation.samples_per_s,
        "latency_ms": prediction.latency_s().map(|seconds| 1e3 * seconds),
        "lookup_loads": prediction.spread.lookup_loads,
        "exposed_ms": 1e3 * simulation.exposed_s(),
        "exposed_share_of_communication": prediction.exposed_share(),
        "exposed_embedding_ms": 1e3 * simulation.exposed_embedding_s(&prediction.step).min(simulation.exposed_s()),
        "serial_ms": 1e3 * breakdown.serial(),
        "communication_ms": 1e3 * breakdown.communication(),
        "memory_gb": memory.total() / 1e9,
        "device_memory_gb": prediction.device_memory().map(|bytes| bytes / 1e9),
        "memory_parts_gb": parts,
        "fits": prediction.device_memory().map(|_| verdict.is_ok()),
        "too_big": verdict.err().map(|too_big| too_big.to_string()),
        "operations": operations(prediction),
    });
    for (name, ms) in prediction.breakdown_ms() {
        object[format!("{}_ms", name.replace('-', "_"))] = json!(ms);
    }
    object
}

fn operations(prediction: &Prediction) -> Vec<Value> {
    let simulation = &prediction.simulation;
    let exposed = prediction.exposed();
    let spans = simulation.timeline.spans.iter().zip(&simulation.seconds).zip(&exposed);
    let all = prediction.step.operations.iter().zip(spans);
    let operation = all.map(|(op, ((span, seconds), exposed))| {
        let (flops, bytes) = volumes(op);
        json!({
            "name": op.label.to_string(),
            "lane": op.lane,
            "class": class(op),
            "begin_ms": 1e3 * span.begin_s,
            "end_ms": 1e3 * span.end_s,
            "exposed_ms": 1e3 * exposed,
            "seconds": seconds,
            "bytes": bytes,
            "flops": flops,
        })
    });
    operation.collect()
}
