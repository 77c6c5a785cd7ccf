//! `campanile train`: a progress bar on the way, a summary at the end, and a run folder that keeps all of it.

mod compute;
mod difference;
mod flags;
mod keep;
mod resume;
mod summary;

use crate::args::RunArgs;
use crate::cluster::{Place, TransportArgs, report_once};
use crate::folder::{CHECKPOINTS, PREPARED};
use crate::logs::{self, OpenLogs};
use crate::output::{Force, Inputs, Output};
use crate::progress::{Console, Unit};
use crate::signals::{Stop, stop_on_signals};
use crate::text::{si, tell};
pub use resume::{SavedRun, folder_of};
pub use summary::{quality_on, sent_between_hosts};

use anyhow::{Context, Result, ensure};
use compute::ComputeArg;
use keep::Keeper;
use resume::Resumed;
use spec::pace::Pace;
use spec::run::{Config, Every, OptimizerConfig, Run};
use std::path::{Path, PathBuf};
use std::time::Instant;
use summary::Detail;
use training::checkpoint::Checkpoint;
use training::{Cluster, Compute, Event, Outcome, Progress, Saving, Session, Trace};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    transport: TransportArgs,
    /// Keep the run in this folder: config, schedule, metrics, checkpoints and a report to open in a browser [default: nothing is
    /// kept]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Go on with the run in this folder, from its last complete checkpoint; flags override its config
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    resume: Option<PathBuf>,
    /// Write a checkpoint every so many steps (500) or every so much time (30s, 10min, 1h), besides at the end and on
    /// SIGINT, SIGTERM, SIGHUP or SIGUSR1 [default: 10min, with --out]
    #[arg(long, value_name = "STEPS|TIME", help_heading = "Output")]
    checkpoint_every: Option<Every>,
    /// Checkpoints to keep [default: 2]
    #[arg(long, value_name = "K", help_heading = "Output")]
    keep: Option<usize>,
    /// Evaluate every so many steps, besides at the end [default: at the end only]
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    eval_every: Option<u64>,
    /// Write when each phase of the last steps ran, on every rank, as a trace for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    trace: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Output")]
    force: Force,
    /// Steps in the trace
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    #[arg(requires = "trace", help_heading = "Output")]
    trace_steps: u64,
    /// Leave the first steps out of all times
    #[arg(long, value_name = "STEPS", default_value_t = 0, help_heading = "Output")]
    warm_up: u64,
    /// Tell losses and speed every so many steps, and at the end: all ranks add them up [default: about a hundred times]
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    report_every: Option<u64>,
    /// How to compute: real, or paced: every byte travels, but each computation only lasts as long as FILE says (see
    /// `campanile pace`), or as it took when measured first, one rank at a time; nothing is learnt then [default: real]
    #[arg(long, value_name = "real|paced|paced:FILE", default_value = "real", help_heading = "Cluster")]
    #[arg(hide_default_value = true)]
    compute: ComputeArg,
    /// Print one JSON object as the last line
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Also print what each phase took, what it sent, and which rank holds what; the report has it in any case
    #[arg(long, help_heading = "Output")]
    verbose: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    compute::check(&args)?;
    ensure!(
        args.resume.is_none() || args.run.preset.is_none() || args.run.config.is_some(),
        "--preset with --resume changes nothing: the model is that of the run; leave --preset out"
    );
    let place = args.transport.join()?;
    let resumed = args.resume.as_deref().map(|path| Resumed::find(path, &place, console)).transpose()?;
    let out = args.out.clone().or_else(|| resumed.as_ref().map(|r| r.folder.clone()));
    let mut config = configure(&args, resumed.as_ref(), &place)?;
    flags::check(&args, &config)?;
    resumed.as_ref().map_or(Ok(()), |resumed| resumed.check_split(&config))?;
    if args.compute == ComputeArg::Real {
        checkpoint_now_and_then(&mut config, out.as_deref());
    }
    let began = Instant::now();
    let stop = stop_on_signals()?;
    // A new folder must be free before logs are prepared in it. One to go on in stays as it is until all is checked.
    let goes_on = resumed.as_ref().zip(out.as_deref()).is_some_and(|(resumed, out)| resumed.is_in(out));
    // One rank keeps the run for all.
    let kept_at = out.as_deref().filter(|_| place.has_first_rank());
    let open_keeper = || kept_at.map(|out| Keeper::open(out, resumed.as_ref())).transpose();
    let mut keeper = if goes_on { None } else { open_keeper()? };
    // After the run's folder is there, since a trace may go into it.
    let trace = args.trace.as_deref().filter(|_| place.has_first_rank());
    let trace = Output::check_if_any(trace, args.force.force, &inputs(&args, &config, resumed.as_ref()))?;
    let kept_logs = out.as_ref().map(|out| out.join(PREPARED));
    ensure!(
        !place.is_distributed() || kept_logs.is_some() || !logs::must_be_prepared(&config.data),
        "ranks that are processes need a log that all of them can read: give --out on a file system that all hosts share, \
         or prepare the log first with `campanile data prepare`"
    );
    let logs = place.first_rank_first(|| {
        stop.ended(match place.has_first_rank() {
            true => logs::open(&config.data, kept_logs.as_deref(), &stop, console),
            // What rank 0 has prepared.
            false => logs::open_again(&config.data, kept_logs.as_deref(), &stop),
        })
    })?;
    let run = logs.check(&config).with_context(|| args.run.described())?;
    flags::check_run(&args, &config, &run)?;
    if place.has_first_rank() {
        logs.warnings(&config.data).iter().for_each(|warning| tell(format!("warning: {warning}")));
        flags::notes(&args, &config, &run).iter().for_each(|note| console.note(note));
    }
    let explicit = config.explicit(&run);
    if let Some(resumed) = &resumed {
        resumed.check(&explicit, &run, &logs)?;
    }
    if let Some(resumed) = resumed.as_ref().filter(|r| r.step() == run.steps && place.has_first_rank()) {
        console.note(complete(resumed, &run, &config));
    }
    let left = run.steps - resumed.as_ref().map_or(0, Resumed::step).min(run.steps);
    ensure!(
        args.warm_up == 0 || args.warm_up < left,
        "--warm-up {}: of {left} steps none would be left to time",
        args.warm_up
    );
    ensure!(
        !place.is_distributed() || args.compute != ComputeArg::Paced,
        "ranks that are processes cannot take turns at being measured: write the times with `campanile pace --out FILE`, and \
         give them with --compute paced:FILE"
    );
    let pace = compute::pace(&args.compute, &run, &logs, console)?;
    if goes_on {
        keeper = open_keeper()?;
        if let Some(resumed) = resumed.as_ref().filter(|_| place.has_first_rank()) {
            resumed.set_damaged_aside()?;
        }
    }
    let written = written_optimizer(&args, &config, resumed.as_ref());
    let saving = match out.as_ref().filter(|_| pace.is_none()) {
        None => None,
        Some(out) => {
            Some(Saving { root: out.join(CHECKPOINTS), run: resume::saved(&explicit, written, &logs)? })
        }
    };
    let cluster =
        place.cluster(&identity(&args, &explicit, &logs, pace.as_ref(), &saving, resumed.as_ref())?)?;
    if let Some(keeper) = &mut keeper {
        keeper.begin(&run, &explicit, &logs, resumed.as_ref(), &cluster, pace.is_some())?;
    }
    let job = Job {
        run: &run,
        logs: &logs,
        keeper: keeper.as_ref(),
        saving,
        resumed: resumed.as_ref(),
        cluster: &cluster,
        pace: pace.as_ref(),
        trace_steps: args.trace.is_some().then_some(args.trace_steps),
        warm_up: args.warm_up,
        report_every: args.report_every,
        title: "training",
        console: if cluster.has_first_rank() { console } else { Console::Quiet },
    };
    let outcome = train(&job, &stop).map_err(|error| report_once(&cluster, error))?;
    if !cluster.has_first_rank() {
        return Ok(());
    }
    let result = summary::to_json(&run, &outcome);
    let traced = trace.as_ref().zip(outcome.trace.as_ref());
    let traced = traced.map_or(Ok(()), |(output, trace)| write_trace(output, trace));
    // The result is worth more than what is kept of it: it is told first.
    let kept = keeper.map_or(Ok(()), |keeper| keeper.end(&run, &outcome, &result));
    if args.json {
        println!("{result}");
    } else {
        let detail = if args.verbose { Detail::Verbose } else { Detail::Short };
        print!("{}", summary::summary(&run, &outcome, began.elapsed().as_secs_f64(), detail));
        if let Some(out) = &out {
            println!("kept in {0}; open {0}/report.html", out.display());
        }
    }
    let end = if outcome.interrupted {
        Err(stop.interrupted(stopped(&run, &outcome, out.as_deref())).into())
    } else {
        Ok(())
    };
    match kept.and(traced) {
        Ok(()) => end,
        Err(error) => {
            // What was saved is told in any case.
            let _ = end.inspect_err(|interrupted: &anyhow::Error| tell(interrupted));
            Err(error)
        }
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

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Seconds between checkpoints, unless told.
const CHECKPOINT_EVERY_S: f64 = 600.0;

/// A run that is kept in a folder saves its state now and then, so that a kill costs minutes at most.
fn checkpoint_now_and_then(config: &mut Config, out: Option<&Path>) {
    if out.is_some() {
        config.checkpoint.every.get_or_insert(Every::Seconds(CHECKPOINT_EVERY_S));
    }
}

fn write_trace(output: &Output, trace: &Trace) -> Result<()> {
    let text = serde_json::to_string(&trace.to_json()).context("the trace as JSON")?;
    output.write(text.as_bytes())
}

/// Files that the run reads.
fn inputs(args: &Args, config: &Config, resumed: Option<&Resumed>) -> Inputs {
    let mut inputs = args.run.inputs(config);
    inputs.add_all(args.compute.file());
    inputs.add_all(resumed.and_then(|resumed| resumed.checkpoint.as_ref()).map(Checkpoint::path));
    inputs
}

/// What all ranks of a run must have been started with, line by line.
fn identity(
    args: &Args,
    explicit: &Config,
    logs: &OpenLogs,
    pace: Option<&Pace>,
    saving: &Option<Saving>,
    resumed: Option<&Resumed>,
) -> Result<String> {
    let mut identity = toml::to_string_pretty(explicit).context("the config as TOML")?;
    let traced = if args.trace.is_some() { args.trace_steps } else { 0 };
    identity += &format!("{} steps not timed, {traced} traced\n", args.warm_up);
    identity += &format!("reports every {:?} steps\n", args.report_every);
    for (split, samples) in logs.fingerprints() {
        identity += &format!("samples to {split} on: {samples}\n");
    }
    if let Some(pace) = pace {
        identity += &format!("paced: {}\n", serde_json::to_string(pace).context("the pace as JSON")?);
    }
    if let Some(saving) = saving {
        identity += &format!("checkpoints in {}\n", saving.root.display());
    }
    if let Some(resumed) = resumed {
        identity += &format!("resumed after step {}\n", resumed.step());
    }
    Ok(identity)
}

fn configure(args: &Args, resumed: Option<&Resumed>, place: &Place) -> Result<Config> {
    let other_length = args.run.steps.is_some() || args.run.epochs.is_some();
    let base = resumed.map(|resumed| resumed.base(other_length)).unwrap_or_default();
    let mut config = args.run.config_over(base)?;
    config.train.eval_every = args.eval_every.or(config.train.eval_every);
    config.checkpoint.every = args.checkpoint_every.or(config.checkpoint.every);
    config.checkpoint.keep = args.keep.or(config.checkpoint.keep);
    place.complete_topology(&mut config)?;
    Ok(config)
}

/// The optimizers as the user wrote them, now or when the run that is resumed began.
fn written_optimizer<'a>(
    args: &Args,
    config: &'a Config,
    resumed: Option<&'a Resumed>,
) -> &'a OptimizerConfig {
    let says_nothing = args.run.config.is_none() && args.run.optimizer.is_none() && args.run.lr.is_none();
    let before = resumed.and_then(|resumed| resumed.optimizer.as_ref());
    before.filter(|_| says_nothing).unwrap_or(&config.optimizer)
}

/// A run on its way.
struct Job<'a> {
    run: &'a Run,
    logs: &'a OpenLogs,
    keeper: Option<&'a Keeper>,
    /// Where its checkpoints go, on every rank.
    saving: Option<Saving>,
    resumed: Option<&'a Resumed>,
    cluster: &'a Cluster,
    /// The times to compute by; `None` to compute truly.
    pace: Option<&'a Pace>,
    /// Steps to record for a trace.
    trace_steps: Option<u64>,
    /// Steps that are left out of all times.
    warm_up: u64,
    /// Steps between two reports.
    report_every: Option<u64>,
    /// What the progress calls it.
    title: &'a str,
    console: Console,
}

/// Trains what `config` describes, one run of several, and keeps it in `out` where that is given. An error where it is
/// stopped on the way.
pub fn one_of_several(
    config: &Config,
    logs: &OpenLogs,
    out: Option<&Path>,
    title: &str,
    stop: &Stop,
    console: Console,
) -> Result<(Run, Outcome)> {
    let mut config = config.clone();
    checkpoint_now_and_then(&mut config, out);
    let run = logs.check(&config).with_context(|| title.to_owned())?;
    let (explicit, cluster) = (config.explicit(&run), &Cluster::Threads);
    let mut keeper = out.map(|out| Keeper::open(out, None)).transpose()?;
    if let Some(keeper) = &mut keeper {
        keeper.begin(&run, &explicit, logs, None, cluster, false)?;
    }
    let saving = match &keeper {
        None => None,
        Some(keeper) => Some(Saving {
            root: keeper.checkpoints(),
            run: resume::saved(&explicit, &config.optimizer, logs)?,
        }),
    };
    let keep = keeper.as_ref();
    let job = Job {
        run: &run,
        logs,
        keeper: keep,
        saving,
        resumed: None,
        cluster,
        pace: None,
        trace_steps: None,
        warm_up: 0,
        report_every: None,
        title,
        console,
    };
    let outcome = train(&job, stop).with_context(|| title.to_owned())?;
    keeper.map_or(Ok(()), |keeper| keeper.end(&run, &outcome, &summary::to_json(&run, &outcome)))?;
    if outcome.interrupted {
        let said = format!("{title}: stopped after step {} of {}", outcome.steps, run.steps);
        return Err(stop.interrupted(said).into());
    }
    Ok((run, outcome))
}

/// Trains under a progress bar; a signal ends the run after its current step.
fn train(job: &Job, stop: &Stop) -> Result<Outcome, training::Error> {
    let Job { run, logs, keeper, .. } = *job;
    let progress = job.console.progress(job.title, run.steps, Unit::Count("steps"));
    let observe = |event: Event| {
        match event {
            Event::Training(Progress { step, loss, auc, samples_per_s, .. }) => {
                let auc = auc.map_or("–".into(), |auc| format!("{auc:.4}"));
                let learning = match job.pace {
                    None => format!("loss {loss:.4}  AUC so far {auc}"),
                    Some(_) => "paced".into(),
                };
                progress.at(step, &format!("{learning}  {} samples/s", si(samples_per_s)));
            }
            Event::Evaluating { samples } => {
                progress.say(&format!("evaluating {} samples", si(samples as f64)))
            }
            Event::Evaluated { .. } | Event::Saved { .. } => {}
        }
        if let Some(keeper) = keeper {
            keeper.observe(event);
        }
    };
    let session = Session {
        cluster: job.cluster,
        observe: &observe,
        stop: Some(stop),
        checkpoints: job.saving.clone(),
        resume: job.resumed.and_then(|resumed| resumed.checkpoint.as_ref()),
        compute: job.pace.map_or(Compute::Real, Compute::Paced),
        warm_up: job.warm_up,
        report_every: job.report_every,
        trace_steps: job.trace_steps,
    };
    training::train(run, &logs.logs, &session)
}
