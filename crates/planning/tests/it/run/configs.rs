//! What users get wrong is named, with the remedy.

use spec::device::DeviceChoice;
use spec::optimizer::{Decay, LearningRate, UpdateRule};
use spec::placement::Layout;
use spec::precision::{Precision, PrecisionConfig, Precisions};
use spec::program::Algorithm;
use spec::run::{AllReduce, Config, Optimizer};

fn refused(change: impl Fn(&mut Config)) -> String {
    let mut config = Config::default();
    change(&mut config);
    planning::check(&config).expect_err("this config cannot run").to_string()
}

fn deepfm(config: &mut Config) -> &mut spec::run::ModelConfig {
    config.model.kind = Some(spec::presets::ModelKind::DeepFm);
    &mut config.model
}

/// What a checkpoint keeps of a run gives the same run, for every kind of model.
#[test]
fn an_explicit_config_gives_the_same_model() {
    for kind in spec::presets::ModelKind::ALL {
        let mut config = Config::default();
        config.model.kind = Some(kind);
        let run = planning::check(&config).unwrap();
        let written = toml::to_string(&config.explicit(&run)).unwrap();
        let read: Config = toml::from_str(&written).unwrap();
        assert_eq!(planning::check(&read).unwrap().model, run.model, "{written}");
    }
}

/// Device and precision are part of a run, and are written out only where they are not the defaults.
#[test]
fn device_and_precision_are_kept() {
    let mut config = Config::default();
    let run = planning::check(&config).unwrap();
    assert_eq!((run.device, run.precision.clone()), (DeviceChoice::Cpu, Precisions::from(Precision::F32)));
    let written = toml::to_string(&config.explicit(&run)).unwrap();
    assert!(!written.contains("device") && !written.contains("precision"), "{written}");

    for (device, precision) in [
        (DeviceChoice::Cuda(Some(1)), "bf16"),
        (DeviceChoice::Auto, "bf16"),
        (DeviceChoice::Auto, "bf16,top=f32"),
    ] {
        let precision: PrecisionConfig = precision.parse().unwrap();
        (config.train.device, config.train.precision) = (Some(device), Some(precision.clone()));
        let run = planning::check(&config).unwrap();
        let read: Config = toml::from_str(&toml::to_string(&config.explicit(&run)).unwrap()).unwrap();
        let again = planning::check(&read).unwrap();
        assert_eq!((again.device, again.precision), (device, precision.check()));
    }
}

#[test]
fn errors_name_the_field_and_the_remedy() {
    let cases: Vec<(String, &str, &str)> = vec![
        (refused(|c| c.train.batch = Some(0)), "train.batch", "at least 1"),
        (refused(|c| c.train.batch = Some(usize::MAX)), "train.batch", "too many"),
        (refused(|c| c.train.epochs = Some(0)), "train.epochs", "at least 1"),
        (refused(|c| c.train.steps = Some(0)), "train.steps", "leave it out"),
        (refused(|c| c.train.threads = Some(0)), "train.threads", "between 1 and"),
        (
            refused(|c| c.train.precision = "tf32".parse().ok()),
            "train.precision (--precision)",
            "the CPU computes in f32, f32x3 or bf16, not in tf32; choose one of them or --device cuda",
        ),
        (
            refused(|c| {
                (c.train.device, c.train.precision) = (Some(DeviceChoice::Cuda(None)), "f32x3".parse().ok());
            }),
            "train.precision",
            "--device cpu",
        ),
        (
            refused(|c| c.train.precision = "cross=f32".parse().ok()),
            "train.precision (--precision)",
            "no part \"cross\" that computes matrix products; use bottom, interaction or top",
        ),
        (
            refused(|c| {
                (c.train.device, c.train.precision) = (Some(DeviceChoice::Cpu), "top=tf32".parse().ok());
            }),
            "train.precision",
            "top: the CPU",
        ),
        (
            refused(|c| (c.train.device, c.emulation.nodes) = (Some(DeviceChoice::Auto), Some(4))),
            "emulation.nodes",
            "use --device cpu",
        ),
        (refused(|c| c.train.bucket_bytes = Some(0)), "train.bucket_bytes", "at least 1"),
        (refused(|c| c.train.wait_limit_s = Some(f64::NAN)), "train.wait_limit_s", "above 0"),
        (refused(|c| c.topology.hosts = Some(0)), "topology", "at least 1"),
        (refused(|c| c.topology.hosts = Some(usize::MAX)), "topology", "more than"),
        (refused(|c| c.model.dim = Some(0)), "model.dim", "between 1 and"),
        (refused(|c| c.model.rows_cap = Some(0)), "model.rows_cap", "at least 1"),
        (refused(|c| c.model.bottom = Some(vec![64, 8])), "model.bottom", "model.dim = 16"),
        (refused(|c| c.model.bottom = Some(vec![])), "model.bottom", "model.dim = 16"),
        (refused(|c| c.model.top = Some(vec![64, 2])), "model.top", "must end in 1"),
        (refused(|c| c.model.top = Some(vec![0, 1])), "model.top[0]", "between 1 and"),
        (refused(|c| c.model.deep = Some(vec![8, 1])), "model.deep", "model.bottom and model.top"),
        (refused(|c| deepfm(c).bottom = Some(vec![8, 16])), "model.bottom", "its widths are model.deep"),
        (refused(|c| deepfm(c).top = Some(vec![8, 1])), "model.top", "its widths are model.deep"),
        (refused(|c| deepfm(c).deep = Some(vec![8, 2])), "model.deep", "must end in 1"),
        (refused(|c| deepfm(c).deep = Some(vec![0, 1])), "model.deep[0]", "between 1 and"),
        (refused(|c| c.model.features = Some(vec![])), "model.features", "1 to"),
        (refused(|c| c.model.dense_features = Some(0)), "data.synthetic", "dense"),
        (
            refused(|c| {
                c.data.synthetic = Some(spec::synthetic::Synthetic { zipf: -1.0, ..Default::default() })
            }),
            "data.synthetic",
            "zipf",
        ),
        (
            refused(|c| {
                c.placement.tables.insert("C99".into(), Layout::Replicated);
            }),
            "placement.tables.C99",
            "no feature of that name",
        ),
        (
            refused(|c| {
                c.placement.tables.insert("C1".into(), Layout::TableWise { rank: 4 });
            }),
            "placement.tables",
            "rank 4 does not exist; there are 4",
        ),
        (
            refused(|c| {
                c.placement.tables.insert("C1".into(), Layout::RowWise { ranks: vec![1, 0] });
            }),
            "placement.tables",
            "rows are cut over ranks [1, 0]; name each once, in ascending order",
        ),
        (
            refused(|c| c.optimizer.weight_decay = Some(-0.1)),
            "optimizer.weight_decay (--weight-decay)",
            "0 or more",
        ),
        (refused(|c| c.optimizer.weight_decay = Some(f32::NAN)), "optimizer.weight_decay", "0 or more"),
        (
            refused(|c| c.optimizer.table_weight_decay = Some(1e3)),
            "optimizer.table_weight_decay",
            "below 100",
        ),
        (refused(|c| c.train.clip_value = Some(0.0)), "train.clip_value (--clip-value)", "above 0"),
        (refused(|c| c.train.clip_norm = Some(f32::INFINITY)), "train.clip_norm (--clip-norm)", "above 0"),
        (
            refused(|c| c.train.label_smoothing = Some(1.0)),
            "train.label_smoothing (--label-smoothing)",
            "0..1",
        ),
        (refused(|c| c.model.dropout = Some(1.0)), "model.dropout (--dropout)", "0..1"),
        (refused(|c| c.model.dropout = Some(-0.5)), "model.dropout", "0 is off"),
        (
            refused(|c| c.optimizer.dense = Some(with(UpdateRule::RowWiseAdagrad { eps: 1e-8 }, 0.1))),
            "optimizer.dense",
            "use adagrad",
        ),
        (
            refused(|c| c.optimizer.tables = Some(with(UpdateRule::Sgd, f32::NAN))),
            "optimizer.tables.rate.peak",
            "above 0",
        ),
        (
            refused(|c| {
                let decay = Decay::Linear { steps: 10, floor: 2.0 };
                let rate = LearningRate { decay, ..LearningRate::constant(0.1) };
                c.optimizer.tables = Some(Optimizer { update: UpdateRule::Sgd, rate });
            }),
            "optimizer.tables.rate.decay.floor",
            "0..=1",
        ),
    ];
    for (message, field, remedy) in cases {
        assert!(message.starts_with(field), "{message:?} should begin with {field:?}");
        assert!(message.contains(remedy), "{message:?} should say {remedy:?}");
    }
}

fn with(update: UpdateRule, peak: f32) -> Optimizer {
    Optimizer { update, rate: LearningRate::constant(peak) }
}

/// Adam and LAMB have weight decay as a constant, which the option sets; the other rules get it beside them. What a checkpoint
/// keeps gives the same run.
#[test]
fn weight_decay_is_a_constant_of_the_rules_that_have_one() {
    let adamw = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
    for (rule, constant) in [(UpdateRule::Sgd, None), (adamw, Some(0.1))] {
        let mut config = Config::default();
        config.optimizer.dense = Some(with(rule, 0.1));
        config.optimizer.tables = Some(with(rule, 0.1));
        (config.optimizer.weight_decay, config.optimizer.table_weight_decay) = (Some(0.1), Some(0.3));
        config.model.dropout = Some(0.2);
        (config.train.clip_norm, config.train.label_smoothing) = (Some(1.5), Some(0.05));
        let run = planning::check(&config).unwrap();
        assert_eq!(run.dense_optimizer.update.own_decay(), constant);
        assert_eq!(run.regularisation.weight_decay, if constant.is_some() { 0.0 } else { 0.1 });
        let text =
            "weight decay 0.1, table weight decay 0.3, label smoothing 0.05, dropout 0.2, clip norm 1.5";
        assert_eq!(run.regularisation_text().as_deref(), Some(text));
        let written = toml::to_string(&config.explicit(&run)).unwrap();
        let again = planning::check(&toml::from_str(&written).unwrap()).unwrap();
        assert_eq!((again.regularisation, again.model.dropout()), (run.regularisation, 0.2), "{written}");
        assert_eq!(
            (again.dense_optimizer, again.table_optimizer),
            (run.dense_optimizer, run.table_optimizer)
        );
        let evaluation = run.schedule(spec::schedule::Task::Evaluate);
        assert!(!format!("{:?}", evaluation.phases()).contains("Dropout"));
        assert!(
            format!("{:?}", run.schedule(spec::schedule::Task::Train).phases())
                .contains("ForwardWithDropout")
        );
    }
}

/// `auto` is resolved once: what is written out names the algorithm, and gives it on any cluster.
#[test]
fn an_automatic_all_reduce_is_written_out() {
    let mut config = Config::default();
    assert_eq!(planning::check(&config).unwrap().all_reduce, Algorithm::Direct, "unless requested");
    config.train.all_reduce = Some(AllReduce::Auto);
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(64), Some(2));
    config.model.top = Some(vec![4096, 4096, 1]);
    let run = planning::check(&config).unwrap();
    assert_eq!((run.all_reduce, run.deployment().all_reduce), (Algorithm::TwoLevel, Algorithm::TwoLevel));
    let mut explicit = config.explicit(&run);
    assert_eq!(explicit.train.all_reduce, Some(AllReduce::By(Algorithm::TwoLevel)));
    assert_eq!(planning::check(&toml::from_str(&toml::to_string(&explicit).unwrap()).unwrap()).unwrap(), run);
    explicit.topology.hosts = Some(1);
    assert_eq!(planning::check(&explicit).unwrap().all_reduce, Algorithm::TwoLevel);
    // What is reduced at once is a bucket, or all dense layers where they are smaller.
    config.train.bucket_bytes = Some(1 << 16);
    assert_eq!(planning::check(&config).unwrap().all_reduce, Algorithm::RecursiveDoubling);
    (config.train.bucket_bytes, config.model.top) = (None, Some(vec![1]));
    assert_eq!(planning::check(&config).unwrap().all_reduce, Algorithm::RecursiveDoubling);
}

/// NCCL adds floats of ranks that exist.
#[test]
fn an_all_reduce_by_nccl_is_of_floats() {
    let mut config = Config::default();
    config.train.all_reduce = Some("nccl".parse().unwrap());
    let run = planning::check(&config).unwrap();
    assert_eq!(run.all_reduce, Algorithm::Nccl);
    assert_eq!(config.explicit(&run).train.all_reduce, Some(AllReduce::By(Algorithm::Nccl)));
    config.wire = "vectors=bf16,gradients=u8".parse().unwrap();
    assert!(planning::check(&config).is_ok(), "what is not added may be encoded");
    config.wire = "dense=bf16".parse().unwrap();
    assert_eq!(
        planning::check(&config).unwrap_err().to_string(),
        "train.all_reduce (--all-reduce): nccl adds gradients in f32, but they are sent as bf16 (wire.dense); use f32 for dense, or \
         another all-reduce, such as direct"
    );
    (config.wire, config.emulation.nodes) = (Default::default(), Some(16));
    let refused = planning::check(&config).unwrap_err().to_string();
    assert!(refused.contains("no NCCL joins emulated nodes"), "{refused}");
}

#[test]
fn a_model_without_dense_features_has_no_bottom() {
    let mut config = Config::default();
    config.model.dense_features = Some(0);
    config.data.synthetic = Some(spec::synthetic::Synthetic { dense: 0.0, ..Default::default() });
    let run = planning::check(&config).unwrap();
    assert!(run.model.network().leading().is_none());
    assert_eq!(run.model.network().features_width(), 26 * run.model.row_width(0));
}

/// Layouts of every kind cut tables without gaps.
#[test]
fn layouts_cover_their_tables() {
    use spec::placement::{HostCut, Placement};
    use spec::presets::{ModelKind, Preset};
    use spec::topology::Topology;
    let model = Preset::Demo.model(ModelKind::Dlrm, None, None).unwrap();
    let topology = Topology::new(2, 2).unwrap();
    let layouts = [
        Layout::TableWise { rank: 3 },
        Layout::RowWise { ranks: vec![0, 1, 3] },
        Layout::ColumnWise { ranks: vec![2, 0, 1] },
        Layout::Hierarchical { host: 1, cut: HostCut::Rows },
        Layout::Replicated,
        Layout::Hierarchical { host: 0, cut: HostCut::Columns },
        Layout::Grid { rows: 2, columns: 3, ranks: vec![0, 2, 0, 1, 3, 3] },
    ];
    for (i, layout) in layouts.iter().enumerate() {
        let layouts = vec![layout.clone(); model.features().len()];
        let placement = Placement::of_layouts(&model, topology, &layouts).unwrap();
        for (feature, table) in model.features().iter().enumerate() {
            let mut cells = 0;
            for rank in 0..topology.ranks() {
                for shard in placement.held_by(rank).iter().filter(|s| s.feature == feature) {
                    assert!(
                        shard.rows.end <= table.rows && shard.columns.end <= model.row_width(shard.feature)
                    );
                    cells += shard.rows.len() * shard.columns.len();
                }
            }
            let copies = if i == 4 { topology.ranks() } else { 1 };
            assert_eq!(cells, copies * table.rows * model.row_width(feature), "{layout:?} of {}", table.name);
        }
    }
}
