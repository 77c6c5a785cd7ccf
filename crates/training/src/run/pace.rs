//! Measures the [`Pace`] of a run: what each computation of a step takes.
//!
//! A paced step moves every byte that a real one moves, and computes nothing: each computation lasts as long as the pace
//! says. So a machine can play more ranks, or faster ones, than it has cores for. The ranks of a paced run read the same
//! two batches again and again, because drawing samples would take time from other ranks.

use crate::Error;
use crate::run::cluster::{Cluster, threads};
use crate::run::devices::Devices;
use crate::run::launch::{check_size, on_ranks};
use crate::run::memory::MemoryUse;
use crate::samples::logs::{Logs, SharedLogs};
use crate::samples::source::Source;
use crate::step::communicators::Communicators;
use crate::step::gather::gathered;
use crate::step::interpreter::Execution;
use crate::step::rank_state::RankState;
use collectives::{Communicator, Label};
use data::Split;
use kernels::Device;
use spec::pace::{Pace, Seconds};
use spec::run::{Run, RunError};
use spec::schedule::{PhaseId, Slot, Task, Work};
use spec::table_cache::TableCache;
use std::ops::ControlFlow;

/// Steps before those that count: caches and buffers are cold, and batches are drawn.
const WARM_UP: u64 = 2;

/// Measures what each computation of a step of `run` takes, as the median of `steps` real steps. Ranks take turns, so
/// that each computes alone.
///
/// Only the first `ranks` ranks are measured; the others compute nothing, and are given the times of these, in turns. Ranks on GPUs are
/// all measured, each phase by events on its device; a paced run of the same device and precision has the same phases.
pub fn measure(run: &Run, logs: &Logs, steps: u64, ranks: usize) -> Result<Pace, Error> {
    check_tables(run)?;
    let cluster = &Cluster::Threads;
    let devices = Devices::new(run, cluster)?;
    if devices.are_gpus() && ranks < run.topology().ranks() {
        let problem = "all ranks on GPUs are measured; leave out --measured-ranks, or use --device cpu";
        return Err(RunError::new("train.device (--device)", problem).into());
    }
    // Ranks that compute nothing hold no tables.
    check_size(run, cluster, MemoryUse { computing: ranks, ..MemoryUse::TRAINING })?;
    let threads = threads(run, cluster);
    let shared = SharedLogs::new(run, logs);
    let measured = on_ranks(
        run,
        cluster,
        |rank| if rank < ranks { devices.of(rank) } else { Ok(Device::Idle) },
        |world| measure_rank(run, &world, shared.source(Split::Train)?, steps.max(1)),
    )?;
    let (names, seconds) = measured.into_iter().next().ok_or(Error::NoRank)?;
    let measured = seconds.chunks_exact(names.len()).take(ranks.max(1)).cycle();
    let by_rank = |i: usize| measured.clone().map(|rank| rank[i]).take(run.topology().ranks()).collect();
    let phases = names.iter().enumerate().map(|(i, name)| (name.clone(), Seconds::ByRank(by_rank(i))));
    Ok(Pace { threads: Some(threads), scale: 1.0, phases: phases.collect() })
}

/// Refuses tables larger than memory: rows on their way between files and memory have no pace.
pub(crate) fn check_tables(run: &Run) -> Result<(), Error> {
    match run.table_cache.as_ref().and_then(TableCache::fetched) {
        None => Ok(()),
        Some(_) => {
            let problem = "computations are paced with all tables in memory only; leave it out";
            Err(RunError::new("tables.memory (--table-memory)", problem).into())
        }
    }
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
    let mut rank =
        RankState::new(world.device().clone(), run, &schedule, world.rank(), Source::repeated(source))?;
    let communicators = Communicators::new(world, &run.dataflow)?;
    let mut execution = Execution::new(schedule).in_turns();
    // Whole batches only.
    let batches = run.batches();
    let whole = (batches.samples / batches.batch).max(1);
    let at = |step| batches.at(step % whole);
    execution.run(&mut rank, &communicators, WARM_UP + steps, at, |_, _| Ok(ControlFlow::Continue(())))?;
    let (mut names, mut mine) = (Vec::new(), Vec::new());
    for (phase, taken) in execution.schedule().phases().iter().zip(execution.taken()) {
        if matches!(phase.work, Work::Compute(_)) {
            names.push(phase.name.clone());
            mine.push(median(&taken[taken.len().saturating_sub(steps as usize)..]));
        }
    }
    // What reductions encode, decode and add, one rank after the other.
    let label = Label::from("turn");
    for turn in 0..world.size() {
        world.barrier(&label)?;
        if turn != world.rank() {
            continue;
        }
        let computes = !matches!(world.device(), Device::Idle);
        let times = if computes { rank.rehearse_reductions()? } else { vec![0.0; rank.reductions.len()] };
        for (bucket, time) in times.into_iter().enumerate() {
            if let Some(PhaseId(phase)) = execution.schedule().reduced_in(Slot::BucketGradient(bucket)) {
                names.push(execution.schedule().phases()[phase].name.clone());
                mine.push(time);
            }
        }
    }
    world.barrier(&label)?;
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
