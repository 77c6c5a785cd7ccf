//! The prepared format: a folder that is written once, in bounded memory, and mapped into memory for training.
//!
//! ```text
//! folder/
//!   manifest.json   what the log is, sizes and checksums of the others; written last, so that a folder without it
//!                   is not a prepared log
//!   samples.bin     a header of 64 bytes, then blocks
//!   index.bin       for each block: offset u64, bytes u64, checksum u64
//!   …               vocabularies, by the names the manifest gives
//!   …               beside a vocabulary NAME.bin, NAME.csv with the texts of its ids: row, id, count
//! ```
//!
//! All numbers are little-endian, all checksums are XXH3-64 with seed 0, and in `manifest.json` they are 16 lower-case
//! hexadecimal digits.
//!
//! **samples.bin** begins with its header. Every byte of it is fixed by the manifest:
//! ```text
//!  0  "CAMPANIL"               16  samples of a block u32
//!  8  version u32 = 1          20  dense columns u32
//! 12  sparse features u32      24  labels besides the first u32
//!                              28  sample weights u32: 1 if there are any, otherwise 0
//!                              32  kept columns u32
//!                              36  zeros up to 64
//! ```
//! Blocks follow, one after the other, each a multiple of 64 bytes. All hold `block_samples` samples but the last, so
//! sample `i` lies in block `i / block_samples`. A block is a sequence of 4-byte words, in the combined format of Neo
//! (§4.4), with `n` samples:
//! ```text
//! checksum   u64                      of everything behind it in the block
//! samples    u32                      n
//! features   u32                      F
//! counts     u32 × F                  ids of each feature in this block
//! labels     f32 × n × labels         0 or 1, row-major
//! weights    f32 × n                  of samples, where there are any: finite and at least 0
//! dense      f32 × n × columns        row-major
//! lengths    u32 × n                  for each feature that may have many ids
//! values     u32 × counts             for each feature, sample after sample
//! weights    f32 × counts             for each weighted feature
//! kept       u64 × n                  for each kept column: the key of the value's text, its lower half first
//! zeros                               up to a multiple of 64 bytes
//! ```
//! The manifest has the texts of the first 4096 distinct values of each kept column, unless they are longer than 200 bytes.
//!
//! **Values.** A hashed id is the upper half of its 64-bit key, so that a table of any number of rows can be used:
//! `row = value · rows >> 32`. For vocabularies and row numbers the value is the row, and the manifest has the rows.
//!
//! **index.bin** repeats the checksum of each block. The checksum of index.bin is in the manifest, and the manifest has a
//! checksum of itself: in the field `checksum`, over the file with these 16 digits replaced by zeros. So every byte of the
//! folder is protected, and files of two logs cannot be mixed. Opening a log checks manifest, index and header; a block is
//! checked when it is first read.
//!
//! ```
//! use data::prepared::{About, PreparedLog, Writer, WriterOptions};
//! use data::{Batch, Samples};
//! use spec::schema::{LabelColumn, Schema, SparseColumn};
//! # use std::sync::Arc;
//! let schema = Schema { dense: vec![], sparse: vec![SparseColumn::hashed("user".into())], ..Schema::criteo() };
//! # let schema = Schema { columns: None, ..schema };
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! let mut samples = Samples::new(1);
//! samples.labels = vec![0.0, 1.0];
//! samples.bags[0].ids = vec![u64::MAX, 1 << 63]; // keys of two ids
//!
//! let mut writer = Writer::create(folder, &schema, &[None], WriterOptions::default())?;
//! writer.append(&samples)?;
//! assert_eq!(writer.finish(About::default())?.clicks, 1);
//!
//! let log = Arc::new(PreparedLog::open(folder)?);
//! let features = log.features(|_| Some(10))?; // tables of ten rows
//! let mut batch = Batch::default();
//! log.bind(&features, 0)?.fill(0..2, &mut batch)?;
//! assert_eq!(batch.values, [9, 5]);
//! # Ok::<(), data::DataError>(())
//! ```

mod block;
mod bound;
mod filling;
mod gather;
mod kept;
mod log;
mod manifest;
mod reader;
mod writer;

pub use bound::BoundLog;
pub use kept::KeyColumn;
pub use log::PreparedLog;
pub use manifest::{
    BadLineSummary, Checksummed, Files, KeptTexts, LabelClicks, LogSource, Manifest, PreparedFeature,
    SourceFile, Values, WeightSummary,
};
pub use writer::{About, Writer, WriterOptions};

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("prepared logs are mapped as they lie: that takes a 64-bit little-endian machine");

/// Version of the format that this program writes and reads.
pub const VERSION: u32 = 1;
/// Name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// Name of the file with the samples.
pub const SAMPLES: &str = "samples.bin";
/// Name of the file with the offsets of the blocks.
pub const INDEX: &str = "index.bin";

/// First bytes of samples.bin.
const MAGIC: &[u8; 8] = b"CAMPANIL";
/// Length of the header of samples.bin in bytes; the length of a block is a multiple of it.
const ALIGNMENT: usize = 64;
/// Number of bytes of index.bin for one block.
const INDEX_ENTRY: usize = 24;
/// Largest number of samples of a block.
const MAX_BLOCK_SAMPLES: u32 = 1 << 24;
/// Largest number of rows of a table.
const MAX_ROWS: u64 = 1 << 32;

/// Header of samples.bin.
fn header(block_samples: u32, shape: &block::Shape) -> [u8; ALIGNMENT] {
    let mut bytes = [0; ALIGNMENT];
    bytes[..8].copy_from_slice(MAGIC);
    let inputs = [VERSION, shape.sparse.len() as u32, block_samples, shape.dense as u32];
    let extras = [shape.labels as u32 - 1, u32::from(shape.weighted), shape.kept as u32];
    bytes[8..24].copy_from_slice(bytemuck::cast_slice(&inputs));
    bytes[24..36].copy_from_slice(bytemuck::cast_slice(&extras));
    bytes
}

#[cfg(test)]
mod tests;
