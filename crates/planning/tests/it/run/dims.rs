//! Embeddings of several lengths, and tables of more rows than 32 bits can name.

use spec::model::{BlockName, Input, Model};
use spec::placement::{Holders, Placement, Shard};
use spec::run::Config;
use spec::synthetic::Synthetic;
use spec::topology::Topology;
use spec::volume::{BatchSizes, Item, Traffic};

/// A model of three features, of which `b` has the model's 8 columns.
fn model(kind: &str, dims: [&str; 3], more: &str) -> Result<Model, String> {
    let layers = match kind {
        "deepfm" => "deep = [4, 1]",
        _ => "bottom = [4, 8]\ntop = [4, 1]\n",
    };
    let feature = |(name, dim): (char, &str)| {
        format!("[[model.features]]\nname = \"{name}\"\nrows = 10\nhotness.many.mean = 2\n{dim}\n")
    };
    let features: String = "abc".chars().zip(dims).map(feature).collect();
    let text = format!(
        "[model]\nkind = \"{kind}\"\ndim = 8\ndense_features = 5\n{layers}\n{more}\n{features}\n\
         [data.synthetic]\ngroups = 1\nwithin = 0.0\nacross = 0.0\n"
    );
    let config: Config = toml::from_str(&text).map_err(|error| error.to_string())?;
    let run = planning::check(&config).map_err(|error| error.to_string())?;
    // What is written back is the same model, and says nothing of dims that nobody gave.
    let written = toml::to_string(&config.explicit(&run)).unwrap();
    assert_eq!(written.matches("dim = ").count(), 1 + dims.iter().filter(|dim| !dim.is_empty()).count());
    let read: Config = toml::from_str(&written).unwrap();
    assert_eq!(planning::check(&read).unwrap().model, run.model);
    Ok(run.model)
}

/// One group of features, between which nothing can be planted.
fn one_group() -> Option<Synthetic> {
    Some(Synthetic { groups: 1, within: 0.0, across: 0.0, ..Default::default() })
}

const MIXED: [&str; 3] = ["dim = 4", "", "dim = 12"];

fn names(model: &Model) -> Vec<&str> {
    model.network().blocks().iter().map(|block| block.name.as_str()).collect()
}

#[test]
fn dlrm_maps_other_widths_by_a_block_between_vectors_and_interaction() {
    let mixed = model("dlrm", MIXED, "").unwrap();
    assert_eq!(names(&mixed), ["bottom", "project", "interaction", "top"]);
    let project = BlockName::new("project");
    let block = |name| mixed.network().block(BlockName::new(name));
    assert_eq!(block("project").inputs, [Input::Block(BlockName::new("bottom")), Input::Vectors]);
    assert_eq!(block("interaction").inputs, [Input::Block(project)]);
    let parameters = mixed.dense_parameter_list();
    let maps: Vec<_> = parameters.iter().filter(|p| p.owner.0 == project).collect();
    let described: Vec<_> = maps.iter().map(|p| (p.name.as_str(), &p.shape[..])).collect();
    assert_eq!(described, [("project.a.weight", &[8, 4][..]), ("project.c.weight", &[8, 12])]);
    // The dense vector and b pass; forward, and the gradients of maps and vectors.
    assert_eq!((block("project").layers.input_width(), block("project").layers.output_width()), (32, 32));
    assert_eq!(block("project").layers.training_flops(), 3 * 2 * 8 * (4 + 12));
    assert_eq!(block("project").layers.floats_touched(0..2), 2 * (8 + 8) + (4 + 8) + (12 + 8));
    assert_eq!(
        [0, 1, 2].map(|f| (mixed.row_width(f), mixed.feature_offset(f, 0))),
        [(4, 8), (8, 12), (12, 20)]
    );
    assert_eq!(mixed.table_parameters(), 10 * (4 + 8 + 12));
    // Without other widths there is no such block, whoever says so.
    let plain = model("dlrm", ["", "", ""], "").unwrap();
    assert_eq!(names(&plain), ["bottom", "interaction", "top"]);
    let said = model("dlrm", ["dim = 8"; 3], "").unwrap();
    assert_eq!((said.network(), said.training_flops()), (plain.network(), plain.training_flops()));
    assert!(!said.has_other_dims() && mixed.has_other_dims());
    assert_eq!((mixed.dims_text(), plain.dims_text()), ("dimensions 4 to 12".into(), "dimension 8".into()));
}

#[test]
fn dcn_concatenates_and_deepfm_maps_for_its_factorization_machine() {
    let dcn = model("dcn", MIXED, "").unwrap();
    assert_eq!(names(&dcn), ["bottom", "interaction", "top"]);
    assert_eq!(dcn.network().features_width(), 8 + 24);
    let deepfm = model("deepfm", MIXED, "").unwrap();
    assert_eq!(names(&deepfm), ["linear", "deep", "project", "fm", "logit"]);
    let width = |name| deepfm.network().block(BlockName::new(name)).layers.input_width();
    assert_eq!((width("deep"), width("project"), width("fm")), (24 + 5, 24 + 3, 3 * 9));
    assert_eq!([0, 1, 2].map(|f| deepfm.row_width(f)), [5, 9, 13]);
}

#[test]
fn towers_slice_tables_by_their_own_width_and_share_maps_by_width() {
    let towers = |lists: &str| format!("tower_module = \"dlrm:d=8\"\ntowers = {lists}");
    let sliced = model("dlrm", MIXED, &towers(r#"[["a", "c[0..6]"], ["b", "c[6..12]"]]"#)).unwrap();
    assert_eq!(sliced.tower_names(), [["a", "c[0..6]"], ["b", "c[6..12]"]]);
    let names = |t: usize| sliced.towers()[t].parameters(t).into_iter().map(|p| p.name).collect::<Vec<_>>();
    let each = ["each.4.weight", "each.4.bias", "each.6.weight", "each.6.bias"];
    assert_eq!(names(0), each.map(|part| format!("towers.0.{part}")));
    assert_eq!(sliced.towers()[0].forward_flops(), 2 * 8 * (4 + 6));
    // What leaves the towers has one length: there is nothing to map.
    assert!(sliced.network().blocks().iter().all(|block| block.name.as_str() != "project"));
    let refused = model("dlrm", MIXED, &towers(r#"[["a", "c[0..8]"], ["b", "c[8..16]"]]"#)).unwrap_err();
    assert!(refused.contains("a slice lies inside of columns 0..12"), "{refused}");
}

#[test]
fn wrong_dims_and_rows_are_refused_by_name() {
    for (dim, part) in [("dim = 0", "0 is not between 1 and 65536"), ("dim = 70000", "70000 is not between")]
    {
        let refused = model("dlrm", ["", dim, ""], "").unwrap_err();
        assert!(refused.contains("model.features[1].dim (b)") && refused.contains(part), "{refused}");
    }
    let mut config = Config::default();
    let mut feature = model("dcn", ["", "", ""], "").unwrap().features()[0].clone();
    feature.rows = (1 << 40) + 1;
    config.model.features = Some(vec![feature]);
    config.data.synthetic = one_group();
    let refused = planning::check(&config).unwrap_err().to_string();
    assert!(refused.contains("a table has 1 to 1099511627776"), "{refused}");
}

/// Neo §8.5: tables of about 10 G rows are planned; an id takes as many bytes as its shard needs.
#[test]
fn ids_of_shards_beyond_32_bits_count_eight_bytes() {
    let mut features = model("dlrm", MIXED, "").unwrap().features().to_vec();
    features[0].rows = 10_000_000_000;
    features[1].rows = 1 << 32;
    let mut config = Config::default();
    (config.model.features, config.model.dim) = (Some(features), Some(8));
    config.model.bottom = Some(vec![4, 8]);
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(4));
    config.data.synthetic = one_group();
    let run = planning::check(&config).unwrap();
    assert_eq!(run.model.table_parameters(), 10_000_000_000 * 4 + (1u64 << 32) * 8 + 10 * 12);
    assert!(
        run.model
            .check_trainable()
            .unwrap_err()
            .to_string()
            .contains("model.features[0].rows (a): 10000000000")
    );
    let whole = |feature: usize, rank| {
        let (rows, columns) = (run.model.features()[feature].rows, run.model.row_width(feature));
        Shard::new(feature, 0..rows, 0..columns, Holders::Rank(rank))
    };
    let cluster = Topology::new(1, 4).unwrap();
    let sent = |first: Vec<Shard>| {
        let shards = first.into_iter().chain([whole(1, 1), whole(2, 2)]).collect();
        let placement = Placement::new(&run.model, cluster, shards).unwrap();
        let deployment = spec::dataflow::Deployment { placement, ..run.deployment() };
        let sizes = BatchSizes::typical(&run.model, &deployment.placement, 40);
        let ids = Traffic::ToHolders { item: Item::Id, codec: Default::default() };
        [0, 1, 2].map(|to| ids.between(&deployment, &sizes, 3, to))
    };
    // Twenty ids each: of a table of 10 G rows, of one of 2³² rows and of a small one.
    assert_eq!(sent(vec![whole(0, 0)]), [20 * 8, 20 * 4, 20 * 4]);
    // Halves of the rows are still too many, thirds are not.
    let pieces = |count: usize| {
        let piece = |i| {
            let rows = spec::placement::share(10_000_000_000, count, i);
            Shard::new(0, rows, 0..4, Holders::Rank(i))
        };
        (0..count).map(piece).collect::<Vec<_>>()
    };
    assert_eq!(sent(pieces(2))[0], 10 * 8);
    assert!(sent(pieces(3))[0] < 8 * 4);
}
