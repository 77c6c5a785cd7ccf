//! Files written by another implementation: see `golden/clicks.py`.

use data::{DataError, ParquetLog, Samples};
use serde_json::Value;
use spec::schema::{DenseColumn, IdRule, LabelColumn, Schema, SparseColumn, Transform};
use std::cell::Cell;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(golden("clicks.json")).unwrap()).unwrap()
}

fn schema() -> Schema {
    let id = |column: &str| SparseColumn::hashed(column.into());
    let dense = |column: &str, transform, missing| DenseColumn { column: column.into(), transform, missing };
    Schema {
        label: LabelColumn { column: "clicked".into(), positive_from: None },
        dense: vec![dense("price", Transform::None, -1.0), dense("visits", Transform::Log, 0.5)],
        columns: None,
        sparse: vec![
            id("user"),
            id("item"),
            id("big"),
            SparseColumn { ids: IdRule::Index, rows: Some(10), ..id("row") },
            SparseColumn { list: true, weights: Some("tag_weights".into()), ..id("tags") },
            SparseColumn { list: true, ids: IdRule::Vocabulary, ..id("seen") },
            SparseColumn { separator: Some('|'), weight_separator: Some(':'), ..id("words") },
        ],
        ..Schema::criteo()
    }
}

/// All samples of some files, and the rows that were none.
fn decode(files: &[&str], schema: &Schema, batch_rows: usize) -> Result<(Samples, Vec<String>), DataError> {
    let files: Vec<PathBuf> = files.iter().map(|name| golden(name)).collect();
    let mut all = Samples::new(schema.sparse.len());
    let mut faults = vec![];
    let progress = std::sync::Mutex::new((0, 0));
    let batches = Cell::new(0);
    let log = ParquetLog { files: &files, schema, batch_rows, reading: Default::default() };
    let mut bad = |row: data::BadRow| {
        faults.push(format!("{}, {}: {}", row.row, row.column, row.problem));
        Ok(())
    };
    let mut sink = |samples: &Samples| {
        assert!(samples.len() <= batch_rows);
        batches.set(batches.get() + 1);
        all.labels.extend(&samples.labels);
        all.dense.extend(&samples.dense);
        for (all, bags) in all.bags.iter_mut().zip(&samples.bags) {
            all.lengths.extend(&bags.lengths);
            all.ids.extend(&bags.ids);
            all.weights.extend(&bags.weights);
        }
        Ok(())
    };
    let count = data::parquet::decode(
        &log,
        &mut bad,
        &|done, total| *progress.lock().unwrap() = (done, total),
        &mut sink,
    )?;
    assert_eq!(count, all.len() as u64);
    let rows = 20 * files.len() as u64;
    assert_eq!(*progress.lock().unwrap(), (rows, rows));
    Ok((all, faults))
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn keys(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|key| key.as_str().unwrap().parse().unwrap()).collect()
}

/// The lengths of lists, and their concatenation.
fn flat<T>(value: &Value, of: fn(&Value) -> Vec<T>) -> (Vec<u32>, Vec<T>) {
    let lists: Vec<Vec<T>> = value.as_array().unwrap().iter().map(of).collect();
    (lists.iter().map(|list| list.len() as u32).collect(), lists.into_iter().flatten().collect())
}

#[test]
fn both_files_hold_what_their_author_says() {
    let (schema, expected) = (schema(), expected());
    for (file, batch_rows) in [
        ("clicks.snappy.parquet", 4096),
        ("clicks.snappy.parquet", 3),
        ("clicks.zstd.parquet", 4096),
        ("clicks.zstd.parquet", 1),
    ] {
        let (samples, faults) = decode(&[file], &schema, batch_rows).unwrap();
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!(samples.labels, floats(&expected["clicked"]));
        let input = |value: &Value, missing, transform: fn(f64) -> f64| {
            value.as_f64().map_or(missing, |x| transform(x) as f32)
        };
        for row in 0..20 {
            let price = input(&expected["price"][row], -1.0, |x| x);
            let visits = input(&expected["visits"][row], 0.5, |x| (1.0 + x.max(0.0)).ln());
            assert_eq!(samples.dense[2 * row], price);
            assert!((samples.dense[2 * row + 1] - visits).abs() < 1e-6);
        }
        for (column, name) in ["user", "item", "big", "row"].into_iter().enumerate() {
            assert_eq!(samples.bags[column].ids, keys(&expected[name]), "{name}");
            assert!(samples.bags[column].lengths.is_empty() && samples.bags[column].weights.is_empty());
        }
        for (column, name, weights) in
            [(4, "tags", "tag_weights"), (5, "seen", ""), (6, "words", "word_weights")]
        {
            let (lengths, ids) = flat(&expected[name], keys);
            assert_eq!(samples.bags[column].lengths, lengths, "{name}");
            assert_eq!(samples.bags[column].ids, ids, "{name}");
            let weights = if weights.is_empty() { vec![] } else { flat(&expected[weights], floats).1 };
            assert_eq!(samples.bags[column].weights, weights, "{name}");
        }
    }
}

#[test]
fn files_follow_each_other() {
    let schema = schema();
    let (one, _) = decode(&["clicks.snappy.parquet"], &schema, 100).unwrap();
    let (two, _) = decode(&["clicks.snappy.parquet", "clicks.zstd.parquet"], &schema, 100).unwrap();
    assert_eq!(two.labels, [one.labels.clone(), one.labels].concat());
    assert_eq!(two.bags[4].ids, [one.bags[4].ids.clone(), one.bags[4].ids.clone()].concat());
}

#[test]
fn a_rating_becomes_a_label() {
    let mut schema = schema();
    schema.label = LabelColumn { column: "rating".into(), positive_from: Some(4.0) };
    let (samples, _) = decode(&["clicks.zstd.parquet"], &schema, 100).unwrap();
    assert_eq!(samples.labels, floats(&expected()["rating_from_4"]));
}

#[test]
fn bad_rows_are_reported_and_leave_nothing() {
    let mut schema = schema();
    schema.label = LabelColumn { column: "rating".into(), positive_from: None };
    schema.sparse[3].rows = Some(7);
    let expected = expected();
    for batch_rows in [4096, 4] {
        let (samples, faults) = decode(&["clicks.snappy.parquet"], &schema, batch_rows).unwrap();
        // Ratings are i % 6 and rows i % 10, missing where i % 8 is 7.
        let good: Vec<usize> = (0..20).filter(|i| i % 6 < 2 && (i % 10 < 7 || i % 8 == 7)).collect();
        assert_eq!(samples.labels, good.iter().map(|i| (i % 6) as f32).collect::<Vec<_>>());
        assert_eq!(samples.dense.len(), 2 * good.len());
        let users = keys(&expected["user"]);
        assert_eq!(samples.bags[0].ids, good.iter().map(|&i| users[i]).collect::<Vec<_>>());
        let tags: Vec<Vec<u64>> = good.iter().map(|&i| keys(&expected["tags"][i])).collect();
        assert_eq!(samples.bags[4].ids, tags.concat());
        assert_eq!(samples.bags[4].weights.len(), tags.concat().len());
        assert_eq!(samples.bags[4].lengths.len(), good.len());
        assert_eq!(faults.len(), 20 - good.len());
        assert_eq!(
            faults[0],
            "3, rating: expected a label of 0 or 1, got 2; other numbers need label.positive_from"
        );
        let row = faults.iter().find(|fault| fault.contains("row:")).unwrap();
        assert!(row.ends_with("row: expected a row number below 7, got \"8\""), "{row}");
    }
}

#[test]
fn weights_must_be_as_many_as_ids() {
    let mut schema = schema();
    schema.sparse[5].weights = Some("tag_weights".into());
    let (samples, faults) = decode(&["clicks.snappy.parquet"], &schema, 100).unwrap();
    assert_eq!(samples.len() + faults.len(), 20);
    assert_eq!(faults[0], "2, tag_weights: expected as many weights as ids of seen, got 0 weights and 1 ids");
    assert_eq!(samples.bags[5].ids.len(), samples.bags[5].weights.len());
}

#[test]
fn columns_that_cannot_serve_are_refused_by_name() {
    let refusal = |change: fn(&mut Schema)| {
        let mut schema = schema();
        change(&mut schema);
        match decode(&["clicks.snappy.parquet"], &schema, 100) {
            Err(DataError::Column { path, column, problem }) => {
                assert!(path.ends_with("clicks.snappy.parquet"));
                format!("{column}: {problem}")
            }
            other => panic!("{other:?}"),
        }
    };
    let check = |change, expected: &str| {
        let refusal = refusal(change);
        assert!(refusal.starts_with(expected), "{refusal}");
    };
    check(
        |s| s.label.column = "click".into(),
        "click: the file has no such column; its columns are clicked, rating, price",
    );
    check(
        |s| s.label.column = "user".into(),
        "user: holds BYTE_ARRAY (String); expected booleans, integers or floats",
    );
    check(
        |s| s.dense[0].column = "tag_weights".into(),
        "tag_weights: holds lists (group (List) of group of FLOAT)",
    );
    check(
        |s| s.sparse[0].column = "price".into(),
        "price: holds DOUBLE; expected strings, binary or integers",
    );
    check(
        |s| s.sparse[0].column = "day".into(),
        "day: holds INT32 (Date); expected strings, binary or integers",
    );
    check(|s| s.sparse[0].list = true, "user: holds BYTE_ARRAY (String), not lists");
    check(|s| s.sparse[4].list = false, "tags: holds lists");
    check(|s| s.sparse[1].separator = Some('|'), "item: holds INT64; expected strings, to be split");
    check(
        |s| s.sparse[4].weights = Some("tags".into()),
        "tags: holds group (List) of group of BYTE_ARRAY (String)",
    );
}
