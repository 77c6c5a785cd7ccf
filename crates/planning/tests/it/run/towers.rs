//! Towers as users write them: which assignments and modules there are, and what their models cost.

use super::common::{features, lists};
use spec::dataflow::{DataflowKind, PeerPermute};
use spec::placement::{Cut, Layout};
use spec::presets::{ModelKind, Preset};
use spec::run::{Config, Run};
use spec::towers::{Assignment, DcnOutput, Module};

/// Four features of 8 columns, and what the change makes of them.
fn small(change: impl Fn(&mut Config)) -> Config {
    let mut config = Config::default();
    config.model.features = Some(features(4));
    config.model.dim = Some(8);
    config.data.synthetic = Some(spec::synthetic::Synthetic { groups: 2, ..Default::default() });
    change(&mut config);
    config
}

/// DMT §5.2.3, word for word.
#[test]
fn the_strided_assignment_of_the_paper() {
    let features = Preset::Terabyte.outline().features();
    let members = Assignment::Strided(8).members(&features, &vec![128; features.len()]).unwrap();
    let indices: Vec<Vec<usize>> =
        members.iter().map(|tower| tower.iter().map(|member| member.feature).collect()).collect();
    assert_eq!(
        indices,
        [
            vec![0, 8, 16, 24],
            vec![1, 9, 17, 25],
            vec![2, 10, 18],
            vec![3, 11, 19],
            vec![4, 12, 20],
            vec![5, 13, 21],
            vec![6, 14, 22],
            vec![7, 15, 23]
        ]
    );
    assert!(members.iter().flatten().all(|member| member.columns == (0..128)));
    let mut config = Config::default();
    config.model.towers = Some(Assignment::Strided(8));
    assert_eq!(planning::check(&config).unwrap().model.tower_names()[0], ["C1", "C9", "C17", "C25"]);
}

#[test]
fn wrong_assignments_are_refused_by_name() {
    let refused = |assignment: Assignment| {
        planning::check(&small(|c| c.model.towers = Some(assignment.clone())))
            .expect_err("no such towers")
            .to_string()
    };
    let cases = [
        (refused(lists(&[&["C0", "C1"], &["C2", "C3", "C1"]])), "\"C1\" is in tower 0 and again in tower 1"),
        (refused(lists(&[&["C0", "C0"], &["C1", "C2", "C3"]])), "\"C0\" is in tower 0 and again in tower 0"),
        (refused(lists(&[&["C0", "C1"], &["C3"]])), "feature C2 is in no tower"),
        (refused(lists(&[&["C0", "C1"], &["C2", "C3", "user"]])), "tower 1 names \"user\""),
        (refused(lists(&[&["C0", "C1"], &[], &["C2", "C3"]])), "tower 1 is empty"),
        (refused(lists(&[])), "no tower"),
        (refused(Assignment::Strided(0)), "strided:0 of 4 features"),
        (refused(Assignment::Strided(5)), "strided:5 of 4 features"),
        (refused(Assignment::Strided(usize::MAX)), "of 4 features"),
        // Slices: unequal, overlapping, with a gap, beyond the table, backwards, of an unknown feature, no numbers.
        (refused(lists(&[&["C0[0..2]", "C1", "C2", "C3"], &["C0[2..8]"]])), "slices of C0 are not 2 equal"),
        (refused(lists(&[&["C0[0..4]", "C1", "C2", "C3"], &["C0[3..8]"]])), "\"C0[3..8]\" is in tower 0"),
        (refused(lists(&[&["C0[0..4]", "C1", "C2", "C3"], &["C0"]])), "\"C0\" is in tower 0 and again"),
        (refused(lists(&[&["C0[0..4]", "C1", "C2", "C3"]])), "slices of C0 are not 1 equal parts"),
        (refused(lists(&[&["C0[0..4]", "C1", "C2", "C3"], &["C0[4..9]"]])), "names \"C0[4..9]\""),
        (refused(lists(&[&["C0[4..4]", "C1", "C2", "C3"], &["C0"]])), "names \"C0[4..4]\""),
        (refused(lists(&[&["C0[8..0]", "C1", "C2", "C3"]])), "names \"C0[8..0]\""),
        (refused(lists(&[&["X[0..8]", "C0", "C1", "C2", "C3"]])), "names \"X[0..8]\""),
        (refused(lists(&[&["C0[..]", "C1", "C2", "C3"]])), "names \"C0[..]\""),
        (refused(lists(&[&["C0[0..99999999999999999999]", "C1", "C2", "C3"]])), "names \"C0[0..9999"),
    ];
    for (message, part) in cases {
        assert!(message.starts_with("model.towers: ") && message.contains(part), "{part:?}: {message}");
    }
    // 27 towers of the 26 features of the default model.
    let mut config = Config::default();
    config.model.towers = Some(Assignment::Strided(27));
    let message = planning::check(&config).unwrap_err().to_string();
    assert!(message.starts_with("model.towers: strided:27 of 26 features"), "{message}");
    config.model.towers = Some(Assignment::Strided(26));
    assert_eq!(planning::check(&config).unwrap().model.towers().len(), 26);
}

#[test]
fn wrong_modules_and_groups_are_refused_by_name() {
    let problems = [
        ("dlrm:d=0", "d is 0"),
        ("dcn:d=0", "d is 0"),
        ("dlrm", "d is missing"),
        ("dcn:rank=4", "d is missing"),
        ("dlrm:c=0,d=4", "c and p are 0"),
        ("dlrm:c=0,p=0,d=4", "c and p are 0"),
        ("dcn:d=4,rank=0", "rank is 0"),
        ("dcn:d=4,out=all", "out is \"all\"; use tower or features"),
        ("dcn:d=4,c=1", "dcn has no setting \"c\""),
        ("dlrm:d=4,rank=1", "dlrm has no setting \"rank\""),
        ("dlrm:d=4,e=1", "dlrm has no setting \"e\""),
        ("dlrm:d", "\"d\" is not a setting"),
        ("dlrm:d=-1", "d is \"-1\"; use a number"),
        ("dlrm:d=1048577", "use a number up to 1048576"),
        ("none:d=4", "unknown tower module \"none:d=4\""),
        ("mlp:d=4", "unknown tower module \"mlp:d=4\""),
        ("dlrm:d=4,d=8", "d is set twice"),
        ("dlrm:,d=4", "\"\" is not a setting"),
        ("mlp", "unknown tower module \"mlp\""),
        ("", "unknown tower module \"\""),
    ];
    for (text, part) in problems {
        let message = text.parse::<Module>().unwrap_err();
        assert!(message.contains(part), "{text}: {message}");
    }
    for text in ["strided", "strided:", "strided:-1", "strided:x", "Each", ""] {
        let message = text.parse::<Assignment>().unwrap_err();
        assert!(message.contains(&format!("{text:?}")) && message.contains("strided:T"), "{message}");
    }
    let d8 = Module::Dlrm { c: 1, p: 0, d: 8 };
    let refused = |change: &dyn Fn(&mut Config)| planning::check(&small(change)).unwrap_err().to_string();
    let cases = [
        // What a text cannot say is refused where it is used.
        (refused(&|c| towers(c, Module::Dlrm { c: 1, p: 0, d: 0 })), "model.tower_module", "d is 0"),
        (refused(&|c| towers(c, Module::Dlrm { c: 0, p: 0, d: 8 })), "model.tower_module", "c and p are 0"),
        (refused(&|c| towers(c, dcn(8, Some(0)))), "model.tower_module", "rank is 0"),
        (refused(&|c| towers(c, dcn(usize::MAX, None))), "model.tower_module", "1048576"),
        (refused(&|c| c.model.tower_module = Some(d8)), "model.tower_module", "say which with model.towers"),
        (
            refused(&|c| {
                *c = Config::default();
                c.model.kind = Some(spec::presets::ModelKind::DeepFm);
                towers(c, d8);
            }),
            "model.tower_module",
            "dlrm:c=1,p=0,d=8 cannot stand over the rows of a deepfm model: their last column is the linear weight",
        ),
        (refused(&|c| c.topology.hosts_per_tower = Some(0)), "topology.hosts_per_tower", "groups of 0"),
        (
            refused(&|c| (c.topology.hosts, c.topology.hosts_per_tower) = (Some(4), Some(3))),
            "topology.hosts_per_tower",
            "4 hosts cannot be divided into groups of 3",
        ),
        (
            refused(&|c| {
                towers(c, d8);
                c.train.dataflow = Some(DataflowKind::Flat);
            }),
            "train.dataflow",
            "use sptt",
        ),
        (
            refused(&|c| {
                towers(c, d8);
                c.placement.replicate_rows = Some(10);
            }),
            "placement.replicate_rows",
            "none is replicated",
        ),
        (
            refused(&|c| {
                towers(c, d8);
                c.placement.tables.insert("C2".into(), Layout::Replicated);
            }),
            "placement.tables",
            "C2 is replicated",
        ),
        (
            refused(&|c| {
                towers(c, d8);
                c.placement.tables.insert("C2".into(), Layout::RowWise { ranks: vec![0, 2] });
            }),
            "placement.tables",
            "rows of C2 are cut over ranks [0, 2]",
        ),
        // C0 and C2 are one tower.
        (
            refused(&|c| {
                towers(c, d8);
                c.placement.tables.insert("C0".into(), Layout::TableWise { rank: 0 });
                c.placement.tables.insert("C2".into(), Layout::TableWise { rank: 2 });
            }),
            "placement.tables",
            "tower 0 has C2 on group 1 and other features on group 0",
        ),
        (refused(&|c| c.train.peer_permute = Some(PeerPermute::Ids)), "train.peer_permute", "ids is of sptt"),
        (
            refused(&|c| {
                towers(c, Module::Dlrm { c: 1, p: 0, d: 4 });
                c.model.bottom = Some(vec![16, 8]);
            }),
            "model.bottom",
            "the towers' d = 4",
        ),
    ];
    for (message, field, part) in cases {
        assert!(message.starts_with(field) && message.contains(part), "{field}, {part:?}: {message}");
    }
}

fn towers(config: &mut Config, module: Module) {
    config.model.towers = Some(Assignment::Strided(2));
    config.model.tower_module = Some(module);
}

fn dcn(d: usize, rank: Option<usize>) -> Module {
    Module::Dcn { d, rank, out: DcnOutput::Tower }
}

/// What the file of a config says wrongly is refused as it is read, with the words that would do.
#[test]
fn wrong_words_in_a_config_are_refused() {
    for (text, part) in [
        ("towers = \"stride:8\"", "unknown assignment of features to towers \"stride:8\""),
        ("towers = 8", "strided:T"),
        ("towers = [\"C1\", \"C2\"]", "strided:T"),
        ("tower_module = \"dlrm:d=0\"", "d is 0"),
    ] {
        let message = toml::from_str::<Config>(&format!("[model]\n{text}")).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}

/// DMT, Tables 3, 4 and 5: training MFlops per sample, and by how much towers shrink what is exchanged.
#[test]
fn flops_of_the_papers_models() {
    let model = |kind, towers: Option<usize>, module: Option<&str>| {
        let mut config = Config::default();
        config.model.preset = Some(Preset::Terabyte);
        config.model.kind = Some(kind);
        config.model.towers = towers.map(Assignment::Strided);
        config.model.tower_module = module.map(|text| text.parse().unwrap());
        planning::check(&config).unwrap().model
    };
    let rows = [
        (ModelKind::Dlrm, None, None, 14.74, 1.0),
        (ModelKind::Dlrm, Some(2), Some("dlrm:d=64"), 8.95, 2.0),
        (ModelKind::Dlrm, Some(4), Some("dlrm:d=64"), 8.95, 2.0),
        (ModelKind::Dlrm, Some(8), Some("dlrm:d=64"), 8.95, 2.0),
        (ModelKind::Dlrm, Some(26), Some("dlrm:d=64"), 8.95, 2.0),
        (ModelKind::Dlrm, Some(8), Some("dlrm:d=32"), 7.93, 4.0),
        (ModelKind::Dlrm, Some(8), Some("dlrm:d=16"), 7.41, 8.0),
        (ModelKind::Dlrm, Some(8), Some("dlrm:d=8"), 7.16, 16.0),
        (ModelKind::Dlrm, Some(16), Some("dlrm:c=0,p=1,d=128"), 8.75, 26.0 / 16.0),
        (ModelKind::Dcn, None, None, 96.22, 1.0),
        (ModelKind::Dcn, Some(2), Some("dcn:d=128"), 43.71, 13.0),
        (ModelKind::Dcn, Some(4), Some("dcn:d=128"), 50.01, 6.5),
        (ModelKind::Dcn, Some(8), Some("dcn:d=128"), 62.60, 3.25),
        (ModelKind::Dcn, Some(16), Some("dcn:d=128"), 87.19, 26.0 / 16.0),
    ];
    for (kind, towers, module, paper, ratio) in rows {
        let model = model(kind, towers, module);
        let mflops = model.training_flops() as f64 / 1e6;
        let within = if kind == ModelKind::Dlrm { 0.01 } else { 0.1 };
        assert!((mflops - paper).abs() < within, "{towers:?} {module:?}: {mflops}, the paper has {paper}");
        assert_eq!(model.compression_ratio(), ratio, "{towers:?} {module:?}");
        let parameters = model.parameters() as f64 / 1e9;
        assert!((22.775..22.795).contains(&parameters), "{towers:?} {module:?}: {parameters} G parameters");
    }
    // The six towers of one feature pass through; listing 2 as printed gives one vector per feature.
    let p1 = model(ModelKind::Dlrm, Some(16), Some("dlrm:c=0,p=1,d=128"));
    assert_eq!(p1.towers().iter().filter(|tower| tower.passes_through()).count(), 6);
    let listing = model(ModelKind::Dcn, Some(8), Some("dcn:d=128,out=features"));
    assert_eq!(listing.compression_ratio(), 1.0);
}

/// Words become lists in the config that checkpoints keep; both give the same run, also after TOML and JSON.
#[test]
fn a_config_with_towers_goes_through_toml_and_json() {
    let named = lists(&[&["C2", "C0[0..4]"], &["C1", "C3", "C0[4..8]"]]);
    let modules = ["none", "dlrm:d=4", "dlrm:c=0,p=2,d=4", "dcn:d=8", "dcn:d=8,rank=3,out=features"];
    let mut compared = 0;
    for kind in [ModelKind::Dlrm, ModelKind::Dcn] {
        for assignment in [Assignment::Each, Assignment::Strided(3), named.clone()] {
            for module in modules {
                for permute in [None, Some("vectors"), Some("ids"), Some("none")] {
                    let config = small(|c| {
                        c.model.kind = Some(kind);
                        c.model.towers = Some(assignment.clone());
                        c.model.tower_module = Some(module.parse().unwrap());
                        c.topology.hosts = Some(4);
                        c.topology.hosts_per_tower = permute.map(|_| 2);
                        c.train.peer_permute = permute.map(|text| text.parse().unwrap());
                        c.placement.cut = permute.map(|_| Cut::Hotness);
                    });
                    let again: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
                    assert_eq!(again, config);
                    same_again(&config, &planning::check(&config).unwrap());
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 2 * 4 * 3 * modules.len());
}

fn same_again(config: &Config, run: &Run) {
    let explicit = config.explicit(run);
    assert!(matches!(&explicit.model.towers, Some(Assignment::Lists(_))));
    assert_eq!(&planning::check(&explicit).unwrap(), run);
    let toml: Config = toml::from_str(&toml::to_string(&explicit).unwrap()).unwrap();
    assert_eq!(toml, explicit);
    let json: Config = serde_json::from_value(serde_json::to_value(&explicit).unwrap()).unwrap();
    assert_eq!(json, explicit);
    assert_eq!(explicit.explicit(run), explicit);
}
