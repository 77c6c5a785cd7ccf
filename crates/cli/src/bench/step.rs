//! The real step, executed from its schedule, on batches that are already in memory.

use crate::args::RunArgs;
use crate::text::{columns, median, si};
use ::data::{Batch, Split, SyntheticLog};
use anyhow::{Context, Result, bail, ensure};
use collectives::Communicator;
use serde_json::{Value, json};
use spec::run::{Data, Run};
use spec::schedule::Task;
use spec::synthetic::Synthetic;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use training::{Cluster, Execution, PhaseTime, RankState, Source};

/// Arguments of `bench step`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Steps before the clock starts
    #[arg(long, default_value_t = 5)]
    warm_up: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Batches in memory, used over and over.
const BATCHES: u64 = 8;

pub fn run(args: Args) -> Result<()> {
    let mut config = args.run.config()?;
    // One process with all of the machine's cores is what peers are compared with.
    config.topology.hosts.get_or_insert(1);
    config.topology.ranks_per_host.get_or_insert(1);
    config.optimizer.dense.get_or_insert(SGD);
    config.optimizer.tables.get_or_insert(SGD);
    let batch = *config.train.batch.get_or_insert(2048);
    let steps = config.train.steps.take().unwrap_or(30);
    ensure!((1..=1_000_000).contains(&steps), "--steps {steps}: measure between 1 and 1000000 steps");
    // Uniform ids: the hardest case for caches.
    config.data.synthetic = Some(Synthetic {
        samples: BATCHES.saturating_mul(batch as u64),
        eval_samples: 0,
        zipf: 0.0,
        ..config.data.synthetic.unwrap_or_default()
    });
    let run = planning::check(&config)?;
    training::check_size(&run, &Cluster::Threads, training::MemoryUse::TRAINING)?;
    let threads = training::threads(&run, &Cluster::Threads);
    let measured = Measured::new(&run, threads, args.warm_up, steps)?;
    if args.json {
        println!("{}", measured.to_json());
    } else {
        print!("{}", measured.to_text());
    }
    Ok(())
}

/// Times of steps and of their phases on rank 0.
struct Measured<'a> {
    run: &'a Run,
    threads: usize,
    steps: u64,
    /// Seconds of each step but the first, in ascending order.
    times: Vec<f64>,
    /// Median of `times`.
    seconds: f64,
    phases: Vec<PhaseTime>,
}

impl<'a> Measured<'a> {
    /// Runs `warm_up` steps and then `steps` that are timed.
    fn new(run: &'a Run, threads: usize, warm_up: u64, steps: u64) -> Result<Self> {
        let batches = batches(run)?;
        let measured = collectives::launch(
            run.topology(),
            &collectives::Options::default(),
            |_| kernels::Device::cpu(threads),
            |world| {
                let device = world.device().clone();
                device.enter(|| time_steps(run, &world, batches.clone(), warm_up, steps))
            },
        )
        .map_err(anyhow::Error::new)?;
        let (mut times, phases) = measured.into_iter().next().context("a topology has ranks")?;
        // The first step also pays for the prologue.
        if times.len() > 1 {
            times.remove(0);
        }
        let seconds = median(&mut times); // sorts them
        Ok(Self { run, threads, steps, times, seconds, phases })
    }

    fn samples_per_s(&self) -> f64 {
        self.run.batch as f64 / self.seconds
    }

    fn gflops(&self) -> f64 {
        self.run.model.training_flops() as f64 * self.samples_per_s() / 1e9
    }

    /// Names of the phases, with milliseconds a step at work and waited.
    fn phases(&self) -> Vec<(String, f64, f64)> {
        let schedule = self.run.schedule(Task::Train);
        let per_step = |time: Duration| 1e3 * time.as_secs_f64() / self.steps as f64;
        let named = schedule.phases().iter().zip(&self.phases);
        named.map(|(phase, time)| (phase.name.clone(), per_step(time.busy), per_step(time.exposed))).collect()
    }

    fn to_json(&self) -> Value {
        let run = self.run;
        let phase = |(name, ms, exposed_ms)| json!({ "name": name, "ms": ms, "exposed_ms": exposed_ms });
        json!({
            "model": run.model.kind(),
            "batch": run.batch,
            "hosts": run.topology().hosts(),
            "ranks_per_host": run.topology().ranks_per_host(),
            "threads_per_rank": self.threads,
            "steps": self.steps,
            "ms_per_step": 1e3 * self.seconds,
            "ms_of_best_step": 1e3 * self.times[0],
            "samples_per_s": self.samples_per_s(),
            "gflops": self.gflops(),
            "phases": self.phases().into_iter().map(phase).collect::<Vec<_>>(),
        })
    }

    fn to_text(&self) -> String {
        let Self { run, threads, .. } = self;
        let mut rows = vec![vec!["phase of rank 0".to_string(), "ms".into(), "waited".into()]];
        for (name, ms, waited) in self.phases() {
            rows.push(vec![name, format!("{ms:.3}"), format!("{waited:.3}")]);
        }
        format!(
            "{} on {} ranks × {threads} threads, batch {}: {:.2} ms a step (median of {}), {} samples/s, {:.0} GFLOP/s\n{}",
            run.model.kind(),
            run.topology(),
            run.batch,
            1e3 * self.seconds,
            self.times.len(),
            si(self.samples_per_s()),
            self.gflops(),
            columns(&rows)
        )
    }
}

/// Trains on one rank: seconds of each step after the first `warm_up`, and times of phases over them.
fn time_steps(
    run: &Run,
    world: &Communicator,
    batches: Vec<Batch>,
    warm_up: u64,
    steps: u64,
) -> Result<(Vec<f64>, Vec<PhaseTime>), training::Error> {
    let schedule = run.schedule(Task::Train);
    let source = Source::Resident(batches);
    let mut rank = RankState::new(world.device().clone(), run, &schedule, world.rank(), source)?;
    let communicators = training::Communicators::new(world, &run.dataflow)?;
    let mut execution = Execution::new(schedule);
    let batches = run.batches();
    let batch_of = |step| batches.at(step % batches.per_epoch());
    execution.run(&mut rank, &communicators, warm_up, batch_of, |_, _| Ok(ControlFlow::Continue(())))?;
    execution.reset_times();
    let mut times = Vec::with_capacity(steps as usize);
    let mut last = Instant::now();
    execution.run(&mut rank, &communicators, steps, batch_of, |_, _| {
        times.push(last.elapsed().as_secs_f64());
        last = Instant::now();
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((times, execution.times().to_vec()))
}

const SGD: spec::run::Optimizer = spec::run::Optimizer {
    update: spec::optimizer::UpdateRule::Sgd,
    rate: spec::optimizer::LearningRate {
        peak: 0.01,
        warm_up: 0,
        hold: 0,
        decay: spec::optimizer::Decay::None,
    },
};

fn batches(run: &Run) -> Result<Vec<Batch>> {
    let model = &run.model;
    let Data::Synthetic(settings) = &run.data else { bail!("bench step runs on the synthetic log only") };
    let log = SyntheticLog::new(settings, model.features(), model.dense_features(), Split::Train)?;
    let size = run.batch as u64;
    let drawn = (0..BATCHES).map(|i| {
        let mut batch = Batch::default();
        log.fill(i * size..(i + 1) * size, &mut batch);
        batch
    });
    Ok(drawn.collect())
}
