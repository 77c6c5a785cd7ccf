//! Errors of outputs.

use std::io;
use std::path::PathBuf;

/// Reason why a file or folder may not or cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A name leads to a folder, or names none.
    #[error("{}: not a file but a folder; give the name of a file in it", path.display())]
    Folder {
        /// Name that was given.
        path: PathBuf,
    },
    /// An output is a file that the command reads.
    #[error(
        "{}: an input of this command ({}), which an output never replaces, not even with --force; give another name",
        path.display(), input.display()
    )]
    Input {
        /// Name that was given.
        path: PathBuf,
        /// Name by which the command reads the file.
        input: PathBuf,
    },
    /// A folder to be made holds a file that the command reads.
    #[error(
        "{}: holds an input of this command, {}, which must not be lost; choose another folder",
        path.display(), input.display()
    )]
    HoldsInput {
        /// Folder that was given.
        path: PathBuf,
        /// The input in it.
        input: PathBuf,
    },
    /// A text is no path.
    #[error("{}: not a path", path.display())]
    NoPath {
        /// Name that was given.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Two outputs lead to one file.
    #[error(
        "{} and {}: two outputs cannot go into the same file; give them different names",
        one.display(), other.display()
    )]
    Same {
        /// Name of one output.
        one: PathBuf,
        /// Name of the other.
        other: PathBuf,
    },
    /// A link leads in a circle, or too far.
    #[error(
        "{}: a link that leads through more than {most} others, or to itself; give another name",
        path.display()
    )]
    Links {
        /// Name that was given.
        path: PathBuf,
        /// The most links that are followed.
        most: usize,
    },
    /// The folder of an output is a file.
    #[error("{}: {} is a file, not a folder; give another name", path.display(), folder.display())]
    FolderIsFile {
        /// Name that was given.
        path: PathBuf,
        /// The file in place of a folder.
        folder: PathBuf,
    },
    /// The folder of an output is not there.
    #[error(
        "{}: there is no folder {1}; create it (mkdir -p {1}), or give another",
        path.display(), folder.display()
    )]
    NoFolder {
        /// Name that was given.
        path: PathBuf,
        /// Path of the folder.
        folder: PathBuf,
    },
    /// The folder of an output cannot be reached.
    #[error("{}: the folder {} cannot be reached: {error}; give another", path.display(), folder.display())]
    Unreachable {
        /// Name that was given.
        path: PathBuf,
        /// Path of the folder.
        folder: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// An output is a disk.
    #[error("{}: a disk, which is never written to; give the name of a file", path.display())]
    Disk {
        /// Name that was given.
        path: PathBuf,
    },
    /// An output is a socket.
    #[error("{}: a socket, which cannot be written to; give the name of a file", path.display())]
    Socket {
        /// Name that was given.
        path: PathBuf,
    },
    /// An output exists, and was not to be replaced.
    #[error("{}: exists already; give another name, or --force to replace it", path.display())]
    Exists {
        /// Name that was given.
        path: PathBuf,
    },
    /// An output exists, and may not be changed.
    #[error(
        "{}: write-protected, and so not replaced, not even with --force; give another name, or allow it with chmod u+w",
        path.display()
    )]
    Protected {
        /// Name that was given.
        path: PathBuf,
    },
    /// No file can be made in the folder of an output.
    #[error(
        "{}: no file can be made in {}: {kind}; give another folder, or make this one writable",
        path.display(), folder.display()
    )]
    Unwritable {
        /// Name that was given.
        path: PathBuf,
        /// Path of the folder.
        folder: PathBuf,
        /// Error of the operating system.
        kind: io::ErrorKind,
    },
    /// An output is a file that a run keeps in its folder.
    #[error(
        "{}: belongs to the run in {}, and is never replaced, not even with --force; give another name",
        path.display(), run.display()
    )]
    OfRun {
        /// Name that was given.
        path: PathBuf,
        /// Folder of the run.
        run: PathBuf,
    },
    /// An output lies in a checkpoint.
    #[error(
        "{}: lies in a checkpoint, {}, into which nothing else is written, not even with --force; give another folder",
        path.display(), checkpoint.display()
    )]
    InCheckpoint {
        /// Name that was given.
        path: PathBuf,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// An output lies in a folder that a run keeps in its own.
    #[error(
        "{}: lies in {} of the run in {}, into which nothing else is written, not even with --force; give another folder",
        path.display(), part.display(), run.display()
    )]
    InRun {
        /// Name that was given.
        path: PathBuf,
        /// The folder, from that of the run.
        part: PathBuf,
        /// Folder of the run.
        run: PathBuf,
    },
    /// An output cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// Name that was given.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another file got the name of an output while it was written.
    #[error(
        "{}: a file of this name appeared meanwhile, and stays; what was written is in {}",
        path.display(), kept.display()
    )]
    Appeared {
        /// Name that was given.
        path: PathBuf,
        /// Path of the output that was kept.
        kept: PathBuf,
    },
}
