//! Vectors on their way: an exchange, and what must be done before, between and after.
//!
//! ```text
//! direct         [encode]                                   exchange                                     [decode]
//! hierarchical   [encode, or permute]   exchange in host   regroup   exchange between hosts              [decode]
//! ```

use super::build::{Build, exchange};
use super::*;
use crate::dataflow::AllToAll;

impl Build<'_> {
    /// Sets `from` out on a leg over `group`; it arrives as `to`, once [`arrive`](Self::arrive) has been called.
    pub fn depart(&mut self, leg: Leg, group: Group, mut from: Slot, to: Slot) {
        let wire = self.deployment.wire.of(leg);
        let hierarchical = self.deployment.dataflow == Dataflow::Flat(AllToAll::Hierarchical);
        let kind = CollectiveKind::AllToAll;
        if wire.encodes() {
            self.compute(Operation::Encode(leg), &[from], &[Slot::Encoded(leg)]);
            from = Slot::Encoded(leg);
        } else if hierarchical && leg == Leg::Pooled {
            // Encoding would do it by the way. Gradients are laid out in that order from the start.
            self.compute(Operation::PermuteForHosts, &[from], &[Slot::PeerPooled]);
            from = Slot::PeerPooled;
        }
        let arriving = if wire.encodes() { Slot::Arriving(leg) } else { to };
        let traffic = leg.traffic(wire);
        if !hierarchical {
            self.push(exchange(&format!("{leg} exchange"), kind, group, traffic, from, arriving));
            return;
        }
        let (name, of) = (format!("{leg} exchange in host"), Box::new(traffic.clone()));
        let (in_host, regrouped) = (Slot::InHost(leg), Slot::Regrouped(leg));
        self.push(exchange(&name, kind, Group::Host, Traffic::InHost { of }, from, in_host));
        self.compute(Operation::Regroup(leg), &[in_host], &[regrouped]);
        let (name, of) = (format!("{leg} exchange between hosts"), Box::new(traffic));
        self.push(exchange(&name, kind, Group::Across, Traffic::BetweenHosts { of }, regrouped, arriving));
    }

    /// Adds up the partial sums of tables of whose rows every member of `group` has a piece.
    pub fn sum_partials(&mut self, name: &str, group: Group, from: Slot) {
        let traffic = Traffic::PartialSums { codec: self.deployment.wire.vectors };
        self.push(exchange(name, CollectiveKind::ReduceScatter, group, traffic, from, Slot::Summed));
    }

    /// Brings the gradients of these sums to every member of `group`.
    pub fn gather_sum_gradients(&mut self, name: &str, group: Group, to: Slot) {
        let traffic = Traffic::SumGradients { codec: self.deployment.wire.gradients };
        self.push(exchange(name, CollectiveKind::AllGather, group, traffic, Slot::SummedGradient, to));
    }

    /// Decodes what a leg brings as `to`, where it is encoded.
    pub fn arrive(&mut self, leg: Leg, to: Slot) {
        let wire = self.deployment.wire.of(leg);
        if wire.encodes() {
            self.compute(Operation::Decode(leg), &[Slot::Arriving(leg)], &[to]);
        }
    }
}
