//! Vocabulary files, as they are and with a checksum that is right.
//!
//!     cargo +nightly fuzz run vocabulary
#![no_main]

use data::Vocabulary;
use libfuzzer_sys::fuzz_target;
use std::fs;
use xxhash_rust::xxh3::xxh3_64;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vocabulary.bin");
    let sealed = [bytes, &xxh3_64(bytes).to_le_bytes()].concat();
    // Keys alone, behind a header that suits them.
    let keys: Vec<u64> =
        bytes.chunks_exact(8).map(|key| u64::from_le_bytes(key.try_into().unwrap())).collect();
    for file in [bytes, &sealed] {
        fs::write(&path, file).unwrap();
        let _ = Vocabulary::load(&path);
    }
    if let Ok(vocabulary) = Vocabulary::new(keys.clone()) {
        vocabulary.save(&path).unwrap();
        let again = Vocabulary::load(&path).unwrap();
        assert!(keys.iter().all(|&key| again.row(key) == vocabulary.row(key)));
        assert!(keys.iter().all(|&key| again.row(key) < again.rows() as u64));
    }
});
