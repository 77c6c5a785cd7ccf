//! Neo's roofline (its appendix B): the upper bound of what a platform can do, from the achievable rates of its parts.
//!
//! ```text
//! forward  = max( bottom, lookup + all-to-all ) + interaction + top
//! backward = max( top + interaction + max( all-to-all + embedding update, bottom ), all-reduce of top and bottom )
//! ```

use super::{CostModel, MadMax, lay};
use crate::step::{Compute, Part, StepGraph, Transfer};
use crate::system::System;
use crate::timeline::Timeline;

/// Neo's Equation 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Roofline;

impl CostModel for Roofline {
    /// Whatever bounds it: arithmetic or memory.
    fn compute(&self, work: &Compute, system: &System) -> f64 {
        (work.flops / system.flops(work.operand)).max(work.bytes / system.memory_bytes_per_s())
    }

    /// At the bandwidth that was measured for 256 MB: 7 GB/s for an all-to-all on 128 devices, 60 GB/s for an all-reduce, whatever
    /// its algorithm.
    fn transfer(&self, work: &Transfer, system: &System) -> f64 {
        MadMax.transfer(work, system)
    }

    /// The time of a step is Equation 1's; the lanes show its parts in their order.
    fn timeline(&self, step: &StepGraph, seconds: &[f64]) -> Timeline {
        Timeline { step_s: equation_1(step, seconds), ..lay(step, seconds, self.shares_links()) }
    }
}

fn equation_1(step: &StepGraph, seconds: &[f64]) -> f64 {
    let of = |part: Part| -> f64 {
        let all = step.operations.iter().zip(seconds);
        all.filter(|(op, _)| op.part == part).map(|(_, seconds)| seconds).sum()
    };
    let forward =
        of(Part::BottomForward).max(of(Part::Lookup) + of(Part::VectorExchange)) + of(Part::TopForward);
    let sparse = of(Part::GradientExchange) + of(Part::EmbeddingUpdate);
    let backward =
        (of(Part::TopBackward) + sparse.max(of(Part::BottomBackward))).max(of(Part::DenseExchange));
    forward + backward
}
