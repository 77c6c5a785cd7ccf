//! Files that a user names for a command to write: one rule for all of them.
//!
//! ```text
//! an input of the command, whatever it is called there      refused
//! in a checkpoint, or a file that a run keeps in its folder refused
//! a folder, a disk, a socket, in a folder that is not there refused
//! a file that exists                                        refused without --force, else replaced as a whole
//! a link                                                    stays one; the rule is applied to where it leads
//! a pipe, a terminal, /dev/null, an open descriptor         written through
//! anything else                                             a new file, which has its name once it is complete
//! ```
//!
//! [`Output::check`] comes before the work, so that what cannot be written costs no time; [`Output::create`] after it.

mod error;
mod inputs;
mod protected;
mod writing;

pub use error::OutputError;
pub use inputs::Inputs;
pub use writing::Writing;

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A file, or something else that takes bytes, that may be written.
#[derive(Clone, Debug)]
pub struct Output {
    /// Name that the user gave.
    path: PathBuf,
    target: Target,
    force: bool,
}

/// Destination of the bytes.
#[derive(Clone, Debug, PartialEq)]
enum Target {
    /// The file at this path, which is no link.
    File(PathBuf),
    /// A pipe or a device, to be opened.
    Through(PathBuf),
    /// A descriptor that this process has open.
    Descriptor(u32),
}

/// Links that may lead to one another: as many as Linux follows.
const MAX_LINKS: usize = 40;

impl Output {
    /// Looks whether `path` may be written by a command that reads `inputs`, and can be. Nothing is changed.
    pub fn check(path: &Path, force: bool, inputs: &Inputs) -> Result<Self, OutputError> {
        let ends_in_slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if path.as_os_str().is_empty() || ends_in_slash || path.is_dir() {
            return Err(OutputError::Folder { path: path.to_owned() });
        }
        let target = target(path)?;
        if let Some(input) = inputs.same_as(path) {
            return Err(OutputError::Input { path: path.to_owned(), input: input.to_owned() });
        }
        if let Target::File(file) = &target {
            protected::refuse(path, file)?;
            check_file(path, file, force)?;
        }
        Ok(Self { path: path.to_owned(), target, force })
    }

    /// Looks whether a command may make a folder of its own at `path`, and replace what an earlier one left there.
    pub fn check_folder(path: &Path, inputs: &Inputs) -> Result<(), OutputError> {
        if let Some(input) = path.canonicalize().ok().and_then(|folder| inputs.inside(&folder)) {
            return Err(OutputError::HoldsInput { path: path.to_owned(), input: input.to_owned() });
        }
        let whole = std::path::absolute(path).map_err(no_path(path))?;
        // What is not there yet is made in the last folder that is.
        match whole.ancestors().find_map(|folder| folder.canonicalize().ok()) {
            Some(folder) => protected::refuse_inside(path, &folder),
            None => Ok(()),
        }
    }

    /// Looks whether `path` may be written, as [`check`](Self::check) does, where one is given.
    pub fn check_if_any(
        path: Option<&Path>,
        force: bool,
        inputs: &Inputs,
    ) -> Result<Option<Self>, OutputError> {
        path.map(|path| Self::check(path, force, inputs)).transpose()
    }

    /// Refuses two outputs in the same place.
    pub fn distinct<'a>(outputs: impl IntoIterator<Item = &'a Self>) -> Result<(), OutputError> {
        let mut before: Vec<&Self> = Vec::new();
        for output in outputs {
            let same =
                |other: &&&Self| matches!(output.target, Target::File(_)) && other.target == output.target;
            if let Some(other) = before.iter().find(same) {
                return Err(OutputError::Same { one: other.path.clone(), other: output.path.clone() });
            }
            before.push(output);
        }
        Ok(())
    }

    /// The path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the output is a file, which others may stand beside.
    pub fn is_file(&self) -> bool {
        matches!(self.target, Target::File(_))
    }

    /// Whether the output goes where results are told, so that these must go elsewhere.
    pub fn is_stdout(&self) -> bool {
        self.target == Target::Descriptor(1)
    }

    /// Begins to write.
    pub fn create(&self) -> Result<Writing, OutputError> {
        Writing::begin(self)
    }

    /// Writes all of it at once.
    pub fn write(&self, bytes: &[u8]) -> Result<(), OutputError> {
        let mut writing = self.create()?;
        writing.write_all(bytes).map_err(cannot_write(&self.path))?;
        writing.finish()
    }
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    |source| OutputError::Write { path: path.to_owned(), source }
}

fn no_path(path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    |source| OutputError::NoPath { path: path.to_owned(), source }
}

/// Target that a path leads to: links are followed, even to what does not exist.
fn target(path: &Path) -> Result<Target, OutputError> {
    let mut at = std::path::absolute(path).map_err(no_path(path))?;
    for _ in 0..MAX_LINKS {
        let parent = at.parent().unwrap_or(Path::new("/"));
        let parent = folder(path, parent)?;
        let Some(name) = at.file_name() else {
            return Err(OutputError::Folder { path: path.to_owned() });
        };
        // Standard output is /proc/self/fd/1: what it leads to is open already.
        if let Some(descriptor) = descriptor(&parent, name) {
            return Ok(Target::Descriptor(descriptor));
        }
        at = parent.join(name);
        match fs::read_link(&at) {
            Ok(next) => at = parent.join(next),
            Err(_) => return of_kind(path, at),
        }
    }
    Err(OutputError::Links { path: path.to_owned(), most: MAX_LINKS })
}

/// The folder that an output goes into, by its shortest name.
fn folder(path: &Path, folder: &Path) -> Result<PathBuf, OutputError> {
    let (named, asked) = (path.to_owned(), folder.to_owned());
    match folder.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => Err(OutputError::FolderIsFile { path: named, folder: asked }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(OutputError::NoFolder { path: named, folder: asked })
        }
        Err(error) => Err(OutputError::Unreachable { path: named, folder: asked, error }),
    }
}

/// What is at a path that is no link.
fn of_kind(path: &Path, at: PathBuf) -> Result<Target, OutputError> {
    let named = path.to_owned();
    let Ok(found) = fs::metadata(&at) else { return Ok(Target::File(at)) };
    let kind = found.file_type();
    if kind.is_fifo() || kind.is_char_device() {
        return Ok(Target::Through(at));
    }
    match () {
        () if kind.is_block_device() => Err(OutputError::Disk { path: named }),
        () if kind.is_socket() => Err(OutputError::Socket { path: named }),
        () if kind.is_dir() => Err(OutputError::Folder { path: named }),
        () => Ok(Target::File(at)),
    }
}

/// The descriptor of this process that a path stands for.
fn descriptor(parent: &Path, name: &std::ffi::OsStr) -> Option<u32> {
    let own = Path::new("/proc").join(std::process::id().to_string());
    let of_process = parent.starts_with(own) && parent.file_name().is_some_and(|folder| folder == "fd");
    if of_process { name.to_str()?.parse().ok() } else { None }
}

/// Looks whether a plain file can be made or replaced.
fn check_file(path: &Path, file: &Path, force: bool) -> Result<(), OutputError> {
    let named = path.to_owned();
    if let Ok(found) = fs::metadata(file) {
        if !force {
            return Err(OutputError::Exists { path: named });
        }
        if found.permissions().readonly() {
            return Err(OutputError::Protected { path: named });
        }
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    // What a file system allows is known for certain only by trying.
    tempfile::Builder::new().prefix(".campanile-").tempfile_in(folder).map(drop).map_err(|error| {
        OutputError::Unwritable { path: named, folder: folder.to_owned(), kind: error.kind() }
    })
}

#[cfg(test)]
mod tests;
