//! Files of any kind whose columns nobody has described.
//!
//!     cargo +nightly fuzz run discover
#![no_main]

use data::discover::{Request, discover};
use libfuzzer_sys::fuzz_target;
use std::fs;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, bytes).unwrap();
    if let Ok(found) = discover(&[path], &Request::default()) {
        found.schema.check().unwrap();
    }
});
