//! The meter: bytes that a rank has really sent, and time that it has waited.

use crate::Label;
use spec::topology::LinkClass;
use std::collections::HashMap;
use std::time::Duration;

/// Bytes that one rank has sent in its collectives of one label, over all its communicators, since the meter was last
/// reset; with the number of those collectives and their time.
///
/// The meter counts what the transport was asked to send. The rule that says what a schedule should send is
/// [`Traffic`](spec::volume::Traffic).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentBytes {
    /// Label of the collectives.
    pub label: Label,
    /// Number of collectives started.
    pub calls: u64,
    /// Time that the rank was blocked in these collectives (in `wait`, or in the blocking form), including its own sums.
    pub blocked: Duration,
    /// Time between the start of each collective and its completion by the transport, added up.
    pub in_flight: Duration,
    sent: [u64; 3],
}

impl SentBytes {
    /// Bytes sent over links of one class. [`LinkClass::Local`] counts what the rank copied to itself.
    pub fn sent(&self, link: LinkClass) -> u64 {
        self.sent[class_index(link)]
    }
}

fn class_index(link: LinkClass) -> usize {
    match link {
        LinkClass::Local => 0,
        LinkClass::Host => 1,
        LinkClass::Network => 2,
    }
}

/// Counters of one rank, by label. A label keeps its index for good, so that the index stays valid and a reset frees nothing.
#[derive(Default)]
pub(crate) struct Meter {
    indices: HashMap<Label, usize>,
    entries: Vec<SentBytes>,
}

impl Meter {
    /// Counts a collective, and returns the index of its label.
    pub(crate) fn call(&mut self, label: &Label) -> usize {
        let index = match self.indices.get(label) {
            Some(&index) => index,
            None => {
                let index = self.entries.len();
                self.indices.insert(label.clone(), index);
                self.entries.push(SentBytes {
                    label: label.clone(),
                    calls: 0,
                    blocked: Duration::ZERO,
                    in_flight: Duration::ZERO,
                    sent: [0; 3],
                });
                index
            }
        };
        self.entries[index].calls += 1;
        index
    }

    pub(crate) fn sent(&mut self, index: usize, link: LinkClass, bytes: usize) {
        self.entries[index].sent[class_index(link)] += bytes as u64;
    }

    pub(crate) fn blocked(&mut self, index: usize, time: Duration) {
        self.entries[index].blocked += time;
    }

    pub(crate) fn complete(&mut self, index: usize, in_flight: Duration) {
        self.entries[index].in_flight += in_flight;
    }

    /// Counters of the labels used since the last reset, in the order of their first use ever.
    pub(crate) fn read(&self) -> Vec<SentBytes> {
        self.entries.iter().filter(|entry| entry.calls > 0).cloned().collect()
    }

    pub(crate) fn reset(&mut self) {
        for entry in &mut self.entries {
            (entry.calls, entry.sent) = (0, [0; 3]);
            (entry.blocked, entry.in_flight) = (Duration::ZERO, Duration::ZERO);
        }
    }
}
