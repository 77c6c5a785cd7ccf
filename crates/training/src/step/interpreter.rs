//! The interpreter: a loop over the phases of a schedule.
//!
//! A computation runs where the schedule puts it. A collective is started there, and waited for when a phase that
//! depends on it comes up; what lies between hides it. On a device whose operations are queued, both are queued in their
//! lane, and the lanes wait for each other; the work of a whole step may be given to the device in one piece.

use crate::Error;
use crate::cpu_clock;
use crate::dataflow::Carries;
use crate::step::communicators::Communicators;
use crate::step::pacing::Pacing;
use crate::step::phase_time::PhaseTime;
use crate::step::queues::{Issue, Queues};
use crate::step::rank_state::RankState;
use crate::step::trace::{LocalSpan, Recorder, Trace, TraceRow};
use collectives::Label;
use kernels::Collected;
use spec::schedule::{Lane, Phase, PhaseId, Schedule, Task, Work};
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

/// A schedule being executed by one rank.
#[derive(Debug)]
pub struct Execution {
    schedule: Schedule,
    labels: Vec<Label>,
    in_flight: Vec<Option<Started>>,
    times: Vec<PhaseTime>,
    /// Time since which each lane has been free.
    free: [Option<Instant>; Lane::ALL.len()],
    pacing: Pacing,
    recorder: Option<Recorder>,
    queues: Queues,
    /// Steps until one is queued piece by piece, for its times.
    until_timed: u64,
}

/// Steps of which the device times one, where it replays the others: a step that is queued piece by piece takes longer.
const TIMED: u64 = 64;

/// A collective that was started, or rows that were set out between files and memory.
#[derive(Debug)]
struct Started {
    step: u64,
    /// When, in the numbers of the whole run.
    issue: Issue,
    began: Instant,
    carries: InFlight,
}

/// What a phase under way carries.
#[derive(Clone, Copy, Debug)]
enum InFlight {
    /// Buffers of a collective.
    Collective(Carries),
    /// Rows of tables.
    Rows,
}

impl Execution {
    /// An execution of `schedule`, from its beginning.
    pub fn new(schedule: Schedule) -> Self {
        // Bytes are metered by label: those of an evaluation are not the training's.
        let prefix = if schedule.task() == Task::Evaluate { "evaluation: " } else { "" };
        let label = |phase: &Phase| Label::from(format!("{prefix}{}", phase.name).as_str());
        let labels = schedule.phases().iter().map(label).collect();
        let in_flight = schedule.phases().iter().map(|_| None).collect();
        let times = vec![PhaseTime::default(); schedule.phases().len()];
        let (pacing, recorder, queues) = (Pacing::Real, None, Queues::new(&schedule));
        Self {
            schedule,
            labels,
            in_flight,
            times,
            free: [None; Lane::ALL.len()],
            pacing,
            recorder,
            queues,
            until_timed: 0,
        }
    }

    /// The execution with each phase taking the time given for it. The rank's device should compute nothing.
    pub fn paced(self, times: Vec<Duration>) -> Self {
        assert_eq!(times.len(), self.labels.len(), "a time for each phase");
        Self { pacing: Pacing::Paced(times), ..self }
    }

    /// The execution with ranks that compute one after the other.
    pub(crate) fn in_turns(self) -> Self {
        let (label, taken) = (Label::from("turn"), vec![Vec::new(); self.labels.len()]);
        let watches = self.labels.iter().map(|_| None).collect();
        Self { pacing: Pacing::InTurns { label, taken, watches }, ..self }
    }

    /// Times of each phase when measured alone; empty unless ranks took turns.
    pub(crate) fn taken(&self) -> &[Vec<f64>] {
        match &self.pacing {
            Pacing::InTurns { taken, .. } => taken,
            Pacing::Real | Pacing::Paced(_) => &[],
        }
    }

    /// The execution, which records when the phases of the last `steps` steps ran.
    pub fn traced(self, steps: u64) -> Self {
        Self { recorder: Some(Recorder::new(steps, self.labels.len())), ..self }
    }

    /// The records of all ranks, on rank 0. All ranks call it; `None` where nothing was recorded.
    pub fn trace(&self, communicators: &Communicators) -> Result<Option<Trace>, Error> {
        let Some(recorder) = &self.recorder else { return Ok(None) };
        Trace::gather(communicators.world(), self.schedule.phases(), recorder)
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Time of each phase so far. Where the device replayed most steps, those that it did not replay stand for them.
    pub fn times(&self) -> Vec<PhaseTime> {
        self.times.iter().map(|time| time.of_all_steps()).collect()
    }

    /// Forgets the time of every phase.
    pub fn reset_times(&mut self) {
        self.times.fill(PhaseTime::default());
        self.until_timed = 0;
    }

    /// Runs one step per batch. `batches(i)` is the range of samples of batch `i` of `count`; `after` is called at the
    /// end of each step, and may end the run there. Losses that arrived are the rank's until the next step; when the run
    /// ends, all have arrived.
    pub fn run(
        &mut self,
        rank: &mut RankState,
        communicators: &Communicators,
        count: u64,
        batches: impl Fn(u64) -> Range<u64>,
        mut after: impl FnMut(&mut RankState, u64) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        self.queues.open(communicators.world().device())?;
        // The prologue: what the step before the first would have done ahead. Batches are numbered from 1 here, so
        // that step i works on batch i and, ahead, on batch i + 1.
        self.step(rank, communicators, 0, Some(batches(0)), true)?;
        for step in 1..=count {
            rank.losses.clear();
            let next = (step < count).then(|| batches(step));
            self.step(rank, communicators, step, next, false)?;
            if self.schedule.task() == Task::Train {
                rank.steps += 1;
            }
            if after(rank, step - 1)?.is_break() {
                break;
            }
        }
        for phase in 0..self.in_flight.len() {
            self.finish(rank, phase, u64::MAX)?;
        }
        rank.settle_rows()?;
        rank.check()?;
        self.read_times(u64::MAX)
    }

    fn step(
        &mut self,
        rank: &mut RankState,
        communicators: &Communicators,
        step: u64,
        next: Option<Range<u64>>,
        prologue: bool,
    ) -> Result<(), Error> {
        let collected = self.collect(communicators, prologue);
        for phase in 0..self.labels.len() {
            let ahead = self.schedule.phases()[phase].ahead;
            if (ahead && next.is_none()) || (!ahead && prologue) {
                continue;
            }
            for i in 0..self.schedule.phases()[phase].after.len() {
                let (PhaseId(before), distance) = self.schedule.phases()[phase].after[i];
                if let Some(needed) = step.checked_sub(u64::from(distance)) {
                    self.finish(rank, before, needed)?;
                    self.queues.wait(phase, before, needed)?;
                }
            }
            let (began, cpu) = (Instant::now(), cpu_clock::of_this_thread());
            communicators.world().enter(&self.labels[phase]);
            let batch = if ahead { step + 1 } else { step };
            // The prologue belongs to the first step, whose batch it reads.
            let issue = Issue { step: rank.steps, batch: rank.steps + u64::from(ahead && !prologue) };
            let lane = self.schedule.phases()[phase].lane;
            // Rows between files and memory go by the clock of the host, whatever the device.
            if lane != Lane::Storage {
                self.queues.begin(phase, step, issue)?;
            }
            let device = self.queues.device(phase);
            match &self.schedule.phases()[phase].work {
                Work::Compute(operation) if lane == Lane::Storage && !self.pacing.waits_only() => {
                    rank.compute(device, operation, batch, None)?;
                    let carries = InFlight::Rows;
                    self.in_flight[phase] = Some(Started { step, issue, began, carries });
                }
                Work::Compute(operation) => {
                    self.pacing.carry_out(communicators.world(), device, phase, began, || {
                        rank.compute(device, operation, batch, next.clone())
                    })?;
                    if lane != Lane::Storage {
                        self.queues.end(phase, step, 0)?;
                    }
                }
                Work::Collective(collective) => {
                    let carries = Carries::of(&self.schedule.phases()[phase], collective)?;
                    let group = communicators.of(collective.group)?.on(device);
                    let round = rank.round(&self.schedule.phases()[phase].name);
                    let (kind, label) = (collective.kind, &self.labels[phase]);
                    rank.payload(carries, batch)?.start(kind, &group, label, round)?;
                    let carries = InFlight::Collective(carries);
                    self.in_flight[phase] = Some(Started { step, issue, began, carries });
                }
            }
            self.times[phase].cpu += cpu_clock::of_this_thread().saturating_sub(cpu);
            if !self.queues.are_timed() {
                let ended = Instant::now();
                self.times[phase].busy += ended - began;
                self.record(TraceRow::Compute, phase, issue, began..ended, 0);
            }
            // Outstanding collectives take their next step.
            communicators.world().progress()?;
        }
        let replayed = match collected {
            Some(collected) => collected.submit(!self.is_timed())?,
            None => false,
        };
        self.queues.submitted(replayed);
        if prologue {
            return Ok(());
        }
        // Only now, with all of this step in the queues, does the host wait for the one before.
        rank.settle_before()?;
        // The predictions of the step before are here, so all of the one before that is done.
        self.read_times(step.saturating_sub(1))
    }

    /// Begins to collect the work of a step. A rank that is alone needs nothing of others within a step, so that all of it can be given to
    /// the device in one piece. Steps that are traced, paced, or measured phase by phase are queued as they come.
    fn collect(&self, communicators: &Communicators, prologue: bool) -> Option<Collected> {
        let alone = communicators.world().size() == 1 && matches!(self.pacing, Pacing::Real);
        let trains = self.schedule.task() == Task::Train && self.recorder.is_none();
        (alone && trains && !prologue && self.queues.are_timed())
            .then(|| communicators.world().device().collect())
    }

    /// Whether the phases of the step at hand are to be timed.
    fn is_timed(&mut self) -> bool {
        let timed = self.until_timed == 0;
        self.until_timed = if timed { TIMED - 1 } else { self.until_timed - 1 };
        timed
    }

    /// Waits for the instance of `phase`, a collective or rows on their way, that began at step `needed` or before, if it is still under way.
    fn finish(&mut self, rank: &mut RankState, phase: usize, needed: u64) -> Result<(), Error> {
        let due = self.in_flight[phase].take_if(|started| started.step <= needed);
        let Some(Started { step, issue, began, carries }) = due else { return Ok(()) };
        let waited = Instant::now();
        let Phase { ahead, lane, .. } = self.schedule.phases()[phase];
        let batch = if ahead { step + 1 } else { step };
        let (at, moved) = match carries {
            InFlight::Collective(carries) => match rank.payload(carries, batch)?.finish()? {
                Some(completion) => (completion.at, completion.sent),
                None => return Ok(()),
            },
            InFlight::Rows => {
                let operation = self.schedule.phases()[phase].operation().expect("rows move in an operation");
                match rank.finish_rows(operation)? {
                    Some(at) => (at, 0),
                    None => return Ok(()),
                }
            }
        };
        if lane != Lane::Storage {
            self.queues.end(phase, step, moved)?;
            if self.queues.are_timed() {
                return Ok(());
            }
        }
        let ended = Instant::now();
        // What was issued while its lane was busy had to queue there.
        let free = &mut self.free[lane as usize];
        let from = free.map_or(began, |free| free.max(began));
        self.times[phase].communication += at.saturating_duration_since(from);
        *free = Some(free.map_or(at, |free| free.max(at)));
        self.times[phase].exposed += ended - waited;
        self.record(TraceRow::of(lane), phase, issue, began..at.max(began), moved);
        self.record(TraceRow::Waiting, phase, issue, waited..ended, 0);
        Ok(())
    }

    /// Adds what phases took in all steps before `end`, on a device whose operations are queued.
    fn read_times(&mut self, end: u64) -> Result<(), Error> {
        let Self { schedule, times, recorder, queues, .. } = self;
        queues.read(end, schedule.phases(), times, recorder.as_mut())
    }

    fn record(&mut self, row: TraceRow, phase: usize, issue: Issue, time: Range<Instant>, sent: u64) {
        if let Some(recorder) = &mut self.recorder {
            let Issue { step, batch } = issue;
            recorder.add(LocalSpan { row, phase, step, batch, began: time.start, ended: time.end, sent });
        }
    }
}
