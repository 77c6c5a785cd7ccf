use super::*;

fn mflops(preset: Preset, kind: ModelKind) -> f64 {
    preset.model(kind, None, None).unwrap().training_flops() as f64 / 1e6
}

/// DMT, Tables 3 and 4: 14.74 and 96.22 MFlops per sample, 22.78 G and 22.79 G parameters.
#[test]
fn terabyte_matches_the_dmt_paper() {
    assert!((mflops(Preset::Terabyte, ModelKind::Dlrm) - 14.74).abs() < 0.01);
    assert!((mflops(Preset::Terabyte, ModelKind::Dcn) - 96.2).abs() < 0.1);
    let parameters = |kind| Preset::Terabyte.model(kind, None, None).unwrap().parameters() as f64 / 1e9;
    assert!((parameters(ModelKind::Dlrm) - 22.78).abs() < 0.005);
    assert!((parameters(ModelKind::Dcn) - 22.79).abs() < 0.005);
}

/// Guo et al. §3.1: a hidden part of 400-400-400 over all vectors and dense inputs, and a linear weight for every id.
#[test]
fn deepfm_has_the_layers_of_its_paper() {
    let model = Preset::Kaggle.model(ModelKind::DeepFm, None, None).unwrap();
    assert_eq!((model.dim(), model.row_width(0)), (16, 17));
    let rows: usize = KAGGLE_ROWS.iter().sum();
    assert_eq!(model.table_parameters(), 17 * rows as u64);
    let (inputs, hidden) = (26 * 16 + 13, 400);
    let deep = (inputs + 1) * hidden + 2 * (hidden + 1) * hidden + hidden + 1;
    assert_eq!(model.dense_parameters(), (deep + 13 + 1) as u64);
}

/// Quantised collectives, §4: the top MLP of Criteo Kaggle has 367 inputs.
#[test]
fn kaggle_matches_the_quantised_collectives_paper() {
    let model = Preset::Kaggle.model(ModelKind::Dlrm, None, None).unwrap();
    assert_eq!(model.network().logit().layers.input_width(), 367);
    assert_eq!(model.dim(), 16);
}
