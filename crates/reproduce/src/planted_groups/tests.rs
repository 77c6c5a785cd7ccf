//! Groups are found in an affinity that shows them, and logs that are done are not trained on again.

use super::*;
use std::cell::{Cell, RefCell};

/// A model whose affinity is high inside groups of consecutive features.
fn pretend(config: &Config) -> FlatModel {
    let features = config.model.features.as_deref().unwrap_or_default();
    let names: Vec<String> = features.iter().map(|feature| feature.name.clone()).collect();
    let size = names.len() / 3;
    let between = |a: usize, b: usize| if a / size == b / size { 0.9 } else { 0.1 };
    let row = |a: usize| (0..names.len()).map(|b| if a == b { 1.0 } else { between(a, b) }).collect();
    let rows: Vec<Vec<f64>> = (0..names.len()).map(row).collect();
    let groups = names.chunks(size).map(<[String]>::to_vec).collect();
    let affinity = Affinity::new(names, rows).unwrap();
    FlatModel { auc: Some(0.7), best_auc: Some(0.8), seconds: 1.0, affinity, groups }
}

#[test]
fn planted_groups_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let notes = RefCell::new(String::new());
    let note = |text: &str| notes.borrow_mut().push_str(text);
    let mut request = Request {
        seeds: 1,
        samples: 1000,
        features: 12,
        groups: 3,
        ratios: &[1.0],
        affinity: "mean-abs".into(),
        out: folder.path(),
        note: &note,
    };
    let trained = Cell::new(0);
    let train = |config: &Config, _: &str| {
        trained.set(trained.get() + 1);
        Ok(pretend(config))
    };
    let first = report(&request, &train).unwrap();
    let records: Vec<PlantedResult> = serde_json::from_str(&first.json).unwrap();
    let index = |name: &str| records[0].adjusted_rand.iter().find(|(other, _)| other == name).unwrap().1;
    assert_eq!((index("coherent, n = 2"), trained.get()), (1.0, 1));
    assert!(index("strided") < 0.5);
    assert!(first.json.starts_with(r#"[{"ratio":1.0,"seed":1,"auc":0.7,"#), "{}", first.json);
    request.seeds = 2;
    report(&request, &train).unwrap();
    assert_eq!(trained.get(), 2, "the first log is done");
    assert!(notes.borrow().starts_with("going on: 1 result(s) are taken from"), "{notes:?}");
    let lost = |_: &Config, _: &str| Err("no disk".into());
    request.seeds = 3;
    assert_eq!(report(&request, &lost).unwrap_err().to_string(), "no disk");
}
