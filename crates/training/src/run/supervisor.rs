//! Supervisor: requests to stop, checkpoints and the best state so far, between steps.
//!
//! Ranks must act on the same step, so they agree first, by a small sum about four times a second. A checkpoint goes
//! through these stages, none of which holds training up but the first:
//!
//! ```text
//! copy        every rank copies its state, or of its tables the rows that were updated since the checkpoint before; what is more than the
//!             memory for copies is written at once
//! writing     a thread on every rank writes the copy
//! committing  once all have written, a thread of rank 0 writes the manifest and gives the folder its final name
//! ```
//!
//! Increments build on each other. Once there are as many as the run allows, a thread of rank 0 brings them together with their base
//! (`run::compaction`); where it does not keep up, the next checkpoint is full.
//!
//! A manifest says which step is the best so far. That step's checkpoint is pruned only once a checkpoint is complete whose
//! manifest names a better one.

use crate::Error;
use crate::checkpoint::state::{self, Restore};
use crate::checkpoint::{
    BaseEntry, Checkpoint, CheckpointError, Folder, Manifest, PendingFile, RankFile, Stream, TopologyEntry,
    file_name, of_step, write_streams, writing,
};
use crate::metrics::Histogram;
use crate::run::best::{self, BestSoFar};
use crate::run::compaction::Compaction;
use crate::run::event::Event;
use crate::run::scores::Scores;
use crate::run::session::Session;
use crate::step::gather::{gathered, merged, to_first};
use crate::step::rank_state::RankState;
use collectives::{Communicator, Label};
use serde::{Deserialize, Serialize};
use spec::run::{CheckpointKind, Every, Run};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Seconds between agreements, about.
const AGREE_EVERY_S: f64 = 0.25;

/// Pause between two checks of whether a writer thread has finished.
const POLL: Duration = Duration::from_millis(5);

/// Small state that is no tensor.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extra {
    /// Counts of the predictions made so far.
    seen: Vec<u64>,
    /// Best evaluation so far, where the best state is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best: Option<BestSoFar>,
}

/// One rank's part in all this.
pub(crate) struct Supervisor<'a> {
    run: &'a Run,
    world: &'a Communicator,
    session: &'a Session<'a>,
    /// Folder of checkpoints, on rank 0 only.
    folder: Option<Folder>,
    label: Label,
    stage: Option<Stage>,
    /// A checkpoint is wanted as soon as the one under way is complete.
    due: bool,
    /// Seconds since the last checkpoint was begun, as all ranks agree on them.
    since_saved: f64,
    last_saved: Option<u64>,
    /// The checkpoint since which updated rows are known, and which an increment may build on.
    base: Option<u64>,
    /// Increments since a checkpoint that holds everything, and what brings them together; on rank 0 only.
    compaction: Compaction,
    /// Best evaluation so far, where the best state is looked for.
    best: Option<BestSoFar>,
    /// Digest of the state being saved, where it is known: at the end.
    parameters_sha256: Option<String>,
    agreed: (u64, Instant),
    agree_at: u64,
}

/// A checkpoint under way.
struct Stage {
    step: u64,
    began: Instant,
    copy_s: f64,
    bytes: u64,
    extra: Option<serde_json::Value>,
    /// The checkpoint that this one builds on.
    base: Option<u64>,
    work: Work,
}

enum Work {
    Writing(JoinHandle<Result<RankFile, CheckpointError>>),
    /// On rank 0; the others have nothing more to do.
    Committing(Option<JoinHandle<Result<PathBuf, CheckpointError>>>),
}

impl<'a> Supervisor<'a> {
    pub fn new(run: &'a Run, world: &'a Communicator, session: &'a Session<'a>) -> Result<Self, Error> {
        let label = Label::from("checkpoint");
        // Rank 0 makes the folder and sweeps it before anyone can come to write.
        let saving = session.checkpoints.as_ref().filter(|_| world.rank() == 0);
        let folder = saving.map(|saving| Folder::open(&saving.root)).transpose()?;
        let resumed = session.resume.map(|checkpoint| (checkpoint.manifest().step, checkpoint.path()));
        let here = |path: &Path| {
            let root = session.checkpoints.as_ref().map(|saving| saving.root.as_path());
            root.is_some_and(|root| lies_in(path, root))
        };
        let last_saved = resumed.filter(|(_, path)| here(path)).map(|(step, _)| step);
        let agreed = (resumed.map_or(0, |(step, _)| step), Instant::now());
        let agree_at = agreed.0 + 1;
        let best = if session.paced() { None } else { BestSoFar::of_run(run)? };
        Ok(Self {
            run,
            world,
            session,
            folder,
            label,
            stage: None,
            due: false,
            since_saved: 0.0,
            last_saved,
            base: None,
            compaction: Compaction::new(run.checkpoints.increments),
            best,
            parameters_sha256: None,
            agreed,
            agree_at,
        })
    }

    /// Brings the rank to where the checkpoint to be resumed left it.
    pub fn restore(&mut self, rank: &mut RankState, checkpoint: &Checkpoint) -> Result<(), Error> {
        state::restore(self.run, self.world.rank(), rank, checkpoint, Restore::Everything)?;
        self.resume_chain(checkpoint)?;
        let extra: Extra = serde_json::from_value(checkpoint.manifest().extra.clone())
            .map_err(|e| Error::Resume { problem: format!("the field `extra` of the manifest: {e}") })?;
        if extra.seen.len() != 2 * Histogram::BINS {
            let problem =
                format!("{} counts of predictions, {} expected", extra.seen.len(), 2 * Histogram::BINS);
            return Err(Error::Resume { problem });
        }
        if self.world.rank() == 0 {
            rank.seen.add_counts(&extra.seen);
        }
        if let (Some(best), Some(before)) = (&mut self.best, extra.best)
            && best.metric() == before.metric()
        {
            *best = before;
            self.adopt_best(checkpoint)?;
        }
        Ok(())
    }

    /// Notes from here on which rows are updated, if increments are to be written.
    pub fn track_updates(&self, rank: &mut RankState) -> Result<(), Error> {
        if self.session.checkpoints.is_none() || self.run.checkpoints.kind != CheckpointKind::Incremental {
            return Ok(());
        }
        let (index, placement) = (self.world.rank(), &self.run.placement);
        rank.track_updates(|table| {
            placement.with_rows_by(index).get(table).is_some_and(|shard| state::is_kept_by(shard, index))
        })
    }

    /// Lets increments build on the checkpoint that the run goes on from, if it lies in the same folder and its tables are cut as they are here.
    fn resume_chain(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let incremental = self.run.checkpoints.kind == CheckpointKind::Incremental;
        let Some(step) = self.last_saved.filter(|_| incremental && checkpoint.manifest().identity.is_some())
        else {
            return Ok(());
        };
        let cut_as_here = state::is_cut_as(self.run, self.world.rank(), checkpoint);
        let mut others = [f64::from(u8::from(!cut_as_here))];
        self.world.all_reduce_f64(&self.label, &mut others)?;
        if others[0] == 0.0 {
            self.base = Some(step);
            if self.folder.is_some() {
                self.compaction.resume(checkpoint);
            }
        }
        Ok(())
    }

    /// Brings the best checkpoint of a run that goes on in another folder into that one.
    fn adopt_best(&mut self, resumed: &Checkpoint) -> Result<(), Error> {
        let best = self.best.as_ref().and_then(BestSoFar::best).map(|best| best.step);
        let Some(step) = best.filter(|_| self.session.checkpoints.is_some() && self.last_saved.is_none())
        else {
            return Ok(());
        };
        let from = of_step(resumed.path(), step);
        if let Some(folder) = self.folder.as_ref().filter(|_| from.is_dir()) {
            folder.adopt(step, &from)?;
        }
        if step == resumed.manifest().step {
            self.last_saved = Some(step);
        }
        Ok(())
    }

    /// The best evaluation so far, where the best state is looked for.
    pub fn best(&self) -> Option<&BestSoFar> {
        self.best.as_ref()
    }

    /// Whether the run has seen enough evaluations without a better one.
    pub fn stops(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.stops(self.run.patience))
    }

    /// Takes in the evaluation of the rank's state, whose scores rank 0 has. All ranks come to the same conclusion; the best state
    /// is saved.
    pub fn evaluated(&mut self, rank: &mut RankState, scores: Option<&Scores>) -> Result<(), Error> {
        let Some(best) = &mut self.best else { return Ok(()) };
        let value = scores.and_then(|scores| best.value(scores));
        let mut agreed = [value.unwrap_or(0.0), f64::from(u8::from(value.is_some()))];
        self.world.all_reduce_f64(&self.label, &mut agreed)?;
        let improved = best.judge(rank.steps, (agreed[1] > 0.0).then_some(agreed[0]));
        if let Some(scores) = scores {
            best.keep_metrics(rank.steps, scores);
        }
        if !improved || self.session.checkpoints.is_none() {
            return Ok(());
        }
        let under_way = self.stage.as_ref().is_some_and(|stage| stage.step == rank.steps);
        self.complete()?;
        if under_way || self.last_saved == Some(rank.steps) {
            return self.settle(rank.steps);
        }
        self.begin(rank, rank.steps)
    }

    /// Writes the best evaluation so far into the checkpoint of `step`, if that is the last one: an evaluation comes after the
    /// checkpoint of its step. What is no longer the best is pruned.
    pub fn settle(&self, step: u64) -> Result<(), Error> {
        let (Some(folder), Some(best)) = (&self.folder, &self.best) else { return Ok(()) };
        if self.last_saved != Some(step) {
            return Ok(());
        }
        let value = serde_json::to_value(best).map_err(|e| Error::Resume { problem: e.to_string() })?;
        folder.amend(step, |extra| extra[best::FIELD] = value)?;
        folder.prune(self.kept(), best.best().map(|best| best.step))?;
        Ok(())
    }

    /// Folder of the best checkpoint, on rank 0 and where it is complete.
    pub fn best_checkpoint(&self) -> Option<PathBuf> {
        let step = self.best()?.best()?.step;
        let listed = self.folder.as_ref()?.list().ok()?;
        listed.into_iter().find(|(listed, _)| *listed == step).map(|(_, path)| path)
    }

    fn kept(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.run.checkpoints.keep).unwrap_or(NonZeroUsize::MIN)
    }

    /// Called after every step, `step` of them being done.
    pub fn after_step(&mut self, rank: &mut RankState, step: u64) -> Result<ControlFlow<()>, Error> {
        let saves = self.session.checkpoints.is_some();
        let every = self.run.checkpoints.every.filter(|_| saves);
        let due_now = matches!(every, Some(Every::Steps(every)) if step.is_multiple_of(every));
        self.due |= due_now;
        if step < self.agree_at && !due_now {
            return Ok(ControlFlow::Continue(()));
        }
        let (flow, elapsed) = self.agree(self.agreed.1.elapsed().as_secs_f64())?;
        self.since_saved += elapsed;
        self.due |= matches!(every, Some(Every::Seconds(every)) if self.since_saved >= every);
        let step_s = elapsed / (step - self.agreed.0).max(1) as f64;
        self.agreed = (step, Instant::now());
        self.agree_at = step + (AGREE_EVERY_S / step_s.max(1e-9)).clamp(1.0, 1e6) as u64;
        if flow.is_continue() && self.due && self.stage.is_none() {
            self.begin(rank, step)?;
        }
        Ok(flow)
    }

    /// Called between the batches of an evaluation.
    pub fn during_evaluation(&mut self) -> Result<ControlFlow<()>, Error> {
        self.agree(0.0).map(|(flow, _)| flow)
    }

    /// Whether to stop, and the mean of what the ranks say of the time. Moves the checkpoint under way on when all are
    /// ready for that.
    fn agree(&mut self, elapsed: f64) -> Result<(ControlFlow<()>, f64), Error> {
        self.world.enter(&self.label);
        let stop = self.session.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        let busy = self.stage.as_ref().is_some_and(|stage| !stage.work.is_finished());
        let mut sums = [f64::from(u8::from(stop)), f64::from(u8::from(busy)), elapsed];
        self.world.all_reduce_f64(&self.label, &mut sums)?;
        if sums[1] == 0.0 {
            self.advance()?;
        }
        let flow = if sums[0] > 0.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        Ok((flow, sums[2] / self.world.size() as f64))
    }

    /// Completes what is under way and saves the last state with its digest, if it was not saved yet.
    pub fn finish(&mut self, rank: &mut RankState, step: u64, parameters_sha256: &str) -> Result<(), Error> {
        self.complete()?;
        self.parameters_sha256 = Some(parameters_sha256.into());
        if self.session.checkpoints.is_some() && self.last_saved != Some(step) {
            self.begin(rank, step)?;
            self.complete()?;
        }
        // What is half brought together is left as it was.
        self.compaction.stop();
        if let Some(folder) = self.folder.as_ref().filter(|_| self.base.is_some()) {
            folder.prune(self.kept(), self.best().and_then(BestSoFar::best).map(|best| best.step))?;
        }
        Ok(())
    }

    /// Copies the rank's state and begins to write it, if the device met no fault on the way to it.
    fn begin(&mut self, rank: &mut RankState, step: u64) -> Result<(), Error> {
        let Some(saving) = &self.session.checkpoints else { return Ok(()) };
        let began = Instant::now();
        rank.check()?;
        if let Some(folder) = &self.folder {
            folder.begin(step)?;
        }
        // No rank passes this before rank 0 has made the folder.
        let seen = merged(self.world, &self.label, &rank.seen)?.counts();
        let index = self.world.rank();
        // Rank 0 alone writes the manifest.
        let extra =
            (index == 0).then(|| serde_json::to_value(Extra { seen, best: self.best.clone() })).transpose();
        let extra = extra.map_err(|e| Error::Resume { problem: e.to_string() })?;
        rank.settle_rows()?;
        let base = self.base_of_next()?;
        let updated = rank.take_updated()?;
        let streams = state::streams(self.run, index, rank, base.map(|_| updated));
        let bytes = streams.iter().map(Stream::bytes).sum();
        let path = writing(&saving.root, step).join(file_name(index));
        let pending = write_streams(path, &streams, self.run.copied_bytes())?;
        let thread = std::thread::spawn(move || PendingFile::finish(pending));
        let copy_s = began.elapsed().as_secs_f64();
        let work = Work::Writing(thread);
        self.stage = Some(Stage { step, began, copy_s, bytes, extra, base, work });
        self.base = (self.run.checkpoints.kind == CheckpointKind::Incremental).then_some(step);
        self.due = false;
        self.since_saved = 0.0;
        Ok(())
    }

    /// The checkpoint that the next one builds on; `None` for a full one. All ranks agree: rank 0 knows how long the chain is.
    fn base_of_next(&mut self) -> Result<Option<u64>, Error> {
        let Some(base) = self.base else { return Ok(None) };
        let behind = self.compaction.is_behind();
        if let Some(error) = self.compaction.failure() {
            (self.session.observe)(Event::NotCompacted { error: &error });
        }
        let mut full = [f64::from(u8::from(behind))];
        self.world.all_reduce_f64(&self.label, &mut full)?;
        Ok((full[0] == 0.0).then_some(base))
    }

    /// Waits for the checkpoint under way. Ranks ask each other how far they are, so that none waits for a slow one
    /// inside a collective.
    fn complete(&mut self) -> Result<(), Error> {
        self.world.enter(&self.label);
        while let Some(stage) = &self.stage {
            let mut busy = [f64::from(u8::from(!stage.work.is_finished()))];
            self.world.all_reduce_f64(&self.label, &mut busy)?;
            if busy[0] == 0.0 {
                self.advance()?;
            } else {
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Takes the checkpoint under way, if any, to its next stage. All ranks call it together.
    fn advance(&mut self) -> Result<(), Error> {
        let Some(mut stage) = self.stage.take() else { return Ok(()) };
        match stage.work {
            Work::Writing(thread) => {
                let written = joined(thread)?;
                let manifest = self.manifest((stage.step, stage.base), &mut stage.extra, &written)?;
                let keep = self.kept();
                let commit = self.folder.clone().zip(manifest).map(|(folder, manifest)| {
                    let best = BestSoFar::of(&manifest).and_then(|best| best.best().map(|best| best.step));
                    std::thread::spawn(move || {
                        let path = folder.commit(&manifest)?;
                        folder.prune(keep, best)?;
                        Ok(path)
                    })
                });
                self.stage = Some(Stage { work: Work::Committing(commit), ..stage });
            }
            Work::Committing(thread) => {
                let path = thread.map(joined).transpose()?;
                let mut bytes = [stage.bytes as f64];
                self.world.all_reduce_f64(&self.label, &mut bytes)?;
                self.last_saved = Some(stage.step);
                if let Some(folder) = &self.folder {
                    self.compaction.saved(folder, stage.step, stage.base.is_some())?;
                }
                if let Some(path) = path {
                    (self.session.observe)(Event::Saved {
                        step: stage.step,
                        path: &path,
                        bytes: bytes[0] as u64,
                        base: stage.base,
                        copy_s: stage.copy_s,
                        write_s: stage.began.elapsed().as_secs_f64() - stage.copy_s,
                    });
                }
            }
        }
        Ok(())
    }

    /// Brings together what every rank wrote; on rank 0 only.
    fn manifest(
        &mut self,
        (step, base): (u64, Option<u64>),
        extra: &mut Option<serde_json::Value>,
        written: &RankFile,
    ) -> Result<Option<Manifest>, Error> {
        let unreadable = |e: serde_json::Error| Error::Resume { problem: e.to_string() };
        let mine = serde_json::to_vec(written).map_err(unreadable)?;
        let lengths = gathered(self.world, &self.label, &[mine.len() as u64], &vec![1; self.world.size()])?;
        let counts: Vec<usize> = lengths.iter().map(|&n| n as usize).collect();
        let all = to_first(self.world, &self.label, &mine, &counts)?;
        let Some(saving) = self.session.checkpoints.as_ref().filter(|_| self.world.rank() == 0) else {
            return Ok(None);
        };
        let mut parts = Vec::with_capacity(counts.len());
        let mut at = 0;
        for count in counts {
            parts.push(serde_json::from_slice(&all[at..at + count]).map_err(unreadable)?);
            at += count;
        }
        let topology = self.run.topology();
        let topology = TopologyEntry { hosts: topology.hosts(), ranks_per_host: topology.ranks_per_host() };
        let mut manifest = Manifest::new(step, topology, parts);
        (manifest.run, manifest.extra) = (saving.run.clone(), extra.take().unwrap_or_default());
        // The digest is of what was trained, which increments of fewer bits do not hold.
        if base.is_none() || self.run.checkpoints.increment_format.is_none() {
            manifest.parameters_sha256.clone_from(&self.parameters_sha256);
        }
        if self.run.checkpoints.kind == CheckpointKind::Incremental {
            let identity = self.compaction.identity().to_owned();
            manifest = manifest.chained(base.map(|step| BaseEntry { step, identity }));
            self.compaction.set_identity(manifest.identity.as_deref());
        }
        Ok(Some(manifest))
    }
}

impl Drop for Supervisor<'_> {
    /// A run that fails leaves no thread behind that writes, and nothing half written.
    fn drop(&mut self) {
        self.compaction.stop();
        let Some(Stage { step, work, .. }) = self.stage.take() else { return };
        match work {
            Work::Writing(thread) => drop(thread.join()),
            Work::Committing(thread) => drop(thread.map(JoinHandle::join)),
        }
        // Other ranks may still be at it: then the next run sweeps.
        let _ = self.folder.as_ref().map(|folder| folder.abandon(step));
    }
}

impl Work {
    fn is_finished(&self) -> bool {
        match self {
            Work::Writing(thread) => thread.is_finished(),
            Work::Committing(Some(thread)) => thread.is_finished(),
            Work::Committing(None) => true,
        }
    }
}

/// Whether `path` is an entry of the folder `root`, however the two are written: relative, absolute, by links.
fn lies_in(path: &Path, root: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    let Some(root) = whole(root) else { return false };
    // The entry itself may be a link to elsewhere, and the name of the folder may be left out.
    let named = std::path::absolute(path).ok().and_then(|path| whole(path.parent()?));
    named.as_ref() == Some(&root) || whole(path).is_some_and(|path| path.parent() == Some(&root))
}

fn joined<T>(thread: JoinHandle<Result<T, CheckpointError>>) -> Result<T, Error> {
    match thread.join() {
        Ok(result) => Ok(result?),
        Err(_) => Err(Error::Resume { problem: "a thread that writes checkpoints panicked".into() }),
    }
}
