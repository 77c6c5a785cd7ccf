//! Rounds of peaks and steps, in turns.

use super::super::step;
use super::result::{Limit, limit, row_bytes};
use anyhow::{Context, Result};
use collectives::Communicator;
use kernels::peak::{self, Memory};
use spec::precision::Precision;
use spec::run::Run;
use spec::schedule::{Task, Work};
use std::ops::ControlFlow;
use std::time::Instant;
use training::{Cluster, Communicators, Devices, Execution, RankState, Source, Trace, TraceRow};

/// Tries of a bare loop over memory in a round, of which the best counts.
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
    /// Seconds of each phase of the schedule, in each step: at work, or waited for.
    pub phases: Vec<Vec<f64>>,
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

/// Runs all rounds on one rank.
pub fn measure(run: &Run, effort: &Effort) -> Result<Measured> {
    let devices = Devices::new(run, &Cluster::Threads)?;
    let batches = step::batches(run)?;
    let of_ranks = collectives::launch(
        run.topology(),
        &collectives::Options::default(),
        |rank| devices.of(rank),
        |world| rounds(run, &world, Source::Resident(batches.clone()), effort),
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
    let threads = training::threads(run, &Cluster::Threads);
    let mut memory = Memory::new(effort.bytes, threads)?;
    let mut measured = Measured { phases: vec![Vec::new(); schedule.phases().len()], ..Measured::default() };
    measured.peaks.products = precisions(run).into_iter().map(|precision| (precision, Vec::new())).collect();
    let batches = run.batches();
    let batch_of = |step| batches.at(step % batches.per_epoch());
    device.enter(|| {
        Execution::new(schedule.clone())
            .run(&mut rank, &communicators, effort.warm_up, batch_of, |_, _| Ok(ControlFlow::Continue(())))
    })?;
    for _ in 0..effort.rounds {
        measured.peaks.measure(&mut memory, row_bytes(run), threads)?;
        // Of the first step the caches know nothing, and it reads two batches; the last one reads none ahead.
        let steps = effort.steps + 2;
        let mut execution = Execution::new(schedule.clone()).traced(steps);
        let (first, mut times) = (rank.steps, Vec::with_capacity(steps as usize));
        device.enter(|| {
            let mut last = Instant::now();
            execution.run(&mut rank, &communicators, steps, batch_of, |_, _| {
                times.push(last.elapsed().as_secs_f64());
                last = Instant::now();
                Ok(ControlFlow::Continue(()))
            })
        })?;
        if let Some(trace) = execution.trace(&communicators)? {
            measured.add(&trace, first + 1, &times[1..times.len() - 1]);
        }
    }
    Ok(measured)
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
        memory: &mut Memory,
        row_bytes: usize,
        threads: usize,
    ) -> Result<(), training::Error> {
        let mut best = |of: &dyn Fn(&mut Memory) -> f64| (0..TRIES).map(|_| of(memory)).fold(0.0, f64::max);
        self.stream.push(best(&|memory| {
            let stream = memory.stream();
            stream.read.max(stream.copy)
        }));
        self.gather.push(best(&|memory| memory.gather(row_bytes)));
        self.update.push(best(&|memory| memory.update(row_bytes)));
        for (precision, peaks) in &mut self.products {
            peaks.push(peak::products(*precision, threads)?);
        }
        Ok(())
    }
}
