//! Transforms that are learnt, texts of ids and buckets, from logs in text and in Parquet.

use data::prepare::{self, Learnt, LearntDifference, PrepareProgress, RawLog, RowDivision};
use data::prepared::{Manifest, PreparedLog};
use data::{Policy, Reading, Samples};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use spec::run::{DataFormat, Split, SplitBy};
use spec::schema::{LearntStep, Schema};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROWS: usize = 3000;

/// A number that looks random, and is sometimes missing.
fn price(row: usize) -> Option<f64> {
    let number = (row * 7919) % 1009;
    let factor = if row >= ROWS / 2 { 1000.0 } else { 0.25 };
    (!number.is_multiple_of(11)).then_some(number as f64 * factor)
}

fn city(row: usize) -> String {
    match row % 5 {
        0 => String::new(),
        1 => "Bergen, \"west\"".into(),
        2 | 3 => "Oslo".into(),
        _ => format!("c{}", row % 40),
    }
}

fn schema() -> Schema {
    serde_json::from_value(serde_json::json!({
        "label": { "column": "click" },
        "dense": [
            { "column": "price", "transform": ["log", "standardise"] },
            { "column": "again", "transform": { "bucketise": 4 }, "missing": -1.0 },
        ],
        "sparse": [
            { "column": "city", "ids": "vocabulary" },
            { "column": "price", "ids": "buckets", "rows": 5 },
        ],
    }))
    .unwrap()
}

fn text_log(folder: &Path) -> PathBuf {
    let path = folder.join("log.csv");
    let mut text = "click,price,again,city\n".to_owned();
    for row in 0..ROWS {
        let price = price(row).map_or(String::new(), |price| price.to_string());
        text += &format!("{},{price},{price},\"{}\"\n", row % 3 / 2, city(row).replace('"', "\"\""));
    }
    fs::write(&path, text).unwrap();
    path
}

fn parquet_log(folder: &Path) -> PathBuf {
    let path = folder.join("log.parquet");
    let schema = "message log { required boolean click; optional double price; optional double again; \
                  required binary city (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(fs::File::create(&path).unwrap(), schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let clicks: Vec<bool> = (0..ROWS).map(|row| row % 3 == 2).collect();
    column.typed::<BoolType>().write_batch(&clicks, None, None).unwrap();
    column.close().unwrap();
    for _ in ["price", "again"] {
        let present: Vec<i16> = (0..ROWS).map(|row| i16::from(price(row).is_some())).collect();
        let prices: Vec<f64> = (0..ROWS).filter_map(price).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&prices, Some(&present), None).unwrap();
        column.close().unwrap();
    }
    let mut column = group.next_column().unwrap().unwrap();
    let cities: Vec<ByteArray> = (0..ROWS).map(|row| ByteArray::from(city(row).as_str())).collect();
    column.typed::<ByteArrayType>().write_batch(&cities, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    path
}

fn raw<'a>(files: &'a [PathBuf], schema: &'a Schema, threads: usize) -> RawLog<'a> {
    let format = match files[0].extension().is_some_and(|end| end == "csv") {
        true => DataFormat::Csv,
        false => DataFormat::Parquet,
    };
    let (policy, reading) = (Policy::default(), Reading::default());
    RawLog { format, files, table: None, schema, policy, threads, memory: 64 << 20, stop: None, reading }
}

fn all(folder: &Path) -> (Manifest, Samples) {
    let log = PreparedLog::open(folder).unwrap();
    let mut samples = Samples::default();
    assert_eq!(log.manifest().blocks(), 1);
    log.read_block(0, &mut samples).unwrap();
    (log.manifest().clone(), samples)
}

const SILENT: &(dyn Fn(PrepareProgress) + Sync) = &|_| ();

#[test]
fn text_and_parquet_have_the_same_samples_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let schema = schema();
    let logs = [(text_log(folder.path()), 1), (text_log(folder.path()), 4), (parquet_log(folder.path()), 1)];
    let prepared = logs.map(|(file, threads)| {
        let out = folder.path().join("out");
        let manifest = prepare::prepare(&raw(&[file], &schema, threads), &out, None, SILENT).unwrap();
        let texts = fs::read_to_string(out.join(prepare::texts_file(0))).unwrap();
        (manifest.transforms, all(&out).1, texts, manifest.files)
    });
    let (transforms, samples, texts, _) = &prepared[0];
    assert!(prepared.iter().all(|other| *other == prepared[0]));
    // The formulas, on all rows.
    let logs: Vec<f64> = (0..ROWS).filter_map(price).map(f64::ln_1p).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let deviation = (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
    let learnt = transforms.as_ref().unwrap();
    let [LearntStep::Log, LearntStep::Standardise { mean: got, deviation: spread }] = &learnt[0].steps[..]
    else {
        panic!("{learnt:?}")
    };
    assert!((got - mean).abs() < 1e-9 && (spread - deviation).abs() < 1e-9);
    let [LearntStep::Bucketise { boundaries }] = &learnt[1].steps[..] else { panic!("{learnt:?}") };
    assert_eq!(boundaries.len(), 3);
    for row in 0..ROWS {
        let (inputs, bucket) = (&samples.dense[row * 2..][..2], samples.bags[1].ids[row]);
        match price(row) {
            None => assert_eq!((inputs, bucket), (&[0.0, -1.0][..], 0)),
            Some(price) => {
                let expected = (price.ln_1p() - mean) / deviation;
                assert!((f64::from(inputs[0]) - expected).abs() < 1e-6, "{row}: {inputs:?}, {expected}");
                let below = boundaries.iter().filter(|boundary| **boundary < price).count();
                assert_eq!((inputs[1], bucket), ((below as f64 / 3.0) as f32, below as u64 + 1));
            }
        }
    }
    // Texts of ids, by row: the most frequent first.
    let first = "row,id,count\n1,Oslo,1200\n2,\"Bergen, \"\"west\"\"\",600\n";
    assert!(texts.starts_with(first), "{texts}");
    assert_eq!(texts.lines().count(), 1 + 2 + 8);
    let keys = prepare::vocabularies(&PreparedLog::open(&folder.path().join("out")).unwrap()).unwrap();
    let vocabulary = keys[0].as_ref().unwrap();
    for line in texts.lines().skip(3) {
        let [row, id, count] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(prepare::is_text_of(id.as_bytes(), vocabulary.keys()[row.parse::<usize>().unwrap() - 1]));
        assert_eq!(count, "75");
    }
}

#[test]
fn held_out_rows_teach_nothing_and_other_logs_use_what_was_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let (schema, files) = (schema(), [text_log(folder.path())]);
    let path = |name: &str| folder.path().join(name);
    let log = raw(&files, &schema, 2);
    // Prices of the second half are a thousand times as large.
    let split = Split { share: 0.5, by: SplitBy::Order };
    let parts =
        prepare::prepare_split(&log, &RowDivision::of(split), &path("train"), &path("eval"), SILENT).unwrap();
    assert_eq!((parts.train.samples, parts.eval.samples), (1500, 1500));
    assert_eq!(parts.train.transforms, parts.eval.transforms);
    let first: String =
        fs::read_to_string(&files[0]).unwrap().lines().take(1501).map(|l| l.to_owned() + "\n").collect();
    fs::write(path("first.csv"), first).unwrap();
    let alone = [path("first.csv")];
    prepare::prepare(&raw(&alone, &schema, 3), &path("alone"), None, SILENT).unwrap();
    let (manifest, samples) = all(&path("alone"));
    assert_eq!((&manifest.transforms, &samples), (&parts.train.transforms, &all(&path("train")).1));
    assert!(path("train").join(prepare::texts_file(0)).is_file());
    assert!(!path("train").join(prepare::texts_file(1)).exists(), "buckets have no texts");
    // A second log, prepared like the first, has the inputs of the first.
    let learnt = Learnt::of(&PreparedLog::open(&path("train")).unwrap()).unwrap();
    prepare::prepare(&log, &path("like"), Some(&learnt), SILENT).unwrap();
    let (train, eval, both) = (all(&path("train")).1, all(&path("eval")).1, all(&path("like")).1);
    assert_eq!(both.dense, [train.dense, eval.dense].concat());
    // What was learnt for another schema, or not at all, is refused.
    let nothing = Learnt { transforms: None, ..learnt.clone() };
    let error = prepare::prepare(&log, &path("none"), Some(&nothing), SILENT).unwrap_err().to_string();
    assert!(error.contains("the learnt values of the transform of price are missing"), "{error}");
    let mut other = learnt.clone();
    other.transforms.as_mut().unwrap()[1].steps = vec![LearntStep::Log];
    let error = prepare::prepare(&log, &path("other"), Some(&other), SILENT).unwrap_err().to_string();
    assert!(error.contains("the learnt transform of again is not that of the schema"), "{error}");
    let difference = |one: &Learnt| one.difference(&other, &schema);
    assert_eq!(difference(&learnt), Some(LearntDifference::Transform("again".into())));
    assert_eq!(difference(&nothing), Some(LearntDifference::Transform("price".into())));
    assert_eq!(difference(&other), None);
}
