//! The bytes of one record: numbers and texts, each in its place, between a number that grows and a checksum.

use crate::transport::mpi::wire::{get, put};
use crate::{Activity, CollectiveStatus, RankStatus};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a record, a multiple of eight.
pub(super) const LEN: usize = 368;

type Range = std::ops::Range<usize>;

const TURN: usize = 0;
const RANK: usize = 8;
const HOST: usize = 16;
const PID: usize = 24;
const ACTIVITY: usize = 32;
/// Since when it waits, in nanoseconds of the system's clock.
const SINCE: usize = 40;
const HAS_COLLECTIVE: usize = 48;
const SEQUENCE: usize = 56;
const SIZE: usize = 64;
const NODE: Range = 72..136;
const PHASE: Range = 136..232;
const OPERATION: Range = 232..264;
const LABEL: Range = 264..360;
const CHECK: usize = 360;

/// What a process has said about itself.
#[derive(Clone, Debug)]
pub struct ProcessStatus {
    /// Where its rank was.
    pub status: RankStatus,
    /// The process.
    pub pid: u32,
    /// The machine's name.
    pub node: String,
}

impl fmt::Display for ProcessStatus {
    /// What to say of a process that is gone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status: RankStatus { rank, host, phase, activity, collective, .. }, pid, node } = self;
        write!(f, "rank {rank} on host {host} ({node}, pid {pid}) died in phase `{phase}`: ")?;
        match (collective, activity) {
            // Not for how long: the file is read some time after the death.
            (Some(collective), Activity::Waiting(_)) => write!(f, "waiting in {collective}"),
            (Some(collective), _) => write!(f, "last started {collective}"),
            (None, _) => write!(f, "no collective started"),
        }
    }
}

/// A record as it is in a file.
#[derive(Clone)]
pub(super) struct Record([u8; LEN]);

impl Record {
    pub(super) fn new(rank: usize, host: usize, pid: u32, node: &str) -> Self {
        let mut record = Self([0; LEN]);
        record.set(RANK, rank as u64);
        record.set(HOST, host as u64);
        record.set(PID, pid.into());
        put(&mut record.0[NODE], node);
        record
    }

    /// The record that was written `turn` times before, whole or not at all.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<(u64, Self)> {
        let record = Self(bytes.try_into().ok()?);
        (record.get(CHECK) == record.sum()).then(|| (record.get(TURN), record))
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

    /// For a rank that waits: it has just begun to.
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

    /// Makes the record whole.
    pub(super) fn seal(&mut self, turn: u64) {
        self.set(TURN, turn);
        self.set(CHECK, self.sum());
    }

    /// What it says. A text of the record is never freed: records are read when a run ends.
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

    /// A checksum of all words but the last.
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
