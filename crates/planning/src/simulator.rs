//! A step on a system, priced: times by kind of work, what is exposed, throughput.

use crate::cost::{self, CostModel};
use crate::step::{ComputeClass, Part, Period, StepGraph, Work};
use crate::system::System;
use crate::timeline::{Span, Timeline};
use spec::schedule::{CollectiveKind, Lane};

/// Simulation of a step: its time and breakdown.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Seconds of every operation, alone.
    pub seconds: Vec<f64>,
    /// When they begin and end.
    pub timeline: Timeline,
    /// Seconds by kind of work.
    pub breakdown: Breakdown,
    /// Samples a second of the whole system.
    pub samples_per_s: f64,
    /// Whether collectives that cross nodes at the same time slow each other down.
    shares_links: bool,
}

/// Seconds of a step by kind of work, overlapped or not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// Matrix products.
    pub gemm: f64,
    /// Lookups and updates of tables.
    pub embedding: f64,
    /// Seconds of other computations.
    pub other: f64,
    /// Seconds of all-to-alls.
    pub all_to_all: f64,
    /// Seconds of all-reduces.
    pub all_reduce: f64,
    /// Seconds of all-gathers.
    pub all_gather: f64,
    /// Seconds of reduce-scatters.
    pub reduce_scatter: f64,
}

impl Simulation {
    /// Prices `step` on `system`.
    pub fn new(model: &dyn CostModel, step: &StepGraph, system: &System) -> Self {
        let seconds = cost::seconds(model, step, system);
        let timeline = model.timeline(step, &seconds);
        Self::of(step, seconds, timeline, model.shares_links())
    }

    /// A step whose operations take `seconds`, each alone, and lie so in time.
    pub(crate) fn of(step: &StepGraph, seconds: Vec<f64>, timeline: Timeline, shares_links: bool) -> Self {
        let mut breakdown = Breakdown::default();
        for (op, &seconds) in step.operations.iter().zip(&seconds) {
            *breakdown.of(&op.work) += seconds;
        }
        let samples_per_s = if timeline.step_s > 0.0 { step.samples / timeline.step_s } else { 0.0 };
        Self { seconds, timeline, breakdown, samples_per_s, shares_links }
    }

    /// Seconds of a step.
    pub fn iteration_s(&self) -> f64 {
        self.timeline.step_s
    }

    /// Seconds from the arrival of a batch at a system that does nothing else until its end: the latency of inference.
    pub fn latency_s(&self, step: &StepGraph) -> f64 {
        let (alone, order) = step.alone();
        let seconds: Vec<f64> = order.iter().map(|&i| self.seconds[i]).collect();
        cost::lay(&alone, &seconds, self.shares_links).step_s
    }

    /// Seconds in which a device only communicates.
    pub fn exposed_s(&self) -> f64 {
        self.timeline.exposed_s()
    }

    /// Seconds in which nothing is computed while ids, vectors or their gradients travel.
    pub fn exposed_embedding_s(&self, step: &StepGraph) -> f64 {
        let own = self.spans(step, |op| op.lane == Lane::Compute);
        let moved = |by: f64| {
            let shift = by * self.timeline.step_s;
            own.iter().map(move |span| Span { begin_s: span.begin_s + shift, end_s: span.end_s + shift })
        };
        // What steps before and after compute hides it, too.
        let around: &[f64] = if step.period == Period::Steady { &[-1.0, 0.0, 1.0] } else { &[0.0] };
        let computing: Vec<Span> = around.iter().flat_map(|&by| moved(by)).collect();
        let travelling = self.spans(step, |op| {
            op.lane == Lane::Exchange
                && matches!(op.part, Part::Input | Part::VectorExchange | Part::GradientExchange)
        });
        let whole: f64 = travelling.iter().map(|span| span.end_s - span.begin_s).sum();
        let both = |a: &Span, b: &Span| (a.end_s.min(b.end_s) - a.begin_s.max(b.begin_s)).max(0.0);
        // Neither lane overlaps itself, so pairs add up.
        let hidden: f64 = travelling.iter().map(|t| computing.iter().map(|c| both(t, c)).sum::<f64>()).sum();
        (whole - hidden).max(0.0)
    }

    fn spans(&self, step: &StepGraph, of: impl Fn(&crate::step::Op) -> bool) -> Vec<Span> {
        let all = step.operations.iter().zip(&self.timeline.spans);
        all.filter(|(op, _)| of(op)).map(|(_, span)| *span).collect()
    }
}

impl Breakdown {
    /// Where a kind of work is counted.
    fn of(&mut self, work: &Work) -> &mut f64 {
        let kind = match work {
            Work::Compute(compute) => {
                return match compute.class {
                    ComputeClass::Gemm => &mut self.gemm,
                    ComputeClass::Embedding => &mut self.embedding,
                    ComputeClass::Other => &mut self.other,
                };
            }
            Work::Transfer(transfer) => transfer.kind,
            Work::Reduction(reduction) => reduction.vector.kind,
        };
        match kind {
            CollectiveKind::AllToAll => &mut self.all_to_all,
            CollectiveKind::AllReduce => &mut self.all_reduce,
            CollectiveKind::AllGather => &mut self.all_gather,
            CollectiveKind::ReduceScatter => &mut self.reduce_scatter,
        }
    }

    /// Parts by name.
    pub fn parts(&self) -> [(&'static str, f64); 7] {
        [
            ("gemm", self.gemm),
            ("embedding", self.embedding),
            ("other", self.other),
            ("all-to-all", self.all_to_all),
            ("all-reduce", self.all_reduce),
            ("all-gather", self.all_gather),
            ("reduce-scatter", self.reduce_scatter),
        ]
    }

    /// Seconds of all parts, one after the other.
    pub fn serial(&self) -> f64 {
        self.parts().iter().map(|(_, seconds)| seconds).sum()
    }

    /// Seconds of communication.
    pub fn communication(&self) -> f64 {
        self.all_to_all + self.all_reduce + self.all_gather + self.reduce_scatter
    }
}
