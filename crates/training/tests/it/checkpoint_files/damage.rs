//! Damaged and hostile files are refused, with the file named, and nothing panics.

use super::{manifest, names_in, opened_and_verified, piece, small};
use proptest::prelude::*;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use training::checkpoint::{Checkpoint, CheckpointError, Folder, write_pieces};

#[test]
fn every_flipped_byte_is_found_and_its_file_named() {
    let root = tempfile::tempdir().unwrap();
    let path = small(&Folder::open(root.path()).unwrap(), 1);
    for name in names_in(&path) {
        let file = path.join(&name);
        let good = fs::read(&file).unwrap();
        // In place: a file system may bring a file that is written anew to the disk at once, which takes its time.
        let handle = File::options().write(true).open(&file).unwrap();
        for (at, &byte) in (0..).zip(&good) {
            for flip in [0x01, 0x20, 0xff] {
                handle.write_all_at(&[byte ^ flip], at).unwrap();
                let error = opened_and_verified(&path).expect_err(&format!("{name}, byte {at} ^ {flip:#x}"));
                assert!(error.to_string().contains(&name), "{name}, byte {at} ^ {flip:#x}: {error}");
            }
            handle.write_all_at(&[byte], at).unwrap();
        }
    }
    opened_and_verified(&path).unwrap();
}

#[test]
fn every_truncation_is_found_when_opening_and_its_file_named() {
    let root = tempfile::tempdir().unwrap();
    let path = small(&Folder::open(root.path()).unwrap(), 1);
    for name in names_in(&path) {
        let file = path.join(&name);
        let good = fs::read(&file).unwrap();
        let handle = File::options().write(true).open(&file).unwrap();
        for length in (0..good.len()).rev() {
            handle.set_len(length as u64).unwrap();
            let error = Checkpoint::open(&path).expect_err(&format!("{name}, {length} bytes"));
            assert!(error.to_string().contains(&name), "{name}, {length} bytes: {error}");
        }
        fs::write(&file, [&good[..], b"\n"].concat()).unwrap();
        assert!(Checkpoint::open(&path).unwrap_err().to_string().contains(&name));
        fs::remove_file(&file).unwrap();
        assert!(Checkpoint::open(&path).unwrap_err().to_string().contains(&name));
        fs::write(&file, good).unwrap();
    }
    opened_and_verified(&path).unwrap();
}

/// Reads everything of a checkpoint whose first file is `bytes`, under a manifest that finds them right.
fn read_all_with(bytes: &[u8]) -> Result<(), CheckpointError> {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    let writing = folder.begin(1).unwrap();
    let mut written = write_pieces(&writing, 0, &[piece("t", &[2, 2], 0..2, 0..2)]).unwrap();
    fs::write(writing.join(&written.file.name), bytes).unwrap();
    written.file.bytes = bytes.len() as u64;
    let path = folder.commit(&manifest(1, vec![written])).unwrap();
    let checkpoint = Checkpoint::open(path)?;
    checkpoint.read_rows("t", 0..2, 0..2, &mut [0.0; 4])?;
    assert!(checkpoint.verify(&|_, _| ()).is_err());
    Ok(())
}

#[test]
fn hostile_headers_are_refused() {
    let file = |header: &str, data: usize| {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), &vec![0; data]].concat()
    };
    let says = |bytes: Vec<u8>, expected: &str| {
        let error = read_all_with(&bytes).unwrap_err().to_string();
        assert!(error.contains("rank-0000.safetensors: "), "{error}");
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    };
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    read_all_with(&file(&tensor("F32", "[2,2]", "[0,16]"), 16)).unwrap();
    says(vec![], "0 bytes are too few");
    says(u64::MAX.to_le_bytes().to_vec(), "a header of 18446744073709551615 bytes; at most 0");
    says([&200u64.to_le_bytes()[..], &[b' '; 100]].concat(), "a header of 200 bytes; at most 100");
    says(file("[1, 2]", 16), "not a safetensors header");
    says(file(&"[".repeat(5000), 16), "not a safetensors header");
    says(file("{}", 16), "16 bytes of data, but 0 according to the header");
    says(file("{}", 0), "no tensor t, which the manifest names");
    says(file(&tensor("F64", "[2]", "[0,16]"), 16), "tensor t is F64 [2], expected 4 of F32");
    says(file(&tensor("F32", "[3]", "[0,12]"), 12), "expected 4 of F32");
    says(file(&tensor("F32", "[2,2]", "[0,16]"), 12), "12 bytes of data, but 16 according to the header");
    says(file(&tensor("F32", "[2,2]", "[4,20]"), 20), "not a safetensors header");
    says(file(&tensor("F32", "[2,2]", "[16,0]"), 16), "not a safetensors header");
    says(file(&tensor("F32", "[18446744073709551615,2]", "[0,16]"), 16), "not a safetensors header");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_bytes_make_reading_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        header in "[\\[\\]{}\":,0-9tdF ]{0,60}",
    ) {
        prop_assert!(read_all_with(&bytes).is_err());
        let length = (header.len() as u64).to_le_bytes();
        prop_assert!(read_all_with(&[&length[..], header.as_bytes(), &bytes].concat()).is_err());
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("manifest.json"), &bytes).unwrap();
        prop_assert!(Checkpoint::open(root.path()).is_err());
    }
}
