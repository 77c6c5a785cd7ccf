//! Tables in number formats of fewer bits.

use crate::common::{config, optimizer, tolerance, train};
use spec::codec::Rounding;
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::Config;
use spec::table_format::TableFormat;

/// A run of 30 steps with tables of fewer bits.
fn narrow(format: TableFormat, rounding: Rounding) -> Config {
    let mut config = config(ModelKind::Dlrm, true, 2, 2);
    config.train.steps = Some(30);
    config.optimizer.tables = Some(optimizer(UpdateRule::Sgd, 0.02));
    (config.tables.format, config.tables.rounding) = (Some(format), Some(rounding));
    config
}

/// Rounding follows from the place of a weight in the whole table: where tables live changes no bit, nor do cuts by columns, but for int8,
/// of which every slice of a row has a scale of its own. Cuts by rows add vectors in another order.
#[test]
fn placements_round_alike() {
    for (format, rounding) in [
        (TableFormat::F16, Rounding::Stochastic),
        (TableFormat::Bf16, Rounding::Stochastic),
        (TableFormat::F16, Rounding::Nearest),
        (TableFormat::Int8, Rounding::Stochastic),
        (TableFormat::Int8, Rounding::Nearest),
    ] {
        let mut config = narrow(format, rounding);
        config.placement.cut = Some(Cut::Whole);
        let spread = train(&planning::check(&config).unwrap());
        config.placement.replicate_rows = Some(40);
        let replicated = train(&planning::check(&config).unwrap());
        assert_eq!(spread.parameters_sha256, replicated.parameters_sha256, "{format} {rounding}");
        config.placement.replicate_rows = None;
        for cut in [Cut::Columns, Cut::Rows] {
            config.placement.cut = Some(cut);
            let run = planning::check(&config).unwrap();
            // Vectors of pieces of a row are added, in another order.
            let pieces = train(&run);
            for (a, b) in spread.losses.iter().zip(&pieces.losses) {
                let most = tolerance(if format == TableFormat::Int8 { 5e-3 } else { 1e-4 });
                assert!((a - b).abs() <= most * a.abs(), "{format} {rounding} {cut:?}: {a} {b}");
            }
            if cut == Cut::Columns && format != TableFormat::Int8 {
                assert_eq!(spread.parameters_sha256, pieces.parameters_sha256, "{format} {rounding} {cut:?}");
            }
        }
    }
}

/// Formats and roundings are different runs, each the same every time, and all near that of f32.
#[test]
fn each_choice_is_a_run_of_its_own() {
    let mut wide = narrow(TableFormat::F32, Rounding::Nearest);
    wide.tables = Default::default();
    let wide = train(&planning::check(&wide).unwrap());
    let mut digests = vec![wide.parameters_sha256.clone()];
    for format in [TableFormat::F16, TableFormat::Bf16, TableFormat::Int8] {
        for rounding in [Rounding::Nearest, Rounding::Stochastic] {
            let run = planning::check(&narrow(format, rounding)).unwrap();
            let (one, again) = (train(&run), train(&run));
            assert_eq!(one.parameters_sha256, again.parameters_sha256, "{format} {rounding}");
            let most = if format == TableFormat::F16 { 2e-3 } else { 2e-2 };
            for (a, b) in wide.losses.iter().zip(&one.losses) {
                assert!((a - b).abs() <= most * a, "{format} {rounding}: {a} {b}");
            }
            digests.push(one.parameters_sha256);
        }
    }
    let all = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), all);
}

/// A feature may have a format of its own, and a run that goes on keeps it.
#[test]
fn formats_of_features() {
    let mut config = narrow(TableFormat::F16, Rounding::Nearest);
    let features = config.model.features.as_mut().unwrap();
    features[0].format = Some(TableFormat::F32);
    features[1].format = Some(TableFormat::Bf16);
    let run = planning::check(&config).unwrap();
    let formats = |run: &spec::run::Run| [0, 1, 2].map(|feature| run.model.table_format(feature));
    assert_eq!(formats(&run), [TableFormat::F32, TableFormat::Bf16, TableFormat::F16]);
    let explicit = planning::check(&config.explicit(&run)).unwrap();
    assert_eq!(formats(&explicit), formats(&run));
    assert_eq!(explicit.table_rounding, Rounding::Nearest);
    assert_eq!(train(&explicit).parameters_sha256, train(&run).parameters_sha256);
}
