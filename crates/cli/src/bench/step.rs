//! The real step, executed from its schedule, on batches that are already in memory.

use crate::args::RunArgs;
use crate::text::{columns, median, si};
use ::data::{Batch, Split, SyntheticLog};
use anyhow::{Result, bail, ensure};
use serde_json::json;
use spec::run::{Data, Run};
use spec::schedule::Task;
use spec::synthetic::Synthetic;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use training::{Cluster, Execution, PhaseTime, Rank, Source};

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
    let batches = batches(&run)?;
    let threads = training::threads(&run, &Cluster::Threads);

    let measured = collectives::launch(
        run.topology(),
        &collectives::Options::default(),
        |_| kernels::Device::cpu(threads),
        |world| {
            let device = world.device().clone();
            device.enter(|| {
                let schedule = run.schedule(Task::Train);
                let source = Source::Resident(batches.clone());
                let mut rank = Rank::new(world.device().clone(), &run, &schedule, world.rank(), source)?;
                let circles = training::Circles::new(&world, &run.dataflow)?;
                let mut execution = Execution::new(schedule);
                let batches = run.batches();
                let batch_of = |step| batches.at(step % batches.per_epoch());
                execution
                    .run(&mut rank, &circles, args.warm_up, batch_of, |_, _| Ok(ControlFlow::Continue(())))?;
                execution.reset_times();
                let mut times = Vec::with_capacity(steps as usize);
                let mut last = Instant::now();
                execution.run(&mut rank, &circles, steps, batch_of, |_, _| {
                    times.push(last.elapsed().as_secs_f64());
                    last = Instant::now();
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok::<_, training::Error>((times, execution.times().to_vec()))
            })
        },
    )
    .map_err(anyhow::Error::new)?;

    let (mut times, phases) = measured.into_iter().next().expect("a topology has ranks");
    // The first step also pays for the prologue.
    if times.len() > 1 {
        times.remove(0);
    }
    let seconds = median(&mut times); // sorts them
    let samples_per_s = run.batch as f64 / seconds;
    let schedule = run.schedule(Task::Train);
    let per_step = |time: Duration| 1e3 * time.as_secs_f64() / steps as f64;
    let named = || schedule.phases().iter().zip(&phases);
    if args.json {
        let phases: Vec<_> = named()
            .map(|(phase, PhaseTime { busy, exposed, .. })| {
                json!({ "name": phase.name, "ms": per_step(*busy), "exposed_ms": per_step(*exposed) })
            })
            .collect();
        let result = json!({
            "model": run.model.kind(),
            "batch": run.batch,
            "hosts": run.topology().hosts(),
            "ranks_per_host": run.topology().ranks_per_host(),
            "threads_per_rank": threads,
            "steps": steps,
            "ms_per_step": 1e3 * seconds,
            "ms_of_best_step": 1e3 * times[0],
            "samples_per_s": samples_per_s,
            "gflops": run.model.training_flops() as f64 * samples_per_s / 1e9,
            "phases": phases,
        });
        println!("{result}");
        return Ok(());
    }
    println!(
        "{} on {} ranks × {threads} threads, batch {}: {:.2} ms a step (median of {}), {} samples/s, {:.0} GFLOP/s",
        run.model.kind(),
        run.topology(),
        run.batch,
        1e3 * seconds,
        times.len(),
        si(samples_per_s),
        run.model.training_flops() as f64 * samples_per_s / 1e9
    );
    let mut rows = vec![vec!["phase of rank 0".to_string(), "ms".into(), "waited".into()]];
    for (phase, PhaseTime { busy, exposed, .. }) in named() {
        let cells = [per_step(*busy), per_step(*exposed)].map(|ms| format!("{ms:.3}"));
        rows.push([vec![phase.name.clone()], cells.to_vec()].concat());
    }
    print!("{}", columns(&rows));
    Ok(())
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
    let Data::Synthetic(settings) = &run.data else { bail!("bench step runs on the synthetic log") };
    let log = SyntheticLog::new(settings, model.features(), model.dense_features(), Split::Train)?;
    let size = run.batch as u64;
    let drawn = (0..BATCHES).map(|i| {
        let mut batch = Batch::default();
        log.fill(i * size..(i + 1) * size, &mut batch);
        batch
    });
    Ok(drawn.collect())
}
