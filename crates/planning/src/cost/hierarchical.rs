//! Our cost model: latency and bandwidth of each class of link, the number of members, the size of messages.
//!
//! A reduction of a schedule is priced stage by stage, whatever its algorithm and codec:
//!
//! ```text
//! stage      = latency + message_s · messages + (launch_s · computations + computed bytes / memory bandwidth)
//!              + max( host bytes / intra, network bytes / crowded inter )
//! crowded    = inter / (1 + (messages to other nodes − 1) / crowd)
//! reduction  = sum of stages, of which stages bound by one class of link hide the part 1 − unhidden behind those bound by the other
//! ```
//!
//! Models that are only simulated have no schedule and no program. Their reductions have the price of a **two-level ring**: a ring
//! inside nodes and one across nodes, which is what `unhidden` was fitted to.

use super::CostModel;
use crate::step::{Compute, ComputeClass, Reduction, Stage, Transfer};
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
    /// Members among which an all-to-all across nodes has half of that left: flows meet in the switches. A stage of a reduction
    /// in which a device sends to one other has all of it.
    pub crowd: f64,
    /// The part of the shorter of the two levels of a reduction that its longer one does not hide: both advance piece by piece.
    pub unhidden: f64,
}

impl Default for Constants {
    /// - `long_message`: 10.5 of 12.5 GB/s are achievable between nodes (Neo, appendix A).
    /// - `crowd`: of these, 7 GB/s are left in an all-to-all of 256 MB among 128 devices (Neo, appendix A):
    ///   1 / (1 + 128 / 256) = 2/3. DMT's Figure 5 says that performance drops sharply with scale; its text has no numbers.
    /// - `unhidden`: an all-reduce of 256 MB among 128 devices has a bus bandwidth of 60 GB/s (Neo, appendix B), so it takes
    ///   8.5 ms. Its two levels take 5.7 ms (between nodes, 10.5 GB/s) and 4.5 ms (inside, 100 GB/s of V100's NVLink) alone:
    ///   5.7 + 0.62 · 4.5 = 8.5. This is the two-level ring. The program `two-level`, whose stages across nodes are direct, comes
    ///   out at 8.9 ms with the same constants: 15 messages at a time crowd these stages, and each of the four has its latency.
    ///   Other algorithms were not fitted to anything.
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

    fn reduction(&self, work: &Reduction, system: &System) -> f64 {
        let stages = work.stages.iter().map(|stage| self.stage(stage, system));
        let mut sum = StageTime::default();
        for StageTime { alone, host, network, apart } in stages {
            sum.alone += alone;
            sum.host += host;
            sum.network += network;
            sum.apart += apart;
        }
        // Were all stages hidden behind those of the other class of links, the busier class alone would count.
        let hidden = sum.host.max(sum.network);
        sum.alone + hidden + self.constants.unhidden * (sum.apart - hidden)
    }

    fn shares_links(&self) -> bool {
        true
    }
}

/// Seconds of a stage, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct StageTime {
    /// Latency, messages and computations, which nothing hides.
    alone: f64,
    /// Seconds of the links inside nodes.
    host: f64,
    /// Seconds of the links between nodes.
    network: f64,
    /// Seconds of links if stages do not overlap. Inside a stage both kinds of link are at work at once.
    apart: f64,
}

impl Hierarchical {
    fn stage(&self, stage: &Stage, system: &System) -> StageTime {
        let Constants { launch_s, latency_s, message_s, long_message, crowd, .. } = self.constants;
        let Stage { sent, computations, computed_bytes } = *stage;
        let latency = match (sent.messages, sent.network_messages) {
            (0, _) => 0.0,
            (_, 0) => latency_s.0,
            _ => latency_s.1,
        };
        let crowded = 1.0 + sent.network_messages.saturating_sub(1) as f64 / crowd;
        let host = sent.host as f64 / system.intra_bytes_per_s();
        let network = sent.network as f64 * crowded / (system.inter.bytes_per_s * long_message);
        let computed = launch_s * computations as f64 + computed_bytes as f64 / system.memory_bytes_per_s();
        let alone = latency + message_s * sent.messages as f64 + computed;
        StageTime { alone, host, network, apart: host.max(network) }
    }
}
