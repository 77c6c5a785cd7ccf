//! Hints for a model that does not fit into memory.

use super::prediction::Prediction;
use planning::memory::TooBig;

/// Ways to make a model fit into memory, the most promising first.
pub fn hints(prediction: &Prediction, too_big: &TooBig) -> Vec<String> {
    let mut hints = Vec::new();
    let trained = prediction.spread.trained.is_some();
    match too_big.part {
        "tables" | "table optimizer state" if trained => {
            hints.push(
                "an optimizer with less state, in a run's file: row_wise_adagrad keeps a number a row".into(),
            );
        }
        "tables" | "table optimizer state" => {
            hints.push("shard the tables over all devices: --embedding mp".into());
        }
        "dense weights" | "dense gradients" | "dense optimizer state" if !trained => {
            hints.push("shard the layers: --mlp fsdp, --transformer fsdp, or tp inside nodes: tp,ddp".into());
        }
        "activations" if prediction.spread.can_recompute => {
            hints.push("keep the outputs of transformer layers alone: --activations recompute".into());
            hints.push("fewer samples a device: --batch".into());
        }
        "activations" | "buffers" => hints.push("fewer samples a device: --batch".into()),
        _ => {}
    }
    let devices = prediction.system.devices() as f64 * too_big.need / too_big.have;
    hints.push(format!(
        "more devices, if they share what is largest: about {}; or devices with {:.0} GB",
        devices.ceil(),
        (too_big.need / 1e9).ceil()
    ));
    hints
}
