//! The table with a trainer that only pretends: whose towers are better is decided here.

use super::*;
use std::cell::RefCell;

/// Names of features of the pretended model.
fn features() -> Vec<String> {
    (1..=16).map(|i| format!("C{i}")).collect()
}

/// Remembers what was trained. Diverse towers are better than coherent ones, and both than strided ones.
#[derive(Default)]
struct Pretender {
    trained: RefCell<Vec<String>>,
    flat: RefCell<usize>,
    notes: RefCell<String>,
}

impl TowerTrainer for Pretender {
    fn dim(&self) -> usize {
        8
    }

    fn train(&self, model: &TowerModel, title: &str) -> std::result::Result<Trained, Failure> {
        self.trained.borrow_mut().push(title.into());
        let by_rows = if model.evaluated_on == Rows::Validation { 0.05 } else { 0.0 };
        let by_towers = match title {
            _ if title.contains("diverse") => 0.80,
            _ if title.contains("coherent") => 0.79,
            _ => 0.78,
        };
        let auc = Some(by_towers + by_rows + 1e-4 * model.seed as f64);
        Ok(Trained { auc, seconds: 1.0, parameters_sha256: None })
    }

    fn flat_affinity(&self) -> std::result::Result<Affinity, Failure> {
        *self.flat.borrow_mut() += 1;
        let names = features();
        let alike = vec![vec![1.0; names.len()]; names.len()];
        Ok(Affinity::new(names, alike)?)
    }

    fn divide(
        &self,
        _: ModelKind,
        affinity: &Affinity,
        towers: usize,
        _: Strategy,
    ) -> std::result::Result<Division, Failure> {
        let members = affinity.features().chunks(affinity.features().len() / towers);
        Ok(Division { towers: members.map(<[String]>::to_vec).collect(), picture: "<svg/>".into() })
    }

    fn write(&self, path: &Path, text: &str) -> std::result::Result<(), Failure> {
        Ok(std::fs::write(path, text)?)
    }

    fn note(&self, text: &str) {
        self.notes.borrow_mut().push_str(text);
    }
}

fn measured(folder: &Path, runs: u64, trainer: &Pretender) {
    let strategies = &[Strategy::Coherent, Strategy::Diverse];
    measure(&Request { runs, strategies, out: folder, settings: json!({}) }, trainer).unwrap();
}

#[test]
fn pilots_decide_for_the_better_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let trainer = Pretender::default();
    measured(folder.path(), 2, &trainer);
    // Of each model: two pilots, and two runs with each kind of towers.
    assert_eq!((trainer.trained.borrow().len(), *trainer.flat.borrow()), (12, 1));
    let report = report(folder.path()).unwrap();
    let rows: Value = serde_json::from_str(&report.json).unwrap();
    for (row, (name, _)) in rows.as_array().unwrap().iter().zip(models()) {
        assert_eq!((&row["model"], &row["strategy"]), (&name.into(), &"diverse".into()));
        assert_eq!(row["pilots_of"], "validation");
        assert_eq!(row["partitioner"]["aucs"].as_array().unwrap().len(), 2, "pilots do not count: {row}");
        assert!(row["partitioner"]["median"].as_f64() > row["strided"]["median"].as_f64(), "{row}");
    }
    assert!(
        report.text.contains("2+2") && report.text.contains("chosen by validation rows"),
        "{}",
        report.text
    );
}

#[test]
fn a_measurement_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    measured(folder.path(), 1, &Pretender::default());
    let again = Pretender::default();
    measured(folder.path(), 2, &again);
    let trained = again.trained.borrow();
    assert_eq!(trained.len(), 4, "{trained:?}");
    assert!(trained.iter().all(|title| title.ends_with("2/2")), "{trained:?}");
    assert_eq!(*again.flat.borrow(), 0, "the affinity is kept");
    assert!(again.notes.borrow().starts_with("going on: 8 result(s) are taken from"), "{:?}", again.notes);
}
