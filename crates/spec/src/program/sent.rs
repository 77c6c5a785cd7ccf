//! What a program sends: bytes by class of link, and messages.

use super::{Move, Program, Step};
use std::ops::{Add, AddAssign};

/// What one member sends to other members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes sent to members of the same host.
    pub host: u64,
    /// Bytes sent to members of other hosts.
    pub network: u64,
    /// Number of messages to other members, on the same host or not.
    pub messages: u64,
    /// Number of messages to members of other hosts.
    pub network_messages: u64,
}

impl Add for Sent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            host: self.host + other.host,
            network: self.network + other.network,
            messages: self.messages + other.messages,
            network_messages: self.network_messages + other.network_messages,
        }
    }
}

impl AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Program {
    /// Moves to other members, in the order of the exchanges.
    pub fn sent(&self) -> impl Iterator<Item = Move> {
        self.exchanged().flatten()
    }

    /// What this member sends in all exchanges together. Member `i` is on host `hosts[i]`.
    pub fn sent_by_link(&self, hosts: &[usize]) -> Sent {
        self.stages(hosts).fold(Sent::default(), Sent::add)
    }

    /// What this member sends in each exchange. Member `i` is on host `hosts[i]`.
    pub fn stages(&self, hosts: &[usize]) -> impl Iterator<Item = Sent> {
        self.exchanged().map(|moves| {
            let mut sent = Sent::default();
            for Move { member, len, .. } in moves {
                let network = hosts[member] != hosts[self.me];
                *(if network { &mut sent.network } else { &mut sent.host }) += len as u64;
                sent.messages += 1;
                sent.network_messages += u64::from(network);
            }
            sent
        })
    }

    /// Moves to other members, exchange by exchange.
    fn exchanged(&self) -> impl Iterator<Item = impl Iterator<Item = Move>> {
        let sends = self.steps.iter().filter_map(|step| match step {
            Step::Exchange { sends, .. } => Some(sends.clone()),
            Step::Encode { .. } | Step::Decode { .. } => None,
        });
        sends.map(|sends| self.moves[sends].iter().copied().filter(|sent| sent.member != self.me))
    }
}
