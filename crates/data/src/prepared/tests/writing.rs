//! What cannot be written leaves nothing behind.

use super::*;
use crate::DataError;
use std::fs;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn an_unfinished_log_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::example(10);
    let options = WriterOptions { block_samples: 4 };
    let mut writer = Writer::create(folder.path(), &log.schema, &log.rows(), options).unwrap();
    writer.append(&log.samples(0..10)).unwrap();
    assert_eq!(names(folder.path()).len(), 2);
    drop(writer);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn an_older_log_is_replaced_and_stays_readable_for_those_who_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let old = Log::example(10);
    old.write(folder.path(), 4, 10);
    fs::write(folder.path().join("C1.vocabulary"), "kept").unwrap();
    let mut reader = bound(folder.path()).unwrap();
    let new = Log { samples: old.samples[5..].to_vec(), ..old.clone() };
    new.write(folder.path(), 3, 10);
    let mut batch = Batch::default();
    reader.fill(0..10, &mut batch).unwrap();
    assert_eq!(batch, old.batch(&(0..10).collect::<Vec<_>>()));
    bound(folder.path()).unwrap().fill(0..5, &mut batch).unwrap();
    assert_eq!(batch, new.batch(&(0..5).collect::<Vec<_>>()));
    assert_eq!(names(folder.path()).len(), 4);
}

/// A manifest that cannot be put in its place: the rename fails because a folder has its name.
#[test]
fn a_manifest_that_cannot_be_written_leaves_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::example(10);
    let mut writer =
        Writer::create(folder.path(), &log.schema, &log.rows(), WriterOptions::default()).unwrap();
    writer.append(&log.samples(0..10)).unwrap();
    fs::create_dir(folder.path().join(MANIFEST)).unwrap();
    let error = writer.finish(About::default()).unwrap_err().to_string();
    assert!(error.contains("manifest.json: cannot be written"), "{error}");
    assert_eq!(names(folder.path()), [MANIFEST]);
}

/// The device stands in for samples.bin on a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::example(600);
    let options = WriterOptions { block_samples: 100 };
    let mut writer = Writer::create(folder.path(), &log.schema, &log.rows(), options).unwrap();
    writer.samples = writer::Output::to(folder.path().join(SAMPLES), fs::File::create("/dev/full").unwrap());
    let error = writer.append(&log.samples(0..600)).unwrap_err().to_string();
    assert!(error.contains("samples.bin: cannot be written: No space left"), "{error}");
    let error = writer.append(&log.samples(0..1)).unwrap_err().to_string();
    assert!(error.contains("an earlier block could not be written"), "{error}");
    assert!(writer.finish(About::default()).is_err());
    assert!(names(folder.path()).is_empty());
}

#[test]
fn samples_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::example(10);
    let mut writer =
        Writer::create(folder.path(), &log.schema, &log.rows(), WriterOptions::default()).unwrap();
    writer.append(&log.samples(0..4)).unwrap();
    let mut refusal = |change: fn(&mut Samples)| {
        let mut samples = log.samples(4..10);
        change(&mut samples);
        let error = writer.append(&samples).unwrap_err().to_string();
        let (_, problem) = error.split_once("cannot append behind sample 4: ").expect(&error);
        problem.to_owned()
    };
    assert_eq!(refusal(|s| s.labels[1] = 0.5), "sample 1 has label 0.5, neither 0 nor 1");
    assert_eq!(refusal(|s| s.dense[3] = f32::NAN), "sample 1 has dense column 1 = NaN");
    assert_eq!(refusal(|s| s.dense.truncate(11)), "11 dense values for 6 samples × 2");
    assert_eq!(refusal(|s| s.bags.truncate(11)), "11 sparse columns, expected 12");
    assert_eq!(refusal(|s| s.bags[0].ids.truncate(5)), "column C0: 5 ids for 6 samples, one each");
    assert_eq!(refusal(|s| s.bags[1].ids[0] = 50), "column C1: row 50 is outside the table's 50 rows");
    assert!(refusal(|s| s.bags[3].lengths[0] += 1).starts_with("column C3: 6 lengths of"));
    assert!(refusal(|s| s.bags[0].lengths = vec![2, 0, 1, 1, 1, 1]).contains("a bag of 2 ids"));
    assert_eq!(refusal(|s| s.bags[0].weights = vec![1.0; 6]), "column C0: 6 weights, expected 0");
    assert!(refusal(|s| s.bags[6].weights[2] = f32::INFINITY).contains("weight inf is not a finite"));
    // None of it was taken in.
    writer.append(&log.samples(4..10)).unwrap();
    assert_eq!(writer.finish(About::default()).unwrap().samples, 10);
    let mut batch = Batch::default();
    bound(folder.path()).unwrap().fill(0..10, &mut batch).unwrap();
    assert_eq!(batch, log.batch(&(0..10).collect::<Vec<_>>()));
}

#[test]
fn unusable_settings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::example(1);
    let create = |rows: &[Option<usize>], block_samples| -> Result<_, DataError> {
        Writer::create(folder.path(), &log.schema, rows, WriterOptions { block_samples }).map(|_| ())
    };
    let refusal = |rows: &[Option<usize>], n| create(rows, n).unwrap_err().to_string();
    assert!(refusal(&log.rows(), 0).contains("blocks of 0 samples"));
    assert!(refusal(&[None; 3], 1).contains("rows of 3 columns for 12"));
    assert!(refusal(&[None; 12], 1).contains("column C1: a table of an unknown number of rows"));
    assert!(refusal(&[Some(0); 12], 1).contains("column C1: a table of 0 rows"));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_column_with_many_may_hand_over_bags_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let schema = schema(0, &[3]);
    let mut samples = Samples::new(1);
    samples.labels = vec![0.0; 5];
    samples.bags[0].ids = vec![1 << 63; 5];
    let mut writer =
        Writer::create(folder.path(), &schema, &[None], WriterOptions { block_samples: 2 }).unwrap();
    writer.append(&samples).unwrap();
    assert_eq!(writer.finish(About::default()).unwrap().features[0].mean_ids, 1.0);
    let mut batch = Batch::default();
    bound(folder.path()).unwrap().fill(0..5, &mut batch).unwrap();
    assert_eq!((batch.lengths, batch.values), (vec![1; 5], vec![500; 5]));
}

#[test]
fn sources_are_fingerprints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day_0.tsv");
    fs::write(&path, "1\t2\n").unwrap();
    let file = SourceFile::of(&path).unwrap();
    assert_eq!((file.bytes, file.modified_ns > 1_600_000_000_000_000_000), (4, true));
    assert_eq!(file, SourceFile::of(&path).unwrap());
    fs::write(&path, "1\t2\n1\t3\n").unwrap();
    assert_ne!(file, SourceFile::of(&path).unwrap());
    assert!(SourceFile::of(&folder.path().join("day_1.tsv")).is_err());
}
