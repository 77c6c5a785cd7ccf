//! Writes a run back as a config with every default filled in.

use super::Run;
use super::all_reduce::AllReduce;
use super::config::{Config, ModelConfig, OptimizerConfig};
use super::log::Data;
use super::selection::KeepBest;
use crate::dataflow::Dataflow;
use crate::device::DeviceChoice;
use crate::emulation::EmulationConfig;
use crate::model::Architecture;
use crate::plan::{PlanChoice, PlanFile};
use crate::precision::{PrecisionConfig, Precisions};
use crate::presets::ModelKind;
use crate::towers::{Assignment, Module};
use crate::wire::WireConfig;

impl Config {
    /// Returns this config with every default of `run` written out, so that it gives the same run in later versions and
    /// without the log.
    pub fn explicit(&self, run: &Run) -> Config {
        let mut config = self.clone();
        let model = &run.model;
        let layers = match model.architecture().clone() {
            Architecture::Dlrm { bottom, top } => ModelConfig {
                kind: Some(ModelKind::Dlrm),
                bottom: Some(bottom),
                top: Some(top),
                ..ModelConfig::default()
            },
            Architecture::Dcn { bottom, cross_layers, cross_rank, top } => ModelConfig {
                kind: Some(ModelKind::Dcn),
                bottom: Some(bottom),
                top: Some(top),
                cross_layers: Some(cross_layers),
                cross_rank: Some(cross_rank.unwrap_or(0)),
                ..ModelConfig::default()
            },
            Architecture::DeepFm { deep } => {
                ModelConfig { kind: Some(ModelKind::DeepFm), deep: Some(deep), ..ModelConfig::default() }
            }
        };
        config.model = ModelConfig {
            preset: self.model.preset,
            dim: Some(model.dim()),
            rows_cap: None,
            dropout: on(model.dropout()),
            dense_features: Some(model.dense_features()),
            features: Some(model.features().to_vec()),
            towers: (!model.towers().is_empty()).then(|| Assignment::Lists(model.tower_names())),
            tower_module: (model.tower_module() != Module::None).then(|| model.tower_module()),
            labels: model.labels().to_vec(),
            ..layers
        };
        let topology = run.topology();
        config.topology.hosts = Some(topology.hosts());
        config.topology.ranks_per_host = Some(topology.ranks_per_host());
        config.train.dataflow = Some(run.dataflow.kind());
        match &run.dataflow {
            Dataflow::Flat(all_to_all) => config.train.all_to_all = Some(*all_to_all),
            Dataflow::Sptt(sptt) => {
                config.topology.hosts_per_tower = Some(sptt.groups().hosts_per_group());
                config.train.peer_permute = Some(sptt.permute());
            }
        }
        // A run that goes on keeps its plan, even where the planner would find another one now.
        if self.placement.plan.is_some() {
            config.placement.plan = Some(PlanChoice::File(Box::new(PlanFile::of_run(run))));
        }
        config.train.all_reduce = Some(AllReduce::By(run.all_reduce));
        config.wire = WireConfig::explicit(run.wire);
        config.emulation = EmulationConfig::explicit(run.emulation);
        config.train.batch = Some(run.batch);
        config.train.steps = Some(run.steps);
        config.train.eval_every = run.eval_every;
        if let Some(metric) = &run.keep_best {
            config.train.keep_best = Some(KeepBest::By(metric.clone()));
        }
        config.train.seed = Some(run.seed);
        // Left out where they are the defaults, so that configs of runs on the CPU stay as they were.
        config.train.device = (run.device != DeviceChoice::Cpu).then_some(run.device);
        config.train.precision =
            (run.precision != Precisions::default()).then(|| PrecisionConfig::explicit(&run.precision));
        config.train.bucket_bytes = Some(run.bucket_bytes);
        config.train.overlap = Some(run.overlap);
        config.train.fuse = Some(run.fuse);
        config.train.positive_weight = (run.positive_weight != 1.0).then_some(run.positive_weight);
        config.train.clip_value = run.regularisation.clip_value;
        config.train.clip_norm = run.regularisation.clip_norm;
        config.train.label_smoothing = on(run.regularisation.label_smoothing);
        config.train.wait_limit_s = Some(run.wait_limit_s);
        config.optimizer = OptimizerConfig {
            peak: None,
            dense: Some(run.dense_optimizer),
            tables: Some(run.table_optimizer),
            weight_decay: on(run.regularisation.weight_decay),
            table_weight_decay: on(run.regularisation.table_weight_decay),
        };
        // Left out where tables are f32, so that configs of such runs stay as they were. Formats are those of the features.
        let rounds = (0..run.model.features().len()).any(|feature| run.model.table_format(feature).rounds());
        config.tables.format = None;
        config.tables.rounding = rounds.then_some(run.table_rounding);
        config.tables.cache_policy = run.table_cache.as_ref().map(|cache| cache.policy);
        config.checkpoint.keep = Some(run.checkpoints.keep);
        match run.data {
            Data::Synthetic(log) => config.data.synthetic = Some(log),
            Data::Log { shuffle, .. } => config.data.shuffle = Some(shuffle.unwrap_or(0)),
        }
        config
    }
}

/// The value of an option that is off at 0.
fn on(value: f32) -> Option<f32> {
    (value != 0.0).then_some(value)
}
