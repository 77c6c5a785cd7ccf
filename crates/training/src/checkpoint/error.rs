//! Errors of checkpoints.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Reason why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused: a full disk, a missing file, no permission.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// Action that failed, such as `read` or `create`.
        action: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The state could not be copied to or from the memory of a device.
    #[error("the state of a checkpoint could not be copied to its device")]
    Memory(#[from] kernels::KernelError),
    /// Rows of a table could not be read or written where the run keeps them.
    #[error("{problem}")]
    Rows {
        /// What went wrong.
        problem: String,
    },
    /// The folder holds no checkpoint.
    #[error(
        "{}: no checkpoint here; looked for manifest.json, for folders named step-000000000000 and for such folders \
         under checkpoints", path.display()
    )]
    NotFound {
        /// Folder that was searched.
        path: PathBuf,
    },
    /// A checkpoint of this step exists already.
    #[error(
        "{}: step {step} has a checkpoint already; resume the run from there, or keep this one in another folder",
        path.display()
    )]
    Exists {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Step of the checkpoint.
        step: u64,
    },
    /// A file is malformed.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// The manifest has another version of the format.
    #[error(
        "{}: version {got} of the format; this program reads versions up to {supported}: use the program that wrote it",
        path.display()
    )]
    Version {
        /// Path of the manifest.
        path: PathBuf,
        /// Version of the format that was found.
        got: u64,
        /// Version that this program reads.
        supported: u32,
    },
    /// A file has the wrong size.
    #[error(
        "{}: the file has {got} bytes, but {expected} according to the manifest; the file is damaged: use an earlier \
         checkpoint", path.display()
    )]
    Size {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file.
        got: u64,
        /// Size according to the manifest, in bytes.
        expected: u64,
    },
    /// The contents of a file do not match its checksum.
    #[error(
        "{}: sha256 is {got}, but {expected} according to the manifest; the file is damaged: use an earlier checkpoint",
        path.display()
    )]
    Checksum {
        /// Path of the file.
        path: PathBuf,
        /// SHA-256 of the file.
        got: String,
        /// SHA-256 according to the manifest.
        expected: String,
    },
    /// What an increment builds on is not there, or damaged.
    #[error("{}: this increment builds on the checkpoint of step {step}, which cannot be used", path.display())]
    Base {
        /// Folder of the increment.
        path: PathBuf,
        /// Step of the checkpoint that it builds on.
        step: u64,
        /// Error of that checkpoint.
        source: Box<CheckpointError>,
    },
    /// A piece does not match its tensor.
    #[error("{}: tensor {tensor}, rows {rows:?}, columns {columns:?}: {problem}", path.display())]
    Piece {
        /// Path of the file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Rows of the piece.
        rows: Range<usize>,
        /// Columns of the piece.
        columns: Range<usize>,
        /// Description of the problem.
        problem: String,
    },
    /// No file holds some elements of a tensor.
    #[error(
        "{}: the pieces of tensor {tensor} hold {covered} of its {elements} elements; a rank's pieces are missing",
        path.display()
    )]
    Gap {
        /// Path of the manifest.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Number of elements that the files hold.
        covered: usize,
        /// Number of elements of the tensor.
        elements: usize,
    },
    /// The checkpoint does not have a tensor.
    #[error(
        "{}: the checkpoint has no tensor {tensor}; it was saved from another model, or with tables that are cut differently",
        path.display()
    )]
    Unknown {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
    },
    /// The requested part does not exist in the tensor, or does not match the memory for it.
    #[error(
        "{}: rows {rows:?}, columns {columns:?} of tensor {tensor} of shape {shape:?} were requested into {room} floats; \
         please report this",
        path.display()
    )]
    Request {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Shape of the tensor.
        shape: Vec<usize>,
        /// Requested rows.
        rows: Range<usize>,
        /// Requested columns.
        columns: Range<usize>,
        /// Number of floats that the memory holds.
        room: usize,
    },
}

impl CheckpointError {
    /// Makes an error from one of the operating system about `path`.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Whether the checkpoint is damaged, so that an earlier one may be whole. A file that cannot be read because of
    /// permissions, or one of a later version, is not damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                // EIO: the disk cannot read it any more.
                let gone = [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof].contains(&source.kind());
                gone || source.raw_os_error() == Some(5)
            }
            Self::Base { source, .. } => source.is_damage(),
            Self::NotFound { .. }
            | Self::Malformed { .. }
            | Self::Size { .. }
            | Self::Checksum { .. }
            | Self::Piece { .. }
            | Self::Gap { .. }
            | Self::Unknown { .. } => true,
            Self::Exists { .. }
            | Self::Version { .. }
            | Self::Request { .. }
            | Self::Memory(_)
            | Self::Rows { .. } => false,
        }
    }

    /// An error about the form of `path`.
    pub(crate) fn malformed(path: &Path, problem: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), problem: problem.into() }
    }
}
