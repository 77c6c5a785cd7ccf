//! A prepared folder in which bytes were changed and all checksums made right again, so that what stands behind them is
//! reached.
//!
//!     cargo +nightly fuzz run prepared
//!
//! The first byte names a file; then come changes of three bytes each: where (16 bits), and what.
#![no_main]

use data::prepared::{About, PreparedLog, Writer, WriterOptions};
use data::{Batch, DataError, Samples};
use libfuzzer_sys::fuzz_target;
use spec::schema::Schema;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const COLUMNS: &str = r#"
    label = { column = "clicked" }
    [[dense]]
    column = "price"
    [[sparse]]
    column = "user"
    [[sparse]]
    column = "row"
    ids = "index"
    rows = 10
    [[sparse]]
    column = "tags"
    separator = "|"
    weight_separator = ":"
"#;
const FILES: [&str; 3] = ["manifest.json", "samples.bin", "index.bin"];
/// Bytes of the header of samples.bin, and what blocks are multiples of.
const ALIGNMENT: usize = 64;

fn write(folder: &Path) -> Result<(), DataError> {
    let schema: Schema = toml::from_str(COLUMNS).unwrap();
    let mut samples = Samples::new(3);
    samples.labels = (0..10).map(|i| (i % 2) as f32).collect();
    samples.dense = (0..10).map(|i| i as f32).collect();
    samples.bags[0].ids = (0..10u64).map(|i| i << 60 | 1 << 40).collect();
    samples.bags[1].ids = (0..10).collect();
    samples.bags[2].lengths = (0..10).map(|i| i % 3).collect();
    let ids: u32 = samples.bags[2].lengths.iter().sum();
    samples.bags[2].ids = (0..u64::from(ids)).map(|i| i << 50).collect();
    samples.bags[2].weights = vec![0.5; ids as usize];
    let rows = [None, Some(10), None];
    let mut writer =
        Writer::create(folder, &schema, &rows, WriterOptions { block_samples: 4, ..Default::default() })?;
    writer.append(&samples)?;
    writer.finish(About::default()).map(drop)
}

/// Makes all checksums right, as far as the files still say where they are.
fn seal(folder: &Path) {
    let [manifest, samples, index] = FILES.map(|name| folder.join(name));
    let mut blocks = fs::read(&samples).unwrap();
    let mut entries = fs::read(&index).unwrap();
    for entry in entries.chunks_exact_mut(24) {
        let word =
            |at: usize| usize::try_from(u64::from_le_bytes(entry[at..at + 8].try_into().unwrap())).unwrap();
        let (offset, bytes) = (word(0), word(8));
        let Some(block) = offset.checked_add(bytes).and_then(|end| blocks.get_mut(offset..end)) else {
            continue;
        };
        if block.len() >= ALIGNMENT {
            let checksum = xxh3_64(&block[8..]).to_le_bytes();
            block[..8].copy_from_slice(&checksum);
            entry[16..].copy_from_slice(&checksum);
        }
    }
    fs::write(&samples, &blocks).unwrap();
    fs::write(&index, &entries).unwrap();
    // A manifest that was changed keeps what it says of itself but its checksum.
    let mut text = fs::read(&manifest).unwrap();
    for file in [&blocks, &entries] {
        let stated = format!("\"bytes\": {},", file.len());
        let field = b"\"xxh3\": \"";
        if let Some(at) = find(&text, stated.as_bytes())
            && let Some(digits) = find(&text[at..], field).map(|found| at + found + field.len())
            && let Some(place) = text.get_mut(digits..digits + 16)
        {
            place.copy_from_slice(format!("{:016x}", xxh3_64(file)).as_bytes());
        }
    }
    let field = b"\"checksum\": \"";
    if let Some(at) = find(&text, field).map(|found| found + field.len())
        && text.len() >= at + 16
    {
        text[at..at + 16].copy_from_slice(b"0000000000000000");
        let checksum = format!("{:016x}", xxh3_64(&text));
        text[at..at + 16].copy_from_slice(checksum.as_bytes());
    }
    fs::write(&manifest, text).unwrap();
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn read(folder: &Path) -> Result<(), DataError> {
    let log = Arc::new(PreparedLog::open(folder)?);
    let _ = log.verify(&|_| ());
    let mut samples = Samples::default();
    for block in 0..log.manifest().blocks().min(100) {
        let _ = log.read_block(block, &mut samples);
    }
    let features = log.features(|_| Some(1000))?;
    let (count, dense) = (log.manifest().samples.min(1000), log.manifest().dense.len());
    let mut batch = Batch::default();
    log.bind(&features, dense)?.fill(0..count, &mut batch)
}

fuzz_target!(|bytes: &[u8]| {
    let [name, changes @ ..] = bytes else { return };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path()).unwrap();
    let path = folder.path().join(FILES[usize::from(*name) % FILES.len()]);
    let mut file = fs::read(&path).unwrap();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
        file[at] = change[2];
    }
    fs::write(&path, file).unwrap();
    seal(folder.path());
    let sound = read(folder.path());
    assert!(!changes.is_empty() || sound.is_ok(), "{sound:?}");
});
