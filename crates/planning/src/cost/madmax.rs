//! MAD-Max's rules: bytes over bandwidth, with no latency and no factors of the number of members.
//!
//! The rules know no algorithm of a reduction: whatever program a schedule has, the encoded bytes of the vector take their time at
//! a mixture of the bandwidths inside and between nodes.

use super::CostModel;
use crate::step::{Compute, ComputeClass, Transfer};
use crate::system::System;
use spec::schedule::CollectiveKind;

/// MAD-Max (§4.2 and §4.3 of its paper).
#[derive(Clone, Copy, Debug, Default)]
pub struct MadMax;

impl MadMax {
    /// Bytes a second of a reduction: inside a node as the links there; across nodes a mixture of both.
    pub(super) fn all_reduce_bytes_per_s(system: &System, nodes: usize) -> f64 {
        let share = if nodes > 1 { system.all_reduce_intra_share } else { 1.0 };
        share * system.intra_bytes_per_s() + (1.0 - share) * system.inter_bytes_per_s()
    }
}

impl CostModel for MadMax {
    fn compute(&self, work: &Compute, system: &System) -> f64 {
        match work.class {
            ComputeClass::Gemm => work.flops / system.flops(work.operand),
            ComputeClass::Embedding => work.bytes / system.memory_bytes_per_s(),
            // It looks at the main requirement of layers, and at nothing between them.
            ComputeClass::Other => 0.0,
        }
    }

    fn transfer(&self, work: &Transfer, system: &System) -> f64 {
        if work.members < 2 {
            return 0.0;
        }
        let reduction = Self::all_reduce_bytes_per_s(system, work.nodes);
        let slowest = if work.nodes > 1 { system.inter_bytes_per_s() } else { system.intra_bytes_per_s() };
        match work.kind {
            CollectiveKind::AllToAll => work.bytes / slowest,
            CollectiveKind::AllReduce => work.bytes / reduction,
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => work.bytes / (2.0 * reduction),
        }
    }
}
