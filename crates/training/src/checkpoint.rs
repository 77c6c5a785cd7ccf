//! Checkpoints as files: named tensors in, named tensors out. Ranks and devices are not known here.
//!
//! ```text
//! ROOT/step-000000000123/rank-0000.safetensors    the pieces that rank 0 holds
//!                        rank-0001.safetensors
//!                        manifest.json            what is where, and the checksum of every file
//! ROOT/.writing-step-000000000124/                not complete: it has no final name yet
//! ROOT/.deleting-step-000000000120/               no longer complete
//! ROOT/damaged-step-000000000121/                 found damaged, and set aside
//! ```
//!
//! A checkpoint is complete when its folder has its final name. Every file and the folder itself are on disk before
//! the rename, so whoever is killed at whatever moment leaves the earlier checkpoints whole.
//!
//! An increment holds the rows of tables that were updated since the checkpoint that it builds on, and everything else whole. Its manifest
//! names that checkpoint, by step and identity; [`Checkpoint::open`] puts the rows of all of them over each other, and [`compact()`] writes
//! what they come to, so that chains stay short.
//!
//! A tensor is seen as a matrix: the first dimension is its rows, the product of the others its columns, and a vector
//! is one column. Any rank may hold any rectangle of it; together the rectangles must cover it exactly once. Reading
//! asks for any rectangle, so what 4 ranks wrote can be read by 2.
//!
//! ```
//! use training::checkpoint::{Checkpoint, Folder, Manifest, Piece, TopologyEntry, write_pieces};
//! # let root = tempfile::tempdir().unwrap();
//! let folder = Folder::open(root.path()).unwrap();
//!
//! // Two ranks hold two rows each of a table of four rows and two columns.
//! let writing = folder.begin(7).unwrap();
//! let piece = |rows: std::ops::Range<usize>, data: [f32; 4]| Piece {
//!     name: "tables.C1.weight".into(),
//!     shape: vec![4, 2],
//!     rows,
//!     columns: 0..2,
//!     data: data.to_vec().into(),
//! };
//! let written = vec![
//!     write_pieces(&writing, 0, &[piece(0..2, [0.0, 0.1, 1.0, 1.1])]).unwrap(),
//!     write_pieces(&writing, 1, &[piece(2..4, [2.0, 2.1, 3.0, 3.1])]).unwrap(),
//! ];
//! let topology = TopologyEntry { hosts: 1, ranks_per_host: 2 };
//! folder.commit(&Manifest::new(7, topology, written)).unwrap();
//!
//! // One rank reads column 1 of all rows but the first.
//! let (_, latest) = folder.latest().unwrap().unwrap();
//! let checkpoint = Checkpoint::open(&latest).unwrap();
//! let mut column = [0.0; 3];
//! checkpoint.read_rows("tables.C1.weight", 1..4, 1..2, &mut column).unwrap();
//! assert_eq!(column, [1.1, 2.1, 3.1]);
//! ```

mod compact;
pub(crate) mod contents;
mod entries;
mod error;
mod export;
mod folder;
mod listing;
mod manifest;
mod names;
mod read;
mod slices;
pub(crate) mod state;
mod tensor_file;
mod tiling;
mod values;
pub(crate) mod warm_start;
mod whole;
mod write;

pub use compact::compact;
pub use entries::{BaseEntry, FileEntry, TensorEntry, TopologyEntry};
pub use error::CheckpointError;
pub use export::{Contents, export};
pub use folder::{Folder, candidates, is_checkpoint, locate, set_aside, writing};
pub use manifest::Manifest;
pub(crate) use manifest::file_name;
pub use names::of_step;
pub use read::Checkpoint;
pub use values::Values;
pub use warm_start::{TakenRows, TakenWeights};
pub(crate) use write::{PendingFile, Stream, write_streams};
pub use write::{Piece, RankFile, write_pieces};

// Files hold little-endian floats, and memory is written and read as it is.
#[cfg(not(target_endian = "little"))]
compile_error!("checkpoints are written from memory as it is: a little-endian machine is needed");
