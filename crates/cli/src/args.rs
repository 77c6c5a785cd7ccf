//! What a user wrote, on the command line or in a file, as a `spec::run::Config`.

use anyhow::{Context, Result};
use clap::ValueEnum;
use spec::optimizer::{LearningRate, UpdateRule};
use spec::presets::{ModelKind, Preset};
use spec::run::{Config, DataFormat, Optimizer, Run};
use std::path::PathBuf;

/// The description of a run, shared by all commands. Flags override the file, the file overrides the preset.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// A run as TOML, with sections model, topology, placement, train, optimizer and data
    pub config: Option<PathBuf>,

    /// Network over the embeddings: dlrm or dcn [default: dlrm]
    #[arg(long, value_name = "KIND", help_heading = "Model")]
    pub model: Option<ModelKind>,
    /// Tables and widths: demo, kaggle, mlperf or terabyte [default: demo]
    #[arg(long, help_heading = "Model")]
    pub preset: Option<Preset>,
    /// Embedding dimension
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub dim: Option<usize>,
    /// Limit every table to this many rows
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub rows_cap: Option<usize>,

    /// Hosts [default: 2]
    #[arg(long, value_name = "H", help_heading = "Cluster")]
    pub hosts: Option<usize>,
    /// Ranks on each host [default: 2]
    #[arg(long, value_name = "L", help_heading = "Cluster")]
    pub ranks_per_host: Option<usize>,
    /// Threads of each rank [default: the machine's cores shared out]
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    pub threads: Option<usize>,
    /// Replicate tables of at most this many rows on every rank [default: 0]
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    pub replicate_rows: Option<usize>,

    /// Global batch: samples a step, over all ranks [default: 2048]
    #[arg(long, value_name = "GLOBAL", help_heading = "Training")]
    pub batch: Option<usize>,
    /// Passes over the data [default: 1]
    #[arg(long, value_name = "E", help_heading = "Training")]
    pub epochs: Option<u64>,
    /// Stop after this many steps
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub steps: Option<u64>,
    /// Seed of the initial weights [default: 0]
    #[arg(long, value_name = "S", help_heading = "Training")]
    pub seed: Option<u64>,
    /// Update rule of dense layers and tables
    #[arg(long, value_enum, value_name = "RULE", help_heading = "Training")]
    pub optimizer: Option<Rule>,
    /// Learning rate of dense layers and tables
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    pub lr: Option<f32>,

    /// Where samples come from: synthetic [default: synthetic]
    #[arg(long, value_parser = parse_format, help_heading = "Data")]
    pub format: Option<DataFormat>,
    /// Training samples of the synthetic log
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub samples: Option<u64>,
    /// Evaluation samples of the synthetic log
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub eval_samples: Option<u64>,
}

/// Update rules by name, with their usual constants; a config file sets the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// Plain stochastic gradient descent
    Sgd,
    /// One accumulator per weight
    Adagrad,
    /// One accumulator per table row; dense layers use adagrad
    RowWiseAdagrad,
    /// Two moments per weight; lazy on tables
    Adam,
    /// Adam with a weight decay of 0.01 on dense layers
    Adamw,
}

impl Rule {
    /// The rule of dense layers, and that of tables.
    fn rules(self) -> (UpdateRule, UpdateRule) {
        let adam = |weight_decay| UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay };
        let adagrad = UpdateRule::Adagrad { eps: 1e-8 };
        match self {
            Rule::Sgd => (UpdateRule::Sgd, UpdateRule::Sgd),
            Rule::Adagrad => (adagrad, adagrad),
            Rule::RowWiseAdagrad => (adagrad, UpdateRule::RowWiseAdagrad { eps: 1e-8 }),
            Rule::Adam => (adam(0.0), adam(0.0)),
            Rule::Adamw => (adam(0.01), adam(0.0)),
        }
    }

    fn usual_rate(self) -> f32 {
        match self {
            Rule::Sgd => 0.1,
            Rule::Adagrad | Rule::RowWiseAdagrad => 0.01,
            Rule::Adam | Rule::Adamw => 0.002,
        }
    }
}

fn parse_format(text: &str) -> Result<DataFormat, String> {
    match text {
        "synthetic" => Ok(DataFormat::Synthetic),
        _ => Err(format!("{text:?} is no format; there is synthetic")),
    }
}

impl RunArgs {
    /// The file's config with the flags laid over it.
    pub fn config(&self) -> Result<Config> {
        let mut config = match &self.config {
            None => Config::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("{}: cannot be read", path.display()))?;
                toml::from_str(&text).with_context(|| format!("{}", path.display()))?
            }
        };
        fn set<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        set(&mut config.model.kind, &self.model);
        set(&mut config.model.preset, &self.preset);
        set(&mut config.model.dim, &self.dim);
        set(&mut config.model.rows_cap, &self.rows_cap);
        set(&mut config.topology.hosts, &self.hosts);
        set(&mut config.topology.ranks_per_host, &self.ranks_per_host);
        set(&mut config.placement.replicate_rows, &self.replicate_rows);
        set(&mut config.train.threads, &self.threads);
        set(&mut config.train.batch, &self.batch);
        set(&mut config.train.epochs, &self.epochs);
        set(&mut config.train.steps, &self.steps);
        set(&mut config.train.seed, &self.seed);
        set(&mut config.data.format, &self.format);
        if self.samples.is_some() || self.eval_samples.is_some() {
            let log = config.data.synthetic.get_or_insert_default();
            log.samples = self.samples.unwrap_or(log.samples);
            log.eval_samples = self.eval_samples.unwrap_or(log.eval_samples);
        }
        if let Some(rule) = self.optimizer {
            // The file's rates stay, but for the peak where --lr gives one.
            let with_rate = |update, given: Option<Optimizer>| {
                let rate = given.map_or(LearningRate::constant(rule.usual_rate()), |o| o.rate);
                Some(Optimizer { update, rate: LearningRate { peak: self.lr.unwrap_or(rate.peak), ..rate } })
            };
            let (dense, tables) = rule.rules();
            config.optimizer.dense = with_rate(dense, config.optimizer.dense);
            config.optimizer.tables = with_rate(tables, config.optimizer.tables);
        } else if let Some(lr) = self.lr {
            let checked = config.check().context("the run without --lr")?;
            let with_rate = |o: Optimizer| Optimizer { rate: LearningRate { peak: lr, ..o.rate }, ..o };
            config.optimizer.dense = Some(with_rate(checked.dense_optimizer));
            config.optimizer.tables = Some(with_rate(checked.table_optimizer));
        }
        Ok(config)
    }

    /// The checked run.
    pub fn run(&self) -> Result<Run> {
        let config = self.config()?;
        config.check().with_context(|| match &self.config {
            Some(path) => format!("{} with the flags given", path.display()),
            None => "the run described by these flags".into(),
        })
    }
}
