//! `campanile towers`: from a flat model to the best towers in one command.
//!
//! ```text
//! train the flat model for a while → affinity → towers by each strategy → train each → keep the best
//! ```

use crate::affinity::{Measured, measure};
use crate::args::RunArgs;
use crate::on_samples::Samples;
use crate::partition::{Divided, Division, Tables, picture, to_text, write, write_affinity, write_towers};
use crate::text::{bytes, columns};
use crate::train::{one_of_several, sent_between_hosts, stop_on_signals};
use crate::{folder::PREPARED, logs};
use anyhow::{Context, Result, bail, ensure};
use planning::partitioner::Strategy;
use serde_json::json;
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
    /// Steps of the flat model that affinity is measured on [default: half of those of the run]
    #[arg(long, value_name = "STEPS", help_heading = "Towers")]
    flat_steps: Option<u64>,
    #[command(flatten, next_help_heading = "Towers")]
    division: Division,
    #[command(flatten, next_help_heading = "Towers")]
    measured: Measured,
    /// A new folder for everything: the runs, the affinity, the towers of each strategy with a picture, and the best as
    /// towers.json
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
    auc: f64,
    /// Bytes between hosts a step.
    between_hosts: u64,
    seconds: f64,
}

pub fn run(args: Args) -> Result<()> {
    let mut flat = args.run.clone();
    let asked = flat.towers.take();
    let module = flat.tower_module.take();
    let config = flat.config()?;
    ensure!(
        config.model.towers.is_none() && config.model.tower_module.is_none(),
        "{}: it has towers already; this command finds them for a flat model",
        flat.described()
    );
    let stop = stop_on_signals()?;
    ensure!(
        !args.out.exists() || args.out.read_dir().is_ok_and(|mut inside| inside.next().is_none()),
        "{}: not an empty folder; choose another",
        args.out.display()
    );
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("{}: cannot be created", args.out.display()))?;
    let logs = logs::open(&config.data, Some(&args.out.join(PREPARED)), &stop)?;
    let whole = logs.check(&config).with_context(|| flat.described())?;
    ensure!(
        whole.data.eval_samples() > 0,
        "towers are judged by their AUC; give samples to evaluate on with --eval"
    );
    let count = towers_asked(asked.as_deref(), &whole)?;
    let module = module.unwrap_or_else(|| usual_module(&config, &whole));
    // What cannot be is refused now, not after the flat model was trained.
    args.division.check(&whole.model, count, &args.strategies)?;
    let trial = in_towers(&config, Assignment::Strided(count.min(whole.model.features().len())), module);
    logs.check(&trial).with_context(|| format!("{count} towers of {module}"))?;
    let repeated =
        (1..args.strategies.len()).find(|&at| args.strategies[..at].contains(&args.strategies[at]));
    if let Some(at) = repeated {
        bail!("--strategies: {} is named twice", args.strategies[at].name());
    }

    let mut brief = config.clone();
    brief.train.steps = Some(args.flat_steps.unwrap_or(whole.steps.div_ceil(2)));
    let runs = args.strategies.len() + 1;
    let title = |at: usize, what: &str| format!("[{}/{runs}] {what}", at + 1);
    let folder = args.out.join("flat");
    let (_, outcome) = one_of_several(&brief, &logs, Some(&folder), &title(0, "flat"), &stop)?;
    let flat_auc = outcome.scores.as_ref().and_then(|scores| scores.evaluation.auc);
    let (affinity, model) = measure(&folder, &Samples::default(), &args.measured)?;
    write_affinity(&args.out.join("affinity.json"), &affinity)?;

    let mut tried: Vec<Tried> = Vec::new();
    for (at, &strategy) in args.strategies.iter().enumerate() {
        let divided = args.division.divide(&affinity, &Tables::of(&model), count, strategy, 0)?;
        let file = |extension: &str| args.out.join(format!("{}.{extension}", strategy.name()));
        write_towers(&file("json"), &divided.towers)?;
        write(&file("html"), &picture::of(&divided, true))?;
        let config = in_towers(&config, Assignment::Lists(divided.towers.clone()), module);
        let (_, outcome) = one_of_several(
            &config,
            &logs,
            Some(&args.out.join(strategy.name())),
            &title(at + 1, strategy.name()),
            &stop,
        )?;
        let auc = outcome.scores.as_ref().and_then(|scores| scores.evaluation.auc);
        let auc = auc.context("the evaluation samples have one label only, so there is no AUC to compare")?;
        let between_hosts = sent_between_hosts(&outcome);
        tried.push(Tried { strategy, divided, auc, between_hosts, seconds: outcome.seconds });
    }
    let best = tried.iter().max_by(|a, b| a.auc.total_cmp(&b.auc)).context("no strategy was asked for")?;
    write_towers(&args.out.join("towers.json"), &best.divided.towers)?;
    let result = to_json(&tried, best, flat_auc, brief.train.steps);
    write(&args.out.join("summary.json"), &format!("{result:#}\n"))?;
    if args.json {
        println!("{result}");
    } else {
        print!("{}", told(&tried, best, flat_auc));
        println!(
            "kept in {0}; train on with --towers {0}/towers.json --tower-module {module}",
            args.out.display()
        );
    }
    Ok(())
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
fn usual_module(config: &Config, run: &Run) -> Module {
    let dim = run.model.dim();
    match config.model.kind.unwrap_or_default() {
        ModelKind::Dlrm => Module::Dlrm { c: 1, p: 0, d: (dim / 2).max(1) },
        ModelKind::Dcn => Module::Dcn { d: dim, rank: None, out: DcnOutput::Tower },
    }
}

fn to_json(
    tried: &[Tried],
    best: &Tried,
    flat_auc: Option<f64>,
    flat_steps: Option<u64>,
) -> serde_json::Value {
    let one = |tried: &Tried| {
        json!({
            "strategy": tried.strategy.name(),
            "auc": tried.auc,
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
        "flat": { "auc": flat_auc, "steps": flat_steps },
    })
}

fn told(tried: &[Tried], best: &Tried, flat_auc: Option<f64>) -> String {
    let head = [
        "strategy",
        "AUC",
        "affinity within",
        "across",
        "largest/smallest",
        "between hosts a step",
        "seconds",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for one in tried {
        rows.push(vec![
            one.strategy.name().into(),
            format!("{:.4}", one.auc),
            format!("{:.3}", one.divided.found.within),
            format!("{:.3}", one.divided.found.across),
            format!("{:.2}", one.divided.found.max_over_min),
            bytes(one.between_hosts),
            format!("{:.1}", one.seconds),
        ]);
    }
    let flat = flat_auc.map_or(String::new(), |auc| format!("flat, briefly trained: AUC {auc:.4}\n"));
    format!("{}{flat}\nBest: {}\n{}", columns(&rows), best.strategy.name(), to_text(&best.divided))
}
