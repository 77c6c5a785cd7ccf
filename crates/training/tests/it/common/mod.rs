//! Small runs for tests.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../../../../kernels/tests/it/gpu.rs"]
pub mod gpu;
pub mod metered;

use data::prepared::{About, PreparedLog, Writer, WriterOptions};
use data::{Samples, Split, SyntheticLog};
use kernels::{Device, KernelError};
use spec::Pooling;
use spec::device::DeviceChoice;
use spec::feature::{Feature, Hotness};
use spec::optimizer::{LearningRate, UpdateRule};
use spec::presets::ModelKind;
use spec::random::RandomSequence;
use spec::run::{Config, LogFacts, Optimizer, Run};
use spec::schedule::Task;
use spec::schema::{DenseColumn, LabelColumn, LabelHead, Schema, SparseColumn};
use spec::synthetic::Synthetic;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use training::{Execution, Logs, Outcome, RankState, Session, Source, train_on};

pub fn feature(name: &str, rows: usize) -> Feature {
    Feature {
        name: name.into(),
        rows,
        pooling: Pooling::Sum,
        hotness: Hotness::One,
        weighted: false,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    }
}

/// Six single-hot features, or a mix of single-hot, multi-hot, mean-pooled and weighted ones.
pub fn features(multi_hot: bool) -> Vec<Feature> {
    let mut features: Vec<Feature> = [50, 20, 100, 7, 33, 64]
        .iter()
        .enumerate()
        .map(|(i, &rows)| feature(&format!("C{i}"), rows))
        .collect();
    if multi_hot {
        features[1].hotness = Hotness::Many { mean: 3 };
        features[2].hotness = Hotness::Many { mean: 2 };
        features[2].pooling = Pooling::Mean;
        features[4].hotness = Hotness::Many { mean: 4 };
        features[4].weighted = true;
    }
    features
}

/// The config with embeddings of several lengths, of which one is the model's.
pub fn mixed(mut config: Config) -> Config {
    let dims = [None, Some(3), Some(5), Some(12), Some(3), Some(5)];
    let features = config.model.features.as_mut().into_iter().flatten();
    features.zip(dims).for_each(|(feature, dim)| feature.dim = dim);
    config
}

pub fn optimizer(update: UpdateRule, peak: f32) -> Optimizer {
    Optimizer { update, rate: LearningRate::constant(peak) }
}

pub const ADAM: UpdateRule = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };

/// A small model of `kind` on a log of a size that no batch divides.
pub fn config(kind: ModelKind, multi_hot: bool, hosts: usize, ranks_per_host: usize) -> Config {
    let mut config = Config::default();
    config.model.kind = Some(kind);
    config.model.features = Some(features(multi_hot));
    config.model.dense_features = Some(5);
    config.model.dim = Some(8);
    match kind {
        ModelKind::Dlrm | ModelKind::Dcn => {
            config.model.bottom = Some(vec![16, 8]);
            config.model.top = Some(vec![16, 8, 1]);
        }
        ModelKind::DeepFm => config.model.deep = Some(vec![16, 8, 1]),
    }
    config.model.cross_layers = Some(2);
    config.model.cross_rank = Some(4);
    config.topology.hosts = Some(hosts);
    config.topology.ranks_per_host = Some(ranks_per_host);
    config.train.batch = Some(96);
    config.train.threads = Some(1);
    config.train.device = device_choice();
    config.train.bucket_bytes = Some(1024);
    config.optimizer.dense = Some(optimizer(UpdateRule::Sgd, 0.05));
    config.optimizer.tables = Some(optimizer(UpdateRule::Sgd, 0.05));
    // The last of its 17 batches has 5 samples: fewer than 8 ranks.
    config.data.synthetic =
        Some(Synthetic { samples: 16 * 96 + 5, eval_samples: 301, groups: 2, ..Default::default() });
    config.train.epochs = Some(3);
    config
}

/// Device of a rank: the GPU, which all ranks share, if the environment variable CAMPANILE_TEST_DEVICE names one; else the host's.
pub fn device_or(host: impl FnOnce() -> Result<Device, KernelError>) -> Result<Device, KernelError> {
    gpu::of_a_rank().unwrap_or_else(host)
}

/// Device of a rank: the GPU, or one thread.
pub fn device() -> Result<Device, KernelError> {
    device_or(|| Device::cpu(1))
}

/// Device of a config, for runs that make devices themselves.
pub fn device_choice() -> Option<DeviceChoice> {
    gpu::index().map(|index| DeviceChoice::Cuda(Some(index)))
}

/// Relative difference that two runs may have whose sums are in another order. On a GPU the order of products depends on their
/// sizes.
pub fn tolerance(host: f64) -> f64 {
    if gpu::is_there() { 10.0 * host } else { host }
}

pub fn train(run: &Run) -> Outcome {
    train_with(run, || device_or(|| Device::cpu(run.threads.unwrap_or(1))))
}

/// Trains as a session says. Ranks on the GPU use the one that all tests of the process share, whose algorithms nobody measures
/// anew.
pub fn train_session(run: &Run, logs: &Logs, session: &Session) -> Result<Outcome, training::Error> {
    match gpu::is_there() {
        true => train_on(run, |_| device(), &|split| logs.source(run, split), session),
        false => training::train(run, logs, session),
    }
}

pub fn train_with(run: &Run, device: impl Fn() -> Result<Device, KernelError> + Sync) -> Outcome {
    // Drawn once and not by every rank: that is most of what a small run costs.
    let log = |split| LazyLock::new(move || synthetic_log(run, split));
    let (train, eval) = (log(Split::Train), log(Split::Eval));
    let sources = |split| {
        let log = if split == Split::Train { &train } else { &eval };
        Ok(Source::Synthetic(SyntheticLog::clone(log)))
    };
    train_on(run, |_| device(), &sources, &Session::default()).unwrap_or_else(|e| panic!("{e}"))
}

pub fn synthetic_log(run: &Run, split: Split) -> SyntheticLog {
    match Logs::Synthetic.source(run, split) {
        Ok(Source::Synthetic(log)) => log,
        other => panic!("no synthetic log, but {other:?}"),
    }
}

pub fn training_source(run: &Run) -> Source {
    Source::Synthetic(synthetic_log(run, Split::Train))
}

/// Runs `steps` steps of `run` on `source` and gives what each rank came to. `prepare` gets each rank and its number
/// before the first step.
pub fn ranks_after(
    run: &Run,
    device: impl Fn() -> Result<Device, KernelError> + Sync,
    source: impl Fn() -> Source + Sync,
    steps: u64,
    prepare: impl Fn(usize, &mut RankState) + Sync,
) -> Vec<(RankState, Vec<f64>)> {
    let ranks = collectives::launch(
        run.topology(),
        &collectives::Options::default(),
        |_| device(),
        |world| {
            let schedule = run.schedule(Task::Train);
            let mut rank = RankState::new(world.device().clone(), run, &schedule, world.rank(), source())?;
            prepare(world.rank(), &mut rank);
            let mut losses = Vec::new();
            let communicators = training::Communicators::new(&world, &run.dataflow)?;
            let mut execution = Execution::new(schedule);
            execution.run(
                &mut rank,
                &communicators,
                steps,
                |step| run.batches().at(step),
                |rank, _| {
                    losses.append(&mut rank.losses);
                    Ok(ControlFlow::Continue(()))
                },
            )?;
            // Those that arrived late.
            losses.append(&mut rank.losses);
            Ok::<_, training::Error>((rank, losses))
        },
    );
    ranks.unwrap_or_else(|e| panic!("{e}"))
}

/// A prepared log of 1000 samples with two labels, sample weights (a few of them 0) and a kept column of 40 users; each user
/// clicks by their number. It is trained and evaluated on.
pub fn labelled_log(folder: &Path) -> (Logs, LogFacts) {
    let head = |column: &str, weight| LabelHead { column: column.into(), positive_from: None, weight };
    let id = |column: &str| SparseColumn { rows: Some(60), ..SparseColumn::hashed(column.into()) };
    let schema = Schema {
        columns: None,
        label: LabelColumn::default(),
        labels: vec![head("click", 1.0), head("buy", 0.5)],
        weight: Some("w".into()),
        keep: vec!["user".into()],
        dense: vec![DenseColumn { column: "price".into(), transform: Default::default(), missing: 0.0 }],
        sparse: vec![id("A"), SparseColumn { separator: Some('|'), ..id("B") }],
        in_time_order: false,
        ..Schema::criteo()
    };
    let stream = RandomSequence::new(3, "labelled");
    let mut samples = Samples::of(&schema);
    for i in 0..1000u64 {
        let draw = |what: u64| stream.bits(8 * i + what);
        let user = draw(0) % 40;
        let click = draw(1) % 60 < 10 + user;
        samples.labels.extend([f32::from(click), f32::from(click && draw(2).is_multiple_of(3))]);
        samples.weights.push((draw(3) % 8) as f32 / 4.0);
        samples.kept[0].push(format!("user {user}").as_bytes());
        samples.dense.push(draw(4) as f32 / u64::MAX as f32);
        samples.bags[0].ids.push(user << 59);
        let length = draw(5) % 4;
        samples.bags[1].lengths.push(length as u32);
        samples.bags[1].ids.extend((0..length).map(|j| stream.bits(100_000 + 7 * i + j)));
    }
    let mut writer =
        Writer::create(folder, &schema, &[None, None], WriterOptions { block_samples: 64 }).unwrap();
    writer.append(&samples).unwrap();
    writer.finish(About::default()).unwrap();
    let log = Arc::new(PreparedLog::open(folder).unwrap());
    let facts = LogFacts { samples: 1000, eval_samples: 1000, ..LogFacts::of_schema(&schema) };
    (Logs::Prepared { train: Some(log.clone()), eval: Some(log) }, facts)
}

/// A small model of [`labelled_log`], whose clicks weigh three times as much.
pub fn labelled_config(kind: ModelKind, hosts: usize, ranks_per_host: usize) -> Config {
    let mut config = config(kind, false, hosts, ranks_per_host);
    (config.model.features, config.model.dense_features) = (None, None);
    config.data.synthetic = None;
    config.train.positive_weight = Some(3.0);
    config
}
