//! Samples from click logs on disk, and from a synthetic log.
//!
//! Readers of every format ([`mod@decode`] for text, [`parquet`], [`table`] for data frames in memory) produce [`Samples`]. [`prepare`] writes them in the
//! [`prepared`] format. Training reads prepared logs and the [`synthetic`] log, and nothing else.
#![deny(unsafe_code)]

pub mod bad_lines;
pub mod batch;
mod cells;
pub mod decode;
pub mod delimited;
pub mod discover;
pub mod embeddings;
mod error;
pub mod files;
pub mod id;
pub mod inspect;
pub mod lines;
mod mapped;
pub mod number;
pub mod parquet;
pub mod predictions;
pub mod prepare;
pub mod prepared;
pub mod rows;
pub mod samples;
pub mod shuffle;
pub mod sketch;
pub mod synthetic;
pub mod table;
pub mod vocabulary;
pub mod warnings;

pub use bad_lines::{BadLine, BadLines, Policy};
pub use batch::Batch;
pub use decode::{Decoded, Progress, TextLog, decode};
pub use error::DataError;
pub use parquet::{BadRow, ParquetLog};
pub use predictions::Predictions;
pub use prepared::{BoundLog, PreparedLog, Writer, WriterOptions};
pub use rows::{Reading, Rows};
pub use samples::{Bags, Samples};
pub use shuffle::Shuffle;
pub use synthetic::{Split, SyntheticLog};
pub use table::Table;
pub use vocabulary::{Counter, IdTexts, Vocabulary};
