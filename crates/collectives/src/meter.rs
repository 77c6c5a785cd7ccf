//! What was really sent, and how long it was waited for.

use crate::Label;
use spec::topology::LinkClass;
use std::collections::HashMap;
use std::time::Duration;

/// One rank's collectives under one label, over all its communicators, since the meter was last reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The label.
    pub label: Label,
    /// Collectives started.
    pub calls: u64,
    /// Time spent in `wait` (or in a blocking form), the rank's own sums included.
    pub blocked: Duration,
    /// Time from each start until the transport had the collective done.
    pub in_flight: Duration,
    sent: [u64; 3],
}

impl Traffic {
    /// Bytes this rank sent over links of a class; [`LinkClass::Local`] are copies from itself to itself.
    pub fn sent(&self, link: LinkClass) -> u64 {
        self.sent[slot(link)]
    }
}

fn slot(link: LinkClass) -> usize {
    match link {
        LinkClass::Local => 0,
        LinkClass::Host => 1,
        LinkClass::Network => 2,
    }
}

/// Counters by label. A label keeps its place for good, so that its index stays valid and a reset frees nothing.
#[derive(Default)]
pub(crate) struct Meter {
    places: HashMap<Label, usize>,
    entries: Vec<Traffic>,
}

impl Meter {
    /// Counts a call; gives the place of its label.
    pub(crate) fn call(&mut self, label: &Label) -> usize {
        let place = match self.places.get(label) {
            Some(&place) => place,
            None => {
                let place = self.entries.len();
                self.places.insert(label.clone(), place);
                self.entries.push(Traffic {
                    label: label.clone(),
                    calls: 0,
                    blocked: Duration::ZERO,
                    in_flight: Duration::ZERO,
                    sent: [0; 3],
                });
                place
            }
        };
        self.entries[place].calls += 1;
        place
    }

    pub(crate) fn sent(&mut self, place: usize, link: LinkClass, bytes: usize) {
        self.entries[place].sent[slot(link)] += bytes as u64;
    }

    pub(crate) fn blocked(&mut self, place: usize, time: Duration) {
        self.entries[place].blocked += time;
    }

    pub(crate) fn complete(&mut self, place: usize, in_flight: Duration) {
        self.entries[place].in_flight += in_flight;
    }

    /// Labels used since the last reset, in the order of their first use ever.
    pub(crate) fn read(&self) -> Vec<Traffic> {
        self.entries.iter().filter(|entry| entry.calls > 0).cloned().collect()
    }

    pub(crate) fn reset(&mut self) {
        for entry in &mut self.entries {
            (entry.calls, entry.sent) = (0, [0; 3]);
            (entry.blocked, entry.in_flight) = (Duration::ZERO, Duration::ZERO);
        }
    }
}
