use super::*;

fn features() -> Vec<Feature> {
    let feature = |name: &str, rows, hotness, weighted| Feature {
        name: name.into(),
        rows,
        pooling: Default::default(),
        hotness,
        weighted,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    };
    vec![feature("A", 6, Hotness::One, false), feature("B", 10, Hotness::Many { mean: 1 }, true)]
}

fn batch() -> Batch {
    Batch {
        samples: 2,
        labels: vec![0.0, 1.0],
        sample_weights: vec![],
        dense: vec![0.5, 0.25],
        lengths: vec![1, 1, 0, 2],
        values: vec![3, 5, 2, 9],
        weights: vec![1.0, 1.0, 0.5, 0.25],
        feature_starts: vec![0, 2, 4],
    }
}

fn message(change: impl Fn(&mut Batch)) -> String {
    let mut batch = batch();
    change(&mut batch);
    batch.check(&features(), 1).unwrap_err().to_string()
}

#[test]
fn errors_say_where() {
    batch().check(&features(), 1).unwrap();
    assert_eq!(message(|b| b.values[3] = 10), "feature B, sample 1: id 10 is outside the table's 10 rows");
    assert_eq!(message(|b| b.lengths[1] = 0), "feature A, sample 1: 0 ids, but the feature has exactly one");
    assert_eq!(
        message(|b| b.feature_starts[1] = 1),
        "feature B starts at value 1, but its lengths add up to 2"
    );
    assert_eq!(message(|b| b.lengths[3] = 3), "a batch has 4 for values, expected 5");
    assert_eq!(message(|b| b.lengths[3] = 1), "a batch has 4 for values, expected 3");
    assert_eq!(message(|b| b.labels[1] = 0.5), "sample 1 has label 0.5, neither 0 nor 1");
    assert_eq!(message(|b| b.dense[0] = f32::NAN), "sample 0 has dense feature 0 = NaN, not a finite number");
    assert_eq!(
        message(|b| b.weights[0] = 2.0),
        "feature A, sample 0: weight 2 (finite when weighted, 1 otherwise)"
    );
    assert_eq!(
        message(|b| b.sample_weights = vec![0.5, -1.0]),
        "sample 1 has weight -1; expected a finite number of at least 0"
    );
    assert_eq!(message(|b| b.sample_weights = vec![0.5]), "a batch has 1 for sample weights, expected 2");
    assert_eq!(message(|b| b.weights.clear()), "a batch has 0 for weights, expected 4");
    assert_eq!(message(|b| b.feature_starts[2] = 9), "a batch has 9 for the last feature start, expected 4");
}

#[test]
fn clearing_keeps_memory() {
    let mut batch = batch();
    let capacity = batch.values.capacity();
    batch.clear();
    assert_eq!(batch, Batch::default());
    assert_eq!(batch.values.capacity(), capacity);
    assert_eq!(batch.features(), 0);
}
