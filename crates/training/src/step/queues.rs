//! Queues of a rank's device: a lane of a schedule is a queue, and a dependency between two lanes is an event.
//!
//! A phase is queued and returns. Where the phases that it waits for are in other queues, its own waits for their events; the
//! host does not. The same events say when each phase ran, and are read two steps later, when they are past anyway. On devices
//! whose operations are done when they return there are no events.
//!
//! A step that the device replays as one graph records no times; the steps that are timed stand for the others.

use crate::Error;
use crate::step::phase_time::PhaseTime;
use crate::step::trace::{LocalSpan, Recorder, TraceRow};
use kernels::{Device, Event, KernelError};
use spec::schedule::{Lane, Operation, Phase, Schedule, Work};
use std::time::Instant;

/// Queue of the inputs, beside those of the lanes.
const INPUT: usize = 3;
/// Queue of what no computation of this step waits for: results on their way to the host, updates of dense parameters.
const LAST: usize = 4;
/// Steps whose events are kept: the one being queued, those that may still run, and the collectives that they waited for.
const KEPT: u64 = 4;

/// Queue that the work of a phase goes to. What is done for the next batch (copying it to the device, indexing and sorting its ids) runs
/// beside the computations of this one.
fn queue_of(phase: &Phase) -> usize {
    match phase.work {
        Work::Compute(_) if phase.ahead => INPUT,
        Work::Compute(Operation::ReadBack | Operation::UpdateDense(_)) => LAST,
        _ => phase.lane as usize,
    }
}

/// Which instance of a phase: the step it was issued in, and the step whose batch it works on, from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    pub step: u64,
    pub batch: u64,
}

/// Queues of a rank's device for the phases of one schedule.
#[derive(Debug)]
pub(crate) struct Queues {
    /// The device, by queue.
    devices: [Device; 5],
    /// Queue of each phase.
    of_phase: Vec<usize>,
    marks: Option<Marks>,
}

/// Events of the phases, on a device whose operations are queued.
#[derive(Debug)]
struct Marks {
    phases: Vec<[Mark; KEPT as usize]>,
    /// Phases, with the place of their marks, whose events came into the queues since work was last submitted.
    recorded: Vec<(usize, usize)>,
    /// Waits of the compute queue for collectives, by step.
    waits: [Vec<Wait>; KEPT as usize],
    /// The phase that the compute queue came to last, and its step.
    last: Option<(usize, u64)>,
    /// An event that is past, and when it was.
    zero: (Event, Instant),
    /// First step whose times were not read yet.
    unread: u64,
}

/// Events of one phase in one step.
#[derive(Debug)]
struct Mark {
    /// The queue has come to the phase, and nothing that the phase waits for is left.
    began: Event,
    ended: Event,
    issue: Option<Issue>,
    /// Step of the run that the events belong to; `None` where the phase has not ended on the host.
    step: Option<u64>,
    /// Whether the events were recorded, and not replayed without them.
    timed: bool,
    /// Whether the compute queue has waited for it.
    awaited: bool,
    /// Bytes that a collective sent to other ranks.
    sent: u64,
}

/// A wait of the compute queue: the collective, and the phase before the wait, each with its step.
#[derive(Clone, Copy, Debug)]
struct Wait {
    collective: (usize, u64),
    before: (usize, u64),
}

impl Queues {
    /// Queues for the phases of a schedule, of a device that is not known yet.
    pub fn new(schedule: &Schedule) -> Self {
        let of_phase = schedule.phases().iter().map(queue_of).collect();
        Self { devices: [(); 5].map(|()| Device::Reference), of_phase, marks: None }
    }

    /// Begins a run of steps on `device`, which are counted from 0 again.
    pub fn open(&mut self, device: &Device) -> Result<(), KernelError> {
        self.devices = [0, 1, 2, INPUT, LAST].map(|queue| device.on(queue));
        if !device.is_queued() {
            return Ok(());
        }
        let marks = match self.marks.take() {
            Some(marks) => marks,
            None => Marks::new(&self.devices[0], self.of_phase.len())?,
        };
        let marks = self.marks.insert(marks);
        // Work of an earlier run is past in all queues: phases of this one wait for none of it.
        device.synchronise()?;
        marks.zero = zero(&self.devices[0])?;
        marks.phases.iter_mut().flatten().for_each(|mark| mark.step = None);
        marks.waits.iter_mut().for_each(Vec::clear);
        marks.recorded.clear();
        (marks.last, marks.unread) = (None, 0);
        Ok(())
    }

    /// Whether operations are queued, so that the clock of the host says nothing of their times.
    pub fn are_timed(&self) -> bool {
        self.marks.is_some()
    }

    /// The device, with its operations in the queue of a phase.
    pub fn device(&self, phase: usize) -> &Device {
        &self.devices[self.of_phase[phase]]
    }

    /// Lets the queue of `phase` go on after phase `before` of step `needed`, if that is in another queue.
    pub fn wait(&mut self, phase: usize, before: usize, needed: u64) -> Result<(), KernelError> {
        let Some(marks) = &mut self.marks else { return Ok(()) };
        let (queue, other) = (self.of_phase[phase], self.of_phase[before]);
        let mark = &mut marks.phases[before][(needed % KEPT) as usize];
        if queue == other || mark.step != Some(needed) {
            return Ok(());
        }
        self.devices[queue].wait(&mark.ended)?;
        if queue == Lane::Compute as usize
            && other != INPUT
            && other != LAST
            && !std::mem::replace(&mut mark.awaited, true)
            && let Some(last) = marks.last
        {
            let wait = Wait { collective: (before, needed), before: last };
            marks.waits[(last.1 % KEPT) as usize].push(wait);
        }
        Ok(())
    }

    /// Says that `phase` of step `step` comes next in its queue.
    pub fn begin(&mut self, phase: usize, step: u64, issue: Issue) -> Result<(), KernelError> {
        let Some(marks) = &mut self.marks else { return Ok(()) };
        let place = (step % KEPT) as usize;
        marks.recorded.push((phase, place));
        let mark = &mut marks.phases[phase][place];
        (mark.issue, mark.step, mark.timed, mark.awaited, mark.sent) = (Some(issue), None, true, false, 0);
        self.devices[self.of_phase[phase]].record(&mark.began)
    }

    /// Says that all of `phase` of step `step` is in its queue.
    pub fn end(&mut self, phase: usize, step: u64, sent: u64) -> Result<(), KernelError> {
        let Some(marks) = &mut self.marks else { return Ok(()) };
        let place = (step % KEPT) as usize;
        marks.recorded.push((phase, place));
        let mark = &mut marks.phases[phase][place];
        (mark.step, mark.sent) = (Some(step), sent);
        self.devices[self.of_phase[phase]].record(&mark.ended)?;
        if self.of_phase[phase] == Lane::Compute as usize {
            marks.last = Some((phase, step));
        }
        Ok(())
    }

    /// Says that all work so far is the device's, and whether it was replayed: then none of its events was recorded.
    pub fn submitted(&mut self, replayed: bool) {
        let Some(marks) = &mut self.marks else { return };
        for (phase, place) in marks.recorded.drain(..) {
            marks.phases[phase][place].timed &= !replayed;
        }
    }

    /// Adds the times of all steps before `end` that were not read yet. Their events are past.
    pub fn read(
        &mut self,
        end: u64,
        phases: &[Phase],
        times: &mut [PhaseTime],
        mut recorder: Option<&mut Recorder>,
    ) -> Result<(), Error> {
        let Some(marks) = &mut self.marks else { return Ok(()) };
        for step in marks.unread..end.min(marks.unread + KEPT) {
            marks.add(step, phases, times, &mut recorder)?;
        }
        marks.unread = marks.unread.max(end);
        Ok(())
    }
}

impl Marks {
    fn new(device: &Device, phases: usize) -> Result<Self, KernelError> {
        let mark = || {
            let (began, ended) = (device.event_between_queues()?, device.event_between_queues()?);
            Ok(Mark { began, ended, issue: None, step: None, timed: false, awaited: false, sent: 0 })
        };
        let of_phase = || Ok([mark()?, mark()?, mark()?, mark()?]);
        Ok(Self {
            phases: (0..phases).map(|_| of_phase()).collect::<Result<_, KernelError>>()?,
            recorded: Vec::with_capacity(4 * phases),
            waits: [(); KEPT as usize].map(|()| Vec::with_capacity(2 * phases)),
            last: None,
            zero: zero(device)?,
            unread: 0,
        })
    }

    fn mark(&self, (phase, step): (usize, u64)) -> Option<&Mark> {
        let mark = &self.phases[phase][(step % KEPT) as usize];
        (mark.step == Some(step) && mark.timed).then_some(mark)
    }

    /// Adds the times of the phases that were queued in `step`, and of the waits after them.
    fn add(
        &mut self,
        step: u64,
        phases: &[Phase],
        times: &mut [PhaseTime],
        recorder: &mut Option<&mut Recorder>,
    ) -> Result<(), Error> {
        let mut record = |row, phase, issue: Issue, began: &Event, ended: &Event, sent| {
            let Some(recorder) = recorder else { return Ok(()) };
            let at = |event: &Event| Ok(self.zero.1 + event.since(&self.zero.0)?.unwrap_or_default());
            let Issue { step, batch } = issue;
            let (began, ended) = (at(began)?, at(ended)?);
            recorder.add(LocalSpan { row, phase, step, batch, began, ended, sent });
            Ok::<_, KernelError>(())
        };
        for (i, phase) in phases.iter().enumerate() {
            times[i].steps += u64::from(self.phases[i][(step % KEPT) as usize].step == Some(step));
            let Some(Mark { began, ended, issue: Some(issue), sent, .. }) = self.mark((i, step)) else {
                continue;
            };
            let collective = matches!(phase.work, Work::Collective(_));
            // What nothing has waited for yet may still be under way.
            if collective && !ended.is_past()? {
                continue;
            }
            times[i].timed += 1;
            let taken = ended.since(began)?.unwrap_or_default();
            match collective {
                true => times[i].communication += taken,
                false => times[i].busy += taken,
            }
            record(TraceRow::of(phase.lane), i, *issue, began, ended, *sent)?;
        }
        for wait in &self.waits[(step % KEPT) as usize] {
            let (Some(collective), Some(before)) = (self.mark(wait.collective), self.mark(wait.before))
            else {
                continue;
            };
            if !collective.ended.is_past()? {
                continue;
            }
            let exposed = collective.ended.since(&before.ended)?.unwrap_or_default();
            times[wait.collective.0].exposed += exposed;
            if let Some(issue) = collective.issue.filter(|_| !exposed.is_zero()) {
                let phase = wait.collective.0;
                record(TraceRow::Waiting, phase, issue, &before.ended, &collective.ended, 0)?;
            }
        }
        self.waits[(step % KEPT) as usize].clear();
        Ok(())
    }
}

/// An event that is past, and when it was.
fn zero(device: &Device) -> Result<(Event, Instant), KernelError> {
    let event = device.event()?;
    device.record(&event)?;
    event.synchronise()?;
    Ok((event, Instant::now()))
}
