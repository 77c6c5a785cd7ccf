use super::*;
use crate::presets::{ModelKind, Preset};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn any_precision() -> impl Strategy<Value = Precision> {
    select(Precision::ALL.to_vec())
}

/// What users can write: something, for all parts or some.
fn any_config() -> impl Strategy<Value = PrecisionConfig> {
    let names = select(vec!["bottom", "top", "interaction", "towers"]);
    let parts = proptest::collection::btree_map(names.prop_map(String::from), any_precision(), 0..4);
    let config = (option::of(any_precision()), parts).prop_map(|(all, parts)| PrecisionConfig { all, parts });
    config.prop_filter("says nothing", |config| *config != PrecisionConfig::default())
}

/// A config of which only the precision is told.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct File {
    precision: PrecisionConfig,
    behind: u64,
}

proptest! {
    /// What is printed parses to what was printed; so do files, with precisions as text or as a table.
    #[test]
    fn precisions_are_read_back(config in any_config()) {
        prop_assert_eq!(config.to_string().parse(), Ok(config.clone()));
        let precisions = config.check();
        let printed: PrecisionConfig = precisions.to_string().parse().unwrap();
        prop_assert_eq!(printed.check(), precisions.clone());
        prop_assert_eq!(PrecisionConfig::explicit(&precisions).check(), precisions.clone());
        prop_assert_eq!(PrecisionConfig::default().overlaid(&config), config.clone());
        prop_assert_eq!(config.overlaid(&printed).check(), precisions);

        let file = File { precision: config.clone(), behind: 1 };
        let text: File = toml::from_str(&toml::to_string(&file).unwrap()).unwrap();
        let json: File = serde_json::from_str(&serde_json::to_string(&file).unwrap()).unwrap();
        let mut table = config.parts.clone();
        table.extend(config.all.map(|all| ("all".to_owned(), all)));
        let table: PrecisionConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
        prop_assert_eq!((text.precision, json.precision, table), (config.clone(), config.clone(), config));
    }
}

#[test]
fn precisions_read_well() {
    let shown = |text: &str| text.parse::<PrecisionConfig>().unwrap().check().to_string();
    for precision in Precision::ALL {
        // One precision for everything is one word.
        assert_eq!(shown(precision.name()), precision.name());
        assert_eq!(serde_json::to_string(&Precisions::from(precision)).unwrap(), format!("\"{precision}\""));
    }
    assert_eq!(shown("bf16,top=bf16"), "bf16");
    assert_eq!(shown("top=bf16"), "f32,top=bf16");
    assert_eq!(shown("top=f32,bf16,bottom=tf32"), "bf16,bottom=tf32,top=f32");
    assert_eq!(shown("all=bf16,top=f32"), "bf16,top=f32");
}

/// A flag goes before the file: one precision for all parts replaces everything, others go part by part.
#[test]
fn flags_go_before_the_file() {
    let over = |file: &str, flag: &str| {
        let (file, flag): (PrecisionConfig, PrecisionConfig) = (file.parse().unwrap(), flag.parse().unwrap());
        file.overlaid(&flag).check().to_string()
    };
    assert_eq!(over("bf16,top=f32", "f32"), "f32");
    assert_eq!(over("bf16,top=f32", "tf32,bottom=f32"), "tf32,bottom=f32");
    assert_eq!(over("bf16,top=f32", "bottom=f32"), "bf16,bottom=f32,top=f32");
    assert_eq!(over("bf16", "top=f32"), "bf16,top=f32");
    assert_eq!(over("bf16,top=f32", "top=bf16"), "bf16");
}

#[test]
fn bad_precisions_are_refused_by_name() {
    let refused = |text: &str| text.parse::<PrecisionConfig>().unwrap_err();
    assert!(refused("fp16").starts_with("unknown precision \"fp16\"; use f32"));
    assert!(refused("f32,top=fp16").starts_with("top: unknown precision \"fp16\"; use f32"));
    assert!(refused("").starts_with("unknown precision \"\""));
    assert_eq!(refused("top=f32,top=bf16"), "top has two precisions; give one");
    assert_eq!(refused("f32,bf16"), "all parts have two precisions, f32 and bf16; give one");
    assert_eq!(refused("=f32"), "a part of the network has a name, such as top=f32");
    for (text, says) in [
        ("precision = {}", "names no precision"),
        ("precision = { top = \"fp16\" }", "top: unknown precision"),
        ("precision = 3", "a precision such as \"bf16\""),
    ] {
        let error = toml::from_str::<File>(&format!("{text}\nbehind = 1")).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

/// Parts are the blocks of the model that compute products, and the modules of its towers.
#[test]
fn parts_are_those_of_the_model() {
    let parts = |kind: ModelKind, towers: Option<&str>| {
        let mut config = crate::run::ModelConfig { kind: Some(kind), ..Default::default() };
        config.preset = Some(Preset::Kaggle);
        if let Some(module) = towers {
            config.towers = Some("strided:2".parse().unwrap());
            config.tower_module = Some(module.parse().unwrap());
        }
        let model = config.check(None).unwrap();
        let names: Vec<&str> = model.parts_with_products().into_iter().map(BlockName::as_str).collect();
        for name in &names {
            let precisions = PrecisionConfig { all: None, parts: [((*name).into(), Precision::Bf16)].into() };
            assert_eq!(precisions.problem_with(&model), None);
        }
        // Also where the part would have the precision of all others.
        let cross: PrecisionConfig = "f32,cross=f32".parse().unwrap();
        let problem = cross.problem_with(&model).unwrap();
        assert!(problem.contains("no part \"cross\"") && problem.ends_with(&listed(&names)), "{problem}");
        names.join(" ")
    };
    assert_eq!(parts(ModelKind::Dlrm, None), "bottom interaction top");
    assert_eq!(parts(ModelKind::Dlrm, Some("none")), "bottom interaction top");
    assert_eq!(parts(ModelKind::Dlrm, Some("dlrm:d=16")), "bottom interaction top towers");
    assert_eq!(parts(ModelKind::Dcn, None), "bottom interaction top");
    assert_eq!(parts(ModelKind::DeepFm, None), "linear deep");
}

#[test]
fn a_device_refuses_the_part_that_it_lacks() {
    let problem = |text: &str, device| text.parse::<PrecisionConfig>().unwrap().check().problem_on(device);
    assert_eq!(problem("f32", DeviceChoice::Cpu), None);
    let all = Precision::Tf32.problem_on(DeviceChoice::Cpu).unwrap();
    assert_eq!(problem("tf32,top=f32", DeviceChoice::Cpu), Some(all.clone()));
    assert_eq!(problem("top=tf32", DeviceChoice::Cpu), Some(format!("top: {all}")));
    assert_eq!(problem("top=tf32", DeviceChoice::Cuda(None)), None);
    assert_eq!(problem("top=tf32", DeviceChoice::Auto), None);
}
