//! `campanile train`: a progress bar on the way, a summary at the end, and a run folder that keeps all of it.

mod args;
mod breakdown;
mod dry_run;
mod flags;
mod several;
mod summary;

pub use args::Args;
pub use breakdown::quality_of;
pub use several::one_of_several;

use crate::cluster::complete_topology;
use crate::folder::CHECKPOINTS;
use crate::progress::Console;
use crate::signals::{Stop, stop_on_signals};
use crate::text::tell;
use anyhow::Result;
use campanile::file::whole;
use campanile::resume::Resumed;
use campanile::train::{DryRun, TraceFile};
use campanile::{OpenTraining, Trained, Training};
use spec::run::{CheckpointKind, Config, OptimizerConfig, Run};
use std::path::Path;
use std::time::Instant;
use summary::Detail;
use training::{BestSoFar, Cluster, Outcome};

pub fn run(args: Args, console: Console) -> Result<()> {
    args.check()?;
    let cluster = args.transport.join()?;
    // A signal ends the search for the run at once.
    let searching = console.control(&Stop::default());
    let resumed = args.resume.as_deref().map(|path| Resumed::find(path, &cluster, &searching)).transpose()?;
    let config = configure(&args, resumed.as_ref(), &cluster)?;
    flags::check(&args, &config)?;
    let began = Instant::now();
    let stop = stop_on_signals()?;
    let training = training(&args, config, resumed, cluster).control(console.control(&stop));
    if args.dry_run {
        return tell_plan(&args, &stop.ended(training.dry_run())?);
    }
    let open = stop.ended(training.open())?;
    flags::check_run(&args, open.config(), open.run())?;
    if open.has_first_rank() {
        notes(&args, &open).iter().for_each(|note| console.note(note));
    }
    let (trained, not_kept) = match open.train() {
        Ok(trained) => (trained, None),
        // The result is worth more than what is kept of it: it is told first.
        Err(campanile::Error::NotKept { trained, source }) => (*trained, Some(*source)),
        Err(error) => return Err(error.into()),
    };
    if !trained.has_first_rank {
        return Ok(());
    }
    tell_result(&args, &trained, began.elapsed().as_secs_f64());
    let interrupted = trained
        .outcome
        .interrupted
        .then(|| stop.interrupted(stopped(&trained.run, &trained.outcome, trained.folder())));
    match (not_kept, interrupted) {
        (None, None) => Ok(()),
        (None, Some(interrupted)) => Err(interrupted.into()),
        (Some(error), interrupted) => {
            // What was saved is told in any case.
            interrupted.iter().for_each(tell);
            Err(error.into())
        }
    }
}

/// Prints what would be trained.
fn tell_plan(args: &Args, plan: &DryRun) -> Result<()> {
    flags::check_run(args, &plan.config, &plan.run)?;
    match (plan.has_first_rank, args.json) {
        (false, _) => {}
        (true, true) => println!("{}", plan.to_json()),
        (true, false) => print!("{}", dry_run::text(plan)),
    }
    Ok(())
}

/// The training that the flags describe.
fn training(args: &Args, config: Config, resumed: Option<Resumed>, cluster: Cluster) -> Training {
    let trace = args.trace.as_ref().map(|path| TraceFile {
        path: path.clone(),
        force: args.force.force,
        steps: args.trace_steps,
        inputs: args.run.inputs(&config),
    });
    let written = written_optimizer(args, &config, resumed.as_ref());
    let mut training = Training::new(config)
        .cluster(cluster)
        .written_optimizer(written)
        .compute(args.compute.clone())
        .trace(trace)
        .warm_up(args.warm_up)
        .report_every(args.report_every)
        .described(args.run.described());
    if let Some(out) = &args.out {
        training = training.out(out);
    }
    match resumed {
        Some(resumed) => training.resumed(resumed),
        None => training,
    }
}

/// What the user should know before training begins.
fn notes(args: &Args, open: &OpenTraining) -> Vec<String> {
    let (run, config) = (open.run(), open.config());
    let mut notes = flags::notes(args, config, run);
    notes.push(plan_line(run, config));
    let done = open.resumed().filter(|resumed| resumed.step() == run.steps);
    notes.extend(done.map(|resumed| complete(resumed, run, config)));
    notes.extend(open.resumed().and_then(|resumed| stopped_early(resumed, run)));
    notes
}

/// The placement of the tables in a line.
fn plan_line(run: &Run, config: &Config) -> String {
    let more = match config.placement.plan.is_none() && run.topology().ranks() > 1 {
        true => "; --plan auto uses every scheme",
        false => "",
    };
    format!("plan: {}{more}", campanile::plan::in_words(run))
}

/// Prints the result.
fn tell_result(args: &Args, trained: &Trained, wall: f64) {
    let Trained { run, outcome, folder, .. } = trained;
    if args.json {
        println!("{}", campanile::summary::to_json(run, outcome, trained.warm_start.as_ref()));
        return;
    }
    let detail = if args.verbose { Detail::Verbose } else { Detail::Short };
    print!("{}", summary::summary(run, outcome, wall, detail));
    if let Some(out) = folder {
        println!("kept in {0}; open {0}/report.html", out.display());
    }
}

/// Where a run that was stopped has its state, and how to go on.
fn stopped(run: &Run, outcome: &Outcome, out: Option<&Path>) -> String {
    let saved = match out {
        _ if outcome.paced => "a paced run has no state to save".into(),
        Some(out) => format!(
            "the state is saved in {}\ngo on with: campanile train --resume {}",
            out.join(CHECKPOINTS).display(),
            quoted(out)
        ),
        None => "nothing was saved: pass --out DIR to keep checkpoints".into(),
    };
    format!("stopped after step {} of {}: {saved}", outcome.steps, run.steps)
}

/// What is said of a run that has no step left, and how to give it some.
fn complete(resumed: &Resumed, run: &Run, config: &Config) -> String {
    let (folder, steps, epochs) = (&resumed.folder, run.steps, config.train.epochs.unwrap_or(1));
    // Samples that were left out by --steps come first.
    let all = run.batches().per_epoch().saturating_mul(epochs);
    let more = match steps < all {
        true => format!("--epochs {epochs} (or --steps N, up to {all})"),
        false => format!("--epochs {}", epochs.saturating_add(1)),
    };
    format!(
        "the run in {} is complete: all {steps} steps are done, and nothing is left but to evaluate it\n\
         to train it further: campanile train --resume {} {more}",
        folder.display(),
        quoted(folder)
    )
}

/// What is said of a run that stopped early and has no more patience, and how to give it some.
fn stopped_early(resumed: &Resumed, run: &Run) -> Option<String> {
    let best = BestSoFar::of(resumed.checkpoint.as_ref()?.manifest())?;
    if resumed.step() == run.steps || !best.stops(run.patience) {
        return None;
    }
    let (count, folder) = (best.without_improvement(), &resumed.folder);
    let s = if count == 1 { "" } else { "s" };
    Some(format!(
        "the run in {} stopped early after step {} of {}: {count} evaluation{s} without a better {}; it is only evaluated \
         again\n\
         to train it further: campanile train --resume {} --patience {} (or 0, to train to the end)",
        folder.display(),
        resumed.step(),
        run.steps,
        best.label(),
        quoted(folder),
        count + 1
    ))
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn configure(args: &Args, resumed: Option<&Resumed>, cluster: &Cluster) -> Result<Config> {
    let other_length = args.run.steps.is_some() || args.run.epochs.is_some();
    let base = resumed.map(|resumed| resumed.base(other_length)).unwrap_or_default();
    let mut config = args.run.config_over(base)?;
    config.train.eval_every = args.eval_every.or(config.train.eval_every);
    config.train.keep_best = args.keep_best.clone().or(config.train.keep_best);
    config.train.patience = args.patience.or(config.train.patience);
    if let Some(path) = &args.warm_start {
        config.train.warm_start = Some(whole(path)?);
    }
    config.checkpoint.every = args.checkpoint_every.or(config.checkpoint.every);
    let checkpoint = &mut config.checkpoint;
    checkpoint.keep = args.keep.or(checkpoint.keep);
    checkpoint.kind = args.checkpoint_kind.or(checkpoint.kind);
    if args.checkpoint_kind == Some(CheckpointKind::Full) {
        // What a resumed run said of its increments says nothing of full checkpoints.
        (checkpoint.increments, checkpoint.increment_format) = (None, None);
    }
    checkpoint.increments = args.increments.or(checkpoint.increments);
    checkpoint.increment_format = args.increment_format.or(checkpoint.increment_format);
    checkpoint.memory = args.checkpoint_memory.or(checkpoint.memory);
    complete_topology(cluster, &mut config)?;
    Ok(config)
}

/// The optimizers as the user wrote them, now or when the run that is resumed began.
fn written_optimizer(args: &Args, config: &Config, resumed: Option<&Resumed>) -> OptimizerConfig {
    let says_nothing = args.run.config.is_none() && args.run.optimizer.is_none() && args.run.lr.is_none();
    let before = resumed.and_then(|resumed| resumed.optimizer.as_ref());
    before.filter(|_| says_nothing).unwrap_or(&config.optimizer).clone()
}
