//! What can go wrong with a checkpoint.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused: a full disk, a missing file, no permission.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state could not be copied to or from the memory of a device.
    #[error("the state of a checkpoint could not be copied to its device")]
    Memory(#[from] kernels::KernelError),
    /// A folder in which there is no checkpoint.
    #[error(
        "{}: no checkpoint here; looked for manifest.json, for folders named step-000000000000 and for such folders \
         under checkpoints", path.display()
    )]
    NotFound {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A checkpoint of this step is there already.
    #[error(
        "{}: step {step} has a checkpoint already; resume the run from there, or keep this one in another folder",
        path.display()
    )]
    Exists {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// The step.
        step: u64,
    },
    /// A file of a form that this program cannot read.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A manifest of another version.
    #[error(
        "{}: version {got} of the format; this program reads version {supported}: use the program that wrote it",
        path.display()
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Version of the format that was found.
        got: u64,
        /// The version that is read.
        supported: u32,
    },
    /// A file of the wrong size.
    #[error(
        "{}: {got} bytes, the manifest says {expected}; the file is damaged: use an earlier checkpoint", path.display()
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Size of the file.
        got: u64,
        /// The size it should have.
        expected: u64,
    },
    /// A file that is not what was written.
    #[error(
        "{}: sha256 is {got}, the manifest says {expected}; the file is damaged: use an earlier checkpoint",
        path.display()
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// SHA-256 of the file.
        got: String,
        /// The SHA-256 of what was written.
        expected: String,
    },
    /// A piece that does not fit its tensor.
    #[error("{}: tensor {tensor}, rows {rows:?}, columns {columns:?}: {problem}", path.display())]
    Piece {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// Rows of the piece.
        rows: Range<usize>,
        /// Columns of the piece.
        columns: Range<usize>,
        /// What is wrong.
        problem: String,
    },
    /// Elements of a tensor that no file holds.
    #[error(
        "{}: the pieces of tensor {tensor} hold {covered} of its {elements} elements; a rank's pieces are missing",
        path.display()
    )]
    Gap {
        /// The manifest.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// Elements that are there.
        covered: usize,
        /// Elements of the whole tensor.
        elements: usize,
    },
    /// A tensor that the checkpoint does not have.
    #[error("{}: no tensor {tensor}; the model, or how its tables are cut, is not what was saved", path.display())]
    Unknown {
        /// The checkpoint.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
    },
    /// A part was asked for that the tensor does not have, or that does not fit the memory given.
    #[error(
        "{}: rows {rows:?}, columns {columns:?} of tensor {tensor} of shape {shape:?} asked for, into {room} floats",
        path.display()
    )]
    Request {
        /// The checkpoint.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// Shape of the tensor.
        shape: Vec<usize>,
        /// Rows asked for.
        rows: Range<usize>,
        /// Columns asked for.
        columns: Range<usize>,
        /// Floats there is room for.
        room: usize,
    },
}

impl CheckpointError {
    /// Turns what the system said about `path` into an error.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Whether the checkpoint is not what was written, so that an earlier one may be whole. A file that cannot be read
    /// for want of permission, or one of a later version, is not damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                // EIO: the disk cannot read it any more.
                let gone = [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof].contains(&source.kind());
                gone || source.raw_os_error() == Some(5)
            }
            Self::NotFound { .. }
            | Self::Malformed { .. }
            | Self::Size { .. }
            | Self::Checksum { .. }
            | Self::Piece { .. }
            | Self::Gap { .. }
            | Self::Unknown { .. } => true,
            Self::Exists { .. } | Self::Version { .. } | Self::Request { .. } | Self::Memory(_) => false,
        }
    }

    /// An error about the form of `path`.
    pub(crate) fn malformed(path: &Path, problem: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), problem: problem.into() }
    }
}
