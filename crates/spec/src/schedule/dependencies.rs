//! Dependencies between phases, derived from what they read and write.

use super::{Distance, Phase, PhaseId};
use std::ops::Range;

/// Derives the dependencies from what phases read and write.
///
/// A phase waits for the last writer of what it reads, and for the readers and the writer of what it overwrites. What
/// the ahead phases write is double-buffered, so a phase of batch i depends on the ahead phases of step i − 1, and an
/// ahead phase waits for the readers of two batches ago, which the writer of the batch between has already done.
pub(super) fn derive(phases: &mut [Phase]) {
    let count = phases.len();
    for i in 0..count {
        let mut after: Vec<(PhaseId, Distance)> = Vec::new();
        let mut add = |id: usize, distance: Distance| {
            if (id, distance) != (i, 0) && !after.contains(&(PhaseId(id), distance)) {
                after.push((PhaseId(id), distance));
            }
        };
        let phase = &phases[i];
        for slot in &phase.reads {
            // The nearest writer before this phase: in this step, or else in the step before.
            let writer = |range: Range<usize>| {
                range.rev().find(|&j| phases[j].writes.contains(slot) && (!phases[j].ahead || phase.ahead))
            };
            if let Some(j) = writer(0..i) {
                add(j, 0);
            } else if let Some(j) = (0..count).rev().find(|&j| phases[j].writes.contains(slot)) {
                add(j, 1);
            }
        }
        for slot in &phase.writes {
            // Whoever still reads the old value must be done. What an ahead phase writes is double-buffered: its old value
            // is that of two batches ago, read in the step before this one.
            for (j, reader) in phases.iter().enumerate().filter(|(_, p)| p.reads.contains(slot)) {
                if j < i && reader.ahead == phase.ahead {
                    add(j, 0);
                }
                if !reader.ahead && (phase.ahead || j >= i) {
                    add(j, 1);
                }
            }
        }
        phases[i].after = prune(after, phases, i);
    }
}

/// Drops dependencies that another one already implies, so that the printed list says what matters.
fn prune(after: Vec<(PhaseId, Distance)>, phases: &[Phase], of: usize) -> Vec<(PhaseId, Distance)> {
    // Phases before `of` already have their dependencies; those of distance 1 at or after it do not yet.
    let implied = |target: (PhaseId, Distance), by: (PhaseId, Distance)| {
        let mut open = vec![by];
        let mut seen = Vec::new();
        while let Some((id, distance)) = open.pop() {
            if id.0 >= of && distance > 0 {
                continue;
            }
            for &(next, more) in &phases[id.0].after {
                let next = (next, distance + more);
                if next == target {
                    return true;
                }
                if next.1 <= target.1 && !seen.contains(&next) {
                    seen.push(next);
                    open.push(next);
                }
            }
        }
        false
    };
    let mut kept: Vec<(PhaseId, Distance)> = after
        .iter()
        .copied()
        .filter(|&target| !after.iter().any(|&by| by != target && implied(target, by)))
        .collect();
    kept.sort_by_key(|&(id, distance)| (distance, id));
    kept
}
