//! Runs on logs: what the log says, what the config says, and what comes of both.

use spec::feature::Hotness;
use spec::presets::{ModelKind, Preset};
use spec::run::{Config, Data, DataFormat, Every, LogFacts, LogRows, Run};
use spec::schema::{IdRule, Schema};

/// Criteo's columns, with a hundred thousand samples.
fn criteo() -> LogFacts {
    let facts = LogFacts::of_schema(&Schema::criteo());
    LogFacts { samples: 100_000, eval_samples: 1_000, in_time_order: true, ..facts }
}

fn refused(facts: &LogFacts, change: impl Fn(&mut Config)) -> String {
    let mut config = Config::default();
    change(&mut config);
    planning::check_log(&config, facts).expect_err("this config cannot run").to_string()
}

#[test]
fn a_criteo_log_gets_the_kaggle_tables() {
    let run = planning::check_log(&Config::default(), &criteo()).unwrap();
    let kaggle = Preset::Kaggle.model(ModelKind::Dlrm, None, None).unwrap();
    assert_eq!(run.model, kaggle);
    assert_eq!(run.data, Data::Log { samples: 100_000, eval_samples: 1_000, shuffle: None });
    assert_eq!(run.steps, 100_000u64.div_ceil(run.batch as u64));
}

/// The window in which a run shuffles.
fn window(config: &Config, facts: &LogFacts) -> Option<u64> {
    match planning::check_log(config, facts).unwrap().data {
        Data::Log { shuffle, .. } => shuffle,
        Data::Synthetic(_) => None,
    }
}

#[test]
fn only_logs_in_another_order_than_that_of_time_are_shuffled_unasked() {
    let mixed = LogFacts { in_time_order: false, ..criteo() };
    let huge = LogFacts { samples: 1 << 30, ..mixed.clone() };
    let mut config = Config::default();
    assert_eq!(window(&config, &criteo()), None);
    assert_eq!(window(&config, &mixed), Some(100_000));
    assert_eq!(window(&config, &huge), Some(1 << 24));
    // What was decided stays, whatever a later version would decide.
    for facts in [criteo(), mixed.clone()] {
        let explicit = config.explicit(&planning::check_log(&config, &facts).unwrap());
        for others in [criteo(), mixed.clone()] {
            assert_eq!(window(&explicit, &others), window(&config, &facts));
        }
    }
    config.data.shuffle = Some(0);
    assert_eq!(window(&config, &mixed), None);
    config.data.shuffle = Some(500);
    assert_eq!(window(&config, &criteo()), Some(500));
}

#[test]
fn rows_come_from_ids_then_the_schema_then_the_preset() {
    let mut facts = criteo();
    facts.features[0].rows = LogRows::Fixed(77);
    facts.features[1].rows = LogRows::Hashed(Some(88));
    facts.features[3].mean_ids = Some(5);
    let mut config = Config::default();
    config.model.rows_cap = Some(80);
    let features = planning::check_log(&config, &facts).unwrap().model.features().to_vec();
    // A cap cannot take rows away that ids reach for.
    assert_eq!(features[..4].iter().map(|f| f.rows).collect::<Vec<_>>(), [77, 80, 80, 80]);
    assert_eq!(features[3].hotness, Hotness::Many { mean: 5 });
}

#[test]
fn what_does_not_fit_the_log_is_named() {
    let facts = criteo();
    let mut nameless = criteo();
    nameless.features[4].name = "user".into();
    let other = |c: &mut Config| c.model.features = Some(Preset::Demo.outline().features()[..3].to_vec());
    let cases = [
        (refused(&facts, |c| c.model.dense_features = Some(12)), "model.dense_features", "13 columns"),
        (refused(&facts, other), "model.features", "3 features, but the log has 26"),
        (refused(&nameless, |_| ()), "data.schema.sparse.user", "Set `rows`"),
        (refused(&LogFacts { samples: 0, ..criteo() }, |_| ()), "data.train", "no samples"),
        (refused(&facts, |c| c.data.max_bad_share = Some(f64::NAN)), "data.max_bad_share", "0..=1"),
        (refused(&facts, |c| c.data.shuffle = Some(1 << 40)), "data.shuffle", "at most"),
        (refused(&facts, |c| c.train.eval_every = Some(0)), "train.eval_every", "never"),
        (refused(&facts, |c| c.checkpoint.every = Some(Every::Steps(0))), "checkpoint.every", "never"),
        (refused(&facts, |c| c.checkpoint.keep = Some(0)), "checkpoint.keep", "at least 1"),
    ];
    for (message, field, remedy) in cases {
        assert!(message.starts_with(field) && message.contains(remedy), "{field}: {message}");
    }
}

/// The config that checkpoints keep gives the same run, also after TOML and JSON, and without the preset's help.
#[test]
fn an_explicit_config_gives_the_same_run() {
    let mut wide = Config::default();
    wide.model.kind = Some(ModelKind::Dcn);
    wide.model.rows_cap = Some(1000);
    wide.placement.replicate_rows = Some(20);
    wide.optimizer.peak = Some(0.02);
    wide.train.epochs = Some(3);
    wide.data.shuffle = Some(500);
    wide.checkpoint.every = Some(Every::Steps(7));
    let facts = criteo();
    let check = |config: &Config, facts: Option<&LogFacts>| -> Run {
        facts.map_or_else(|| planning::check(config), |facts| planning::check_log(config, facts)).unwrap()
    };
    for (config, facts) in
        [(Config::default(), None), (Config::default(), Some(&facts)), (wide, Some(&facts))]
    {
        let run = check(&config, facts);
        let explicit = config.explicit(&run);
        assert_eq!(check(&explicit, facts), run);
        let toml: Config = toml::from_str(&toml::to_string(&explicit).unwrap()).unwrap();
        assert_eq!(toml, explicit);
        let json: Config = serde_json::from_value(serde_json::to_value(&explicit).unwrap()).unwrap();
        assert_eq!(json, explicit);
        assert_eq!(explicit.explicit(&run), explicit);
    }
}

#[test]
fn a_schema_alone_describes_a_model() {
    let mut config = Config::default();
    config.data.format = Some(DataFormat::Csv);
    assert!(planning::check(&config).unwrap_err().to_string().starts_with("data.schema: "));
    let mut schema = Schema::criteo();
    schema.sparse.truncate(2);
    schema.dense.clear();
    (schema.sparse[0].ids, schema.sparse[0].rows) = (IdRule::Index, Some(9));
    config.data.schema = Some(schema);
    let run = planning::check(&config).unwrap();
    assert_eq!(run.model.features()[0].rows, 9);
    assert_eq!(run.model.dense_features(), 0);
}
