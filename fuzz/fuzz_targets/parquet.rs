//! Parquet files. The golden files are the seeds:
//!
//!     cargo +nightly fuzz run parquet fuzz/corpus/parquet crates/data/tests/golden
#![no_main]

use data::parquet::{self, ParquetLog};
use libfuzzer_sys::fuzz_target;
use spec::schema::Schema;
use std::fs;

/// The columns of the golden files.
const COLUMNS: &str = r#"
    label = { column = "clicked" }
    [[dense]]
    column = "price"
    transform = "log"
    [[sparse]]
    column = "user"
    [[sparse]]
    column = "item"
    [[sparse]]
    column = "big"
    [[sparse]]
    column = "row"
    ids = "index"
    rows = 10
    [[sparse]]
    column = "tags"
    list = true
    weights = "tag_weights"
    [[sparse]]
    column = "seen"
    list = true
    ids = "vocabulary"
    [[sparse]]
    column = "words"
    separator = "|"
    weight_separator = ":"
"#;

fuzz_target!(|bytes: &[u8]| {
    let schema: Schema = toml::from_str(COLUMNS).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.parquet");
    fs::write(&path, bytes).unwrap();
    let log = ParquetLog { files: &[path], schema: &schema, batch_rows: 64, reading: Default::default() };
    // Rows without a column of their own cost nothing to claim, so some are enough.
    let mut left = 1000;
    let _ = parquet::decode(&log, &mut |_| Ok(()), &|_, _| (), &mut |samples| {
        left -= 1;
        assert_eq!(samples.bags.len(), schema.sparse.len());
        if left == 0 { Err(data::DataError::file("log.parquet", "enough")) } else { Ok(()) }
    });
});
