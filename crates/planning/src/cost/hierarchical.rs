//! Our cost model: latency and bandwidth of each class of link, the number of members, the size of messages.

use super::CostModel;
use crate::step::{Compute, ComputeClass, Transfer};
use crate::system::System;
use spec::schedule::CollectiveKind;

/// One set of constants for all models and systems. What a system can do at its peak comes from its description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Seconds to launch a computation.
    pub launch_s: f64,
    /// Seconds until the first byte of a collective has arrived, inside a node and across nodes.
    pub latency_s: (f64, f64),
    /// Seconds that each further member adds: its message has to be posted and matched.
    pub message_s: f64,
    /// The part of its peak that a long message between two nodes reaches.
    pub long_message: f64,
    /// Members among which an all-to-all across nodes has half of that left: flows meet in the switches.
    pub crowd: f64,
    /// The part of the shorter of the two levels of a reduction that its longer one does not hide.
    pub unhidden: f64,
}

impl Default for Constants {
    /// - `long_message`: 10.5 of 12.5 GB/s are achievable between nodes (Neo, appendix A).
    /// - `crowd`: of these, 7 GB/s are left in an all-to-all of 256 MB among 128 devices (Neo, appendix A):
    ///   1 / (1 + 128 / 256) = 2/3. DMT's Figure 5 says that performance drops sharply with scale; its text has no numbers.
    /// - `unhidden`: an all-reduce of 256 MB among 128 devices has a bus bandwidth of 60 GB/s (Neo, appendix B), so it takes
    ///   8.5 ms. Its two levels take 5.7 ms (between nodes, 10.5 GB/s) and 4.5 ms (inside, 100 GB/s of V100's NVLink) alone:
    ///   5.7 + 0.62 · 4.5 = 8.5.
    /// - `latency_s`, `message_s`, `launch_s`: orders of magnitude of NCCL and CUDA, not fitted.
    fn default() -> Self {
        Self {
            launch_s: 10e-6,
            latency_s: (10e-6, 30e-6),
            message_s: 1e-6,
            long_message: 0.84,
            crowd: 256.0,
            unhidden: 0.62,
        }
    }
}

/// Latency plus bandwidth per class of link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hierarchical {
    /// Constants of the cost model.
    pub constants: Constants,
}

impl CostModel for Hierarchical {
    /// Whatever bounds it, after its launch.
    fn compute(&self, work: &Compute, system: &System) -> f64 {
        let arithmetic = work.flops / system.flops(work.operand);
        let memory = work.bytes / system.memory_bytes_per_s();
        if arithmetic == 0.0 && memory == 0.0 && work.class == ComputeClass::Other {
            return 0.0;
        }
        self.constants.launch_s + arithmetic.max(memory)
    }

    fn transfer(&self, work: &Transfer, system: &System) -> f64 {
        if work.members < 2 || work.bytes <= 0.0 {
            return 0.0;
        }
        let per_node = (work.members / work.nodes.max(1)).max(1);
        let latency = if work.nodes > 1 { self.constants.latency_s.1 } else { self.constants.latency_s.0 };
        let intra = system.intra_bytes_per_s();
        let inter = system.inter.bytes_per_s * self.constants.long_message;
        let ring = |members: usize| (members as f64 - 1.0) / members as f64;
        match work.kind {
            CollectiveKind::AllToAll => {
                let crowded = inter / (1.0 + work.members as f64 / self.constants.crowd);
                let inside = (work.bytes - work.between_nodes).max(0.0) / intra;
                let messages = self.constants.message_s * (work.members - 1) as f64;
                // Both kinds of link are at work at once.
                latency + messages + inside.max(work.between_nodes / crowded)
            }
            kind => {
                // Shares of the vector inside a node, and each share across nodes, piece by piece.
                let inside = ring(per_node) * work.bytes / intra;
                let across = ring(work.nodes) * work.bytes / per_node as f64 / inter;
                let once = inside.max(across) + self.constants.unhidden * inside.min(across);
                let hops = self.constants.message_s * (per_node - 1 + work.nodes - 1) as f64;
                let ways = if kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 };
                latency + ways * (once + hops)
            }
        }
    }

    fn shares_links(&self) -> bool {
        true
    }
}
