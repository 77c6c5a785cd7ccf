//! Rounds of peaks and steps, in turns.

use super::super::step;
use super::result::{Limit, limit, row_bytes};
use anyhow::{Context, Result};
use collectives::Communicator;
use kernels::peak::{DeviceMemory, products_of};
use kernels::{Device, KernelError};
use spec::precision::Precision;
use spec::run::Run;
use spec::schedule::{Phase, Schedule, Task, Work};
use std::ops::{ControlFlow, Range};
use std::time::Instant;
use training::{Communicators, Devices, Execution, RankState, Source, Trace, TraceRow};

/// Tries of a bare loop over memory in a round, of which the best counts. A GPU makes several laps in each.
const TRIES: usize = 3;

/// How much is measured.
pub struct Effort {
    /// Steps before the first round.
    pub warm_up: u64,
    /// Rounds, each of peaks and then of steps.
    pub rounds: u64,
    /// Steps that are timed in each round.
    pub steps: u64,
    /// Bytes of the memory that bare loops run over.
    pub bytes: usize,
}

/// Measurements of all rounds.
#[derive(Default)]
pub struct Measured {
    /// Seconds of each step.
    pub steps: Vec<f64>,
    /// Seconds of each step between its phases.
    pub between: Vec<f64>,
    /// Seconds of each phase of the schedule, in each step: at work, or waited for. On a GPU, the mean of each round.
    pub phases: Vec<Vec<f64>>,
    /// Phases that run beside the others, on a queue of their own.
    pub beside: Vec<usize>,
    /// Peaks of each round.
    pub peaks: Peaks,
}

/// Peaks of each round.
#[derive(Default)]
pub struct Peaks {
    /// FLOP/s of products, for every precision that the step has.
    pub products: Vec<(Precision, Vec<f64>)>,
    /// Bytes a second of random rows that are read.
    pub gather: Vec<f64>,
    /// Bytes a second of random rows that are read and written.
    pub update: Vec<f64>,
    /// Bytes a second of a stream: the faster of reading and copying.
    pub stream: Vec<f64>,
}

/// Runs all rounds on the only rank of a run.
pub fn measure(run: &Run, devices: &Devices, effort: &Effort) -> Result<Measured> {
    let batches = step::batches(run)?;
    let of_ranks = collectives::launch(
        run.topology(),
        &collectives::Options::default(),
        |rank| devices.of(rank),
        |world| rounds(run, &world, Source::resident(batches.clone()), effort),
    )
    .map_err(anyhow::Error::new)?;
    of_ranks.into_iter().next().context("a topology has ranks")
}

fn rounds(
    run: &Run,
    world: &Communicator,
    source: Source,
    effort: &Effort,
) -> Result<Measured, training::Error> {
    let schedule = run.schedule(Task::Train);
    let device = world.device().clone();
    let mut rank = RankState::new(device.clone(), run, &schedule, world.rank(), source)?;
    let communicators = Communicators::new(world, &run.dataflow)?;
    let mut memory = DeviceMemory::new(&device, effort.bytes)?;
    let mut measured = Measured { phases: vec![Vec::new(); schedule.phases().len()], ..Measured::default() };
    measured.peaks.products = precisions(run).into_iter().map(|precision| (precision, Vec::new())).collect();
    let batches = run.batches();
    let batch_of = move |step| batches.at(step % batches.per_epoch());
    let mut execution = Execution::new(schedule.clone());
    // One reader for all rounds: its memory is new at first.
    let (rounds, steps) = (effort.rounds, effort.steps);
    let read = (0..effort.warm_up).chain((0..rounds).flat_map(move |_| 0..steps)).map(batch_of);
    step::read_ahead(&mut rank, run, device.is_queued(), read)?;
    execution
        .run(&mut rank, &communicators, effort.warm_up, batch_of, |_, _| Ok(ControlFlow::Continue(())))?;
    for _ in 0..effort.rounds {
        measured.peaks.measure(&device, &mut memory, row_bytes(run))?;
        let on = OneRank { communicators: &communicators, effort, batch_of: &batch_of };
        match device.is_queued() {
            true => measured.add_queued(&on.queued_round(&mut execution, &mut rank)?, &schedule),
            false => on.round(&schedule, &mut rank, &mut measured)?,
        }
    }
    Ok(measured)
}

/// What every round of a rank needs.
struct OneRank<'a> {
    communicators: &'a Communicators<'a>,
    effort: &'a Effort,
    batch_of: &'a (dyn Fn(u64) -> Range<u64> + Sync),
}

/// A round on a GPU: seconds of a step and of its phases, as means.
struct QueuedRound {
    step: f64,
    phases: Vec<f64>,
}

impl OneRank<'_> {
    /// Steps by the clock of the host, phase by phase.
    fn round(
        &self,
        schedule: &Schedule,
        rank: &mut RankState,
        measured: &mut Measured,
    ) -> Result<(), training::Error> {
        // Of the first step the caches know nothing, and it reads two batches; the last one reads none ahead.
        let steps = self.effort.steps + 2;
        let mut execution = Execution::new(schedule.clone()).traced(steps);
        let (first, mut times) = (rank.steps, Vec::with_capacity(steps as usize));
        let mut last = Instant::now();
        execution.run(rank, self.communicators, steps, self.batch_of, |_, _| {
            times.push(last.elapsed().as_secs_f64());
            last = Instant::now();
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(trace) = execution.trace(self.communicators)? {
            measured.add(&trace, first + 1, &times[1..times.len() - 1]);
        }
        Ok(())
    }

    /// Steps on a device whose operations are queued: phases by events of the device, and the step by the time of all of them, one
    /// after the other without waiting.
    fn queued_round(
        &self,
        execution: &mut Execution,
        rank: &mut RankState,
    ) -> Result<QueuedRound, training::Error> {
        let steps = self.effort.steps;
        let device: Device = self.communicators.world().device().clone();
        execution.reset_times();
        let began = Instant::now();
        execution
            .run(rank, self.communicators, steps, self.batch_of, |_, _| Ok(ControlFlow::Continue(())))?;
        device.synchronise()?;
        let per_step = |seconds: f64| seconds / steps as f64;
        let phases = execution.times().into_iter();
        Ok(QueuedRound {
            step: per_step(began.elapsed().as_secs_f64()),
            phases: phases.map(|time| per_step((time.busy + time.exposed).as_secs_f64())).collect(),
        })
    }
}

/// Whether a phase of a device with queues runs beside the others, on the queue of inputs: it works on the next batch.
fn is_beside(phase: &Phase) -> bool {
    phase.ahead && matches!(phase.work, Work::Compute(_))
}

/// Precisions in which the step computes products.
fn precisions(run: &Run) -> Vec<Precision> {
    let schedule = run.schedule(Task::Train);
    let mut precisions = Vec::new();
    for phase in schedule.phases() {
        let Work::Compute(operation) = &phase.work else { continue };
        if let Limit::Products(precision) = limit(run, &schedule, operation)
            && !precisions.contains(&precision)
        {
            precisions.push(precision);
        }
    }
    precisions
}

impl Measured {
    /// Adds a round of a GPU.
    fn add_queued(&mut self, round: &QueuedRound, schedule: &Schedule) {
        let phases = schedule.phases().iter().enumerate();
        self.beside = phases.filter(|(_, phase)| is_beside(phase)).map(|(i, _)| i).collect();
        let one_by_one: f64 =
            (0..round.phases.len()).filter(|i| !self.beside.contains(i)).map(|i| round.phases[i]).sum();
        self.steps.push(round.step);
        self.between.push((round.step - one_by_one).max(0.0));
        self.phases.iter_mut().zip(&round.phases).for_each(|(all, &seconds)| all.push(seconds));
    }

    /// Adds the steps of a round: those from `first` on, of which the times are known.
    fn add(&mut self, trace: &Trace, first: u64, times: &[f64]) {
        let phases = self.phases.len();
        let mut seconds: Vec<Vec<Option<f64>>> = vec![vec![None; phases]; times.len()];
        for span in trace.spans() {
            let at_work = matches!(span.row, TraceRow::Compute | TraceRow::Waiting);
            let step = span.step.checked_sub(first).and_then(|step| seconds.get_mut(step as usize));
            if let Some(step) = step.filter(|_| at_work) {
                *step[span.phase].get_or_insert(0.0) += span.ended_s - span.began_s;
            }
        }
        for (of_step, &time) in seconds.iter().zip(times) {
            self.steps.push(time);
            self.between.push((time - of_step.iter().flatten().sum::<f64>()).max(0.0));
            for (all, seconds) in self.phases.iter_mut().zip(of_step) {
                all.extend(seconds);
            }
        }
    }
}

impl Peaks {
    /// Measures all peaks of a round.
    fn measure(
        &mut self,
        device: &Device,
        memory: &mut DeviceMemory,
        row_bytes: usize,
    ) -> Result<(), training::Error> {
        let tries = if device.is_queued() { 1 } else { TRIES };
        let mut best = |of: &dyn Fn(&mut DeviceMemory) -> Result<f64, KernelError>| {
            (0..tries).try_fold(0.0, |best: f64, _| Ok::<_, KernelError>(best.max(of(memory)?)))
        };
        self.stream.push(best(&|memory| {
            let stream = memory.stream()?;
            Ok(stream.read.max(stream.copy))
        })?);
        self.gather.push(best(&|memory| memory.gather(row_bytes))?);
        self.update.push(best(&|memory| memory.update(row_bytes))?);
        for (precision, peaks) in &mut self.products {
            peaks.push(products_of(&device.in_precision(*precision))?);
        }
        Ok(())
    }
}
