//! A priced step and its inputs, which every form of output shows.

use crate::dataflow;
use planning::Span;
use planning::memory::Memory;
use planning::simulator::Simulation;
use planning::step::{ComputeClass, Op, Period, StepGraph, Work};
use planning::system::System;
use planning::workload::TaskKind;
use spec::program::Algorithm;
use spec::run::Run;
use spec::schedule::Lane;
use spec::wire::Wire;

/// A step on a system.
pub struct Prediction {
    /// The model's name.
    pub model: String,
    /// Task: pre-training, inference or fine-tuning.
    pub task: TaskKind,
    /// How the model is spread over devices.
    pub spread: Spread,
    /// The system that the step is simulated on.
    pub system: System,
    /// What prices the step: a cost model, or measured rates.
    pub cost: &'static str,
    /// Operations of the step.
    pub step: StepGraph,
    /// Times of the operations.
    pub simulation: Simulation,
    /// Memory that a device needs.
    pub memory: Memory,
}

/// How a model is spread over devices.
pub struct Spread {
    /// Description in words.
    pub described: String,
    /// Wire and all-reduce of a model that Campanile trains, to which no strategy applies.
    pub trained: Option<Exchanged>,
    /// Lookups of devices over their mean, where they differ.
    pub lookup_loads: Option<Vec<f64>>,
    /// Whether the model has layers whose activations are kept and could be computed again.
    pub can_recompute: bool,
}

/// How a model that Campanile trains exchanges floats.
pub struct Exchanged {
    /// Codecs of vectors and gradients.
    pub wire: Wire,
    /// Algorithm that sums dense gradients.
    pub all_reduce: Algorithm,
}

impl Spread {
    /// Spread of a run.
    pub fn of_run(run: &Run) -> Self {
        let trained = Some(Exchanged { wire: run.wire, all_reduce: run.all_reduce });
        Self { described: dataflow::of_run(run), trained, lookup_loads: None, can_recompute: false }
    }

    /// Description in words that names wire and all-reduce even if they are the usual ones: they are what is priced.
    pub fn in_full(&self) -> String {
        let mut text = self.described.clone();
        if let Some(Exchanged { wire, all_reduce }) = &self.trained {
            if *wire == (Wire { rounding: wire.rounding, ..Wire::default() }) {
                text += "; f32 on the wire";
            }
            if *all_reduce == Algorithm::Direct {
                text += "; direct all-reduce";
            }
        }
        text
    }
}

/// Kinds of work, as outputs name them.
pub fn class(op: &Op) -> &'static str {
    match &op.work {
        Work::Compute(compute) => match compute.class {
            ComputeClass::Gemm => "gemm",
            ComputeClass::Embedding => "embedding",
            ComputeClass::Other => "other",
        },
        Work::Transfer(transfer) => transfer.kind.name(),
        Work::Reduction(reduction) => reduction.vector.kind.name(),
    }
}

/// FLOPs of an operation, and bytes that it touches or sends.
pub fn volumes(op: &Op) -> (f64, f64) {
    match &op.work {
        Work::Compute(compute) => (compute.flops, compute.bytes),
        Work::Transfer(transfer) => (0.0, transfer.bytes),
        Work::Reduction(reduction) => (0.0, reduction.vector.bytes),
    }
}

impl Prediction {
    /// Lanes that have operations.
    pub fn lanes(&self) -> Vec<Lane> {
        let used = |lane: &Lane| self.step.operations.iter().any(|op| op.lane == *lane);
        Lane::ALL.into_iter().filter(used).collect()
    }

    /// Seconds from the arrival of a batch until its predictions, of inference alone.
    pub fn latency_s(&self) -> Option<f64> {
        (self.task == TaskKind::Inference).then(|| self.simulation.latency_s(&self.step))
    }

    /// Milliseconds by kind of work.
    pub fn breakdown_ms(&self) -> [(&'static str, f64); 7] {
        self.simulation.breakdown.parts().map(|(name, seconds)| (name, 1e3 * seconds))
    }

    /// The part of all communication that is exposed, 0 to 1.
    pub fn exposed_share(&self) -> f64 {
        match self.simulation.breakdown.communication() {
            0.0 => 0.0,
            all => (self.simulation.exposed_s() / all).clamp(0.0, 1.0),
        }
    }

    /// Exposed seconds of each operation: of a collective, the time during which nothing is computed, in this step, the one before
    /// or the next; 0 for computations.
    pub fn exposed(&self) -> Vec<f64> {
        let (spans, step_s) = (&self.simulation.timeline.spans, self.simulation.iteration_s());
        let shifts: &[f64] = if self.step.period == Period::Steady { &[-1.0, 0.0, 1.0] } else { &[0.0] };
        let computing = self.step.operations.iter().zip(spans).filter(|(op, _)| op.computes());
        // One lane, in its order: sorted by beginning and by end.
        let computing: Vec<(f64, f64)> = shifts
            .iter()
            .flat_map(|shift| {
                computing.clone().map(move |(_, s)| (s.begin_s + shift * step_s, s.end_s + shift * step_s))
            })
            .collect();
        let exposed = |(op, span): (&Op, &Span)| {
            if op.computes() {
                return 0.0;
            }
            let first = computing.partition_point(|(_, end)| *end <= span.begin_s);
            let beside = computing[first..].iter().take_while(|(begin, _)| *begin < span.end_s);
            let hidden: f64 =
                beside.map(|(begin, end)| (span.end_s.min(*end) - span.begin_s.max(*begin)).max(0.0)).sum();
            (span.end_s - span.begin_s - hidden).max(0.0)
        };
        self.step.operations.iter().zip(spans).map(exposed).collect()
    }

    /// Bytes that a device has, if that is known.
    pub fn device_memory(&self) -> Option<f64> {
        Some(self.system.device.memory_bytes).filter(|bytes| bytes.is_finite())
    }

    /// Size of the cluster as text: `8 nodes × 8 devices`.
    pub fn cluster(&self) -> String {
        let counted =
            |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!(
            "{} × {}",
            counted(self.system.nodes, "node"),
            counted(self.system.devices_per_node, "device")
        )
    }
}
