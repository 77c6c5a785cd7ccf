//! Trains a run: launches its ranks, loops over epochs, evaluates, and says what happened.

use crate::checkpoint::Checkpoint;
use crate::checkpoint::state::{self, Restore};
use crate::run::cluster::Cluster;
use crate::run::digest;
use crate::run::evaluation::{self, PredictionReceiver, Receiver, Scores};
use crate::run::event::Event;
use crate::run::memory::{MemoryNeed, MemoryUse, available_memory};
use crate::run::meter::Meter;
use crate::run::pace::Compute;
use crate::run::supervisor::Supervisor;
use crate::samples::logs::Shared;
use crate::samples::source::Source;
use crate::step::communicators::Circles;
use crate::step::interpreter::Execution;
use crate::step::phases::{self, PhaseReport, StepTime};
use crate::step::rank_state::Rank;
use crate::step::trace::Trace;
use crate::{Error, Logs, Prefetch};
use collectives::{Communicator, Options};
use data::Split;
use kernels::{Device, KernelError};
use spec::run::Run;
use spec::schedule::Task;
use spec::volume::LinkBytes;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How a run is carried out, besides what it is.
pub struct Session<'a> {
    /// Where its ranks live.
    pub cluster: &'a Cluster,
    /// Told what happens, by rank 0.
    pub observe: &'a (dyn Fn(Event) + Sync),
    /// Once set, the run saves its state and ends after the current step.
    pub stop: Option<&'a AtomicBool>,
    /// Where checkpoints go; without it there are none.
    pub checkpoints: Option<Saving>,
    /// Where to go on from.
    pub resume: Option<&'a Checkpoint>,
    /// Whether computations are made, or only waited for.
    pub compute: Compute<'a>,
    /// Steps at the beginning whose times do not count.
    pub warm_up: u64,
    /// Tells losses and speed every so many steps, and at the end; about a hundred times where nothing is said.
    pub report_every: Option<u64>,
    /// Records when the phases of so many steps at the end of the run ran.
    pub trace_steps: Option<u64>,
}

/// Where checkpoints go, and what they say of the run.
#[derive(Clone, Debug)]
pub struct Saving {
    /// The folder of checkpoints.
    pub root: PathBuf,
    /// The run's config, kept in every checkpoint.
    pub run: serde_json::Value,
}

impl Default for Session<'_> {
    fn default() -> Self {
        Self {
            cluster: &Cluster::Threads,
            observe: &|_| (),
            stop: None,
            checkpoints: None,
            resume: None,
            compute: Compute::Real,
            warm_up: 0,
            report_every: None,
            trace_steps: None,
        }
    }
}

/// Gives a rank its samples of a split; called once per rank and use.
pub type Sources<'a> = dyn Fn(Split) -> Result<Source, Error> + Sync + 'a;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Steps done, those before a resumed checkpoint included.
    pub steps: u64,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Steps of this session.
    pub trained: u64,
    /// Those of them that samples, seconds and phases are about: all but the first few, where these were left out.
    pub timed: u64,
    /// Whether computations were only waited for: then there are no losses, no scores and no digest.
    pub paced: bool,
    /// Mean loss of every step of this session; none of a paced one.
    pub losses: Vec<f64>,
    /// The model on the evaluation samples; `None` when there are none, or when the run was stopped.
    pub scores: Option<Scores>,
    /// Training samples of the steps that were timed.
    pub samples: u64,
    /// Seconds of training, without set-up and evaluation.
    pub seconds: f64,
    /// Digest of all parameters, the same wherever they were trained; none of a paced run.
    pub parameters_sha256: Option<String>,
    /// What each phase took; on rank 0 only, nothing elsewhere.
    pub phases: Vec<PhaseReport>,
    /// CPU seconds of the threads that read batches ahead, in the steps that were timed; mean over ranks.
    pub reading_s: f64,
    /// Bytes that all ranks sent, for whatever purpose.
    pub sent: LinkBytes,
    /// Threads of each rank.
    pub threads: usize,
    /// When the phases of the last steps ran, where that was recorded.
    pub trace: Option<Trace>,
    /// What the run was expected to need on this machine; `None` where ranks ran already.
    pub memory: Option<MemoryNeed>,
}

impl Outcome {
    /// Training samples a second; 0 when nothing was left to train.
    pub fn samples_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.samples as f64 / self.seconds } else { 0.0 }
    }

    /// Where the time of a step went; `None` when nothing was left to train.
    pub fn step_time(&self) -> Option<StepTime> {
        StepTime::of(&self.phases, self.seconds, self.timed)
    }

    /// The AUC on the evaluation samples, where there are some of both labels.
    pub fn auc(&self) -> Option<f64> {
        self.scores.as_ref().and_then(|scores| scores.evaluation.auc)
    }
}

/// Threads of each rank: as the run says, or the machine's cores shared out.
pub fn threads(run: &Run, cluster: &Cluster) -> usize {
    run.threads.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores / cluster.ranks_here(run.topology()).len().max(1)).max(1)
    })
}

/// Trains `run` on the ranks of the session's cluster.
pub fn train(run: &Run, logs: &Logs, session: &Session) -> Result<Outcome, Error> {
    let threads = threads(run, session.cluster);
    let shared = Shared::new(run, logs);
    train_on(run, |_| Device::cpu(threads), &|split| shared.source(split), session)
}

/// As [`train`], on devices and data of the caller's choice.
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
        let circles = Circles::new(&world, &run.dataflow)?;
        Trainer { run, circles: &circles, sources, session }.train()
    })?;
    let first = outcomes.into_iter().next().ok_or(Error::NoRank)?;
    Ok(Outcome { memory: Some(need), ..first })
}

/// One rank's part of [`train`], on ranks that run already: all of `world` call it. What they hold must fit, see
/// [`check_size`].
pub fn train_rank(run: &Run, logs: &Logs, world: &Communicator, session: &Session) -> Result<Outcome, Error> {
    // Bytes of the runs before are not this one's.
    world.reset_meter();
    let circles = Circles::new(world, &run.dataflow)?;
    let shared = Shared::new(run, logs);
    Trainer { run, circles: &circles, sources: &|split| shared.source(split), session }.train()
}

/// Scores `checkpoint` on the evaluation samples of `run`, which `receive` gets in the order of the log.
pub fn evaluate(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    observe: &(dyn Fn(Event) + Sync),
    receive: &mut Receiver,
) -> Result<Scores, Error> {
    // Rank 0 alone calls it.
    let receive = Mutex::new(receive);
    let scores = on_checkpoint(run, logs, checkpoint, |circles, rank| {
        let receive: &mut Receiver = &mut |labels, probabilities| {
            let mut receive = receive.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            receive(labels, probabilities)
        };
        let sources = |split| logs.source(run, split);
        evaluation::evaluate(run, circles, rank, &sources, observe, receive, &mut || {
            Ok(ControlFlow::Continue(()))
        })
    })?;
    scores.into_iter().next().flatten().ok_or(Error::NoSamples)
}

/// Gives `receive` what `checkpoint` predicts for the evaluation samples of `run`, in the order of the log. Their labels are
/// not looked at.
pub fn predict(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    observe: &(dyn Fn(Event) + Sync),
    receive: &mut PredictionReceiver,
) -> Result<(), Error> {
    // Rank 0 alone calls it.
    let receive = Mutex::new(receive);
    on_checkpoint(run, logs, checkpoint, |circles, rank| {
        let receive: &mut PredictionReceiver = &mut |probabilities| {
            let mut receive = receive.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            receive(probabilities)
        };
        evaluation::predict(run, circles, rank, &|split| logs.source(run, split), observe, receive)
    })?;
    Ok(())
}

/// Runs `body` on the ranks of `run`, as threads, with the parameters of `checkpoint`.
fn on_checkpoint<T: Send>(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    body: impl Fn(&Circles, &mut Rank) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let cluster = &Cluster::Threads;
    check_size(run, cluster, MemoryUse::EVALUATION)?;
    let threads = threads(run, cluster);
    let shared = Shared::new(run, logs);
    on_ranks(
        run,
        cluster,
        |_| Device::cpu(threads),
        |world| {
            let schedule = run.schedule(Task::Evaluate);
            let source = shared.source(Split::Eval)?;
            let mut rank = Rank::new(world.device().clone(), run, &schedule, world.rank(), source)?;
            state::restore(run, world.rank(), &mut rank, checkpoint, Restore::Parameters)?;
            body(&Circles::new(&world, &run.dataflow)?, &mut rank)
        },
    )
}

pub(crate) fn on_ranks<T: Send>(
    run: &Run,
    cluster: &Cluster,
    devices: impl Fn(usize) -> Result<Device, KernelError> + Sync,
    body: impl Fn(Communicator) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let options = Options { wait_limit: Duration::from_secs_f64(run.wait_limit_s) };
    let results = cluster.launch(run.topology(), &options, devices, |world| {
        let device = world.device().clone();
        device.enter(|| body(world)).map_err(Error::of_rank)
    });
    Ok(results?)
}

/// One rank of a run.
struct Trainer<'a> {
    run: &'a Run,
    circles: &'a Circles<'a>,
    sources: &'a Sources<'a>,
    session: &'a Session<'a>,
}

impl Trainer<'_> {
    fn train(self) -> Result<Outcome, Error> {
        let Self { run, circles, sources, session } = self;
        let world = circles.world();
        let schedule = run.schedule(Task::Train);
        let source = sources(Split::Train)?;
        let source = if self.paced() { Source::repeated(source) } else { source };
        let mut rank = Rank::new(world.device().clone(), run, &schedule, world.rank(), source)?;
        let mut supervisor = Supervisor::new(run, world, session)?;
        if let Some(checkpoint) = session.resume {
            supervisor.restore(&mut rank, checkpoint)?;
        }
        let mut execution = match session.compute {
            Compute::Real => Execution::new(schedule),
            Compute::Paced(pace) => {
                let times = pace.of_rank(&schedule, world.rank())?;
                Execution::new(schedule).paced(times)
            }
        };
        if let Some(steps) = session.trace_steps {
            execution = execution.traced(steps);
        }
        let mut meter = Meter::new(run, rank.steps, session.report_every);
        let began_at = rank.steps;
        let mut interrupted = false;
        let mut reading = Duration::ZERO;
        let mut scores = None;
        world.barrier(&meter.label)?;
        // The run may have ended between a checkpoint and the evaluation after the same step.
        let missed =
            |every: u64| rank.steps > 0 && rank.steps < run.steps && rank.steps.is_multiple_of(every);
        if run.eval_every.is_some_and(missed) {
            (_, interrupted) = self.evaluate(&mut rank, &mut supervisor)?;
        }
        // Training stops for every evaluation, so that a batch read ahead is never in its way.
        while rank.steps < run.steps && !interrupted {
            let first = rank.steps;
            let every = run.eval_every.filter(|_| !self.paced()).unwrap_or(run.steps);
            let mut end = run.steps.min((first / every + 1).saturating_mul(every));
            let warm_up = began_at.saturating_add(session.warm_up);
            if first < warm_up {
                end = end.min(warm_up);
            } else if first == warm_up {
                execution.reset_times();
                meter.reset();
                reading = Duration::ZERO;
            }
            let batches = run.batches();
            let source = std::mem::replace(&mut rank.source, Source::Resident(Vec::new()));
            rank.source = Source::Ahead(Prefetch::of_rank(world, source, run, batches, first..end));
            meter.start();
            let at = |step| batches.at(first + step);
            execution.run(&mut rank, circles, end - first, at, |rank, _| {
                meter.after_step(world, rank, session.observe)?;
                let flow = supervisor.after_step(rank, rank.steps)?;
                interrupted = flow.is_break() && rank.steps < run.steps;
                Ok(flow)
            })?;
            meter.pause();
            rank.source = match std::mem::replace(&mut rank.source, Source::Resident(Vec::new())) {
                Source::Ahead(ahead) => {
                    let (source, cpu) = ahead.stop()?;
                    reading += cpu;
                    source
                }
                source => source,
            };
            let due = run.eval_every.is_some_and(|every| rank.steps.is_multiple_of(every));
            if !interrupted && rank.steps < run.steps && due {
                (_, interrupted) = self.evaluate(&mut rank, &mut supervisor)?;
            }
        }
        let phases = phases::report(world, execution.schedule(), execution.times())?;
        let trace = execution.trace(circles)?;
        let mut parameters_sha256 = None;
        if !self.paced() {
            let digest = digest::parameters(world, run, &rank)?;
            supervisor.finish(&rank, rank.steps, &digest)?;
            parameters_sha256 = Some(digest);
        }
        if !interrupted {
            (scores, interrupted) = self.evaluate(&mut rank, &mut supervisor)?;
        }
        Ok(Outcome {
            steps: rank.steps,
            interrupted,
            trained: meter.losses.len() as u64,
            timed: meter.steps,
            paced: self.paced(),
            samples: meter.samples,
            seconds: meter.seconds,
            losses: if self.paced() { Vec::new() } else { meter.mean_losses(world)? },
            scores,
            parameters_sha256,
            phases,
            reading_s: phases::mean(world, reading.as_secs_f64())?,
            sent: phases::sent(world)?,
            threads: threads(run, session.cluster),
            trace,
            memory: None,
        })
    }

    fn paced(&self) -> bool {
        matches!(self.session.compute, Compute::Paced(_))
    }

    /// Scores, and whether the run is to stop.
    fn evaluate(
        &self,
        rank: &mut Rank,
        supervisor: &mut Supervisor,
    ) -> Result<(Option<Scores>, bool), Error> {
        let Self { run, circles, sources, session } = self;
        if self.paced() {
            return Ok((None, false));
        }
        let mut stop = false;
        let mut between = || {
            let flow = supervisor.during_evaluation()?;
            stop = flow.is_break();
            Ok(flow)
        };
        let ignore = &mut |_: &[f32], _: &[f32]| Ok(());
        let scores =
            evaluation::evaluate(run, circles, rank, sources, session.observe, ignore, &mut between)?;
        if let Some(scores) = &scores {
            (session.observe)(Event::Evaluated { step: rank.steps, scores });
        }
        Ok((scores, stop))
    }
}

/// The most ranks that one process runs as threads: every pair of them has a place in every exchange.
const MAX_RANKS: usize = 1024;

/// Refuses a run that cannot fit into this process or machine, before anything is allocated. Gives what it needs.
pub fn check_size(run: &Run, cluster: &Cluster, purpose: MemoryUse) -> Result<MemoryNeed, Error> {
    let here = cluster.ranks_here(run.topology()).len();
    if matches!(cluster, Cluster::Threads) && here > MAX_RANKS {
        return Err(Error::Ranks { ranks: here, most: MAX_RANKS });
    }
    let need = MemoryNeed::of(run, cluster, purpose);
    match available_memory() {
        Some(available) if need.total() > available => {
            Err(Error::Memory { need: Box::new(need), ranks: here, available })
        }
        _ => Ok(need),
    }
}
