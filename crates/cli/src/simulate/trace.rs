//! A prediction as Chrome (chrome://tracing) and Perfetto read it: a thread for each lane, microseconds.

use super::prediction::{Prediction, class, volumes};
use serde_json::{Value, json};

/// The trace of one step on one device.
pub fn to_json(prediction: &Prediction) -> Value {
    let name = format!("{} on {}, {}", prediction.model, prediction.system.name, prediction.task);
    let mut events = vec![json!({ "ph": "M", "name": "process_name", "pid": 0, "args": { "name": name } })];
    for lane in prediction.lanes() {
        let tid = lane as usize;
        let args = json!({ "name": lane.to_string() });
        events.push(json!({ "ph": "M", "name": "thread_name", "pid": 0, "tid": tid, "args": args }));
        let args = json!({ "sort_index": tid });
        events.push(json!({ "ph": "M", "name": "thread_sort_index", "pid": 0, "tid": tid, "args": args }));
    }
    let us = |seconds: f64| (1e9 * seconds).round() / 1e3;
    let spans = prediction.step.operations.iter().zip(&prediction.simulation.timeline.spans);
    for ((op, span), exposed) in spans.zip(prediction.exposed()) {
        let (flops, bytes) = volumes(op);
        let ts = us(span.begin_s);
        events.push(json!({
            "ph": "X",
            "name": op.label.to_string(),
            "cat": class(op),
            "pid": 0,
            "tid": op.lane as usize,
            "ts": ts,
            "dur": us(span.end_s) - ts,
            "args": { "bytes": bytes, "flops": flops, "exposed_us": us(exposed) },
        }));
    }
    json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "cost": prediction.cost,
            "iteration_ms": 1e3 * prediction.simulation.iteration_s(),
            "exposed_ms": 1e3 * prediction.simulation.exposed_s(),
        },
        "traceEvents": events,
    })
}
