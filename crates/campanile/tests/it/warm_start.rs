//! A new run begins with the weights of another: by name, by shape, and rows by id.

use campanile::resume::Resumed;
use campanile::{Config, Control, Error, Trained, Training};
use data::prepare::load_vocabularies;
use spec::optimizer::{LearningRate, UpdateRule};
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{DataFormat, Optimizer};
use spec::schema::Schema;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use training::Cluster;
use training::checkpoint::{Checkpoint, locate};

/// So small that no weight changes.
const STILL: f32 = 1e-35;
const DIM: usize = 4;

/// A log of 300 rows whose items are `first`, `first + 1` and so on, each less frequent than the one before.
fn log(folder: &Path, name: &str, first: u64) -> PathBuf {
    let mut rows = String::from("clicked,price,user,item\n");
    for row in 0..300u64 {
        let item = first + (row * row / 300) % 10;
        writeln!(rows, "{},{}.5,u{},i{item}", (row * 7 + item) % 3 / 2, row % 11, row % 13).unwrap();
    }
    let path = folder.join(name);
    fs::write(&path, rows).unwrap();
    path
}

fn schema(user_rows: usize) -> Schema {
    let text = format!(
        "label = {{ column = \"clicked\" }}\n[[dense]]\ncolumn = \"price\"\n[[sparse]]\ncolumn = \"user\"\nrows = {user_rows}\n\
         [[sparse]]\ncolumn = \"item\"\nids = \"vocabulary\"\n"
    );
    toml::from_str(&text).unwrap()
}

fn config(log: &Path, rate: f32, steps: u64) -> Config {
    let mut config = Config::default();
    config.data.train = vec![log.to_string_lossy().into_owned()];
    (config.data.format, config.data.schema) = (Some(DataFormat::Csv), Some(schema(20)));
    (config.model.dim, config.model.bottom) = (Some(DIM), Some(vec![8, DIM]));
    config.model.top = Some(vec![8, 1]);
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(1));
    (config.train.steps, config.train.batch, config.train.epochs) = (Some(steps), Some(50), Some(2));
    let optimizer = Optimizer { update: UpdateRule::Sgd, rate: LearningRate::constant(rate) };
    (config.optimizer.dense, config.optimizer.tables) = (Some(optimizer), Some(optimizer));
    config
}

fn trained(config: Config, out: &Path) -> Result<Trained, Error> {
    Training::new(config).out(out).run()
}

fn warm(mut config: Config, from: &Path) -> Config {
    config.train.warm_start = Some(from.to_string_lossy().into_owned());
    config
}

/// A table of the last checkpoint of a run, row by row.
fn table(run: &Path, feature: &str) -> Vec<Vec<f32>> {
    let checkpoint = Checkpoint::open(locate(run).unwrap()).unwrap();
    let name = format!("tables.{feature}.weight");
    let rows = checkpoint.tensors().find(|(tensor, _)| *tensor == name).unwrap().1[0];
    let mut floats = vec![0.0; rows * DIM];
    checkpoint.read_rows(&name, 0..rows, 0..DIM, &mut floats).unwrap();
    floats.chunks(DIM).map(<[f32]>::to_vec).collect()
}

#[test]
fn weights_are_taken_by_name_shape_and_id() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (one, other) = (log(folder.path(), "one.csv", 0), log(folder.path(), "other.csv", 6));
    let first = trained(config(&one, 0.1, 12), &at("first")).unwrap();

    // From the same log all weights are taken, whatever the ranks and cuts.
    for (i, (hosts, ranks, cut)) in
        [(1, 1, None), (1, 2, Some(Cut::Rows)), (2, 2, Some(Cut::Columns))].into_iter().enumerate()
    {
        let mut config = warm(config(&one, STILL, 1), &at("first"));
        (config.topology.hosts, config.topology.ranks_per_host) = (Some(hosts), Some(ranks));
        config.placement.cut = cut;
        let again = trained(config, &at(&format!("again{i}"))).unwrap();
        let report = again.warm_start.unwrap();
        assert_eq!((report.taken, report.left.len(), report.by_id.len()), (10, 0, 0), "{report}");
        assert_eq!(again.outcome.parameters_sha256, first.outcome.parameters_sha256, "{hosts} × {ranks}");
    }

    // Another log, in which other items are frequent: rows of known ones go where these are now, on any ranks.
    let cold = trained(config(&other, STILL, 1), &at("cold")).unwrap();
    assert!(cold.warm_start.is_none());
    let (old, initial) = (table(&at("first"), "item"), table(&at("cold"), "item"));
    let mut digests = Vec::new();
    for (i, ranks) in [1, 3].into_iter().enumerate() {
        let mut config = warm(config(&other, STILL, 1), &at("first"));
        config.topology.ranks_per_host = Some(ranks);
        config.placement.cut = (ranks > 1).then_some(Cut::Rows);
        let out = at(&format!("new{i}"));
        let new = trained(config, &out).unwrap();
        let report = new.warm_start.unwrap();
        let matched = &report.by_id[0];
        assert_eq!(
            (matched.name.as_str(), matched.rows, matched.of),
            ("tables.item.weight", 5, 11),
            "{report}"
        );
        assert!(report.left.is_empty() && report.to_string().contains("5 of 11 rows, by id"), "{report}");
        let vocabulary = |run: &str| {
            load_vocabularies(&schema(20), &at(run).join("vocabularies")).unwrap().remove(1).unwrap()
        };
        let (there, here) = (vocabulary("first"), vocabulary("cold"));
        let rows = table(&out, "item");
        assert_eq!(rows[0], old[0], "the row of ids that are not in a vocabulary");
        let mut moved = 0;
        for (row, &key) in (1..).zip(here.keys()) {
            let from = there.row(key) as usize;
            let expected = if from > 0 { &old[from] } else { &initial[row] };
            assert_eq!(&rows[row], expected, "row {row}");
            moved += usize::from(from > 0 && from != row);
        }
        assert!(moved > 0, "no row has moved, so that nothing is shown");
        assert_eq!(table(&out, "user"), table(&at("first"), "user"), "hashed alike");
        digests.push(new.outcome.parameters_sha256);
    }
    assert_eq!(digests[0], digests[1]);

    // What does not fit is listed; where nothing does, the user is told.
    let mut wider = warm(config(&one, STILL, 1), &at("first"));
    wider.data.schema = Some(schema(30));
    wider.model.top = Some(vec![9, 1]);
    let report = trained(wider, &at("wider")).unwrap().warm_start.unwrap();
    let left: Vec<&str> = report.left.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(left, ["tables.user.weight", "top.0.weight", "top.0.bias", "top.1.weight"], "{report}");
    assert!(report.left[0].reason.contains("[20, 4] in the checkpoint, but [30, 4] here"), "{report}");
    let mut another = warm(config(&one, STILL, 1), &at("first"));
    (another.model.kind, another.model.dim) = (Some(ModelKind::DeepFm), Some(8));
    (another.model.bottom, another.model.top) = (None, None);
    let error = campanile::chain(&trained(another, &at("none")).unwrap_err());
    assert!(error.contains("no table and no layer") && error.contains("tables.user.weight"), "{error}");
}

#[test]
fn a_resumed_run_does_not_start_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = log(folder.path(), "one.csv", 0);
    trained(config(&log, 0.1, 6), &at("first")).unwrap();
    let whole = trained(warm(config(&log, 0.1, 8), &at("first")), &at("whole")).unwrap();
    trained(warm(config(&log, 0.1, 3), &at("first")), &at("parts")).unwrap();
    let resumed = |path: &str| Resumed::find(&at(path), &Cluster::Threads, &Control::default()).unwrap();
    let resume = |change: &dyn Fn(&mut Config)| {
        let resumed = resumed("parts");
        let mut config = resumed.base(false);
        config.train.steps = Some(8);
        change(&mut config);
        Training::new(config).resumed(resumed).run()
    };
    let error = resume(&|config| config.train.warm_start = None).unwrap_err().to_string();
    assert!(error.contains("train.warm_start: requested none"), "{error}");
    let parts = resume(&|_| ()).unwrap();
    assert!(parts.warm_start.is_none());
    assert_eq!(parts.outcome.parameters_sha256, whole.outcome.parameters_sha256);
}

#[test]
fn a_dry_run_says_what_would_be_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = log(folder.path(), "one.csv", 0);
    let mut config = config(&log, 0.1, 100);
    config.train.epochs = Some(3);
    config.data.split = Some(0.2);
    config.train.patience = Some(2);
    let dry = Training::new(config.clone()).out(at("run")).dry_run().unwrap();
    let names = || fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names(), 1, "nothing but the log");
    let json = dry.to_json();
    let real = trained(config.clone(), &at("run")).unwrap();
    assert_eq!((json["steps"].as_u64(), json["evaluations"].as_u64()), (Some(real.run.steps), Some(3)));
    assert_eq!(json["data"]["reading"], "prepared temporarily");
    assert_eq!(json["data"]["samples"].as_u64(), Some(real.run.data.samples()));
    assert_eq!(json["memory_bytes"].as_u64(), real.outcome.memory.map(|need| need.total()));
    assert_eq!(json["options"], serde_json::json!(["keep_best auc", "patience 2"]));
    for path in json["writes"].as_array().unwrap() {
        let path = Path::new(path.as_str().unwrap());
        // The page is the binary's.
        assert!(path.exists() || path.ends_with("report.html"), "{} was not written", path.display());
    }
    // A folder that is not free is refused as it would be, and stays as it is.
    let before = fs::read_to_string(at("run/metrics.jsonl")).unwrap();
    assert!(Training::new(config.clone()).out(at("run")).dry_run().is_err());
    let again = Resumed::find(&at("run"), &Cluster::Threads, &Control::default()).unwrap();
    let again = Training::new(again.base(false)).resumed(again).dry_run().unwrap();
    assert_eq!(again.resumed, Some(real.outcome.steps));
    assert_eq!(fs::read_to_string(at("run/metrics.jsonl")).unwrap(), before);
}
