//! The models of the DMT paper: its Tables 3, 4 and 5, and XLRM as far as it is described.

use spec::feature::{Feature, Hotness};
use spec::optimizer::{LearningRate, UpdateRule};
use spec::presets::{ModelKind, Preset};
use spec::run::{AllReduce, Config, ModelConfig, Optimizer, OptimizerConfig};
use spec::towers::{Assignment, DcnOutput, Module};
use spec::wire::{Format, WireConfig};

/// A model by name: its network, its towers, what stands over their features.
struct Named(&'static str, ModelKind, Option<Assignment>, Module);

/// Those on Criteo Terabyte. DLRM towers give half of what they take in, but for 16 of them, which give one vector each; `cr4`
/// gives a quarter. Two things are inferred from the paper's FLOPs, and not printed in it: DCN towers give one vector of 128 each,
/// and the top MLP over DLRM towers has one layer of 1024 less than that of the flat DLRM.
fn on_terabyte() -> Vec<Named> {
    use Assignment::{Each, Strided};
    use ModelKind::{Dcn, DeepFm, Dlrm};
    let single = |d| Module::Dlrm { c: 1, p: 0, d };
    let crossed = Module::Dcn { d: 128, rank: None, out: DcnOutput::Tower };
    vec![
        Named("dlrm", Dlrm, None, Module::None),
        Named("dcn", Dcn, None, Module::None),
        Named("deepfm", DeepFm, None, Module::None),
        Named("sptt-deepfm", DeepFm, Some(Each), Module::None),
        Named("sptt-dlrm", Dlrm, Some(Each), Module::None),
        Named("sptt-dcn", Dcn, Some(Each), Module::None),
        Named("2t-dlrm", Dlrm, Some(Strided(2)), single(64)),
        Named("4t-dlrm", Dlrm, Some(Strided(4)), single(64)),
        Named("8t-dlrm", Dlrm, Some(Strided(8)), single(64)),
        Named("16t-dlrm", Dlrm, Some(Strided(16)), Module::Dlrm { c: 0, p: 1, d: 128 }),
        Named("26t-dlrm", Dlrm, Some(Each), single(64)),
        Named("2t-dcn", Dcn, Some(Strided(2)), crossed),
        Named("4t-dcn", Dcn, Some(Strided(4)), crossed),
        Named("8t-dcn", Dcn, Some(Strided(8)), crossed),
        Named("16t-dcn", Dcn, Some(Strided(16)), crossed),
        Named("26t-dcn", Dcn, Some(Each), Module::None),
        Named("8t-dlrm-cr4", Dlrm, Some(Strided(8)), single(32)),
        Named("8t-dlrm-cr8", Dlrm, Some(Strided(8)), single(16)),
        Named("8t-dlrm-cr16", Dlrm, Some(Strided(8)), single(8)),
    ]
}

/// XLRM and its towers. The paper says that it has about 2 T parameters and takes about 700 MFlops a sample, that its tables are
/// sliced by columns into equal dimensions, and that its 16 towers have the operators of its main interaction (§5.1, §5.2.2).
/// Everything else here is ours:
/// - a DCN, whose cross layers are most of its FLOPs;
/// - 256 tables of dimension 128 and 61,035,156 rows each, single-hot: 2.0 T parameters, and 16 tables a tower;
/// - 3 cross layers of rank 416, and the MLPs of the other models: 706 MFlops a sample;
/// - towers that give half of what they take in, 1024 columns each: 725 MFlops a sample;
/// - row-wise Adagrad on tables, as Neo has it, since twice the tables' size would be needed for Adam.
fn xlrm(towers: Option<Assignment>, module: Module) -> Config {
    let feature = |i: usize| Feature {
        name: format!("T{}", i + 1),
        rows: 61_035_156,
        pooling: Default::default(),
        hotness: Hotness::One,
        weighted: false,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    };
    let tables =
        Optimizer { update: UpdateRule::RowWiseAdagrad { eps: 1e-8 }, rate: LearningRate::constant(0.01) };
    Config {
        model: ModelConfig {
            preset: Some(Preset::Terabyte),
            kind: Some(ModelKind::Dcn),
            cross_rank: Some(416),
            features: Some((0..256).map(feature).collect()),
            towers,
            tower_module: Some(module),
            ..ModelConfig::default()
        },
        optimizer: OptimizerConfig { tables: Some(tables), ..OptimizerConfig::default() },
        ..Config::default()
    }
}

const XLRM: [&str; 3] = ["xlrm", "sptt-xlrm", "16t-xlrm"];

/// The names of all of them.
pub(super) fn names() -> Vec<&'static str> {
    on_terabyte().iter().map(|named| named.0).chain(XLRM).collect()
}

/// A model by its name, with bf16 for all that travels: the strong baseline, and what is held against it. Dense gradients are
/// summed by the algorithm that suits the cluster: on hosts of several GPUs nobody would sum them directly.
pub(super) fn config(name: &str) -> Option<Config> {
    let config = match name {
        "xlrm" => xlrm(None, Module::None),
        "sptt-xlrm" => xlrm(Some(Assignment::Each), Module::None),
        "16t-xlrm" => {
            xlrm(Some(Assignment::Strided(16)), Module::Dcn { d: 1024, rank: None, out: DcnOutput::Tower })
        }
        _ => {
            let Named(_, kind, towers, module) = on_terabyte().into_iter().find(|named| named.0 == name)?;
            let model = ModelConfig {
                preset: Some(Preset::Terabyte),
                kind: Some(kind),
                towers,
                tower_module: Some(module),
                ..ModelConfig::default()
            };
            Config { model, ..Config::default() }
        }
    };
    let mut config = Config { wire: WireConfig::all(Format::Bf16.into()), ..config };
    config.train.all_reduce = Some(AllReduce::Auto);
    Some(config)
}
