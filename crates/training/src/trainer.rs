//! Trains a run: launches its ranks, loops over epochs, evaluates, and says what happened.

use crate::digest;
use crate::evaluate::{self, Scores};
use crate::rank::Rank;
use crate::source::Source;
use crate::step::{Execution, PhaseTime};
use crate::{Error, metrics::Evaluation};
use collectives::{Communicator, Label, Options, launch};
use data::{Split, SyntheticLog};
use kernels::{Device, KernelError};
use serde::Serialize;
use spec::run::Run;
use spec::schedule::{Lane, Schedule, Task};
use spec::topology::LinkClass;
use spec::volume::LinkBytes;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What a run is doing, for a progress bar.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Training, now and then.
    Training {
        /// Steps done.
        step: u64,
        /// Steps in all.
        steps: u64,
        /// Samples of the world so far.
        samples: u64,
        /// Mean loss since the last event.
        loss: f64,
        /// AUC of all predictions made so far, each before its sample was learnt; `None` until both labels were seen.
        auc: Option<f64>,
        /// Samples a second since the last event.
        samples_per_s: f64,
    },
    /// Training has ended and evaluation begins.
    Evaluating {
        /// Samples to score.
        samples: u64,
    },
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Mean loss of every step.
    pub losses: Vec<f64>,
    /// The model on the evaluation samples; `None` when there are none.
    pub evaluation: Option<Evaluation>,
    /// AUC of the true probabilities on the same samples: no model does better but by luck.
    pub best_auc: Option<f64>,
    /// Training samples seen.
    pub samples: u64,
    /// Seconds of training, without set-up and evaluation.
    pub seconds: f64,
    /// Digest of all parameters, the same wherever they were trained.
    pub parameters_sha256: String,
    /// What each phase took.
    pub phases: Vec<PhaseReport>,
    /// Threads of each rank.
    pub threads: usize,
}

/// One phase over all steps of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Where it queued.
    pub lane: Lane,
    /// Seconds at work, mean over ranks.
    pub busy_s: f64,
    /// Seconds waited for with nothing else to do, mean over ranks.
    pub exposed_s: f64,
    /// Bytes sent by all ranks, as the transport counted them.
    pub sent: LinkBytes,
}

/// Threads of each rank: as the run says, or the machine's cores shared out.
pub fn threads(run: &Run) -> usize {
    run.threads.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores / run.topology().ranks()).max(1)
    })
}

/// The training log of a run.
pub fn training_source(run: &Run) -> Result<Source, Error> {
    let model = &run.model;
    Ok(Source::Synthetic(SyntheticLog::new(
        &run.data,
        model.features(),
        model.dense_features(),
        Split::Train,
    )?))
}

/// Trains `run` with its ranks as threads of this process.
pub fn train(run: &Run, observe: &(dyn Fn(Event) + Sync)) -> Result<Outcome, Error> {
    let threads = threads(run);
    train_on(run, |_| Device::cpu(threads), || training_source(run), observe)
}

/// As [`train`], on devices and data of the caller's choice. `source` is called once per rank.
pub fn train_on(
    run: &Run,
    devices: impl Fn(usize) -> Result<Device, KernelError> + Sync,
    source: impl Fn() -> Result<Source, Error> + Sync,
    observe: &(dyn Fn(Event) + Sync),
) -> Result<Outcome, Error> {
    check_size(run)?;
    let options = Options { wait_limit: Duration::from_secs_f64(run.wait_limit_s) };
    let mut outcomes = launch(run.topology(), &options, devices, |world| {
        let device = world.device().clone();
        device.enter(|| train_rank(run, world, source()?, observe))
    })
    .map_err(Box::new)?;
    Ok(outcomes.swap_remove(0))
}

/// The range of samples of step `step`: epochs follow each other, the last batch of each may be smaller.
pub fn batch_of(run: &Run, step: u64) -> Range<u64> {
    let first = step % run.steps_per_epoch() * run.batch as u64;
    first..(first + run.batch as u64).min(run.data.samples)
}

fn train_rank(
    run: &Run,
    world: Communicator,
    source: Source,
    observe: &(dyn Fn(Event) + Sync),
) -> Result<Outcome, Error> {
    let schedule = run.schedule(Task::Train);
    let mut rank = Rank::new(world.device().clone(), run, &schedule, world.rank(), source)?;
    let steps = run.steps;
    // About two hundred events, whatever the length.
    let report_every = (steps / 200).max(1);
    // Reserved, so that a step allocates nothing; a run of more steps than this may, now and then.
    let mut losses = Vec::with_capacity(steps.min(1 << 20) as usize);
    let mut window = Window { began: Instant::now(), samples: 0, loss: 0.0 };
    let mut samples = 0;
    let label = Label::from("report");
    let mut execution = Execution::new(schedule);

    world.barrier(&label)?;
    let began = Instant::now();
    execution.run(
        &mut rank,
        &world,
        steps,
        |step| batch_of(run, step),
        |rank, step| {
            losses.push(rank.loss);
            let batch = batch_of(run, step);
            samples += batch.end - batch.start;
            window.samples += batch.end - batch.start;
            window.loss += rank.loss;
            if (step + 1) % report_every == 0 || step + 1 == steps {
                let mut sums = [window.loss];
                world.all_reduce_f64(&label, &mut sums)?;
                let seen = evaluate::merged(&world, &label, &rank.seen)?;
                if world.rank() == 0 {
                    let elapsed = window.began.elapsed().as_secs_f64();
                    observe(Event::Training {
                        step: step + 1,
                        steps,
                        samples,
                        loss: sums[0] / window.samples as f64,
                        auc: seen.auc(),
                        samples_per_s: window.samples as f64 / elapsed,
                    });
                }
                window = Window { began: Instant::now(), samples: 0, loss: 0.0 };
            }
            Ok(())
        },
    )?;
    let seconds = began.elapsed().as_secs_f64();

    let phases = report(&world, execution.schedule(), execution.times())?;
    world.all_reduce_f64(&label, &mut losses)?;
    for (step, loss) in losses.iter_mut().enumerate() {
        let batch = batch_of(run, step as u64);
        *loss /= (batch.end - batch.start) as f64;
    }
    let parameters_sha256 = digest::parameters(&world, run, &rank)?;
    let Scores { evaluation, best_auc } = evaluate::evaluate(run, &world, &mut rank, observe)?;
    let threads = threads(run);
    Ok(Outcome { losses, evaluation, best_auc, samples, seconds, parameters_sha256, phases, threads })
}

struct Window {
    began: Instant,
    samples: u64,
    loss: f64,
}

/// Sums what every rank measured of every phase.
pub(crate) fn report(
    world: &Communicator,
    schedule: &Schedule,
    times: &[PhaseTime],
) -> Result<Vec<PhaseReport>, Error> {
    const COLUMNS: usize = 4;
    let metered = world.meter();
    let mut sums = Vec::with_capacity(times.len() * COLUMNS);
    for (phase, time) in schedule.phases().iter().zip(times) {
        let traffic = metered.iter().find(|t| t.label.as_str() == phase.name);
        let sent = |link| traffic.map_or(0.0, |t| t.sent(link) as f64);
        sums.extend([
            time.busy.as_secs_f64(),
            time.exposed.as_secs_f64(),
            sent(LinkClass::Host),
            sent(LinkClass::Network),
        ]);
    }
    world.all_reduce_f64(&Label::from("report"), &mut sums)?;
    let ranks = world.size() as f64;
    let reports = schedule.phases().iter().zip(sums.chunks(COLUMNS)).map(|(phase, sums)| PhaseReport {
        name: phase.name.clone(),
        lane: phase.lane,
        busy_s: sums[0] / ranks,
        exposed_s: sums[1] / ranks,
        sent: LinkBytes { host: sums[2] as u64, network: sums[3] as u64 },
    });
    Ok(reports.collect())
}

/// The most ranks that one process runs as threads: every pair of them has a place in every exchange.
const MAX_RANKS: usize = 1024;

/// Refuses a run that cannot fit into this process or machine, before anything is allocated.
pub fn check_size(run: &Run) -> Result<(), Error> {
    let ranks = run.topology().ranks();
    if ranks > MAX_RANKS {
        return Err(Error::Ranks { ranks, most: MAX_RANKS });
    }
    let needed = (0..ranks).fold(0u64, |sum, rank| sum.saturating_add(run.memory(rank)));
    let Some(available) = available_memory() else { return Ok(()) };
    if needed > available {
        return Err(Error::Memory { needed_gb: needed as f64 / 1e9, available_gb: available as f64 / 1e9 });
    }
    Ok(())
}

/// Bytes the system could give without swapping; `None` where it does not say.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
