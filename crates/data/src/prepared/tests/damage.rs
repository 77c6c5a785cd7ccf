//! No damage goes unseen, and none makes a panic.

use super::*;
use crate::{DataError, Shuffle};
use std::fs;

/// Everything a trainer does.
fn read(folder: &Path) -> Result<(), DataError> {
    let mut reader = bound(folder)?;
    let mut batch = Batch::default();
    let len = reader.len();
    reader.fill(0..len, &mut batch)?;
    reader.fill_shuffled(0..len, &Shuffle { seed: 1, epoch: 0, window: 7 }, &mut batch)
}

/// An error that names the file and says what to do.
fn expect_error(result: Result<(), DataError>, path: &Path, what: &str) {
    let error = result.expect_err(what).to_string();
    let named = error.contains(path.to_str().unwrap());
    assert!(named && (error.contains("prepare") || error.contains("read")), "{what}: {error}");
}

fn example() -> (tempfile::TempDir, Vec<(std::path::PathBuf, Vec<u8>)>) {
    let folder = tempfile::tempdir().unwrap();
    Log::example(11).write(folder.path(), 4, 11);
    read(folder.path()).unwrap();
    let files = [MANIFEST, SAMPLES, INDEX].map(|name| folder.path().join(name));
    let files = files.map(|path| (path.clone(), fs::read(path).unwrap()));
    (folder, files.to_vec())
}

/// Puts new contents into a new file: the old one may still be mapped.
fn replace(path: &Path, contents: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, contents).unwrap();
}

#[test]
fn every_truncation_is_seen() {
    let (folder, files) = example();
    for (path, contents) in &files {
        for length in 0..contents.len() {
            replace(path, &contents[..length]);
            let opened = PreparedLog::open(folder.path()).map(|_| ());
            expect_error(opened, path, &format!("{} at {length}", path.display()));
        }
        replace(path, &[contents.as_slice(), b"\n"].concat());
        expect_error(PreparedLog::open(folder.path()).map(|_| ()), path, "a longer file");
        replace(path, contents);
    }
    read(folder.path()).unwrap();
}

#[test]
fn every_flipped_byte_is_seen() {
    let (folder, files) = example();
    for (path, contents) in &files {
        for at in 0..contents.len() {
            // In text: digits into digits, letters into letters, a blank into a line end.
            let flips: &[u8] =
                if path.ends_with(MANIFEST) { &[0x01, 0x20, 0x2a, 0x80] } else { &[0x01, 0xff] };
            for flip in flips {
                let mut damaged = contents.clone();
                damaged[at] ^= flip;
                replace(path, &damaged);
                let what = format!("{} byte {at} ^ {flip}", path.display());
                expect_error(read(folder.path()), path, &what);
                let verified = PreparedLog::open(folder.path()).and_then(|log| log.verify(&|_| ()));
                expect_error(verified, path, &what);
            }
        }
        replace(path, contents);
    }
    read(folder.path()).unwrap();
}

#[test]
fn files_of_two_logs_do_not_mix() {
    let (folder, files) = example();
    let other = tempfile::tempdir().unwrap();
    let mut log = Log::example(11);
    log.samples.reverse();
    log.write(other.path(), 4, 11);
    for (path, contents) in &files[1..] {
        replace(path, &fs::read(other.path().join(path.file_name().unwrap())).unwrap());
        expect_error(read(folder.path()), folder.path(), "a mixture");
        replace(path, contents);
    }
}

#[test]
fn other_versions_are_named() {
    let (folder, files) = example();
    let text = String::from_utf8(files[0].1.clone()).unwrap();
    replace(&files[0].0, text.replace("\"version\": 1", "\"version\": 2, \"news\": 1").as_bytes());
    let refusal = PreparedLog::open(folder.path()).unwrap_err().to_string();
    assert!(refusal.ends_with("has version 2, this program reads 1; prepare the log again"), "{refusal}");
}

/// Blocks that a hostile writer made: all checksums hold, the contents do not.
#[test]
fn sealed_nonsense_is_refused() {
    let (folder, files) = example();
    let open = || PreparedLog::open(folder.path()).unwrap();
    let manifest = open().manifest().clone();
    let words = open().words(0).to_vec();
    let forge = |change: &dyn Fn(&mut Vec<u32>)| {
        let mut block = words.clone();
        change(&mut block);
        let checksum = block::computed_checksum(&block);
        block[..2].copy_from_slice(bytemuck::cast_slice(&[checksum]));
        let mut samples = files[1].1.clone();
        samples[ALIGNMENT..][..block.len() * 4].copy_from_slice(bytemuck::cast_slice(&block));
        let mut index = files[2].1.clone();
        index[16..24].copy_from_slice(&checksum.to_le_bytes());
        let mut forged = manifest.clone();
        forged.files.samples.xxh3 = manifest::digits(xxhash_rust::xxh3::xxh3_64(&samples));
        forged.files.index.xxh3 = manifest::digits(xxhash_rust::xxh3::xxh3_64(&index));
        replace(&files[1].0, &samples);
        replace(&files[2].0, &index);
        forged.write(folder.path()).unwrap();
        let verified = open().verify(&|_| ()).map_err(|e| e.to_string());
        assert_eq!(verified, read(folder.path()).map_err(|e| e.to_string()));
        verified
    };
    forge(&|_| ()).unwrap();
    let shape = block::Shape::of(&manifest);
    let mut layout = block::BlockLayout::default();
    layout.read(&shape, 4, &words).unwrap();
    let parts = layout.sparse.clone();
    let refusal = |change: &dyn Fn(&mut Vec<u32>)| forge(change).unwrap_err();
    assert!(refusal(&|b| b[2] = 5).contains("the header of the block has 5 samples, expected 4"));
    assert!(refusal(&|b| b[3] = u32::MAX).contains("4294967295 features"));
    assert!(refusal(&|b| b[4] = 5).contains("5 ids of feature 0 for 4 samples"));
    assert!(refusal(&|b| b[7] = u32::MAX).contains("its header describes"));
    assert!(refusal(&|b| b[7] += 1).contains("its lengths add up to"));
    assert!(refusal(&|b| b[parts[3].lengths] = u32::MAX).contains("its lengths add up to"));
    assert!(refusal(&|b| b[parts[1].values] = 50).contains("feature C1 has row 50 of a table of 50"));
}

#[test]
fn a_folder_without_manifest_is_no_log() {
    let (folder, files) = example();
    fs::remove_file(&files[0].0).unwrap();
    let refusal = PreparedLog::open(folder.path()).unwrap_err().to_string();
    assert!(refusal.contains("is not a prepared log: it has no manifest.json"), "{refusal}");
}
