//! When each phase ran, on which rank and row: the last steps of a run as a timeline.
//!
//! Every rank keeps its own clock. At the end the clocks are aligned by barriers: nobody leaves one before all have
//! entered it, so every barrier bounds the difference of two clocks from both sides, and the middle of the tightest
//! bounds is taken.

use crate::Error;
use crate::step::gather::{gathered, to_first};
use collectives::{Communicator, Label};
use serde_json::{Value, json};
use spec::schedule::{Lane, Phase};
use std::collections::VecDeque;
use std::time::Instant;

/// A row of a rank's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceRow {
    /// At work: computing, or starting a collective.
    Compute,
    /// Ids and embeddings under way.
    Exchange,
    /// Dense gradients under way.
    Gradients,
    /// Rows of tables on their way between files and memory.
    Storage,
    /// Waiting for a collective with nothing else to do.
    Waiting,
}

impl TraceRow {
    /// All rows, with their names.
    pub const ALL: [(TraceRow, &'static str); 5] = [
        (TraceRow::Compute, "compute"),
        (TraceRow::Exchange, "exchange"),
        (TraceRow::Gradients, "gradients"),
        (TraceRow::Storage, "storage"),
        (TraceRow::Waiting, "waiting"),
    ];

    /// Row that shows the collectives of `lane`.
    pub(crate) fn of(lane: Lane) -> Self {
        match lane {
            Lane::Compute => TraceRow::Compute,
            Lane::Exchange => TraceRow::Exchange,
            Lane::Gradients => TraceRow::Gradients,
            Lane::Storage => TraceRow::Storage,
        }
    }
}

/// Span of one phase on this rank, on the rank's own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalSpan {
    pub row: TraceRow,
    pub phase: usize,
    /// The step in which it began, and the step whose batch it worked on, from 0.
    pub step: u64,
    pub batch: u64,
    pub began: Instant,
    pub ended: Instant,
    /// Bytes sent to other ranks.
    pub sent: u64,
}

/// The last steps of one rank, in bounded memory.
#[derive(Debug)]
pub(crate) struct Recorder {
    steps: u64,
    records: VecDeque<LocalSpan>,
}

impl Recorder {
    /// Keeps the last `steps` steps of `phases` phases.
    pub fn new(steps: u64, phases: usize) -> Self {
        // A collective is started, under way and waited for; one step more is being made.
        let room = (steps as usize + 2).saturating_mul(3 * phases);
        Self { steps, records: VecDeque::with_capacity(room) }
    }

    pub fn add(&mut self, record: LocalSpan) {
        while self.records.front().is_some_and(|first| first.step + self.steps <= record.step) {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }
}

/// Something that went on from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSpan {
    /// Rank whose span it is.
    pub rank: usize,
    /// Row of the rank's timeline.
    pub row: TraceRow,
    /// Index of the phase.
    pub phase: usize,
    /// The step in which it was issued, from 0.
    pub step: u64,
    /// The step whose batch it worked on.
    pub batch: u64,
    /// When it was issued, in seconds on the clock of rank 0.
    pub issued_s: f64,
    /// When it began: a lane works through what was issued in order.
    pub began_s: f64,
    /// When it ended.
    pub ended_s: f64,
    /// Bytes sent to other ranks.
    pub sent: u64,
}

/// The timeline of all ranks.
#[derive(Clone, Debug)]
pub struct Trace {
    hosts: Vec<usize>,
    phases: Vec<String>,
    spans: Vec<TraceSpan>,
    uncertainty_s: f64,
}

/// Barriers to align the clocks by.
const BARRIERS: usize = 16;
/// Numbers of a record on its way.
const WIDTH: usize = 7;

impl Trace {
    /// Brings the records of all ranks together on rank 0, which alone gets the trace.
    pub(crate) fn gather(
        world: &Communicator,
        phases: &[Phase],
        recorder: &Recorder,
    ) -> Result<Option<Self>, Error> {
        let (label, zero) = (Label::from("trace"), Instant::now());
        let mut moments = Vec::with_capacity(2 * BARRIERS);
        for _ in 0..BARRIERS {
            moments.push(since(zero, Instant::now()));
            world.barrier(&label)?;
            moments.push(since(zero, Instant::now()));
        }
        let moments = gathered(world, &label, &moments, &vec![2 * BARRIERS; world.size()])?;
        let mut mine = Vec::with_capacity(WIDTH * recorder.records.len());
        for record in &recorder.records {
            mine.extend([
                record.row as usize as f64,
                record.phase as f64,
                record.step as f64,
                record.batch as f64,
                since(zero, record.began),
                since(zero, record.ended),
                record.sent as f64,
            ]);
        }
        let counts = gathered(world, &label, &[mine.len() as u64], &vec![1; world.size()])?;
        let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
        let all = to_first(world, &label, &mine, &counts)?;
        if world.rank() != 0 {
            return Ok(None);
        }
        let clocks: Vec<&[f64]> = moments.chunks_exact(2 * BARRIERS).collect();
        let (mut spans, mut uncertainty_s, mut at) = (Vec::with_capacity(all.len() / WIDTH), 0.0f64, 0);
        for (rank, count) in counts.into_iter().enumerate() {
            let (ahead, off) = difference(clocks[0], clocks[rank]);
            uncertainty_s = uncertainty_s.max(off);
            spans.extend(all[at..at + count].chunks_exact(WIDTH).map(|record| TraceSpan {
                rank,
                row: TraceRow::ALL[record[0] as usize].0,
                phase: record[1] as usize,
                step: record[2] as u64,
                batch: record[3] as u64,
                issued_s: record[4] - ahead,
                began_s: record[4] - ahead,
                ended_s: record[5] - ahead,
                sent: record[6] as u64,
            }));
            at += count;
        }
        let hosts = (0..world.size()).map(|rank| world.topology().host_of(rank)).collect();
        let phases = phases.iter().map(|phase| phase.name.clone()).collect();
        Ok(Some(Self { hosts, phases, spans: in_order(spans), uncertainty_s }))
    }

    /// Spans of the trace, by rank, row and time.
    pub fn spans(&self) -> &[TraceSpan] {
        &self.spans
    }

    /// The name of a phase.
    pub fn name(&self, phase: usize) -> &str {
        &self.phases[phase]
    }

    /// The timeline in the format that Chrome (chrome://tracing) and Perfetto read: a process for each rank, a thread for each row, microseconds.
    pub fn to_json(&self) -> Value {
        let mut events = Vec::new();
        for (rank, host) in self.hosts.iter().enumerate() {
            let name = format!("rank {rank} (host {host})");
            events.push(json!({ "ph": "M", "name": "process_name", "pid": rank, "args": { "name": name } }));
            for (row, name) in TraceRow::ALL {
                let tid = row as usize;
                let args = json!({ "name": name });
                events
                    .push(json!({ "ph": "M", "name": "thread_name", "pid": rank, "tid": tid, "args": args }));
                let args = json!({ "sort_index": tid });
                events.push(
                    json!({ "ph": "M", "name": "thread_sort_index", "pid": rank, "tid": tid, "args": args }),
                );
            }
        }
        let first = self.spans.iter().map(|span| span.issued_s).fold(f64::INFINITY, f64::min);
        let us = |seconds: f64| (1e9 * seconds).round() / 1e3;
        for span in &self.spans {
            let ts = us(span.began_s - first);
            events.push(json!({
                "ph": "X",
                "name": self.phases[span.phase],
                "cat": TraceRow::ALL[span.row as usize].1,
                "pid": span.rank,
                "tid": span.row as usize,
                "ts": ts,
                "dur": us(span.ended_s - first) - ts,
                "args": {
                    "step": span.step,
                    "batch": span.batch,
                    "bytes_sent": span.sent,
                    "issued_us": us(span.issued_s - first),
                },
            }));
        }
        json!({
            "displayTimeUnit": "ms",
            "otherData": {
                "clocks": "aligned by barriers at the end of the run",
                "clocks_within_us": us(self.uncertainty_s),
            },
            "traceEvents": events,
        })
    }
}

/// Seconds from `zero` to `moment`, which may have been before.
fn since(zero: Instant, moment: Instant) -> f64 {
    let (after, before) = (moment.saturating_duration_since(zero), zero.saturating_duration_since(moment));
    after.as_secs_f64() - before.as_secs_f64()
}

/// By how much a clock is ahead of the first rank's, and how far off that may be. Both give when they entered and left
/// every barrier.
fn difference(first: &[f64], other: &[f64]) -> (f64, f64) {
    let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
    for (first, other) in first.chunks_exact(2).zip(other.chunks_exact(2)) {
        // The other entered before the first left, and left after the first had entered.
        least = least.max(other[0] - first[1]);
        most = most.min(other[1] - first[0]);
    }
    ((least + most) / 2.0, (most - least) / 2.0)
}

/// Sorted by rank, row and time. What waits in its lane begins when the one before it has ended.
fn in_order(mut spans: Vec<TraceSpan>) -> Vec<TraceSpan> {
    spans.sort_by(|a, b| (a.rank, a.row).cmp(&(b.rank, b.row)).then(a.issued_s.total_cmp(&b.issued_s)));
    let mut before: Option<TraceSpan> = None;
    for span in &mut spans {
        if let Some(before) = before.filter(|b| (b.rank, b.row) == (span.rank, span.row)) {
            span.began_s = span.issued_s.max(before.ended_s);
            span.ended_s = span.ended_s.max(span.began_s);
        }
        before = Some(*span);
    }
    spans
}

#[cfg(test)]
mod tests;
