use super::*;

fn schema(dense: &[(&str, Transform)]) -> Schema {
    let mut schema = Schema::criteo();
    let column = |(name, transform): &(&str, Transform)| spec::schema::DenseColumn {
        column: (*name).into(),
        transform: transform.clone(),
        missing: 0.0,
    };
    schema.dense = dense.iter().map(column).collect();
    schema.columns = None;
    schema
}

fn watched(schema: &Schema, labels: &[f32], dense: Vec<f32>) -> Noticed {
    let samples = Samples { labels: labels.to_vec(), dense, ..Samples::default() };
    let mut watch = SampleObserver::new(schema);
    watch.add(&samples);
    watch.noticed()
}

#[test]
fn sorted_labels_are_noticed() {
    let schema = schema(&[]);
    let mut labels = vec![0.0; 90];
    labels.extend([1.0; 10]);
    let noticed = watched(&schema, &labels, vec![]);
    assert_eq!(noticed.label_changes, 1);
    let warnings = of_samples(&schema, 100, 10, &noticed);
    assert!(warnings.len() == 1 && warnings[0].contains("sorted by label"), "{warnings:?}");
    labels.rotate_left(5);
    labels[40] = 1.0;
    let noticed = watched(&schema, &labels, vec![]);
    assert_eq!(of_samples(&schema, 100, 11, &noticed), Vec::<String>::new());
    assert_eq!(of_samples(&schema, 100, 0, &Noticed::default()), Vec::<String>::new());
}

#[test]
fn times_are_told_from_other_numbers() {
    let columns = ["seconds", "millis", "log", "price", "mostly"];
    let transforms = [Transform::None, Transform::None, Transform::Log, Transform::None, Transform::None];
    let schema = schema(&columns.into_iter().zip(transforms).collect::<Vec<_>>());
    let row = |i: usize| {
        let seconds = 1.7e9 + 60.0 * i as f64;
        let mostly = if i.is_multiple_of(10) { 5.0 } else { seconds };
        let millis = if i.is_multiple_of(3) { 0.0 } else { seconds * 1e3 };
        [seconds, millis, seconds.ln_1p(), i as f64, mostly].map(|x| x as f32)
    };
    let noticed = watched(&schema, &[1.0; 200], (0..200).flat_map(row).collect());
    assert_eq!(noticed.like_times, ["seconds", "millis", "log"]);
    assert_eq!(of_samples(&schema, 200, 200, &noticed).len(), 3);
}

#[test]
fn the_column_of_time_is_no_number() {
    let mut schema = schema(&[("ts", Transform::None)]);
    assert!(of_schema(&schema).is_empty());
    schema.time = Some("ts".into());
    assert!(of_schema(&schema)[0].contains("[[dense]]"));
}
