//! Turns a [`Config`] into a [`Run`]: checks every section and finds a placement. Only a `Run` runs.
//!
//! ```
//! use spec::run::Config;
//! let mut config = Config::default();
//! config.topology.hosts = Some(2);
//! config.topology.ranks_per_host = Some(4);
//! assert_eq!(planning::check(&config).unwrap().placement.topology().ranks(), 8);
//! config.train.batch = Some(0);
//! assert_eq!(
//!     planning::check(&config).unwrap_err().to_string(),
//!     "train.batch: a step needs samples; use at least 1"
//! );
//! ```

mod planned;
mod spread;

pub use planned::{PlanOptions, plan_run};

use spec::codec::{Codec, Rounding};
use spec::dataflow::Dataflow;
use spec::device::DeviceChoice;
use spec::emulation::Emulation;
use spec::model::Model;
use spec::plan::{PlanChoice, PlanFile};
use spec::program::Algorithm;
use spec::run::{Breakdown, Config, DataFormat, LogFacts, Regularisation, Run, RunError};
use spec::schema::Schema;
use spec::topology::Topology;
use spec::wire::Wire;
use spread::{Spread, spread};

/// Fills the gaps of a config, checks everything, and gives a value that runs. Of a log on disk only the columns are known
/// here, by its schema; [`check_log`] knows its samples.
pub fn check(config: &Config) -> Result<Run, RunError> {
    match config.data.format.unwrap_or_default() {
        DataFormat::Synthetic => check_with(config, None),
        format @ DataFormat::CriteoTsv => {
            let facts = LogFacts::of_schema(&Schema::criteo());
            check_with(config, Some(&LogFacts { in_time_order: format.is_in_time_order(), ..facts }))
        }
        format => {
            let Some(schema) = &config.data.schema else {
                if let (Some(features), Some(dense)) = (&config.model.features, config.model.dense_features) {
                    // Everything that a log would tell is written out.
                    return check_with(config, Some(&LogFacts::of_features(features, dense)));
                }
                let problem = format!("the columns of {} data are not known without one", format.name());
                return Err(RunError::new("data.schema", problem));
            };
            schema.check().map_err(|e| RunError::new("data.schema", e.to_string()))?;
            check_with(config, Some(&LogFacts::of_schema(schema)))
        }
    }
}

/// Like [`check`], for a log on disk whose columns and samples are known.
pub fn check_log(config: &Config, facts: &LogFacts) -> Result<Run, RunError> {
    if facts.samples == 0 {
        return Err(RunError::new("data.train", "the log has no samples to train on"));
    }
    check_with(config, Some(facts))
}

fn check_with(config: &Config, log: Option<&LogFacts>) -> Result<Run, RunError> {
    planned::check_alone(config)?;
    if config.placement.plan != Some(PlanChoice::Auto) {
        return check_placed(config, log);
    }
    let mut config = config.clone();
    config.placement.plan = None;
    let mut run = check_placed(&config, log)?;
    run.placement = planned::auto(&run)?;
    config.placement.plan = Some(PlanChoice::File(Box::new(PlanFile::of_run(&run))));
    check_placed(&config, log)
}

/// Checks a config whose plan, if it has one, is made.
fn check_placed(config: &Config, log: Option<&LogFacts>) -> Result<Run, RunError> {
    let model = config.tables.apply(config.model.check(log)?)?;
    let (hosts, ranks_per_host) = (config.topology.hosts, config.topology.ranks_per_host);
    let emulation = config.emulation.check()?;
    // One rank emulates all nodes, and one rank uses a GPU best.
    let on_cpu = config.train.device.unwrap_or_default() == DeviceChoice::Cpu;
    let usual = if on_cpu && emulation.is_none() { 2 } else { 1 };
    let topology = Topology::new(hosts.unwrap_or(usual), ranks_per_host.unwrap_or(usual))
        .map_err(|e| RunError::new("topology", e.to_string()))?;
    let Spread { placement, dataflow } = spread(config, &model, topology)?;
    if let Some(emulation) = emulation {
        check_emulation(emulation, topology, &dataflow, &model)?;
    }
    let data = config.data.check(&model, log)?;
    let train = &config.train;
    let length = train.check(&data)?;
    let (device, precision) = train.check_precision(&model)?;
    if emulation.is_some() && device != DeviceChoice::Cpu {
        let problem =
            format!("nodes are emulated on the CPU only, not on {device}; use --device cpu, or no emulation");
        return Err(RunError::new("emulation.nodes", problem));
    }
    let evaluations = train.check_evaluations(&data, length)?;
    let optimizers = config.optimizer.check(&data, length)?;
    let regularisation = Regularisation {
        weight_decay: optimizers.weight_decay,
        table_weight_decay: optimizers.table_weight_decay,
        label_smoothing: train.label_smoothing.unwrap_or(0.0),
        clip_value: train.clip_value,
        clip_norm: train.clip_norm,
    };
    let table_cache = config.tables.check_cache(&model, &placement, &optimizers.tables.update, device)?;
    let checkpoints = config.checkpoint.check()?;
    let bucket_bytes = train.bucket_bytes.unwrap_or(4 << 20);
    let reduced_bytes = model.dense_parameters().saturating_mul(4).min(bucket_bytes as u64);
    let reducing = emulation.and_then(|emulation| emulation.topology()).unwrap_or(topology);
    let (wire, all_reduce) = (config.wire.check(), train.all_reduce.unwrap_or_default());
    let all_reduce = all_reduce.algorithm(reducing, reduced_bytes);
    check_all_reduce(all_reduce, &wire, emulation)?;
    Ok(Run {
        model,
        placement,
        dataflow,
        wire,
        all_reduce,
        emulation,
        dense_optimizer: optimizers.dense,
        table_optimizer: optimizers.tables,
        table_rounding: config.tables.rounding.unwrap_or(Rounding::Stochastic),
        table_cache,
        regularisation,
        positive_weight: train.positive_weight.unwrap_or(1.0),
        sample_weights: log.is_some_and(|log| log.sample_weights),
        breakdown: Breakdown { group: config.data.group.clone(), slices: config.data.slices.clone() },
        batch: length.batch,
        steps: length.steps,
        seed: train.seed.unwrap_or(0),
        threads: train.threads,
        device,
        precision,
        bucket_bytes,
        overlap: train.overlap.unwrap_or(true),
        fuse: train.fuse.unwrap_or_default(),
        wait_limit_s: train.wait_limit_s.unwrap_or(300.0),
        eval_every: evaluations.every,
        keep_best: evaluations.keep_best,
        patience: evaluations.patience,
        checkpoints,
        data,
    })
}

/// Refuses an all-reduce by NCCL of what NCCL does not add, or where no NCCL is.
fn check_all_reduce(
    all_reduce: Algorithm,
    wire: &Wire,
    emulation: Option<Emulation>,
) -> Result<(), RunError> {
    if all_reduce != Algorithm::Nccl {
        return Ok(());
    }
    let refused = |problem: String| Err(RunError::new("train.all_reduce (--all-reduce)", problem));
    for (what, reduced) in [("dense", wire.dense), ("towers", wire.towers)] {
        if reduced.codec != Codec::F32 {
            return refused(format!(
                "nccl adds gradients in f32, but they are sent as {reduced} (wire.{what}); use f32 for {what}, or another all-reduce, \
                 such as direct"
            ));
        }
    }
    match emulation {
        Some(_) => refused("no NCCL joins emulated nodes; use another all-reduce, such as direct".into()),
        None => Ok(()),
    }
}

/// Refuses an emulation by several ranks, of tower groups, or with tensor trains.
fn check_emulation(
    emulation: Emulation,
    topology: Topology,
    dataflow: &Dataflow,
    model: &Model,
) -> Result<(), RunError> {
    let (nodes, ranks) = (emulation.nodes, topology.ranks());
    if ranks != 1 {
        let problem = format!(
            "one rank emulates all {nodes} nodes, but the run has {ranks} ranks; use one host with one rank, or no emulation"
        );
        return Err(RunError::new("emulation.nodes", problem));
    }
    if dataflow.sptt().is_some() {
        let problem =
            "nodes are emulated with the flat dataflow only; use train.dataflow = \"flat\" and no towers";
        return Err(RunError::new("emulation.nodes", problem));
    }
    if model.tensor_trains().next().is_some() {
        let problem = "nodes are emulated with tables of rows only; leave tt_rank out, or the emulation";
        return Err(RunError::new("emulation.nodes", problem));
    }
    Ok(())
}
