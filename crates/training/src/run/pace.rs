//! Computations that take the time they are given, and how that time is measured.
//!
//! A paced step moves every byte that a real one moves, and computes nothing: each computation lasts as long as a
//! [`Pace`] says. So a machine can play more ranks, or faster ones, than it has cores for. Its ranks read the same two
//! batches again and again, as to draw samples would take the time of others.

use crate::run::cluster::Cluster;
use crate::run::memory::MemoryUse;
use crate::run::trainer::{check_size, on_ranks, threads};
use crate::samples::logs::Shared;
use crate::samples::source::Source;
use crate::step::communicators::Circles;
use crate::step::gather::gathered;
use crate::step::interpreter::Execution;
use crate::step::rank_state::Rank;
use crate::{Error, Logs};
use collectives::{Communicator, Label};
use data::Split;
use kernels::Device;
use spec::pace::{Pace, Seconds};
use spec::run::Run;
use spec::schedule::{Task, Work};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How a run computes.
#[derive(Clone, Copy, Debug, Default)]
pub enum Compute<'a> {
    /// Truly.
    #[default]
    Real,
    /// Not at all: computations take the time given.
    Paced(&'a Pace),
}

/// How an execution carries out its computations.
#[derive(Debug)]
pub(crate) enum Manner {
    /// As fast as it can, beside all others.
    Real,
    /// By the clock: each phase lasts so long.
    Paced(Vec<Duration>),
    /// One rank after the other, to measure each alone.
    InTurns {
        /// Of the barriers between turns.
        label: Label,
        /// What each phase took, time after time.
        taken: Vec<Vec<f64>>,
    },
}

impl Manner {
    /// Carries out the computation `work` of a phase that began at `began`.
    pub(crate) fn carry_out(
        &mut self,
        world: &Communicator,
        phase: usize,
        began: Instant,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Manner::Real => work(),
            Manner::Paced(times) => {
                work()?;
                rest_until(world, began + times[phase])
            }
            Manner::InTurns { label, taken } => {
                for _ in 0..world.rank() {
                    world.barrier(label)?;
                }
                let began = Instant::now();
                work()?;
                taken[phase].push(began.elapsed().as_secs_f64());
                for _ in world.rank()..world.size() {
                    world.barrier(label)?;
                }
                Ok(())
            }
        }
    }
}

/// The longest sleep: reductions need their rank between their exchanges.
const SLICE: Duration = Duration::from_millis(1);
/// How late a sleep may end; what is left of the time is spent awake.
const LATE: Duration = Duration::from_micros(60);

/// Sleeps until `deadline`, moving outstanding collectives on.
fn rest_until(world: &Communicator, deadline: Instant) -> Result<(), Error> {
    loop {
        world.progress()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        match left.checked_sub(LATE) {
            Some(sleep) => std::thread::sleep(sleep.min(SLICE)),
            None => std::thread::yield_now(),
        }
    }
}

/// Steps before those that count: caches and buffers are cold, and batches are drawn.
const WARM_UP: u64 = 2;

/// Measures what each computation of a step of `run` takes, as the median of `steps` real steps. Ranks take turns, so
/// that each computes alone.
///
/// Only the first `ranks` ranks are measured; the others compute nothing, and are given the times of these, in turns.
pub fn measure(run: &Run, logs: &Logs, steps: u64, ranks: usize) -> Result<Pace, Error> {
    let cluster = &Cluster::Threads;
    // Ranks that compute nothing hold no tables.
    check_size(run, cluster, MemoryUse { computing: ranks, ..MemoryUse::TRAINING })?;
    let threads = threads(run, cluster);
    let shared = Shared::new(run, logs);
    let measured = on_ranks(
        run,
        cluster,
        |rank| if rank < ranks { Device::cpu(threads) } else { Ok(Device::Idle) },
        |world| measure_rank(run, &world, shared.source(Split::Train)?, steps.max(1)),
    )?;
    let (names, seconds) = measured.into_iter().next().ok_or(Error::NoRank)?;
    let measured = seconds.chunks_exact(names.len()).take(ranks.max(1)).cycle();
    let by_rank = |i: usize| measured.clone().map(|rank| rank[i]).take(run.topology().ranks()).collect();
    let phases = names.iter().enumerate().map(|(i, name)| (name.clone(), Seconds::ByRank(by_rank(i))));
    Ok(Pace { threads: Some(threads), scale: 1.0, phases: phases.collect() })
}

/// The names of the computations, and what they took on all ranks, rank after rank.
fn measure_rank(
    run: &Run,
    world: &Communicator,
    source: Source,
    steps: u64,
) -> Result<(Vec<String>, Vec<f64>), Error> {
    // Nothing may be under way while a rank has its turn.
    let schedule = run.schedule(Task::Train).serialised();
    let mut rank = Rank::new(world.device().clone(), run, &schedule, world.rank(), Source::repeated(source))?;
    let circles = Circles::new(world, &run.dataflow)?;
    let mut execution = Execution::new(schedule).in_turns();
    // Whole batches only.
    let batches = run.batches();
    let whole = (batches.samples / batches.batch).max(1);
    let at = |step| batches.at(step % whole);
    execution.run(&mut rank, &circles, WARM_UP + steps, at, |_, _| Ok(ControlFlow::Continue(())))?;
    let (mut names, mut mine) = (Vec::new(), Vec::new());
    for (phase, taken) in execution.schedule().phases().iter().zip(execution.taken()) {
        if matches!(phase.work, Work::Compute(_)) {
            names.push(phase.name.clone());
            mine.push(median(&taken[taken.len().saturating_sub(steps as usize)..]));
        }
    }
    let counts = vec![mine.len(); world.size()];
    let all = gathered(world, &Label::from("pace"), &mine, &counts)?;
    Ok((names, all))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}
