//! Vectors on their way: an exchange, and what must be done before, between and after.
//!
//! ```text
//! direct         [encode]                                   exchange                                     [decode]
//! hierarchical   [encode, or permute]   exchange in host   regroup   exchange between hosts              [decode]
//! ```

use super::build::{Build, WORD, compute, exchange};
use super::*;
use crate::dataflow::AllToAll;
use crate::volume::Quantity;

impl Build<'_> {
    /// Sets `from` out on a leg over `group`; it arrives as `to`, once [`arrive`](Self::arrive) has been called.
    pub fn depart(&mut self, leg: Leg, group: Group, mut from: Slot, to: Slot) {
        let wire = self.deployment.wire.of(leg);
        let hierarchical = self.deployment.dataflow == Dataflow::Flat(AllToAll::Hierarchical);
        let kind = CollectiveKind::AllToAll;
        if wire.encodes() {
            let memory = Volume::of(WORD + wire.bytes(), Quantity::Sent(leg));
            let (name, encoded) = (format!("encode {leg}"), Slot::Encoded(leg));
            self.push(compute(&name, Operation::Encode(leg), &[from], &[encoded]).touching(memory));
            from = encoded;
        } else if hierarchical && leg == Leg::Pooled {
            // Encoding would do it by the way. Gradients are laid out in that order from the start.
            let memory = Volume::of(2 * WORD, Quantity::Sent(leg));
            let ordered = Slot::PeerPooled;
            self.push(compute("peer permute", Operation::PermutePeers, &[from], &[ordered]).touching(memory));
            from = ordered;
        }
        let arriving = if wire.encodes() { Slot::Arriving(leg) } else { to };
        let traffic = leg.traffic(wire.bytes());
        if !hierarchical {
            self.push(exchange(&format!("{leg} exchange"), kind, group, traffic, wire, from, arriving));
            return;
        }
        let (name, of) = (format!("{leg} exchange in host"), Box::new(traffic.clone()));
        let (in_host, regrouped) = (Slot::InHost(leg), Slot::Regrouped(leg));
        self.push(exchange(&name, kind, Group::Host, Traffic::InHost { of }, wire, from, in_host));
        let memory = Volume::of(2 * wire.bytes(), Quantity::Relayed(leg));
        let name = format!("{leg} regroup");
        self.push(compute(&name, Operation::Regroup(leg), &[in_host], &[regrouped]).touching(memory));
        let (name, of) = (format!("{leg} exchange between hosts"), Box::new(traffic));
        self.push(exchange(
            &name,
            kind,
            Group::Across,
            Traffic::BetweenHosts { of },
            wire,
            regrouped,
            arriving,
        ));
    }

    /// Decodes what a leg brings as `to`, where it is encoded.
    pub fn arrive(&mut self, leg: Leg, to: Slot) {
        let wire = self.deployment.wire.of(leg);
        if wire.encodes() {
            let memory = Volume::of(WORD + wire.bytes(), Quantity::Received(leg));
            let (name, arriving) = (format!("decode {leg}"), Slot::Arriving(leg));
            self.push(compute(&name, Operation::Decode(leg), &[arriving], &[to]).touching(memory));
        }
    }
}
