//! Lines of text, as TSV without a header and as CSV with columns that hold many ids.
//!
//!     cargo +nightly fuzz run delimited
#![no_main]

use data::delimited::{LineLayout, Scratch, quotes_beside};
use data::lines::{Chunk, Chunks};
use data::{BadLines, DataError, Samples};
use libfuzzer_sys::fuzz_target;
use spec::schema::Schema;

const MANY: &str = r#"
    missing = ["NA"]
    columns = ["clicked", "price", "tags", "users", "weights", "row"]
    label = { column = "clicked", positive_from = 3.0 }
    [[dense]]
    column = "price"
    transform = "log"
    [[sparse]]
    column = "tags"
    separator = "|"
    weight_separator = ":"
    ids = "vocabulary"
    [[sparse]]
    column = "users"
    separator = ";"
    weights = "weights"
    [[sparse]]
    column = "row"
    ids = "index"
    rows = 10
"#;

/// The columns that the first byte chooses. With a header, what follows must name them itself.
fn schema(choice: u8) -> Schema {
    let many = || toml::from_str::<Schema>(MANY).unwrap();
    match choice % 4 {
        0 => Schema::criteo(),
        1 => Schema { columns: None, ..many() },
        2 => Schema { delimiter: '\t', ..many() },
        _ => many(),
    }
}

fn read(schema: &Schema, size: usize, bytes: &[u8]) -> Result<(), DataError> {
    let path = "log".as_ref();
    let mut chunks = Chunks::new(bytes, path, size).quoted(quotes_beside(schema));
    let header = if schema.columns.is_none() { chunks.header()? } else { None };
    let layout = LineLayout::new(schema, path, header.as_deref())?;
    let (mut scratch, mut chunk, mut bad) = (Scratch::default(), Chunk::default(), BadLines::default());
    let mut samples = Samples::of(schema);
    while chunks.next(&mut chunk)? {
        samples.clear();
        layout.parse(&mut scratch, &chunk, &mut samples, &mut bad);
        layout.texts(&mut scratch, &chunk, &mut |_, _| ());
        for (bags, column) in samples.bags.iter().zip(&schema.sparse) {
            let ids = bags.lengths.iter().map(|&n| n as usize).sum::<usize>();
            assert!(!column.many() || ids == bags.ids.len(), "lengths and ids of {}", column.column);
        }
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let [choice, size, text @ ..] = bytes else { return };
    let _ = read(&schema(*choice), 1 + usize::from(*size), text);
});
