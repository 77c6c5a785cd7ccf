//! `campanile reproduce dmt-table6`: trains the models that Table 6 of the DMT paper compares.

use super::print;
use crate::affinity::{Measured, measure};
use crate::args::RunArgs;
use crate::folder::PREPARED;
use crate::logs::{self, OpenLogs};
use crate::partition::{self, Division, Tables, picture};
use crate::progress::Console;
use crate::scoring::Opened;
use crate::signals::{Stop, stop_on_signals};
use crate::towers::{distinct, in_towers};
use crate::train::one_of_several;
use anyhow::{Context, Result, ensure};
use planning::partitioner::Strategy;
use reproduce::Failure;
use reproduce::dmt_table6::{self, Request, Rows, TowerModel, TowerTrainer, Trained};
use serde_json::json;
use spec::affinity::Affinity;
use spec::presets::{ModelKind, Preset};
use spec::run::Config;
use std::path::{Path, PathBuf};
use training::Cluster;

/// Arguments of `reproduce dmt-table6`.
#[derive(clap::Args)]
#[command(
    after_help = "Without a config or data: 26 features of at most 1000 rows, N = 32, and a synthetic log of 1 M samples.

Examples:
  campanile reproduce dmt-table6 --affinity-of mean-abs --out runs/table6
  campanile reproduce dmt-table6 --data train.tsv --eval eval.tsv --out runs/table6-kaggle
  campanile reproduce dmt-table6 --out runs/table6 --table

A measurement that was stopped or killed goes on with the same command: finished runs are taken from DIR/records.jsonl."
)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Number of runs with each kind of towers
    #[arg(long, value_name = "N", default_value_t = 9, help_heading = "Towers")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Strategies of the tower partitioner; of several, a pilot run with each decides
    #[arg(long, value_delimiter = ',', default_value = "coherent,diverse", help_heading = "Towers")]
    strategies: Vec<Strategy>,
    #[command(flatten, next_help_heading = "Towers")]
    division: Division,
    #[command(flatten, next_help_heading = "Towers")]
    measured: Measured,
    /// Folder for the affinity, towers and results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Measure nothing; print the table of the results in the folder
    #[arg(long, help_heading = "Output")]
    table: bool,
    /// Print one JSON array
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    if !args.table {
        measure_all(&args, console)?;
    }
    print(&dmt_table6::report(&args.out)?, args.json);
    Ok(())
}

fn measure_all(args: &Args, console: Console) -> Result<()> {
    ensure!(
        args.run.towers.is_none()
            && args.run.tower_module.is_none()
            && args.run.model.is_none()
            && args.run.seed.is_none(),
        "--model, --towers, --tower-module and --seed are those of the table; leave them out"
    );
    let config = configure(&args.run)?;
    ensure!(
        config.model.towers.is_none() && config.model.tower_module.is_none(),
        "{}: the model has towers; this command adds the towers of the table to a flat model",
        args.run.described()
    );
    distinct(&args.strategies)?;
    ensure!(
        !args.strategies.contains(&Strategy::Strided),
        "--strategies: strided is always run, as the baseline; leave it out"
    );
    let stop = stop_on_signals()?;
    let logs = stop.ended(logs::open(&config.data, Some(&args.out.join(PREPARED)), &stop, console))?;
    let run = logs.check(&config).with_context(|| args.run.described())?;
    ensure!(run.data.eval_samples() > 0, "runs are compared by AUC; give samples to evaluate on with --eval");
    for (name, towers) in dmt_table6::models() {
        args.division.check(&run.model, towers, &args.strategies).context(name)?;
    }
    let request = Request {
        runs: args.runs,
        strategies: &args.strategies,
        out: &args.out,
        settings: json!({
            "config": config,
            "strategies": args.strategies.iter().map(|strategy| strategy.name()).collect::<Vec<_>>(),
            "division": format!("{:?}", args.division),
            "affinity": format!("{:?}", args.measured),
            "chosen_by": logs.pilot_rows(),
        }),
    };
    let (dim, pilot_logs) = (run.model.dim(), logs.for_pilots()?);
    let trainer = Trainer { console, args, config, dim, stop, logs, pilot_logs };
    Ok(dmt_table6::measure(&request, &trainer)?)
}

/// The description given, its logs, and how features are divided.
struct Trainer<'a> {
    console: Console,
    args: &'a Args,
    config: Config,
    dim: usize,
    stop: Stop,
    logs: OpenLogs,
    /// The training rows alone, some of them to choose by.
    pilot_logs: OpenLogs,
}

impl Trainer<'_> {
    fn config(&self, kind: ModelKind) -> Config {
        let mut config = self.config.clone();
        config.model.kind = Some(kind);
        config
    }

    /// Trains a flat DLRM in a folder that is removed afterwards, and measures its affinity.
    fn measure_flat(&self) -> Result<Affinity> {
        let out = &self.args.out;
        // The tables of the flat model may be large, and nothing needs them afterwards.
        let scratch = tempfile::tempdir_in(out)
            .with_context(|| format!("{}: no temporary folder can be created in it", out.display()))?;
        let flat = scratch.path().join("flat");
        let config = self.config(ModelKind::Dlrm);
        one_of_several(&config, &self.pilot_logs, Some(&flat), "flat DLRM", &self.stop, self.console)?;
        let control = self.console.control(&self.stop);
        let opened = Opened::on_training(&flat, &self.pilot_logs, &Cluster::Threads, &control)?;
        measure(&opened, &self.args.measured, Cluster::Threads, self.console)
    }
}

impl TowerTrainer for Trainer<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn train(&self, model: &TowerModel, title: &str) -> Result<Trained, Failure> {
        let mut config = in_towers(&self.config(model.kind), model.towers.clone(), model.module);
        config.train.seed = Some(model.seed);
        let logs = match model.evaluated_on {
            Rows::Validation => &self.pilot_logs,
            Rows::Test => &self.logs,
        };
        let (_, outcome) = one_of_several(&config, logs, None, title, &self.stop, self.console)?;
        let (auc, seconds) = (outcome.auc(), outcome.seconds);
        Ok(Trained { auc, seconds, parameters_sha256: outcome.parameters_sha256 })
    }

    fn flat_affinity(&self) -> Result<Affinity, Failure> {
        Ok(self.measure_flat()?)
    }

    fn divide(
        &self,
        kind: ModelKind,
        affinity: &Affinity,
        towers: usize,
        strategy: Strategy,
    ) -> Result<dmt_table6::Division, Failure> {
        let model = self.pilot_logs.check(&self.config(kind))?.model;
        let divided = self.args.division.divide(affinity, &Tables::of(&model), towers, strategy, 0)?;
        let picture = picture::of(&divided, false);
        Ok(dmt_table6::Division { towers: divided.towers, picture })
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), Failure> {
        Ok(partition::write(path, text)?)
    }

    fn note(&self, text: &str) {
        self.console.note(text);
    }
}

/// The description given, with defaults that suit the table.
fn configure(args: &RunArgs) -> Result<Config> {
    let mut config = args.config()?;
    if args.config.is_none() {
        config.model.preset.get_or_insert(Preset::Kaggle);
        config.model.dim.get_or_insert(32);
        config.topology.ranks_per_host.get_or_insert(1);
        if config.data.train.is_empty() {
            config.model.rows_cap.get_or_insert(1000);
            let log = config.data.synthetic.get_or_insert_default();
            log.samples = args.samples.unwrap_or(1 << 20);
        }
    }
    Ok(config)
}
