use super::*;
use crate::vocabulary::Counter;
use proptest::prelude::*;
use spec::schema::IdRule;
use std::io::Write;
use std::sync::Mutex;
use tempfile::{TempDir, tempdir};

/// A log of generated Criteo lines, every hundredth of them bad, in three files: plain, gzip, zstd.
fn log(lines: u64) -> (TempDir, Vec<PathBuf>) {
    let folder = tempdir().unwrap();
    let mut texts = [vec![], vec![], vec![]];
    for i in 0..lines {
        let text = &mut texts[(i * 3 / lines) as usize];
        let counts: Vec<String> = (0..13).map(|j| (i * j % 1000).to_string()).collect();
        let ids: Vec<String> = (0..26).map(|j| format!("{:08x}", i * j % 77)).collect();
        let label = if i % 100 == 99 { "bad".to_owned() } else { (i % 4 / 3).to_string() };
        writeln!(text, "{label}\t{}\t{}", counts.join("\t"), ids.join("\t")).unwrap();
    }
    let paths: Vec<PathBuf> = ["a", "b", "c"].iter().map(|name| folder.path().join(name)).collect();
    std::fs::write(&paths[0], &texts[0]).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gzip.write_all(&texts[1]).unwrap();
    std::fs::write(&paths[1], gzip.finish().unwrap()).unwrap();
    std::fs::write(&paths[2], zstd::encode_all(&texts[2][..], 1).unwrap()).unwrap();
    (folder, paths)
}

fn text_log<'a>(files: &'a [PathBuf], schema: &'a Schema, threads: usize) -> TextLog<'a> {
    let policy = Policy { strict: false, max_share: 0.02 };
    TextLog {
        files,
        schema,
        vocabularies: &[],
        policy,
        threads,
        memory: 32 << 20,
        reading: Default::default(),
    }
}

fn append(all: &mut Samples, samples: &Samples) {
    all.labels.extend(&samples.labels);
    all.dense.extend(&samples.dense);
    for (all, bags) in all.bags.iter_mut().zip(&samples.bags) {
        all.lengths.extend(&bags.lengths);
        all.ids.extend(&bags.ids);
        all.weights.extend(&bags.weights);
    }
}

fn read(log: &TextLog) -> Result<(Samples, Decoded), DataError> {
    let mut all = Samples::new(log.schema.sparse.len());
    let decoded = decode(log, &|_| (), &mut |samples| {
        append(&mut all, samples);
        Ok(())
    })?;
    Ok((all, decoded))
}

#[test]
fn threads_and_memory_do_not_matter() {
    let (_folder, files) = log(20_000);
    let schema = Schema::criteo();
    let (samples, decoded) = read(&text_log(&files, &schema, 1)).unwrap();
    assert_eq!((decoded.samples, decoded.bad.count, decoded.bad.lines), (19_800, 200, 20_000));
    assert_eq!(samples.len(), 19_800);
    let first: Vec<u64> = decoded.bad.first.iter().map(|bad| bad.line).collect();
    assert_eq!(first, [100, 200, 300, 400, 500]);
    let counts = samples.dense.iter().take(26).copied().collect::<Vec<_>>();
    assert_eq!(counts[13..16], [0.0, 2f32.ln(), 3f32.ln()]);
    for (threads, memory) in [(3, 32 << 20), (8, 3 << 20), (0, 256 << 20)] {
        let log = TextLog { threads, memory, ..text_log(&files, &schema, 1) };
        assert_eq!(
            read(&log).unwrap(),
            (samples.clone(), decoded.clone()),
            "{threads} threads, {memory} bytes"
        );
    }
}

#[test]
fn progress_ends_with_all_bytes() {
    let (_folder, files) = log(3_000);
    let schema = Schema::criteo();
    let last = Mutex::new(None);
    let log = text_log(&files, &schema, 2);
    decode(&log, &|progress| *last.lock().unwrap() = Some(progress), &mut |_| Ok(())).unwrap();
    let total_bytes = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    let expected = Progress { bytes: total_bytes, total_bytes, samples: 2_970, bad_lines: 30 };
    assert_eq!(last.into_inner().unwrap(), Some(expected));
}

#[test]
fn policies_end_reading() {
    let (_folder, files) = log(12_000);
    let schema = Schema::criteo();
    let strict = TextLog { policy: Policy { strict: true, max_share: 1.0 }, ..text_log(&files, &schema, 3) };
    let error = read(&strict).unwrap_err().to_string();
    assert!(error.contains("a, line 100, column label: expected a label of 0 or 1, got \"bad\""), "{error}");
    let picky =
        TextLog { policy: Policy { strict: false, max_share: 0.005 }, ..text_log(&files, &schema, 3) };
    let error = read(&picky).unwrap_err().to_string();
    assert!(error.contains("lines are bad (") && error.contains("at most 0.5 % may be)"), "{error}");
}

#[test]
fn errors_name_their_file() {
    let (folder, files) = log(3_000);
    let schema = Schema::criteo();
    let whole = std::fs::read(&files[1]).unwrap();
    std::fs::write(&files[1], &whole[..whole.len() / 2]).unwrap();
    let error = read(&text_log(&files, &schema, 2)).unwrap_err().to_string();
    assert!(error.contains("/b: gzip data is cut short"), "{error}");
    let missing = [folder.path().join("none")];
    assert!(read(&text_log(&missing, &schema, 2)).unwrap_err().to_string().contains("/none: "));
    let sink = &mut |_: &Samples| Err(DataError::file("sink", "full"));
    let outcome = decode(&text_log(&files, &schema, 2), &|_| (), sink);
    assert_eq!(outcome, Err(DataError::file("sink", "full")));
}

#[test]
fn headers_belong_to_files() {
    let folder = tempdir().unwrap();
    let files: Vec<PathBuf> = ["a", "b", "c"].iter().map(|name| folder.path().join(name)).collect();
    let mut schema = Schema::criteo();
    (schema.delimiter, schema.columns) = (',', None);
    schema.dense.clear();
    schema.sparse.truncate(1);
    schema.sparse[0].ids = IdRule::Index;
    schema.sparse[0].rows = Some(9);
    std::fs::write(&files[0], "label,C1\n1,5\n").unwrap();
    std::fs::write(&files[1], "").unwrap();
    std::fs::write(&files[2], "C1,label\n6,0\n7,1").unwrap();
    let (samples, decoded) = read(&text_log(&files, &schema, 2)).unwrap();
    assert_eq!((&samples.labels[..], &samples.bags[0].ids[..]), (&[1.0, 0.0, 1.0][..], &[5, 6, 7][..]));
    assert_eq!((decoded.samples, decoded.bytes), (3, 13 + 16));
    std::fs::write(&files[1], "C1,click\n").unwrap();
    let error = read(&text_log(&files, &schema, 2)).unwrap_err().to_string();
    assert!(error.ends_with("/b: no column `label`; the columns are C1, click"), "{error}");
}

#[test]
fn vocabularies_turn_keys_into_rows() {
    let (folder, files) = log(3_000);
    let mut schema = Schema::criteo();
    schema.sparse[3].ids = IdRule::Vocabulary;
    let (keys, _) = read(&text_log(&files, &schema, 2)).unwrap();
    let mut counter = Counter::new("C4", folder.path(), 1 << 20);
    counter.add(&keys.bags[3].ids).unwrap();
    let vocabulary = counter.finish(1, Some(20)).unwrap();
    let mut vocabularies = vec![None; 26];
    vocabularies[3] = Some(vocabulary.clone());
    let log = TextLog { vocabularies: &vocabularies, ..text_log(&files, &schema, 2) };
    let (rows, _) = read(&log).unwrap();
    let expected: Vec<u64> = keys.bags[3].ids.iter().map(|&key| vocabulary.row(key)).collect();
    assert_eq!(rows.bags[3].ids, expected);
    assert_eq!(rows.bags[4], keys.bags[4]);
    assert_eq!(*expected.iter().max().unwrap(), 19);
    let log = TextLog { vocabularies: &vocabularies[..5], ..log };
    assert!(matches!(read(&log), Err(DataError::Size { got: 5, expected: 26, .. })));
}

#[test]
fn the_real_log_is_read_whole() {
    let folder = std::env::var_os("CAMPANILE_DATA").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    let file = folder.join("criteo_kaggle_117k.tsv.xz");
    if !file.exists() {
        let demanded = std::env::var("CAMPANILE_NO_SKIPS").unwrap_or_default();
        assert!(!demanded.split(' ').any(|name| name == "data"), "{} is not there", file.display());
        println!("SKIPPED: {} is not there; set CAMPANILE_DATA to the folder that has it", file.display());
        return;
    }
    let (files, schema) = ([file], Schema::criteo());
    let policy = Policy { strict: true, max_share: 0.0 };
    let log = TextLog { policy, memory: 256 << 20, ..text_log(&files, &schema, 2) };
    let (samples, decoded) = read(&log).unwrap();
    assert_eq!((decoded.samples, decoded.bad.count, decoded.bad.lines), (117_335, 0, 117_335));
    let rate = samples.labels.iter().sum::<f32>() / samples.len() as f32;
    assert!((rate - 0.256).abs() < 0.001, "{rate}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_bytes_in_a_file_are_samples_bad_lines_or_an_error(
        magic in prop::sample::select(vec![&b""[..], b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"]),
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\t'), Just(b'\n')], 0..400),
    ) {
        let folder = tempdir().unwrap();
        let files = [folder.path().join("log")];
        std::fs::write(&files[0], [magic, &bytes].concat()).unwrap();
        let schema = Schema::criteo();
        let policy = Policy { strict: false, max_share: 1.0 };
        match read(&TextLog { policy, ..text_log(&files, &schema, 2) }) {
            Ok((samples, decoded)) => {
                prop_assert_eq!(decoded.bad.lines, decoded.samples + decoded.bad.count);
                prop_assert_eq!(samples.len() as u64, decoded.samples);
            }
            Err(error) => prop_assert!(error.to_string().contains("/log: "), "{}", error),
        }
    }
}

/// Rows as they were noted, over all chunks.
fn noted(log: &TextLog) -> (Samples, Vec<(bool, Option<String>)>) {
    let (mut all, mut rows) = (Samples::new(log.schema.sparse.len()), vec![]);
    decode(log, &|_| (), &mut |samples| {
        append(&mut all, samples);
        let text = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
        rows.extend(samples.rows.iter().map(|(is_sample, noted)| (is_sample, noted.map(text))));
        Ok(())
    })
    .unwrap();
    (all, rows)
}

#[test]
fn every_row_is_noted_where_that_is_asked_for() {
    let (_folder, files) = log(3000);
    let schema = Schema::criteo();
    let reading = Reading::with_column("C2");
    for threads in [1, 3] {
        let (samples, rows) = noted(&TextLog { reading, ..text_log(&files, &schema, threads) });
        assert_eq!(rows.len(), 3000);
        assert_eq!(rows.iter().filter(|(is_sample, _)| *is_sample).count(), samples.len());
        for (i, (is_sample, text)) in rows.iter().enumerate() {
            assert_eq!(*is_sample, i % 100 != 99);
            assert_eq!(*text, Some(format!("{:08x}", i % 77)), "of bad rows too");
        }
    }
    // Nobody who does not ask pays for it.
    let (_, rows) = noted(&text_log(&files, &schema, 1));
    assert_eq!(rows, []);
}

/// The same samples come of lines with labels, with anything in their place, and without the column.
#[test]
fn labels_can_be_left_aside() {
    let (folder, files) = log(600);
    let schema = Schema::criteo();
    let reading = Reading { unlabelled: true, rows: true, ..Reading::default() };
    let (with, rows) = noted(&TextLog { reading, ..text_log(&files, &schema, 2) });
    assert!(rows.iter().all(|(is_sample, noted)| *is_sample && noted.is_none()));
    assert_eq!((rows.len(), &with.labels), (600, &vec![0.0; 600]));
    let text = std::fs::read_to_string(&files[0]).unwrap();
    let without: String =
        text.lines().map(|line| format!("{}\n", line.split_once('\t').unwrap().1)).collect();
    let path = folder.path().join("without");
    std::fs::write(&path, without).unwrap();
    let (one, other) = ([files[0].clone()], [path]);
    let read = |files| noted(&TextLog { reading, ..text_log(files, &schema, 2) }).0;
    assert_eq!(read(&one), read(&other));
}
