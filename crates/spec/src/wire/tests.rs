use super::*;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn any_format() -> impl Strategy<Value = Format> {
    select(Format::ALL.to_vec())
}

fn any_reduced() -> impl Strategy<Value = ReducedFormat> {
    let compensations = vec![Compensation::None, Compensation::Every, Compensation::AsPrinted];
    let lossy = |r: &ReducedFormat| r.format != Format::F32 || r.compensation == Compensation::None;
    (any_format(), select(compensations))
        .prop_map(|(format, compensation)| ReducedFormat { format, compensation })
        .prop_filter("f32 loses nothing", lossy)
}

fn any_config() -> impl Strategy<Value = WireConfig> {
    let rounding = option::of(select(vec![Rounding::Nearest, Rounding::Stochastic]));
    let vectors = (option::of(any_format()), option::of(any_format()));
    let sums = (option::of(any_reduced()), option::of(any_reduced()));
    let mixed = (vectors, sums, rounding).prop_map(|((vectors, gradients), (dense, towers), rounding)| {
        WireConfig { vectors, gradients, dense, towers, rounding }
    });
    prop_oneof![mixed, any_reduced().prop_map(WireConfig::all)]
}

proptest! {
    /// What is printed parses to the wire that was printed; so do files, and what is explicit stays as it is.
    #[test]
    fn a_wire_is_read_back(config in any_config()) {
        let wire = config.check();
        let parsed: WireConfig = wire.to_string().parse().unwrap();
        prop_assert_eq!(parsed.rounding, None);
        prop_assert_eq!(WireConfig { rounding: config.rounding, ..parsed }.check(), wire);
        let explicit = WireConfig::explicit(wire);
        prop_assert_eq!(explicit.check(), wire);
        prop_assert_eq!(WireConfig::explicit(explicit.check()), explicit);
        prop_assert_eq!(explicit.towers.is_some(), wire.towers != wire.dense);
        for config in [config, explicit] {
            let toml: WireConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
            let json: WireConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
            prop_assert_eq!((toml, json), (config, config));
        }
        prop_assert_eq!(WireConfig::default().overlaid(&config), config);
        prop_assert_eq!(config.overlaid(&explicit).check(), wire);
    }
}

#[test]
fn wires_read_well() {
    let shown = |text: &str| text.parse::<WireConfig>().unwrap().check().to_string();
    // One format for everything is one word, also where it has two codecs.
    for text in Format::ALL.map(Format::name).into_iter().chain(["u4+ec", "fp8+ec-paper", "bf16+ec"]) {
        assert_eq!(shown(text), text);
    }
    assert_eq!(shown("vectors=fp8-e4m3,gradients=fp8-e5m2,dense=fp8"), "fp8");
    assert_eq!(shown("dense=bf16"), "vectors=f32,gradients=f32,dense=bf16");
    assert_eq!(shown("vectors=fp8,gradients=fp8"), "vectors=fp8-e4m3,gradients=fp8-e5m2,dense=f32");
    let each = "vectors=u4,gradients=u2,dense=u8+ec,towers=bf16";
    assert_eq!(shown(each), each);
    assert_eq!(shown("vectors=u4,gradients=u4,dense=u4+ec,towers=u4+ec"), "u4+ec");
    assert_eq!(
        shown("vectors=u4,gradients=u4,dense=u4,towers=u4+ec"),
        "vectors=u4,gradients=u4,dense=u4,towers=u4+ec"
    );

    // `--wire u4+ec` compensates what is reduced, and only that.
    let wire = "u4+ec".parse::<WireConfig>().unwrap().check();
    assert_eq!((wire.vectors, wire.gradients), (Codec::U4, Codec::U4));
    assert_eq!(wire.dense, Reduced { codec: Codec::U4, compensation: Compensation::Every });
    assert_eq!(wire.towers, wire.dense);
}

/// A flag goes before the file, payload by payload; towers follow dense gradients unless they were named.
#[test]
fn flags_go_before_the_file() {
    let over = |file: &str, flag: &str| {
        let (file, flag): (WireConfig, WireConfig) = (file.parse().unwrap(), flag.parse().unwrap());
        file.overlaid(&flag).check().to_string()
    };
    assert_eq!(over("bf16", "u4+ec"), "u4+ec");
    assert_eq!(over("vectors=bf16", "dense=u8"), "vectors=bf16,gradients=f32,dense=u8");
    assert_eq!(over("towers=bf16", "dense=u8"), "vectors=f32,gradients=f32,dense=u8,towers=bf16");
    assert_eq!(over("towers=bf16", "u8"), "u8");
}

#[test]
fn refusals_name_the_payload_and_what_exists() {
    let refused = |text: &str| text.parse::<WireConfig>().unwrap_err();
    let formats = "use f32, f16, bf16, fp8, fp8-e4m3, fp8-e5m2, u8, u4 or u2";
    assert_eq!(refused("u3"), format!("unknown wire format \"u3\"; {formats}"));
    assert_eq!(refused("dense=int8"), format!("dense: unknown wire format \"int8\"; {formats}"));
    assert_eq!(refused("vectors=bf16,towers="), format!("towers: unknown wire format \"\"; {formats}"));
    assert_eq!(refused("ids=u8"), "unknown payload \"ids\"; use vectors, gradients, dense or towers");
    assert_eq!(refused("vectors=u8,f16"), "unknown payload \"f16\"; use vectors, gradients, dense or towers");
    assert_eq!(refused("dense=u8,dense=u8"), "dense has two wire formats; give one");
    assert_eq!(refused("dense=u8+"), "dense: unknown error compensation \"+\"; use u8+ec, u8+ec-paper or u8");
    assert_eq!(refused("f32+ec"), "f32 loses nothing that error compensation could carry; use f32");
    for payload in ["vectors", "gradients"] {
        let problem = refused(&format!("{payload}=u4+ec"));
        assert!(
            problem.starts_with(&format!("{payload}: error compensation is for reductions")),
            "{problem}"
        );
        assert!(problem.contains("other samples in every step") && problem.ends_with("use u4"), "{problem}");
        let in_a_file =
            toml::from_str::<WireConfig>(&format!("{payload} = \"u4+ec\"")).unwrap_err().to_string();
        assert!(
            in_a_file.contains(&problem[payload.len() + 2..]) && in_a_file.contains(payload),
            "{in_a_file}"
        );
    }
    let in_a_file = |text: &str| toml::from_str::<WireConfig>(text).unwrap_err().to_string();
    assert!(in_a_file("dense = \"u5\"").contains(formats));
    assert!(in_a_file("rounding = \"up\"").contains("stochastic"));
    assert!(in_a_file("ids = \"u8\"").contains("unknown field"));
    assert_eq!("up".parse::<Rounding>().unwrap_err(), "unknown rounding \"up\"; use nearest or stochastic");
}
