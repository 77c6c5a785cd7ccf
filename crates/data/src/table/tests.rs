//! Tables: the samples of their rows are those of the same rows in a text, and nothing in a buffer can break a reader.

use super::{Bits, Chunk, ColumnType, Offsets, Table, Values};
use crate::DataError;
use crate::bad_lines::Policy;
use crate::discover::{Request, Role, discover_table};
use crate::prepare::RawLog;
use crate::rows::Reading;
use crate::{Samples, id};
use spec::run::DataFormat;
use spec::schema::Schema;
use std::sync::Arc;

fn bits(values: &[bool]) -> Bits {
    let mut bytes = vec![0u8; values.len().div_ceil(8)];
    values.iter().enumerate().for_each(|(at, &value)| bytes[at / 8] |= u8::from(value) << (at % 8));
    Bits { bytes: Arc::new(bytes), offset: 0 }
}

fn texts(values: &[&str]) -> Chunk {
    let mut offsets = vec![0i32];
    values.iter().for_each(|value| offsets.push(offsets[offsets.len() - 1] + value.len() as i32));
    let bytes = values.concat().into_bytes();
    let values = Values::Bytes { offsets: Offsets::Small(Arc::new(offsets)), bytes: Arc::new(bytes) };
    Chunk::new(values_len(&values), values)
}

fn values_len(values: &Values) -> usize {
    let Values::Bytes { offsets: Offsets::Small(offsets), .. } = values else { return 0 };
    offsets.as_ref().as_ref().len() - 1
}

fn table(columns: Vec<(&str, Chunk)>) -> Table {
    let types = columns.iter().map(|(name, chunk)| ColumnType::of(name, chunk)).collect();
    let rows = columns[0].1.len();
    let mut table = Table::new(types).unwrap();
    table.push(rows, columns.into_iter().map(|(_, chunk)| chunk).collect()).unwrap();
    table
}

fn read(table: &Table, schema: &str) -> Result<(Samples, u64), DataError> {
    let schema: Schema = serde_json::from_str(schema).unwrap();
    let log = RawLog {
        format: DataFormat::Parquet,
        files: &[],
        table: Some(table),
        schema: &schema,
        policy: Policy { strict: false, max_share: 1.0 },
        threads: 1,
        memory: 1 << 30,
        stop: None,
        reading: Reading::default(),
    };
    let mut all = Samples::default();
    let bad = log.decode(&[], &|_| (), &mut |samples| {
        all = samples.clone();
        Ok(())
    })?;
    Ok((all, bad.count))
}

const SCHEMA: &str = r#"{
    "label": { "column": "click" },
    "dense": [{ "column": "price" }],
    "sparse": [{ "column": "user", "rows": 100 }, { "column": "tags", "rows": 100, "list": true }]
}"#;

fn clicks() -> Vec<(&'static str, Chunk)> {
    let tags = Values::List {
        offsets: Offsets::Large(Arc::new(vec![0, 2, 2, 3])),
        items: Box::new(texts(&["a", "b", "c"])),
    };
    vec![
        ("click", Chunk::new(3, Values::Bool(bits(&[true, false, true])))),
        (
            "price",
            Chunk::new(3, Values::Float32(Arc::new(vec![1.5, 9.0, 2.5])))
                .with_validity(Some(bits(&[true, false, true]))),
        ),
        ("user", Chunk::new(3, Values::UInt16(Arc::new(vec![7, 8, 7])))),
        ("tags", Chunk::new(3, tags).with_validity(Some(bits(&[true, true, true])))),
    ]
}

#[test]
fn rows_become_samples_where_they_lie() {
    let (samples, bad) = read(&table(clicks()), SCHEMA).unwrap();
    assert_eq!((samples.labels, bad), (vec![1.0, 0.0, 1.0], 0));
    assert_eq!(samples.dense, [1.5, 0.0, 2.5], "a null is the schema's missing value");
    assert_eq!(samples.bags[0].ids, [id::key(b"7"), id::key(b"8"), id::key(b"7")], "an id is its text");
    assert_eq!(samples.bags[1].lengths, [2, 0, 1]);
    assert_eq!(samples.bags[1].ids, [id::key(b"a"), id::key(b"b"), id::key(b"c")]);
}

#[test]
fn categories_are_read_as_their_values() {
    let mut columns = clicks();
    let keys = Box::new(Values::Int8(Arc::new(vec![1, 0, 1])));
    columns[2].1 = Chunk::new(3, Values::Dictionary { keys, values: Box::new(texts(&["x", "y"])) });
    let (samples, _) = read(&table(columns), SCHEMA).unwrap();
    assert_eq!(samples.bags[0].ids, [id::key(b"y"), id::key(b"x"), id::key(b"y")]);
}

#[test]
fn a_key_outside_of_its_categories_is_a_missing_id() {
    let mut columns = clicks();
    let keys = Box::new(Values::Int8(Arc::new(vec![-1, 0, 9])));
    columns[2].1 = Chunk::new(3, Values::Dictionary { keys, values: Box::new(texts(&["x", "y"])) });
    let (samples, _) = read(&table(columns), SCHEMA).unwrap();
    assert_eq!(samples.bags[0].ids, [id::key(b""), id::key(b"x"), id::key(b"")]);
}

#[test]
fn a_number_that_is_none_is_a_bad_row() {
    let mut columns = clicks();
    columns[1].1 = Chunk::new(3, Values::Float64(Arc::new(vec![1.0, f64::NAN, 2.0])));
    let (samples, bad) = read(&table(columns), SCHEMA).unwrap();
    assert_eq!((samples.labels.len(), bad), (2, 1));
}

#[test]
fn wrong_types_name_the_column_and_what_would_do() {
    let mut columns = clicks();
    columns[1].1 = texts(&["a", "b", "c"]);
    let error = read(&table(columns), SCHEMA).unwrap_err().to_string();
    assert!(error.contains("price") && error.contains("holds strings; expected booleans"), "{error}");
    let mut columns = clicks();
    columns[2].1 = Chunk::new(3, Values::Other("struct of x, y".into()));
    let error = read(&table(columns), SCHEMA).unwrap_err().to_string();
    assert!(error.contains("user") && error.contains("struct of x, y"), "{error}");
    let error = read(&table(clicks()[..3].to_vec()), SCHEMA).unwrap_err().to_string();
    assert!(error.contains("tags") && error.contains("its columns are"), "{error}");
}

#[test]
fn buffers_that_are_too_short_are_refused() {
    let push = |chunk: Chunk| {
        let mut table = Table::new(vec![ColumnType::of("a", &chunk)]).unwrap();
        table.push(chunk.len(), vec![chunk]).map_err(|error| error.to_string())
    };
    let offsets = |offsets: Vec<i32>| Values::Bytes {
        offsets: Offsets::Small(Arc::new(offsets)),
        bytes: Arc::new(vec![0u8; 4]),
    };
    assert!(push(Chunk::new(2, offsets(vec![0, 2, 4]))).is_ok());
    for chunk in [
        Chunk::new(4, Values::Int32(Arc::new(vec![1, 2, 3]))),
        Chunk::new(9, Values::Bool(bits(&[true; 8]))),
        Chunk::new(1, Values::Int64(Arc::new(vec![1])))
            .with_validity(Some(Bits { bytes: Arc::new(vec![1u8]), offset: 8 })),
        Chunk::new(2, offsets(vec![0, 2, 5])),
        Chunk::new(2, offsets(vec![0, 3, 2])),
        Chunk::new(2, offsets(vec![-1, 3, 4])),
        Chunk::new(3, offsets(vec![0, 2, 4])),
    ] {
        assert!(push(chunk).unwrap_err().contains("column a"));
    }
}

#[test]
fn columns_differ_in_name_and_agree_in_length() {
    let chunk = || Chunk::new(1, Values::Int64(Arc::new(vec![1])));
    let types = |names: [&str; 2]| names.map(|name| ColumnType::of(name, &chunk())).to_vec();
    let error = Table::new(types(["a", "a"])).unwrap_err().to_string();
    assert!(error.contains("two columns named `a`"), "{error}");
    let mut table = Table::new(types(["a", "b"])).unwrap();
    let longer = Chunk::new(2, Values::Int64(Arc::new(vec![1, 2])));
    let error = table.push(1, vec![chunk(), longer]).unwrap_err().to_string();
    assert!(error.contains("column b") && error.contains("2 rows"), "{error}");
    assert_eq!(table.rows(), 0);
}

#[test]
fn roles_are_found_by_types() {
    let rows = 200usize;
    let column = |make: &dyn Fn(usize) -> i64| {
        Chunk::new(rows, Values::Int64(Arc::new((0..rows).map(make).collect::<Vec<_>>())))
    };
    let prices: Vec<f64> = (0..rows).map(|i| i as f64 * 0.37 + 0.5).collect();
    let names: Vec<String> = (0..rows).map(|i| format!("u{}", i % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let table = table(vec![
        ("clicked", column(&|i| i64::from(i % 3 == 0))),
        ("price", Chunk::new(rows, Values::Float64(Arc::new(prices)))),
        ("user", texts(&names)),
    ]);
    let found = discover_table(&table, &Request::default()).unwrap();
    let roles: Vec<Role> = found.columns.iter().map(|column| column.role).collect();
    assert_eq!(roles, [Role::Label, Role::Number, Role::Id]);
}
