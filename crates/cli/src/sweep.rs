//! `campanile sweep`: a search over settings by successive halving, which can be stopped and goes on.

use crate::args::RunArgs;
use crate::progress::Console;
use crate::signals::stop_on_signals;
use crate::text::columns;
use anyhow::{Result, bail, ensure};
use campanile::sweep::{DRAWS, Setting, Sweep, Swept, deciding_metric};
use spec::run::DataFormat;
use std::path::PathBuf;
use training::metrics::Metric;

#[derive(clap::Args)]
#[command(
    after_help = "Trials are compared on validation rows: a share of the training rows that no trial trains on. Rows of --eval or \
--split are not looked at, but for --final, which judges the best setting once.

A sweep that was stopped or killed goes on with the same command, or with --resume DIR. In DIR: sweep.toml (what was asked for), \
records.jsonl (results), trials/NNN (run folders; only the best keeps its checkpoint), best.toml (a config to train with) and \
sweep.html.

Examples:
  campanile sweep --set optimizer.peak=1e-3..1e-1:log --set model.dim=8,16 --trials 12 --out sweeps/one
  campanile sweep run.toml --set model.top=[64,1],[128,64,1] --metric logloss --final --out sweeps/two
  campanile sweep --resume sweeps/one
  campanile train sweeps/one/best.toml --out runs/best"
)]
#[command(mut_arg("seed", |arg| arg.help("Seed of the initial weights and of the draws [default: 0]")))]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Values of a key of the config: a list (model.dim=8,16), or a range to draw from, uniformly (model.dim=8..32) or in the
    /// logarithm (optimizer.peak=1e-3..1e-1:log). Lists give every combination. May be given several times
    #[arg(long, value_name = "KEY=VALUES", required_unless_present = "resume", help_heading = "Sweep")]
    set: Vec<Setting>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Sweep")]
    #[arg(help = format!("Trials: a limit of the combinations, or the number of draws [default: all combinations, or {DRAWS} draws]"))]
    trials: Option<u32>,
    /// Metric that decides: auc, pr_auc, logloss, ne or accuracy [default: auc]
    #[arg(long, value_name = "METRIC", help_heading = "Sweep")]
    metric: Option<String>,
    /// One in R trials goes on to the next rung, from its checkpoint; rungs end after 1/R², 1/R and all of the steps [default: 2]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(2..), help_heading = "Sweep")]
    halving: Option<u32>,
    /// Train all trials to their end
    #[arg(long, conflicts_with = "halving", help_heading = "Sweep")]
    no_halving: bool,
    /// Share of the training rows that trials are compared on, kept from training as --split keeps rows [default: 0.1; a
    /// synthetic log has validation rows of its own]
    #[arg(long, value_name = "SHARE", help_heading = "Sweep")]
    validation: Option<f64>,
    /// Train the best setting on all training rows in the end, and judge it once on the rows of --eval or --split
    #[arg(long = "final", help_heading = "Sweep")]
    judge: bool,
    /// Folder for everything; a sweep that was stopped goes on there
    #[arg(long, value_name = "DIR", required_unless_present = "resume", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Go on with the sweep in this folder; only --final and --json may be added
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "set", "trials", "metric", "halving", "no_halving", "validation"])]
    #[arg(help_heading = "Output")]
    resume: Option<PathBuf>,
    /// Print one JSON object as the last line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let (judge, json) = (args.judge, args.json);
    let sweep = asked(args)?;
    let stop = stop_on_signals()?;
    let swept = stop.ended(sweep.judge(judge).control(console.control(&stop)).run())?;
    if json {
        println!("{}", swept.to_json());
    } else {
        print!("{}", told(&swept));
    }
    match swept.best() {
        Some(_) => Ok(()),
        None => bail!("all {} trials failed", swept.tried.len()),
    }
}

/// The sweep that the flags describe.
fn asked(args: Args) -> Result<Sweep> {
    if let Some(folder) = &args.resume {
        ensure!(
            format!("{:?}", args.run) == format!("{:?}", RunArgs::default()),
            "--resume {}: the sweep is described in that folder; leave out all flags but --final and --json",
            folder.display()
        );
        return Ok(Sweep::resume(folder)?);
    }
    let config = args.run.config()?;
    let synthetic = config.data.format.unwrap_or_default() == DataFormat::Synthetic;
    ensure!(
        !(synthetic && args.validation.is_some()),
        "--validation: a synthetic log has validation rows of its own; leave it out"
    );
    let mut sweep =
        Sweep::new(config, args.out.unwrap_or_default()).trials(args.trials.map(|trials| trials as usize));
    if let Some(metric) = &args.metric {
        sweep = sweep.metric(deciding_metric(metric)?.field);
    }
    if let Some(factor) = args.halving {
        sweep = sweep.halving(Some(factor as usize));
    }
    if args.no_halving {
        sweep = sweep.halving(None);
    }
    if let Some(share) = args.validation {
        sweep = sweep.validation(share);
    }
    Ok(args.set.into_iter().fold(sweep, Sweep::set))
}

/// The result as people read it.
fn told(swept: &Swept) -> String {
    let (out, label) = (swept.folder.display(), swept.metric.label);
    let mut text = format!("{}{label} on {}.\n", columns(&swept.table()), swept.compared_on);
    let failures = swept.failures();
    if !failures.is_empty() {
        text +=
            &format!("\nFailed:\n{}", failures.iter().map(|line| format!("  {line}\n")).collect::<String>());
    }
    if let Some(best) = swept.best() {
        let value = Metric::show(best.value(swept.metric));
        text += &format!("\nBest: trial {}, {label} {value}; train with {out}/best.toml\n", best.number);
    }
    if let Some(judged) = &swept.judged {
        let record = &judged.record;
        text += &match &record.failed {
            None => format!(
                "Trained on all training rows: {label} {} on {} rows that no choice has seen; kept in {out}/final\n",
                Metric::show(record.metric(swept.metric.field)),
                record.samples
            ),
            Some(why) => format!("The final run failed: {why}\n"),
        };
    }
    text + &format!("kept in {out}; open {out}/sweep.html\n")
}
