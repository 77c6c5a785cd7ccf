use super::*;
use crate::prepared::{About, Writer, WriterOptions};
use spec::random::RandomSequence;
use spec::schema::{DenseColumn, Transform};

fn schema() -> Schema {
    let hashed = spec::schema::SparseColumn::hashed;
    let many = spec::schema::SparseColumn { separator: Some('|'), ..hashed("many".into()) };
    let index = spec::schema::SparseColumn { ids: IdRule::Index, rows: Some(900), ..hashed("index".into()) };
    let price = DenseColumn { column: "price".into(), transform: Transform::None, missing: 0.0 };
    Schema {
        columns: None,
        dense: vec![price],
        sparse: vec![hashed("one".into()), many, index],
        ..Schema::criteo()
    }
}

/// Key `k` of column "one" has the share 2^−(k+1); bags of "many" have 0, 1 or 2 ids of 10,000.
fn samples(count: u64) -> Samples {
    let stream = RandomSequence::new(1, "inspect");
    let key = |id| RandomSequence::new(2, "key").bits(id);
    let mut samples = Samples::new(3);
    for i in 0..count {
        samples.labels.push(f32::from(i % 5 == 0));
        samples.dense.push(if i % 4 == 0 { 0.0 } else { i as f32 });
        samples.bags[0].ids.push(key(u64::from(stream.bits(i).trailing_zeros())));
        samples.bags[1].lengths.push((i % 3) as u32);
        samples.bags[1].ids.extend((0..i % 3).map(|j| key(100 + stream.bits(i + j * count) % 10_000)));
        samples.bags[2].ids.push(880 + i % 2);
    }
    samples
}

#[test]
fn counts_are_those_of_the_samples() {
    let mut inspector = Inspector::new(&schema());
    for part in [40_000, 20_000] {
        inspector.add(&samples(part));
    }
    let got = inspector.finish();
    assert_eq!((got.samples, got.clicks, got.click_rate), (60_000, 12_000, 0.2));
    let price = &got.dense[0];
    assert_eq!((price.min, price.max, price.zeros), (0.0, 39_999.0, 0.25));
    assert!((price.mean - 0.75 * (20_000.0 * 2.0 + 10_000.0) / 3.0).abs() < 10.0, "{}", price.mean);
    let [one, many, index] = &got.sparse[..] else { panic!() };
    assert!(one.distinct_is_exact && (12..25).contains(&one.distinct));
    assert_eq!(one.hottest[0].key, RandomSequence::new(2, "key").bits(0));
    assert!((one.hottest[0].share - 0.5).abs() < 0.02 && (one.hottest[1].share - 0.25).abs() < 0.02);
    assert_eq!((one.mean_ids, one.max_ids, one.empty), (1.0, 1, 0.0));
    assert!(!many.distinct_is_exact && (many.distinct as f64 / 9_950.0 - 1.0).abs() < 0.04, "{many:?}");
    assert!((many.mean_ids - 1.0).abs() < 1e-3 && (many.empty - 1.0 / 3.0).abs() < 1e-3);
    assert_eq!((many.max_ids, many.suggested_rows), (2, 15_000));
    assert_eq!((index.distinct, index.suggested_rows), (2, 1_500));
}

#[test]
fn a_prepared_log_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let samples = samples(5_000);
    let mut writer =
        Writer::create(folder.path(), &schema(), &[None; 3], WriterOptions { block_samples: 999 }).unwrap();
    writer.append(&samples).unwrap();
    writer.finish(About::default()).unwrap();
    let mut inspector = Inspector::new(&schema());
    inspector.add(&samples);
    let mut expected = inspector.finish();
    for (column, hashed) in expected.sparse.iter_mut().zip([true, true, false]) {
        let keys = column.hottest.iter_mut();
        keys.filter(|_| hashed).for_each(|hot| hot.key &= !u64::from(u32::MAX));
        column.hottest.retain(|hot| hot.count_error == 0);
    }
    let mut got = inspect_prepared(&PreparedLog::open(folder.path()).unwrap()).unwrap();
    got.sparse.iter_mut().for_each(|column| column.hottest.retain(|hot| hot.count_error == 0));
    assert_eq!(got, expected);
}

#[test]
fn nothing_is_no_trouble() {
    let got = Inspector::new(&schema()).finish();
    assert_eq!((got.click_rate, got.dense[0].min, got.dense[0].mean), (0.0, 0.0, 0.0));
    assert_eq!((got.sparse[0].distinct, got.sparse[0].suggested_rows), (0, 10));
    serde_json::to_string(&got).unwrap();
}

#[test]
fn suggestions_are_round_and_large_enough() {
    let cases = [(0, 10), (8, 10), (9, 15), (1000, 1500), (1251, 2000), (4_000_000, 5_000_000)];
    for (ids, rows) in cases {
        assert_eq!(suggested_rows(ids), rows, "{ids} ids");
    }
    assert_eq!(suggested_rows(u64::MAX), 1 << 32);
    assert_eq!(suggested_rows(3_400_000_000), 1 << 32);
}
