//! Bytes of one status entry: numbers and texts at fixed offsets, between a number that grows and a checksum.

use crate::transport::mpi::messages::{get, put};
use crate::{Activity, CollectiveStatus, RankStatus};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Length of an entry in bytes, a multiple of eight.
pub(super) const LEN: usize = 368;

type Range = std::ops::Range<usize>;

const TURN: usize = 0;
const RANK: usize = 8;
const HOST: usize = 16;
const PID: usize = 24;
const ACTIVITY: usize = 32;
/// Offset of the time at which the rank began to wait, in nanoseconds of the system clock.
const SINCE: usize = 40;
const HAS_COLLECTIVE: usize = 48;
const SEQUENCE: usize = 56;
const SIZE: usize = 64;
const NODE: Range = 72..136;
const PHASE: Range = 136..232;
const OPERATION: Range = 232..264;
const LABEL: Range = 264..360;
const CHECK: usize = 360;

/// Last status that the process of a rank has written to its status file.
#[derive(Clone, Debug)]
pub struct ProcessStatus {
    /// What the rank was doing.
    pub status: RankStatus,
    /// Process id.
    pub pid: u32,
    /// Name of the machine.
    pub node: String,
}

impl fmt::Display for ProcessStatus {
    /// Formats the report of a process that has died.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status: RankStatus { rank, host, phase, activity, collective, .. }, pid, node } = self;
        write!(f, "rank {rank} on host {host} ({node}, pid {pid}) died in phase `{phase}`: ")?;
        match (collective, activity) {
            // The waiting time is left out: the file is read some time after the death.
            (Some(collective), Activity::Waiting(_)) => write!(f, "waiting in {collective}"),
            (Some(collective), _) => write!(f, "last started {collective}"),
            (None, _) => write!(f, "no collective started"),
        }
    }
}

/// A status entry as it is in a file.
#[derive(Clone)]
pub(super) struct StatusEntry([u8; LEN]);

impl StatusEntry {
    pub(super) fn new(rank: usize, host: usize, pid: u32, node: &str) -> Self {
        let mut entry = Self([0; LEN]);
        entry.set(RANK, rank as u64);
        entry.set(HOST, host as u64);
        entry.set(PID, pid.into());
        put(&mut entry.0[NODE], node);
        entry
    }

    /// Decodes an entry and the number of its update; none if it is not whole.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<(u64, Self)> {
        let entry = Self(bytes.try_into().ok()?);
        (entry.get(CHECK) == entry.sum()).then(|| (entry.get(TURN), entry))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn set_phase(&mut self, phase: &str) {
        put(&mut self.0[PHASE], phase);
    }

    pub(super) fn set_collective(&mut self, collective: &CollectiveStatus) {
        self.set(HAS_COLLECTIVE, 1);
        self.set(SEQUENCE, collective.sequence);
        self.set(SIZE, collective.size as u64);
        put(&mut self.0[OPERATION], collective.operation);
        put(&mut self.0[LABEL], collective.label.as_str());
    }

    /// Sets what the rank is doing. A rank that waits begins to wait now.
    pub(super) fn set_activity(&mut self, activity: Activity) {
        let number = match activity {
            Activity::Computing => 0,
            Activity::Waiting(_) => 1,
            Activity::Finished => 2,
            Activity::Failed => 3,
            Activity::Silent => 4,
        };
        self.set(ACTIVITY, number);
        if number == 1 {
            self.set(SINCE, now());
        }
    }

    /// Sets the number of the update and the checksum, which makes the entry whole.
    pub(super) fn seal(&mut self, turn: u64) {
        self.set(TURN, turn);
        self.set(CHECK, self.sum());
    }

    /// Status that the entry describes. The name of the operation is leaked: entries are read when a run ends.
    pub(super) fn status(&self) -> ProcessStatus {
        let activity = match self.get(ACTIVITY) {
            0 => Activity::Computing,
            1 => Activity::Waiting(Duration::from_nanos(now().saturating_sub(self.get(SINCE)))),
            2 => Activity::Finished,
            3 => Activity::Failed,
            _ => Activity::Silent,
        };
        let collective = (self.get(HAS_COLLECTIVE) == 1).then(|| CollectiveStatus {
            operation: get(&self.0[OPERATION]).leak(),
            label: get(&self.0[LABEL]).into(),
            sequence: self.get(SEQUENCE),
            size: self.get(SIZE) as usize,
        });
        let (rank, host) = (self.get(RANK) as usize, self.get(HOST) as usize);
        let phase = get(&self.0[PHASE]).into();
        let status = RankStatus { rank, host, phase, activity, collective, answers: true };
        ProcessStatus { status, pid: self.get(PID) as u32, node: get(&self.0[NODE]) }
    }

    fn set(&mut self, at: usize, number: u64) {
        self.0[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }

    fn get(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    /// Checksum of all words but the last.
    fn sum(&self) -> u64 {
        let words = self.0[..CHECK].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        words.fold(0xcbf2_9ce4_8422_2325, |sum, word| {
            (sum ^ word).rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
