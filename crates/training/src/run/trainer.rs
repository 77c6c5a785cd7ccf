//! Trains a run: loops over epochs on every rank, evaluates, saves, and says what happened.

use crate::Error;
use crate::cache::CacheCounts;
use crate::checkpoint::warm_start::warm_start;
use crate::run::best::BestSoFar;
use crate::run::cluster::threads;
use crate::run::devices::{Devices, check_all_reduce};
use crate::run::event::Event;
use crate::run::launch::{check_size, on_ranks};
use crate::run::memory::MemoryUse;
use crate::run::meter::Meter;
use crate::run::outcome::{KeptBest, Outcome};
use crate::run::pace::check_tables;
use crate::run::scores::Scores;
use crate::run::session::{Compute, Session, Sources};
use crate::run::supervisor::Supervisor;
use crate::run::{digest, evaluation};
use crate::samples::logs::{Logs, SharedLogs};
use crate::samples::source::Prefetch;
use crate::samples::source::Source;
use crate::step::communicators::Communicators;
use crate::step::interpreter::Execution;
use crate::step::phases::{self, SentByLabel};
use crate::step::rank_state::RankState;
use collectives::Communicator;
use data::Split;
use kernels::{Device, KernelError};
use spec::device::DeviceChoice;
use spec::run::{Run, RunError};
use spec::schedule::Task;
use std::time::Duration;

/// Trains `run` on the ranks of the session's cluster.
pub fn train(run: &Run, logs: &Logs, session: &Session) -> Result<Outcome, Error> {
    let shared = SharedLogs::new(run, logs);
    if session.paced() && run.device != DeviceChoice::Cpu {
        let problem = "a paced run computes nothing, so that it uses no device; leave it out";
        return Err(RunError::new("train.device (--device)", problem).into());
    }
    check_all_reduce(session.cluster, run.all_reduce)?;
    let devices = Devices::new(run, session.cluster)?;
    train_on(run, |rank| devices.of(rank), &|split| shared.source(split), session)
}

/// Trains `run` as [`train`] does, on devices and data of the caller's choice.
pub fn train_on(
    run: &Run,
    devices: impl Fn(usize) -> Result<Device, KernelError> + Sync,
    sources: &Sources,
    session: &Session,
) -> Result<Outcome, Error> {
    let devices = |rank| match session.compute {
        Compute::Real => devices(rank),
        Compute::Paced(_) => Ok(Device::Idle),
    };
    let need = match session.compute {
        Compute::Real => {
            let saves = session.checkpoints.is_some();
            check_size(run, session.cluster, MemoryUse { saves, ..MemoryUse::TRAINING })?
        }
        Compute::Paced(pace) => {
            if session.checkpoints.is_some() || session.resume.is_some() {
                return Err(Error::PacedState);
            }
            pace.check(&run.schedule(Task::Train))?;
            check_size(run, session.cluster, MemoryUse { computing: 0, ..MemoryUse::TRAINING })?
        }
    };
    let outcomes = on_ranks(run, session.cluster, devices, |world| {
        let communicators = Communicators::new(&world, &run.dataflow)?;
        Trainer::new(run, &communicators, sources, session)?.train()
    })?;
    let first = outcomes.into_iter().next().ok_or(Error::NoRank)?;
    Ok(Outcome { memory: Some(need), ..first })
}

/// Does one rank's part of [`train`], on ranks that run already: all of `world` call it. What they hold must fit, see
/// [`check_size`].
pub fn train_rank(run: &Run, logs: &Logs, world: &Communicator, session: &Session) -> Result<Outcome, Error> {
    // Bytes of the runs before are not this one's.
    world.reset_meter();
    let communicators = Communicators::new(world, &run.dataflow)?;
    let shared = SharedLogs::new(run, logs);
    Trainer::new(run, &communicators, &|split| shared.source(split), session)?.train()
}

/// One rank of a run that trains.
struct Trainer<'a> {
    run: &'a Run,
    communicators: &'a Communicators<'a>,
    sources: &'a Sources<'a>,
    session: &'a Session<'a>,
    rank: RankState,
    supervisor: Supervisor<'a>,
    execution: Execution,
    meter: Meter<'a>,
    /// Steps done before this session.
    began_at: u64,
    /// CPU time of reading ahead, in the steps that are timed.
    reading: Duration,
    interrupted: bool,
    /// The last evaluation: steps done, and the scores on rank 0.
    evaluated: Option<(u64, Option<Scores>)>,
    /// Bytes that evaluations sent under the names of phases.
    sent_by_evaluations: SentByLabel,
}

impl<'a> Trainer<'a> {
    /// The rank at its initial weights, or where the session's checkpoint left it.
    fn new(
        run: &'a Run,
        communicators: &'a Communicators<'a>,
        sources: &'a Sources<'a>,
        session: &'a Session<'a>,
    ) -> Result<Self, Error> {
        let world = communicators.world();
        let schedule = run.schedule(Task::Train);
        let source = sources(Split::Train)?;
        let source = if session.paced() { Source::repeated(source) } else { source };
        let mut rank = RankState::new(world.device().clone(), run, &schedule, world.rank(), source)?;
        let mut supervisor = Supervisor::new(run, world, session)?;
        if let Some(checkpoint) = session.resume {
            supervisor.restore(&mut rank, checkpoint)?;
        } else if let Some((checkpoint, taken)) = session.warm_start.filter(|_| !session.paced()) {
            warm_start(run, world.rank(), &mut rank, checkpoint, taken)?;
        }
        supervisor.track_updates(&mut rank)?;
        let mut execution = match session.compute {
            Compute::Real => Execution::new(schedule),
            Compute::Paced(pace) => {
                check_tables(run)?;
                let times = pace.of_rank(&schedule, world.rank())?;
                rank.pace_reductions(&schedule, &times);
                Execution::new(schedule).paced(times)
            }
        };
        if let Some(steps) = session.trace_steps {
            execution = execution.traced(steps);
        }
        let meter = Meter::new(run, rank.steps, session.report_every);
        Ok(Self {
            run,
            communicators,
            sources,
            session,
            supervisor,
            execution,
            meter,
            began_at: rank.steps,
            rank,
            reading: Duration::ZERO,
            interrupted: false,
            evaluated: None,
            sent_by_evaluations: SentByLabel::default(),
        })
    }

    fn train(mut self) -> Result<Outcome, Error> {
        self.communicators.world().barrier(&self.meter.label)?;
        // The run may have ended between a checkpoint and the evaluation after the same step.
        if self.rank.steps > 0 && self.evaluation_due() {
            self.evaluate()?;
        }
        // Training stops for every evaluation, so that a batch read ahead is never in its way.
        while self.rank.steps < self.run.steps && !self.interrupted && !self.supervisor.stops() {
            let end = self.next_stop();
            self.train_until(end)?;
            if !self.interrupted && self.evaluation_due() {
                self.evaluate()?;
            }
        }
        self.finish()
    }

    /// Whether an evaluation between steps belongs after the step just done.
    fn evaluation_due(&self) -> bool {
        let steps = self.rank.steps;
        steps < self.run.steps && self.run.eval_every.is_some_and(|every| steps.is_multiple_of(every))
    }

    /// The step before which training stops next: for an evaluation, for the end of the warm-up, or for good. Once the
    /// warm-up is done, times begin to count.
    fn next_stop(&mut self) -> u64 {
        let (first, run) = (self.rank.steps, self.run);
        let every = run.eval_every.filter(|_| !self.session.paced()).unwrap_or(run.steps);
        let end = run.steps.min((first / every + 1).saturating_mul(every));
        let warm_up = self.began_at.saturating_add(self.session.warm_up);
        if first < warm_up {
            return end.min(warm_up);
        }
        if first == warm_up {
            self.execution.reset_times();
            self.meter.reset();
            self.reading = Duration::ZERO;
        }
        end
    }

    /// Trains up to step `end`, reading batches ahead.
    fn train_until(&mut self, end: u64) -> Result<(), Error> {
        let Self { run, communicators, session, rank, supervisor, execution, meter, interrupted, .. } = self;
        let (world, batches, first) = (communicators.world(), run.batches(), rank.steps);
        let source = std::mem::replace(&mut rank.source, Source::none());
        rank.source = Source::Ahead(Prefetch::of_rank(world, source, run, batches, first..end));
        meter.start(rank);
        let at = |step| batches.at(first + step);
        execution.run(rank, communicators, end - first, at, |rank, _| {
            meter.after_step(world, rank, session.observe)?;
            let flow = supervisor.after_step(rank, rank.steps)?;
            // A checkpoint waits for all losses.
            meter.take_losses(rank);
            *interrupted = flow.is_break() && rank.steps < run.steps;
            Ok(flow)
        })?;
        meter.take_losses(rank);
        meter.pause(rank);
        rank.source = match std::mem::replace(&mut rank.source, Source::none()) {
            Source::Ahead(ahead) => {
                let (source, cpu) = ahead.stop()?;
                self.reading += cpu;
                source
            }
            source => source,
        };
        Ok(())
    }

    /// Scores the model, tells the observer, and keeps the best state; a request to stop during the evaluation interrupts the run.
    fn evaluate(&mut self) -> Result<(), Error> {
        let Self { run, communicators, sources, session, rank, supervisor, interrupted, .. } = self;
        if session.paced() || run.data.eval_samples() == 0 {
            return Ok(());
        }
        let before = SentByLabel::of(communicators.world());
        let mut between = || {
            let flow = supervisor.during_evaluation()?;
            *interrupted = flow.is_break();
            Ok(flow)
        };
        let ignore = &mut |_: &[f32], _: &[f32]| Ok(());
        let scores =
            evaluation::evaluate(run, communicators, rank, sources, session.observe, ignore, &mut between)?;
        self.sent_by_evaluations.add(&SentByLabel::of(communicators.world()).less(&before));
        if *interrupted {
            return Ok(());
        }
        if let Some(scores) = &scores {
            (session.observe)(Event::Evaluated { step: rank.steps, scores });
        }
        supervisor.evaluated(rank, scores.as_ref())?;
        self.evaluated = Some((rank.steps, scores));
        Ok(())
    }

    /// Saves the last state, evaluates it, and brings together what all ranks measured.
    fn finish(mut self) -> Result<Outcome, Error> {
        let (world, paced) = (self.communicators.world(), self.session.paced());
        let times = self.execution.times();
        let phases = phases::report(world, self.execution.schedule(), &times, &self.sent_by_evaluations)?;
        let trace = self.execution.trace(self.communicators)?;
        let mut parameters_sha256 = None;
        if !paced {
            let digest = digest::parameters(world, self.run, &self.rank)?;
            let steps = self.rank.steps;
            self.supervisor.finish(&mut self.rank, steps, &digest)?;
            parameters_sha256 = Some(digest);
        }
        let stopped_early = (self.rank.steps < self.run.steps && !self.interrupted)
            .then(|| self.supervisor.best().map(BestSoFar::without_improvement))
            .flatten();
        let of_this_step = |evaluated: &(u64, Option<Scores>)| evaluated.0 == self.rank.steps;
        if !self.interrupted && !self.evaluated.as_ref().is_some_and(of_this_step) {
            self.evaluate()?;
        }
        self.supervisor.settle(self.rank.steps)?;
        let scores = self.evaluated.take().filter(|(step, _)| *step == self.rank.steps).and_then(|(_, s)| s);
        let best = self.best(scores.as_ref());
        let meter = self.meter;
        let cache = CacheCounts::of_world(world, self.run, meter.cache)?;
        Ok(Outcome {
            steps: self.rank.steps,
            interrupted: self.interrupted,
            stopped_early,
            best,
            trained: meter.trained,
            timed: meter.steps,
            paced,
            samples: meter.samples,
            seconds: meter.seconds,
            losses: if paced { Vec::new() } else { meter.mean_losses(world)? },
            scores,
            parameters_sha256,
            phases,
            reading_s: phases::mean(world, self.reading.as_secs_f64())?,
            sent: phases::sent(world)?,
            cache,
            threads: threads(self.run, self.session.cluster),
            trace,
            memory: None,
        })
    }
    /// The best state of the run, whose last state has `scores`.
    fn best(&self, scores: Option<&Scores>) -> Option<KeptBest> {
        let best = self.supervisor.best()?;
        let evaluation = best.best()?.clone();
        Some(KeptBest {
            metric: best.metric().clone(),
            label: best.label(),
            epoch: evaluation.step as f64 / self.run.batches().per_epoch().max(1) as f64,
            last: scores.and_then(|scores| best.value(scores)),
            checkpoint: self.supervisor.best_checkpoint(),
            evaluation,
        })
    }
}
