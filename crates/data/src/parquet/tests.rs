use super::*;
use crate::Bags;
use ::parquet::basic::{Compression, Encoding};
use ::parquet::data_type::{
    ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
};
use ::parquet::file::properties::{WriterProperties, WriterVersion};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use spec::schema::{DenseColumn, IdRule, LabelColumn, SparseColumn, Transform};
use std::fs;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// What the rows of a file become.
type Outcome = Result<(Samples, Vec<String>), DataError>;

fn read(path: &Path, schema: &Schema) -> Outcome {
    let files = [path.to_owned()];
    let mut all = Samples::default();
    let mut faults = vec![];
    let mut bad = |row: BadRow| {
        faults.push(format!("{}, {}: {}", row.row, row.column, row.problem));
        Ok(())
    };
    let mut sink = |samples: &Samples| {
        all = samples.clone();
        Ok(())
    };
    decode(
        &ParquetLog { files: &files, schema, batch_rows: 4096, reading: Default::default() },
        &mut bad,
        &|_, _| (),
        &mut sink,
    )?;
    Ok((all, faults))
}

/// Writes the columns of one row group, one closure each.
fn write(
    path: &Path,
    message: &str,
    properties: WriterProperties,
    columns: &[&dyn Fn(&mut SerializedColumnWriter)],
) {
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut writer =
        SerializedFileWriter::new(fs::File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for write_column in columns {
        let mut column = group.next_column().unwrap().unwrap();
        write_column(&mut column);
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

fn put<T: DataType>(
    column: &mut SerializedColumnWriter,
    values: &[T::T],
    definitions: &[i16],
    repetitions: &[i16],
) {
    let definitions = (!definitions.is_empty()).then_some(definitions);
    let repetitions = (!repetitions.is_empty()).then_some(repetitions);
    column.typed::<T>().write_batch(values, definitions, repetitions).unwrap();
}

fn bytes<T: From<Vec<u8>>>(texts: &[&str]) -> Vec<T> {
    texts.iter().map(|text| T::from(text.as_bytes().to_vec())).collect()
}

fn keys(texts: &[&str]) -> Vec<u64> {
    texts.iter().map(|text| xxh3_64(text.as_bytes())).collect()
}

fn schema(dense: &[&str], sparse: Vec<SparseColumn>) -> Schema {
    let dense = dense.iter().map(|&column| DenseColumn {
        column: column.into(),
        transform: Transform::Log,
        missing: -1.0,
    });
    Schema {
        columns: None,
        label: LabelColumn { column: "label".into(), positive_from: None },
        dense: dense.collect(),
        sparse,
        ..Schema::criteo()
    }
}

fn id(column: &str) -> SparseColumn {
    SparseColumn::hashed(column.into())
}

#[test]
fn older_lists_and_fixed_bytes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.parquet");
    let message = "message log {
        required float label;
        repeated int32 bare;
        optional group two_level (LIST) { repeated binary array (UTF8); }
        required fixed_len_byte_array(3) code;
    }";
    write(
        &path,
        message,
        WriterProperties::new(),
        &[
            &|c| put::<FloatType>(c, &[1.0, 0.0, 1.0], &[], &[]),
            &|c| put::<Int32Type>(c, &[7, -8, 9], &[1, 1, 0, 1], &[0, 1, 0, 0]),
            &|c| put::<ByteArrayType>(c, &bytes(&["a", "b"]), &[0, 1, 2, 2], &[0, 0, 0, 1]),
            &|c| put::<FixedLenByteArrayType>(c, &bytes(&["abc", "def", "ghi"]), &[], &[]),
        ],
    );
    let list = |column| SparseColumn { list: true, ..id(column) };
    let (samples, faults) =
        read(&path, &schema(&[], vec![list("bare"), list("two_level"), id("code")])).unwrap();
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(samples.labels, [1.0, 0.0, 1.0]);
    assert_eq!(samples.bags[0].lengths, [2, 0, 1]);
    assert_eq!(samples.bags[0].ids, keys(&["7", "-8", "9"]));
    assert_eq!(samples.bags[1].lengths, [0, 0, 2]);
    assert_eq!(samples.bags[1].ids, keys(&["a", "b"]));
    assert_eq!(samples.bags[2].ids, keys(&["abc", "def", "ghi"]));
}

#[test]
fn every_kind_of_bad_value_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.parquet");
    let message = "message log {
        optional double label;
        optional double price;
        required binary row (UTF8);
        optional float weight;
        required binary words (UTF8);
        required binary word_weights (UTF8);
    }";
    write(
        &path,
        message,
        WriterProperties::new(),
        &[
            &|c| {
                put::<DoubleType>(
                    c,
                    &[1.0, f64::NAN, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
                    &[1, 0, 1, 1, 1, 1, 1, 1, 1, 1],
                    &[],
                )
            },
            &|c| {
                let prices = [1.0, 1.0, 1.0, f64::NAN, f64::NEG_INFINITY, 1.0, 1.0, 1.0, 1.0];
                put::<DoubleType>(c, &prices, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 0], &[])
            },
            &|c| {
                put::<ByteArrayType>(
                    c,
                    &bytes(&["3", "3", "3", "3", "3", "+3", "4", "3", "3", "NA"]),
                    &[],
                    &[],
                )
            },
            &|c| {
                let weights = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, f32::INFINITY, 0.5, 0.25];
                put::<FloatType>(c, &weights, &[1; 10], &[])
            },
            &|c| put::<ByteArrayType>(c, &bytes(&["a|b|", "", "", "", "", "", "", "", "a", "NA"]), &[], &[]),
            &|c| put::<ByteArrayType>(c, &bytes(&["1|2|3", "", "", "", "", "", "", "", "1|x", ""]), &[], &[]),
        ],
    );
    let row = SparseColumn { ids: IdRule::Index, rows: Some(4), weights: Some("weight".into()), ..id("row") };
    let words = SparseColumn { separator: Some('|'), weights: Some("word_weights".into()), ..id("words") };
    let schema = Schema { missing: vec!["NA".into()], ..schema(&["price"], vec![row, words]) };
    let (samples, faults) = read(&path, &schema).unwrap();
    assert_eq!(
        faults,
        [
            "2, label: the label is missing",
            "3, label: expected a label of 0 or 1, got NaN; other numbers need label.positive_from",
            "4, price: expected a finite number, got NaN",
            "5, price: expected a finite number, got -inf",
            "6, row: expected a row number below 4, got \"+3\"",
            "7, row: expected a row number below 4, got \"4\"",
            "8, weight: expected a finite weight, got inf",
            "9, word_weights: expected a finite weight, got \"x\"",
        ]
    );
    assert_eq!(
        samples,
        Samples {
            labels: vec![1.0, 1.0],
            dense: vec![2f64.ln() as f32, -1.0],
            numbers: vec![],
            bags: vec![
                Bags { lengths: vec![], ids: vec![3, 0], weights: vec![0.5, 0.25], texts: None },
                Bags {
                    lengths: vec![3, 0],
                    ids: keys(&["a", "b", ""]),
                    weights: vec![1.0, 2.0, 3.0],
                    texts: None
                },
            ],
            ..Samples::default()
        }
    );
}

/// Small files that exercise most decoders, with the schema to read them by.
fn specimens(folder: &Path) -> Vec<(PathBuf, Schema)> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let tags = SparseColumn { list: true, weights: Some("tag_weights".into()), ..id("tags") };
    let seen = SparseColumn { list: true, ..id("seen") };
    let mut clicks = schema(&["price", "visits"], vec![id("user"), id("item"), id("big"), tags, seen]);
    clicks.label.column = "clicked".into();
    let mut specimens: Vec<_> = ["clicks.snappy.parquet", "clicks.zstd.parquet"]
        .map(|name| (golden.join(name), clicks.clone()))
        .into();
    let message = "message log {
        required int32 label;
        required binary word (UTF8);
        required group words (LIST) { repeated group list { required binary element (UTF8); } }
    }";
    let kinds = [
        (Encoding::DELTA_LENGTH_BYTE_ARRAY, WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED),
        (Encoding::DELTA_BYTE_ARRAY, WriterVersion::PARQUET_2_0, Compression::LZ4_RAW),
        (Encoding::DELTA_BYTE_ARRAY, WriterVersion::PARQUET_1_0, Compression::GZIP(Default::default())),
        (Encoding::PLAIN, WriterVersion::PARQUET_2_0, Compression::UNCOMPRESSED),
    ];
    for (index, (encoding, version, compression)) in kinds.into_iter().enumerate() {
        let path = folder.join(format!("{index}.parquet"));
        let properties =
            WriterProperties::builder().set_dictionary_enabled(false).set_writer_version(version);
        let properties = properties.set_compression(compression);
        let properties = properties.set_column_encoding("word".into(), encoding);
        let properties = properties.set_column_encoding("words.list.element".into(), encoding).build();
        let words: Vec<String> = (0..300).map(|i| format!("word-{}", i * i)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        write(
            &path,
            message,
            properties,
            &[
                &|c| put::<Int32Type>(c, &(0..300).map(|i| i % 2).collect::<Vec<_>>(), &[], &[]),
                &|c| put::<ByteArrayType>(c, &bytes(&words), &[], &[]),
                &|c| {
                    let repetitions: Vec<i16> = (0..600).map(|i| i % 2).collect();
                    put::<ByteArrayType>(
                        c,
                        &bytes(&[words.clone(), words.clone()].concat()),
                        &[1; 600],
                        &repetitions,
                    )
                },
            ],
        );
        specimens.push((path, schema(&[], vec![id("word"), SparseColumn { list: true, ..id("words") }])));
    }
    specimens
}

#[test]
fn all_encodings_and_compressions_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut outcomes =
        specimens(folder.path()).into_iter().map(|(path, schema)| read(&path, &schema).unwrap());
    assert_eq!(outcomes.next().unwrap().0.len(), 20);
    // The second has three row groups; the last comes last.
    assert_eq!(outcomes.next().unwrap().0.len(), 6);
    let first = outcomes.next().unwrap();
    assert!(first.1.is_empty());
    assert_eq!(first.0.len(), 300);
    assert_eq!(first.0.bags[0].ids[17], xxh3_64(b"word-289"));
    assert_eq!(first.0.bags[1].lengths, [2; 300]);
    assert_eq!(first.0.bags[1].ids[..300], first.0.bags[0].ids);
    for outcome in outcomes {
        assert_eq!(outcome, first);
    }
}

/// Reads damaged files. Whatever comes out, samples or an error, it comes out.
fn damaged(cases: u32) {
    let folder = tempfile::tempdir().unwrap();
    let specimens: Vec<(Vec<u8>, Schema)> = specimens(folder.path())
        .into_iter()
        .map(|(path, schema)| (fs::read(path).unwrap(), schema))
        .collect();
    let path = folder.path().join("damaged.parquet");
    let flips = prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..4);
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let mut runner = prop::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let outcome = runner.run(&(0..specimens.len(), flips, cut), |(specimen, flips, cut)| {
        let (whole, schema) = &specimens[specimen];
        let mut file = whole.clone();
        for (at, mask) in flips {
            *at.get_mut(&mut file) ^= mask;
        }
        if let Some(cut) = cut {
            // The ends stay, so that the damage is not found at once.
            let tail = file.split_off(file.len() - 8 - cut.index(file.len() / 2));
            file.truncate(file.len() - cut.index(file.len() / 4));
            file.extend(tail);
        }
        fs::write(&path, &file).unwrap();
        match read(&path, schema) {
            Ok((samples, faults)) => prop_assert!(samples.len() + faults.len() <= 300),
            Err(error) => prop_assert!(error.to_string().contains("damaged.parquet"), "{}", error),
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn damaged_files_give_errors() {
    damaged(400);
}

/// The same in a process that may have no more than 4 GiB: the format itself allows pages of 2.
#[test]
#[cfg(target_os = "linux")]
fn damaged_files_take_bounded_memory() {
    let this = std::env::current_exe().unwrap();
    let limited = "ulimit -v 4194304 && exec \"$0\" --exact parquet::tests::damaged_files_give_errors";
    let child = std::process::Command::new("sh").args(["-c", limited]).arg(this).output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"));
}

#[test]
fn files_cut_off_anywhere_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, schema) = specimens(folder.path()).swap_remove(0);
    let whole = fs::read(path).unwrap();
    let cut = folder.path().join("cut.parquet");
    for length in (0..whole.len()).step_by(37).chain([whole.len() - 1]) {
        fs::write(&cut, &whole[..length]).unwrap();
        let error = read(&cut, &schema).unwrap_err().to_string();
        assert!(error.contains("cut.parquet: "), "{error}");
    }
}

#[test]
fn lengths_that_do_not_exist_are_not_believed() {
    // 128 values a block, 4 miniblocks, 2⁶² lengths.
    let mut header = vec![0x80, 1, 4];
    header.extend([0x80; 8]);
    header.extend([0x40, 0]);
    assert!(!delta::counts_fit(&header, 1000, false));
    // Two lengths in one block with widths 0: 5 and 5; then the same again, or as many as one likes.
    let two = [0x80, 1, 4, 2, 10, 0, 0, 0, 0, 0];
    assert!(delta::counts_fit(&two, 2, false));
    assert!(!delta::counts_fit(&two, 1, false));
    assert!(delta::counts_fit(&[two, two].concat(), 2, true));
    assert!(!delta::counts_fit(&[&two[..], &header].concat(), 2, true));
    assert!(!delta::counts_fit(&two, 2, true));
}
