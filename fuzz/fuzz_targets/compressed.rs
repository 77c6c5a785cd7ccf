//! Files of text that may be compressed, and the threads that read them.
//!
//!     cargo +nightly fuzz run compressed
#![no_main]

use data::lines::{Chunk, Chunks};
use data::{Policy, TextLog, files};
use libfuzzer_sys::fuzz_target;
use spec::schema::Schema;
use std::fs;

/// Bytes that a decompressor, and then reading as a whole, may take.
const MEMORY: u64 = 8 << 20;
/// A small file may stand for a very long one; the rest of that is of no interest.
const MOST: u64 = 4 << 20;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, bytes).unwrap();
    let Ok(reader) = files::open(&path, MEMORY, Default::default()) else { return };
    let mut chunks = Chunks::new(reader, &path, 1 << 12);
    let mut chunk = Chunk::default();
    while chunks.next(&mut chunk).unwrap_or(false) {
        if chunks.bytes() > MOST {
            return;
        }
    }
    let schema = Schema::criteo();
    let policy = Policy { strict: false, max_share: 1.0 };
    let log = TextLog {
        files: &[path],
        schema: &schema,
        vocabularies: &[],
        policy,
        threads: 2,
        memory: MEMORY,
        reading: Default::default(),
    };
    let _ = data::decode(&log, &|_| (), &mut |_| Ok(()));
});
