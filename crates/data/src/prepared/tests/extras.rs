//! Several labels, sample weights and kept columns.

use super::*;
use crate::samples::{MAX_TEXTS, Samples};
use crate::{DataError, Shuffle};
use spec::schema::{LabelHead, Schema};

const SAMPLES: usize = 50;

fn schema() -> Schema {
    let head = |column: &str, weight| LabelHead { column: column.into(), positive_from: None, weight };
    Schema {
        columns: None,
        label: LabelColumn::default(),
        labels: vec![head("click", 1.0), head("buy", 0.5)],
        weight: Some("w".into()),
        keep: vec!["user".into(), "city".into()],
        dense: vec![],
        sparse: vec![SparseColumn::hashed("ad".into())],
        ..Schema::criteo()
    }
}

fn samples() -> Samples {
    let mut samples = Samples::of(&schema());
    for i in 0..SAMPLES {
        samples.labels.extend([f32::from(i % 2 == 0), f32::from(i % 5 == 0)]);
        samples.weights.push(i as f32 / 4.0);
        samples.kept[0].push(format!("u{i}").as_bytes());
        samples.kept[1].push(if i % 3 == 0 { b"" } else { b"Rome" });
        samples.bags[0].ids.push((i as u64) << 32);
    }
    samples
}

fn written(folder: &Path) -> Manifest {
    let mut writer = Writer::create(folder, &schema(), &[None], WriterOptions { block_samples: 7 }).unwrap();
    writer.append(&samples()).unwrap();
    writer.finish(About::default()).unwrap()
}

#[test]
fn all_columns_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = written(folder.path());
    assert_eq!((manifest.clicks, manifest.labels[1].clicks), (25, 10));
    let weights = manifest.sample_weights.unwrap();
    assert_eq!((weights.min, weights.max, weights.sum), (0.0, 12.25, (0..50).sum::<i32>() as f64 / 4.0));
    let log = std::sync::Arc::new(PreparedLog::open(folder.path()).unwrap());
    log.verify(&|_| ()).unwrap();
    // Keys, with names, from any sample on.
    let column = log.key_column("user").unwrap();
    let mut keys = vec![];
    log.keys(&column, 5..23, &mut keys).unwrap();
    let names: Vec<String> = keys.iter().map(|&key| column.name(key)).collect();
    assert_eq!(names, (5..23).map(|i| format!("u{i}")).collect::<Vec<_>>());
    assert_eq!(column.name(9), "#9");
    let city = log.key_column("city").unwrap();
    assert_eq!(city.name(crate::id::MISSING), "(missing)");
    // A feature with one id serves too; a column that is not there is refused.
    let ad = log.key_column("ad").unwrap();
    keys.clear();
    log.keys(&ad, 48..99, &mut keys).unwrap();
    assert_eq!(keys, [48, 49]);
    let refused = log.key_column("country").unwrap_err().to_string();
    assert!(refused.contains("name it under `keep`"), "{refused}");
    // Batches, in order and shuffled.
    let features = log.features(|_| Some(1 << 32)).unwrap();
    let mut reader = log.clone().bind(&features, 0).unwrap();
    let (mut ordered, mut batch) = (Batch::default(), Batch::default());
    reader.fill(3..20, &mut ordered).unwrap();
    ordered.check_labelled(&features, 0, 2).unwrap();
    assert!(ordered.check(&features, 0).is_err(), "one label is another batch");
    assert_eq!(ordered.labels, samples().labels[6..40]);
    assert_eq!(ordered.sample_weights, samples().weights[3..20]);
    let order = Shuffle { seed: 3, epoch: 0, window: 50 };
    reader.fill_shuffled(3..20, &order, &mut batch).unwrap();
    for (at, &row) in batch.values.iter().enumerate() {
        let i = row as usize;
        assert_eq!(batch.labels[2 * at..][..2], samples().labels[2 * i..][..2]);
        assert_eq!(batch.sample_weights[at], samples().weights[i]);
    }
    let mut part = Batch::default();
    part.copy_range(&ordered, 2..5);
    assert_eq!(
        (&part.labels[..], &part.sample_weights[..]),
        (&ordered.labels[4..10], &ordered.sample_weights[2..5])
    );
}

#[test]
fn headers_and_columns_of_another_log_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = written(folder.path());
    let open = || PreparedLog::open(folder.path()).map_err(|e: DataError| e.to_string());
    let forge = |change: &dyn Fn(&mut Manifest)| {
        let mut forged = manifest.clone();
        change(&mut forged);
        forged.write(folder.path()).unwrap();
        open().map(|_| ()).unwrap_err()
    };
    // A manifest for one label: neither header nor blocks are its own.
    let one = forge(&|m| {
        m.schema.label = LabelColumn { column: "click".into(), positive_from: None };
        m.schema.labels.clear();
        m.labels.clear();
    });
    assert!(one.contains("its header is not the one the manifest calls for"), "{one}");
    assert!(forge(&|m| m.labels[1].clicks = 51).contains("51 clicks of label buy in 50 samples"));
    assert!(forge(&|m| m.sample_weights = None).contains("its sample weights are not those"));
    assert!(forge(&|m| m.kept.truncate(1)).contains("its kept columns are not those"));
    manifest.clone().write(folder.path()).unwrap();
    open().unwrap();
}

#[test]
fn texts_are_limited_and_samples_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema { labels: vec![], label: Schema::criteo().label, weight: None, ..schema() };
    let schema = Schema { keep: vec!["user".into()], ..schema };
    let mut writer = Writer::create(folder.path(), &schema, &[None], WriterOptions::default()).unwrap();
    let mut samples = Samples::of(&schema);
    for i in 0..MAX_TEXTS + 10 {
        samples.labels.push(0.0);
        let text = if i == 1 { "x".repeat(300) } else { format!("u{i}") };
        samples.kept[0].push(text.as_bytes());
        samples.bags[0].ids.push(0);
    }
    writer.append(&samples).unwrap();
    let mut short = samples.clone();
    short.kept[0].keys.pop();
    assert!(writer.append(&short).unwrap_err().to_string().contains("kept columns"));
    let mut weighted = samples.clone();
    weighted.weights = vec![1.0; weighted.len()];
    assert!(writer.append(&weighted).unwrap_err().to_string().contains("sample weights, expected 0"));
    let manifest = writer.finish(About::default()).unwrap();
    assert_eq!(manifest.kept[0].texts.len(), MAX_TEXTS);
    assert_eq!(manifest.kept[0].texts[1], "u2");
}
