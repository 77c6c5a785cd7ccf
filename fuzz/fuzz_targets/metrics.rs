//! The records of a run, as a killed one or another program may have left them.
//!
//!     cargo +nightly fuzz run metrics
#![no_main]

use campanile::folder::metrics as records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let all = records::Records::parse(&text);
    let kept = records::up_to(&text, 10);
    let some = records::Records::parse(&kept);
    assert!(some.records.len() <= all.records.len() && !some.torn);
    for record in &all.records {
        let _ = record.scalars();
    }
});
