//! The real step, executed from its schedule, on batches that are already in memory.

use crate::args::RunArgs;
use crate::text::{columns, median, si};
use ::data::{Batch, Split, SyntheticLog};
use anyhow::{Context, Result, bail, ensure};
use collectives::Communicator;
use kernels::Device;
use serde_json::{Value, json};
use spec::placement::share;
use spec::precision::Precisions;
use spec::run::{Config, Data, Run};
use spec::schedule::Task;
use spec::synthetic::Synthetic;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};
use training::{Cluster, Devices, Execution, PhaseTime, Prefetch, RankState, Source};

/// Arguments of `bench step`.
#[derive(clap::Args)]
#[command(mut_arg("steps", |arg| arg.help("Number of steps to measure, 1 to 1000000; on a GPU, of each of 5 rounds [default: 30]")))]
#[command(after_help = "Examples:
  campanile bench step --preset kaggle --batch 2048
  campanile bench step --preset mlperf --rows-each 1000000 --batch 65536 --device cuda --precision bf16 --json")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Number of rows of every table, so that the tables of a large preset fit [default: those of the preset]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "rows_cap", help_heading = "Model")]
    rows_each: Option<u32>,
    /// Exponent of the power law of ids: the k-th most frequent id has probability about k^-S; 0 draws all rows alike, the hardest
    /// case for caches
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        help_heading = "Data"
    )]
    zipf: f64,
    /// Steps before the clock starts
    #[arg(long, default_value_t = 5)]
    warm_up: u64,
    /// Also tell the SHA-256 of all parameters after the last step
    #[arg(long)]
    digest: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Batches in memory, used over and over.
pub(super) const BATCHES: u64 = 8;
/// Rounds of steps on a GPU, one right behind the other.
pub(crate) const ROUNDS: u64 = 5;
/// Steps on a GPU before the first round: queues fill, and the memory of batches that are read ahead is new.
const LEAD: u64 = 32;

pub fn run(args: Args) -> Result<()> {
    let mut config = args.run.config()?;
    let steps = config.train.steps.take().unwrap_or(30);
    ensure!((1..=1_000_000).contains(&steps), "--steps {steps}: measure between 1 and 1000000 steps");
    if let Some(rows) = args.rows_each {
        give_rows(&mut config, rows as usize);
    }
    let run = checked(config, args.zipf, BATCHES)?;
    let devices = Devices::new(&run, &Cluster::Threads)?;
    training::check_size(&run, &Cluster::Threads, training::MemoryUse::TRAINING)?;
    let measured =
        Measured::new(&run, &devices, Effort { warm_up: args.warm_up, steps, digest: args.digest })?;
    if args.json {
        println!("{}", measured.to_json(args.zipf));
    } else {
        print!("{}", measured.to_text(args.zipf));
    }
    Ok(())
}

/// The run of a step that is measured: one rank and SGD unless the config says otherwise, and a log of so many batches.
pub(crate) fn checked(mut config: Config, zipf: f64, batches: u64) -> Result<Run> {
    // One process with all of the machine's cores is what peers are compared with.
    config.topology.hosts.get_or_insert(1);
    config.topology.ranks_per_host.get_or_insert(1);
    config.optimizer.dense.get_or_insert(SGD);
    config.optimizer.tables.get_or_insert(SGD);
    let batch = *config.train.batch.get_or_insert(2048);
    config.data.synthetic = Some(Synthetic {
        samples: batches.saturating_mul(batch as u64),
        eval_samples: 0,
        zipf,
        ..config.data.synthetic.unwrap_or_default()
    });
    Ok(planning::check(&config)?)
}

/// Gives every table `rows` rows.
fn give_rows(config: &mut Config, rows: usize) {
    let preset = config.model.preset.unwrap_or_default();
    let features = config.model.features.get_or_insert_with(|| preset.outline().features());
    features.iter_mut().for_each(|feature| feature.rows = rows);
}

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Steps before the clock starts.
    pub(crate) warm_up: u64,
    /// Steps that are timed, of each round.
    pub(crate) steps: u64,
    /// Whether all parameters are hashed in the end.
    pub(crate) digest: bool,
}

/// What one rank measured.
pub(crate) struct OfRank {
    /// Seconds of a step: of each one, or on a GPU the mean of each round.
    pub(crate) times: Vec<f64>,
    /// Time of each phase, over all steps.
    pub(crate) phases: Vec<PhaseTime>,
    /// Steps that the times of phases cover.
    pub(crate) steps: u64,
    /// Those of them that the device replayed as a graph.
    replays: u64,
    digest: Option<String>,
}

/// Trains the steps of a run on all of its ranks, and gives what the first of them measured.
pub(crate) fn measure(run: &Run, devices: &Devices, effort: Effort) -> Result<OfRank> {
    let batches = batches(run)?;
    let measured = collectives::launch(
        run.topology(),
        &collectives::Options::default(),
        |rank| devices.of(rank),
        |world| time_steps(run, &world, batches.clone(), effort),
    )
    .map_err(anyhow::Error::new)?;
    measured.into_iter().next().context("a topology has ranks")
}

/// Times of steps and of their phases on rank 0.
struct Measured<'a> {
    run: &'a Run,
    devices: &'a Devices,
    effort: Effort,
    /// Seconds of each step but the first, or of a step of each round, in ascending order.
    times: Vec<f64>,
    /// Median of `times`.
    seconds: f64,
    phases: Vec<PhaseTime>,
    /// Steps that the times of phases cover.
    timed_steps: u64,
    /// Those of them that the device replayed as a graph.
    replays: u64,
    digest: Option<String>,
}

impl<'a> Measured<'a> {
    /// Runs the steps that warm up, and then those that are timed.
    fn new(run: &'a Run, devices: &'a Devices, effort: Effort) -> Result<Self> {
        let OfRank { mut times, phases, steps: timed_steps, replays, digest } =
            measure(run, devices, effort)?;
        // The first step also pays for the prologue.
        if times.len() > 1 && !devices.are_gpus() {
            times.remove(0);
        }
        let seconds = median(&mut times); // sorts them
        Ok(Self { run, devices, effort, times, seconds, phases, timed_steps, replays, digest })
    }

    fn samples_per_s(&self) -> f64 {
        self.run.batch as f64 / self.seconds
    }

    fn gflops(&self) -> f64 {
        self.run.model.training_flops() as f64 * self.samples_per_s() / 1e9
    }

    fn threads(&self) -> usize {
        training::threads(self.run, &Cluster::Threads)
    }

    /// Names of the phases, with milliseconds a step at work and waited.
    fn phases(&self) -> Vec<(String, f64, f64)> {
        let schedule = self.run.schedule(Task::Train);
        let per_step = |time: Duration| 1e3 * time.as_secs_f64() / self.timed_steps as f64;
        let named = schedule.phases().iter().zip(&self.phases);
        named.map(|(phase, time)| (phase.name.clone(), per_step(time.busy), per_step(time.exposed))).collect()
    }

    fn to_json(&self, zipf: f64) -> Value {
        let run = self.run;
        let phase = |(name, ms, exposed_ms)| json!({ "name": name, "ms": ms, "exposed_ms": exposed_ms });
        let mut value = json!({
            "model": run.model.kind(),
            "batch": run.batch,
            "hosts": run.topology().hosts(),
            "ranks_per_host": run.topology().ranks_per_host(),
            "threads_per_rank": self.threads(),
            "device": if self.devices.are_gpus() { "cuda" } else { "cpu" },
            "device_name": self.devices.name(),
            "precision": run.precision,
            "table_rows": run.model.features().iter().map(|feature| feature.rows as u64).sum::<u64>(),
            "zipf": zipf,
            "distinct_batches": BATCHES,
            "replayed_steps": self.replays,
            "warm_up": self.effort.warm_up,
            "steps": self.effort.steps,
            "rounds": if self.devices.are_gpus() { ROUNDS } else { 1 },
            "step_ms": 1e3 * self.seconds,
            "ms_per_step": 1e3 * self.seconds,
            "ms_of_best_step": 1e3 * self.times[0],
            "samples_per_s": self.samples_per_s(),
            "gflops": self.gflops(),
            "phases": self.phases().into_iter().map(phase).collect::<Vec<_>>(),
        });
        if let Some(digest) = &self.digest {
            value["parameters_sha256"] = json!(digest);
        }
        value
    }

    fn to_text(&self, zipf: f64) -> String {
        let Self { run, .. } = self;
        let mut rows = vec![vec!["phase of rank 0".to_string(), "ms".into(), "waited".into()]];
        for (name, ms, waited) in self.phases() {
            rows.push(vec![name, format!("{ms:.3}"), format!("{waited:.3}")]);
        }
        let (device, median) = match self.devices.are_gpus() {
            true => (
                format!("ranks on {} in {}", self.devices.name(), run.precision),
                format!("{ROUNDS} rounds of {} steps", self.effort.steps),
            ),
            false => {
                let in_precision = match run.precision == Precisions::default() {
                    true => String::new(),
                    false => format!(" in {}", run.precision),
                };
                (format!("ranks × {} threads{in_precision}", self.threads()), self.times.len().to_string())
            }
        };
        let ids = if zipf == 0.0 { "uniform".to_owned() } else { format!("zipf {zipf}") };
        let digest = self.digest.as_ref().map(|digest| format!("parameters sha256 {digest}\n"));
        format!(
            "{} on {} {device}, batch {}: {:.2} ms a step (median of {median}), {} samples/s, {:.0} GFLOP/s\n\
             {BATCHES} batches with {ids} ids, made before the clock starts, in rotation\n{}{}",
            run.model.kind(),
            run.topology(),
            run.batch,
            1e3 * self.seconds,
            si(self.samples_per_s()),
            self.gflops(),
            columns(&rows),
            digest.unwrap_or_default()
        )
    }
}

/// Lets a thread read `portions` ahead for the next steps, where `ahead` says so.
pub(super) fn read_ahead(
    rank: &mut RankState,
    run: &Run,
    ahead: bool,
    portions: impl Iterator<Item = Range<u64>> + Clone + Send + 'static,
) -> Result<(), training::Error> {
    if !ahead {
        return Ok(());
    }
    let source = match std::mem::replace(&mut rank.source, Source::none()) {
        Source::Ahead(before) => before.stop()?.0,
        source => source,
    };
    rank.source = Source::Ahead(Prefetch::start(source, run, portions));
    Ok(())
}

/// Trains on one rank, and times what comes after the steps that warm up.
fn time_steps(
    run: &Run,
    world: &Communicator,
    batches: Vec<Batch>,
    effort: Effort,
) -> Result<OfRank, training::Error> {
    let schedule = run.schedule(Task::Train);
    let source = Source::resident(batches);
    let device = world.device().clone();
    let mut rank = RankState::new(device.clone(), run, &schedule, world.rank(), source)?;
    let communicators = training::Communicators::new(world, &run.dataflow)?;
    let mut execution = Execution::new(schedule);
    let batches = run.batches();
    let batch_of = move |step| batches.at(step % batches.per_epoch());
    // The work of a GPU goes on when a step returns, and the host is at most two steps ahead of it: only the time of many steps, in the
    // midst of a run, says what one takes. A thread reads its batches ahead, as in training.
    let queued = matches!(device, Device::Cuda(_));
    let (me, ranks) = (world.rank(), world.size());
    let own = move |step| {
        let positions: Range<u64> = batch_of(step);
        let own = share((positions.end - positions.start) as usize, ranks, me);
        positions.start + own.start as u64..positions.start + own.end as u64
    };
    let timed = if queued { LEAD + ROUNDS * effort.steps } else { effort.steps };
    // One reader for all steps: its memory is new at first.
    let portions = (0..effort.warm_up).chain(0..timed).map(own);
    read_ahead(&mut rank, run, queued, portions)?;
    execution
        .run(&mut rank, &communicators, effort.warm_up, batch_of, |_, _| Ok(ControlFlow::Continue(())))?;
    device.synchronise()?;
    execution.reset_times();
    let before = device.counts();
    let mut times = Vec::with_capacity(timed as usize);
    let (lead, round) = if queued { (LEAD, effort.steps) } else { (0, 1) };
    let mut last = Instant::now();
    execution.run(&mut rank, &communicators, timed, batch_of, |_, step| {
        match (step + 1).checked_sub(lead) {
            Some(done) if done > 0 && done.is_multiple_of(round) => {
                times.push(last.elapsed().as_secs_f64() / round as f64);
                last = Instant::now();
            }
            Some(0) => last = Instant::now(),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let phases = execution.times();
    let replays = device.counts().replays - before.replays;
    let digest = match effort.digest {
        true => Some(training::parameters_digest(world, run, &rank)?),
        false => None,
    };
    Ok(OfRank { times, phases, steps: timed, replays, digest })
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

/// Batches of a run, drawn from the synthetic log.
pub(super) fn batches(run: &Run) -> Result<Vec<Batch>> {
    let model = &run.model;
    let Data::Synthetic(settings) = &run.data else {
        bail!("steps are measured on the synthetic log only: leave out --data")
    };
    let log = SyntheticLog::new(settings, model.features(), model.dense_features(), Split::Train)?;
    let size = run.batch as u64;
    let drawn = (0..run.batches().per_epoch()).map(|i| {
        let mut batch = Batch::default();
        log.fill(i * size..(i + 1) * size, &mut batch);
        batch
    });
    Ok(drawn.collect())
}
