//! `campanile towers`: from a flat model to the best towers in one command.
//!
//! ```text
//! train a flat model for a while → affinity → towers by each strategy → train each → keep the best → train that on all rows
//! ```
//!
//! Test rows judge the result and decide nothing: affinity is measured on training rows, and strategies are compared by their AUC
//! on validation rows, a tenth of the training rows that none of these runs trains on.

use crate::affinity::{Measured, measure};
use crate::args::RunArgs;
use crate::folder::PREPARED;
use crate::logs::{self, OpenLogs};
use crate::on_samples::Opened;
use crate::partition::{Divided, Division, Tables, picture, to_text, write, write_affinity, write_towers};
use crate::progress::Console;
use crate::signals::{Stop, stop_on_signals};
use crate::text::{bytes, columns};
use crate::train::{one_of_several, sent_between_hosts};
use anyhow::{Context, Result, bail, ensure};
use planning::partitioner::Strategy;
use serde_json::json;
use spec::affinity::Affinity;
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::towers::{Assignment, DcnOutput, Module};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  campanile towers --out runs/towers                                  4 towers for the built-in model and its synthetic log
  campanile towers --data day_0.gz --eval day_1.gz --preset kaggle --towers 8 --tower-module dlrm:d=8 --out runs/towers
  campanile train --towers runs/towers/towers.json --tower-module dlrm:d=8 …     more of the best")]
#[command(mut_arg("towers", |arg| arg
    .value_name("T")
    .help("How many towers to divide the features into [default: 4, or as many as there are hosts]")))]
#[command(mut_arg("tower_module", |arg| arg
    .help("What stands over the features of a tower [default: half of a vector for each feature with DLRM, dlrm:c=1,p=0,d=N/2; one \
           vector for each tower with DCN, dcn:d=N]")))]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Strategies to try
    #[arg(long, value_delimiter = ',', default_value = "coherent,diverse,strided", help_heading = "Towers")]
    strategies: Vec<Strategy>,
    /// Flat model that affinity is measured on: by default a dlrm, whose dot products are what teaches embeddings to have
    /// cosines
    #[arg(long, value_name = "KIND", default_value = "dlrm", help_heading = "Towers")]
    flat_model: ModelKind,
    /// Steps of the flat model that affinity is measured on [default: half of those of the run]
    #[arg(long, value_name = "STEPS", help_heading = "Towers")]
    flat_steps: Option<u64>,
    #[command(flatten, next_help_heading = "Towers")]
    division: Division,
    #[command(flatten, next_help_heading = "Towers")]
    measured: Measured,
    /// A new folder for everything: the runs, the affinity, the towers of each strategy with a picture, and the best as
    /// towers.json, trained on all training rows in best
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Print one JSON object as the last line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What one strategy came to.
struct Tried {
    strategy: Strategy,
    divided: Divided,
    /// On validation rows.
    auc: f64,
    /// Bytes between hosts a step.
    between_hosts: u64,
    seconds: f64,
}

/// What all runs of the recipe share.
struct Recipe<'a> {
    args: &'a Args,
    console: Console,
    config: Config,
    logs: OpenLogs,
    /// The training rows alone, some of them to compare by.
    pilot_logs: OpenLogs,
    stop: Stop,
    towers: usize,
    module: Module,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let recipe = Recipe::checked(&args, console)?;
    let (affinity, tables, flat) = recipe.measure_flat()?;
    let mut tried: Vec<Tried> = Vec::new();
    for (at, &strategy) in args.strategies.iter().enumerate() {
        tried.push(recipe.attempt(at, strategy, &affinity, &tables)?);
    }
    // The first of equals.
    let best = tried.iter().reduce(|best, next| if next.auc > best.auc { next } else { best });
    let best = best.context("--strategies names none")?;
    write_towers(&args.out.join("towers.json"), &best.divided.towers)?;
    let test = recipe.train_best(best)?;
    let result = to_json(&tried, best, &flat, &test, recipe.logs.pilot_rows());
    write(&args.out.join("summary.json"), &format!("{result:#}\n"))?;
    if args.json {
        println!("{result}");
    } else {
        print!("{}", told(&tried, best, &flat, &test, recipe.logs.pilot_rows()));
        let (out, module) = (args.out.display(), recipe.module);
        println!("kept in {out}; train on with --towers {out}/towers.json --tower-module {module}");
    }
    Ok(())
}

impl<'a> Recipe<'a> {
    /// Refuses what cannot be before anything is trained.
    fn checked(args: &'a Args, console: Console) -> Result<Self> {
        let mut flat = args.run.clone();
        let (asked, module) = (flat.towers.take(), flat.tower_module.take());
        let config = flat.config()?;
        ensure!(
            config.model.towers.is_none() && config.model.tower_module.is_none(),
            "{}: it has towers already; this command finds them for a flat model",
            flat.described()
        );
        distinct(&args.strategies)?;
        ensure!(
            module != Some(Module::None),
            "--tower-module none: towers that change nothing are all the same"
        );
        let stop = stop_on_signals()?;
        let is_prepared = |entry: &std::io::Result<std::fs::DirEntry>| {
            entry.as_ref().is_ok_and(|entry| entry.file_name() == PREPARED)
        };
        ensure!(
            !args.out.exists()
                || args.out.read_dir().is_ok_and(|mut inside| inside.all(|entry| is_prepared(&entry))),
            "{}: not an empty folder; choose another",
            args.out.display()
        );
        std::fs::create_dir_all(&args.out)
            .with_context(|| format!("{}: cannot be created", args.out.display()))?;
        let logs = stop.ended(logs::open(&config.data, Some(&args.out.join(PREPARED)), &stop, console))?;
        let whole = logs.check(&config).with_context(|| flat.described())?;
        ensure!(
            whole.data.eval_samples() > 0,
            "towers are judged by their AUC; give samples to evaluate on with --eval"
        );
        let pilot_logs = logs.for_pilots()?;
        let towers = towers_asked(asked.as_deref(), &whole)?;
        let module = module.map_or_else(|| usual_module(&config, &whole), Ok)?;
        args.division.check(&whole.model, towers, &args.strategies)?;
        let strided = Assignment::Strided(towers.min(whole.model.features().len()));
        logs.check(&in_towers(&config, strided, module))
            .with_context(|| format!("{towers} towers of {module}"))?;
        let recipe = Self { args, console, config, logs, pilot_logs, stop, towers, module };
        recipe
            .pilot_logs
            .check(&recipe.flat(whole.steps))
            .with_context(|| format!("the flat {}", args.flat_model.name()))?;
        Ok(recipe)
    }

    /// The config of the flat model, where the whole run has so many steps.
    fn flat(&self, steps: u64) -> Config {
        let mut flat = self.config.clone();
        flat.model.kind = Some(self.args.flat_model);
        flat.train.steps = Some(self.args.flat_steps.unwrap_or(steps.div_ceil(2)));
        flat
    }

    /// What the bar says of a run.
    fn title(&self, at: usize, what: &str) -> String {
        format!("[{}/{}] {what}", at + 1, self.args.strategies.len() + 2)
    }

    /// Trains the flat model and measures its affinity.
    fn measure_flat(&self) -> Result<(Affinity, Tables, Flat)> {
        let folder = self.args.out.join("flat");
        let logs = &self.pilot_logs;
        let config = self.flat(logs.check(&self.config)?.steps);
        let title = self.title(0, "flat");
        let (run, outcome) = one_of_several(&config, logs, Some(&folder), &title, &self.stop, self.console)?;
        let affinity =
            measure(&Opened::on_training(&folder, logs, self.console)?, &self.args.measured, self.console)?;
        write_affinity(&self.args.out.join("affinity.json"), &affinity)?;
        Ok((affinity, Tables::of(&run.model), Flat { auc: outcome.auc(), steps: outcome.steps }))
    }

    /// Trains the model in the towers of a strategy.
    fn attempt(&self, at: usize, strategy: Strategy, affinity: &Affinity, tables: &Tables) -> Result<Tried> {
        let out = &self.args.out;
        let divided = self.args.division.divide(affinity, tables, self.towers, strategy, 0)?;
        let file = |extension: &str| out.join(format!("{}.{extension}", strategy.name()));
        write_towers(&file("json"), &divided.towers)?;
        write(&file("html"), &picture::of(&divided, true))?;
        let config = in_towers(&self.config, Assignment::Lists(divided.towers.clone()), self.module);
        let folder = out.join(strategy.name());
        let title = self.title(at + 1, strategy.name());
        let (_, outcome) =
            one_of_several(&config, &self.pilot_logs, Some(&folder), &title, &self.stop, self.console)?;
        let auc = outcome
            .auc()
            .context("the validation samples have one label only, so there is no AUC to compare")?;
        let between_hosts = sent_between_hosts(&outcome);
        Ok(Tried { strategy, divided, auc, between_hosts, seconds: outcome.seconds })
    }

    /// Trains the model in the towers that were chosen, on all training rows.
    fn train_best(&self, best: &Tried) -> Result<Test> {
        let towers = Assignment::Lists(best.divided.towers.clone());
        let config = in_towers(&self.config, towers, self.module);
        let folder = self.args.out.join("best");
        let title = self.title(self.args.strategies.len() + 1, "best");
        let (run, outcome) =
            one_of_several(&config, &self.logs, Some(&folder), &title, &self.stop, self.console)?;
        Ok(Test { auc: outcome.auc(), samples: run.data.samples(), seconds: outcome.seconds })
    }
}

/// What the flat model came to.
struct Flat {
    auc: Option<f64>,
    steps: u64,
}

/// What the towers that were chosen came to.
struct Test {
    /// On the test rows.
    auc: Option<f64>,
    /// Samples that were trained on in an epoch.
    samples: u64,
    seconds: f64,
}

/// Refuses a strategy that is named twice.
pub fn distinct(strategies: &[Strategy]) -> Result<()> {
    match (1..strategies.len()).find(|&at| strategies[..at].contains(&strategies[at])) {
        Some(at) => bail!("--strategies: {} is named twice", strategies[at].name()),
        None => Ok(()),
    }
}

/// The config with towers of a module. The dense vector of a DLRM meets what towers give, so a bottom MLP that the config spells
/// out ends as wide as that.
pub fn in_towers(config: &Config, towers: Assignment, module: Module) -> Config {
    let mut config = config.clone();
    if let (Module::Dlrm { d, .. }, Some(last)) =
        (module, config.model.bottom.as_mut().and_then(|bottom| bottom.last_mut()))
    {
        *last = d;
    }
    config.model.towers = Some(towers);
    config.model.tower_module = Some(module);
    config
}

/// As many as asked for; four, or one for every host.
fn towers_asked(asked: Option<&str>, run: &Run) -> Result<usize> {
    match asked {
        None => Ok(run.topology().hosts().max(4).min(run.model.features().len())),
        Some(text) => text.parse().map_err(|_| {
            anyhow::anyhow!("--towers {text}: this command finds which features share a tower; give their number, as --towers 8")
        }),
    }
}

/// Half of a vector for each feature, or one vector for each tower: what suits the model.
fn usual_module(config: &Config, run: &Run) -> Result<Module> {
    let dim = run.model.dim();
    match config.model.kind.unwrap_or_default() {
        ModelKind::Dlrm => Ok(Module::Dlrm { c: 1, p: 0, d: (dim / 2).max(1) }),
        ModelKind::Dcn => Ok(Module::Dcn { d: dim, rank: None, out: DcnOutput::Tower }),
        ModelKind::DeepFm => bail!(
            "--model deepfm: this command compares models by their tower modules, and deepfm has none; use --model dlrm or dcn"
        ),
    }
}

fn to_json(tried: &[Tried], best: &Tried, flat: &Flat, test: &Test, rows: &str) -> serde_json::Value {
    let one = |tried: &Tried| {
        json!({
            "strategy": tried.strategy.name(),
            "auc": tried.auc,
            "auc_of": "validation",
            "towers": tried.divided.towers,
            "within": tried.divided.found.within,
            "across": tried.divided.found.across,
            "stress": tried.divided.found.plane.as_ref().map(|plane| plane.stress),
            "max_over_min": tried.divided.found.max_over_min,
            "bytes_between_hosts": tried.between_hosts,
            "seconds": tried.seconds,
        })
    };
    json!({
        "best": best.strategy.name(),
        "towers": best.divided.towers,
        "tried": tried.iter().map(one).collect::<Vec<_>>(),
        "flat": { "auc": flat.auc, "steps": flat.steps },
        "auc_of": rows,
        "test": { "auc": test.auc, "samples": test.samples, "seconds": test.seconds },
    })
}

fn told(tried: &[Tried], best: &Tried, flat: &Flat, test: &Test, of: &str) -> String {
    let head = [
        "strategy",
        "validation AUC",
        "affinity within",
        "across",
        "largest/smallest",
        "between hosts a step",
        "seconds",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let show = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    for one in tried {
        rows.push(vec![
            one.strategy.name().into(),
            format!("{:.4}", one.auc),
            show(one.divided.found.within),
            show(one.divided.found.across),
            format!("{:.2}", one.divided.found.max_over_min),
            bytes(one.between_hosts),
            format!("{:.1}", one.seconds),
        ]);
    }
    let steps = flat.steps;
    let flat = flat.auc.map_or(String::new(), |auc| format!("flat, {steps} steps: AUC {auc:.4}\n"));
    let auc = test.auc.map_or("–".into(), |auc| format!("{auc:.4}"));
    format!(
        "{}{flat}AUC on {of}.\n\nBest: {}. Trained on all training rows: AUC {auc} on the test rows\n{}",
        columns(&rows),
        best.strategy.name(),
        to_text(&best.divided)
    )
}
