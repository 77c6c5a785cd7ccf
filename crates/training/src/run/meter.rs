//! Losses and speed on the way, told now and then.

use crate::Error;
use crate::cache::CacheCounts;
use crate::run::event::{Event, Progress};
use crate::step::gather;
use crate::step::rank_state::RankState;
use collectives::{Communicator, Label};
use spec::run::{Optimizer, Run};
use std::time::Instant;

/// Losses and speed of a run, reported now and then.
pub(crate) struct Meter<'a> {
    run: &'a Run,
    pub label: Label,
    first: u64,
    /// Sum of each step's losses on this rank, for the steps whose loss has arrived.
    pub losses: Vec<f64>,
    /// Steps of this session.
    pub trained: u64,
    /// Steps, samples and seconds since the last reset.
    pub steps: u64,
    pub samples: u64,
    pub seconds: f64,
    /// What tables larger than memory did, since the last reset.
    pub cache: CacheCounts,
    /// What they had done when training last went on.
    cache_before: CacheCounts,
    report_every: u64,
    began: Instant,
    window: Window,
}

struct Window {
    began: Instant,
    samples: u64,
    loss: f64,
    cache: CacheCounts,
}

impl Window {
    fn new(cache: CacheCounts) -> Self {
        Self { began: Instant::now(), samples: 0, loss: 0.0, cache }
    }
}

impl<'a> Meter<'a> {
    pub fn new(run: &'a Run, first: u64, report_every: Option<u64>) -> Self {
        Self {
            run,
            label: Label::from("report"),
            first,
            // Reserved, so that a step allocates nothing; a run of more steps than this may, now and then.
            losses: Vec::with_capacity(run.steps.saturating_sub(first).min(1 << 20) as usize),
            trained: 0,
            steps: 0,
            samples: 0,
            seconds: 0.0,
            cache: CacheCounts::default(),
            cache_before: CacheCounts::default(),
            // About a hundred events, whatever the length.
            report_every: report_every.unwrap_or(run.steps.div_ceil(100)),
            began: Instant::now(),
            window: Window::new(CacheCounts::default()),
        }
    }

    pub fn start(&mut self, rank: &RankState) {
        self.cache_before = rank.cache_counts();
        (self.began, self.window) = (Instant::now(), Window::new(self.cache_before));
    }

    /// Forgets the speed so far.
    pub fn reset(&mut self) {
        (self.steps, self.samples, self.seconds) = (0, 0, 0.0);
        self.cache = CacheCounts::default();
    }

    pub fn pause(&mut self, rank: &RankState) {
        self.cache = self.cache.and(&rank.cache_counts().since(&self.cache_before));
        self.seconds += self.began.elapsed().as_secs_f64();
    }

    /// Takes the losses that have arrived on the rank.
    pub fn take_losses(&mut self, rank: &mut RankState) {
        for loss in rank.losses.drain(..) {
            self.losses.push(loss);
            self.window.loss += loss;
        }
    }

    pub fn after_step(
        &mut self,
        world: &Communicator,
        rank: &mut RankState,
        observe: &(dyn Fn(Event) + Sync),
    ) -> Result<(), Error> {
        let batch = self.run.batches().at(rank.steps - 1);
        self.trained += 1;
        self.steps += 1;
        self.samples += batch.end - batch.start;
        self.window.samples += batch.end - batch.start;
        let reports = rank.steps.is_multiple_of(self.report_every) || rank.steps == self.run.steps;
        if reports {
            rank.settle()?;
        }
        self.take_losses(rank);
        if !reports {
            return Ok(());
        }
        // Without predictions there is no loss.
        let mut sums = [if rank.loss.is_some() { self.window.loss } else { f64::NAN }];
        let mut auc = None;
        let counts = rank.cache_counts();
        let cache = CacheCounts::of_world(world, self.run, counts.since(&self.window.cache))?;
        if rank.loss.is_some() {
            world.all_reduce_f64(&self.label, &mut sums)?;
            auc = gather::merged(world, &self.label, &rank.seen)?.auc();
        }
        if world.rank() == 0 {
            let rate = |optimizer: &Optimizer| optimizer.rate.at(rank.steps - 1);
            observe(Event::Training(Progress {
                step: rank.steps,
                steps: self.run.steps,
                samples: batch.end,
                epoch_samples: self.run.data.samples(),
                loss: sums[0] / self.window.samples as f64,
                auc,
                samples_per_s: self.window.samples as f64 / self.window.began.elapsed().as_secs_f64(),
                seconds: self.seconds + self.began.elapsed().as_secs_f64(),
                rates: (rate(&self.run.dense_optimizer), rate(&self.run.table_optimizer)),
                cache,
            }));
        }
        self.window = Window::new(counts);
        Ok(())
    }

    /// Mean loss of every step, over all ranks.
    pub fn mean_losses(self, world: &Communicator) -> Result<Vec<f64>, Error> {
        let mut losses = self.losses;
        gather::add_up(world, &self.label, &mut losses)?;
        for (step, loss) in losses.iter_mut().enumerate() {
            let batch = self.run.batches().at(self.first + step as u64);
            *loss /= (batch.end - batch.start) as f64;
        }
        Ok(losses)
    }
}
