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

mod inputs;
mod protected;
mod writing;

pub use inputs::Inputs;
pub use writing::Writing;

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What every command has that writes files.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Force {
    /// Replace output files that exist; inputs, checkpoints and files of runs are never replaced
    #[arg(long)]
    pub force: bool,
}

/// A place that may be written.
#[derive(Clone, Debug)]
pub struct Output {
    /// As the user named it.
    path: PathBuf,
    place: Place,
    force: bool,
}

/// Where bytes go.
#[derive(Clone, Debug, PartialEq)]
enum Place {
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
    pub fn check(path: &Path, force: bool, inputs: &Inputs) -> Result<Self> {
        let named = path.display();
        let ends_in_slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        ensure!(
            !path.as_os_str().is_empty() && !ends_in_slash && !path.is_dir(),
            "{named}: not a file but a folder; give the name of a file in it"
        );
        let place = place(path)?;
        if let Some(input) = inputs.same_as(path) {
            bail!(
                "{named}: an input of this command ({}), which an output never replaces, not even with --force; give another name",
                input.display()
            );
        }
        if let Place::File(file) = &place {
            protected::refuse(path, file)?;
            check_file(path, file, force)?;
        }
        Ok(Self { path: path.to_owned(), place, force })
    }

    /// Looks whether a command may make a folder of its own at `path`, and replace what an earlier one left there.
    pub fn check_folder(path: &Path, inputs: &Inputs) -> Result<()> {
        let named = path.display();
        if let Some(input) = path.canonicalize().ok().and_then(|folder| inputs.inside(&folder)) {
            bail!(
                "{named}: holds an input of this command, {}, which must not be lost; choose another folder",
                input.display()
            );
        }
        let whole = std::path::absolute(path).with_context(|| format!("{named}: not a path"))?;
        // What is not there yet is made in the last folder that is.
        match whole.ancestors().find_map(|folder| folder.canonicalize().ok()) {
            Some(folder) => protected::refuse_inside(path, &folder),
            None => Ok(()),
        }
    }

    /// As [`check`](Self::check), for a file that need not be asked for.
    pub fn check_if_any(path: Option<&Path>, force: bool, inputs: &Inputs) -> Result<Option<Self>> {
        path.map(|path| Self::check(path, force, inputs)).transpose()
    }

    /// Refuses two outputs in the same place.
    pub fn distinct<'a>(outputs: impl IntoIterator<Item = &'a Self>) -> Result<()> {
        let mut before: Vec<&Self> = Vec::new();
        for output in outputs {
            let same = |other: &&&Self| matches!(output.place, Place::File(_)) && other.place == output.place;
            if let Some(other) = before.iter().find(same) {
                bail!(
                    "{} and {}: two outputs cannot go into the same file; give them different names",
                    other.path.display(),
                    output.path.display()
                );
            }
            before.push(output);
        }
        Ok(())
    }

    /// The path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the output goes where results are told, so that these must go elsewhere.
    pub fn is_stdout(&self) -> bool {
        self.place == Place::Descriptor(1)
    }

    /// Begins to write.
    pub fn create(&self) -> Result<Writing> {
        Writing::begin(self)
    }

    /// Writes all of it at once.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut writing = self.create()?;
        writing.write_all(bytes).with_context(|| self.cannot())?;
        writing.finish()
    }

    fn cannot(&self) -> String {
        format!("{}: cannot be written", self.path.display())
    }
}

/// Where a path leads: links are followed, even to what does not exist.
fn place(path: &Path) -> Result<Place> {
    let named = path.display();
    let mut at = std::path::absolute(path).with_context(|| format!("{named}: not a path"))?;
    for _ in 0..MAX_LINKS {
        let parent = at.parent().unwrap_or(Path::new("/"));
        let parent = folder(path, parent)?;
        let Some(name) = at.file_name() else {
            bail!("{named}: not a file but a folder; give the name of a file in it")
        };
        // Standard output is /proc/self/fd/1: what it leads to is open already.
        if let Some(descriptor) = descriptor(&parent, name) {
            return Ok(Place::Descriptor(descriptor));
        }
        at = parent.join(name);
        match fs::read_link(&at) {
            Ok(next) => at = parent.join(next),
            Err(_) => return of_kind(path, at),
        }
    }
    bail!("{named}: a link that leads through more than {MAX_LINKS} others, or to itself; give another name")
}

/// The folder that an output goes into, by its shortest name.
fn folder(path: &Path, folder: &Path) -> Result<PathBuf> {
    let (named, shown) = (path.display(), folder.display());
    match folder.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => bail!("{named}: {shown} is a file, not a folder; give another name"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{named}: there is no folder {shown}; create it (mkdir -p {shown}), or give another")
        }
        Err(error) => bail!("{named}: the folder {shown} cannot be reached: {error}; give another"),
    }
}

/// What is at a path that is no link.
fn of_kind(path: &Path, at: PathBuf) -> Result<Place> {
    let named = path.display();
    let Ok(found) = fs::metadata(&at) else { return Ok(Place::File(at)) };
    let kind = found.file_type();
    if kind.is_fifo() || kind.is_char_device() {
        return Ok(Place::Through(at));
    }
    ensure!(!kind.is_block_device(), "{named}: a disk, which is never written to; give the name of a file");
    ensure!(!kind.is_socket(), "{named}: a socket, which cannot be written to; give the name of a file");
    ensure!(!kind.is_dir(), "{named}: not a file but a folder; give the name of a file in it");
    Ok(Place::File(at))
}

/// The descriptor of this process that a path stands for.
fn descriptor(parent: &Path, name: &std::ffi::OsStr) -> Option<u32> {
    let own = Path::new("/proc").join(std::process::id().to_string());
    let of_process = parent.starts_with(own) && parent.file_name().is_some_and(|folder| folder == "fd");
    if of_process { name.to_str()?.parse().ok() } else { None }
}

/// Looks whether a plain file can be made or replaced.
fn check_file(path: &Path, file: &Path, force: bool) -> Result<()> {
    let named = path.display();
    if let Ok(found) = fs::metadata(file) {
        ensure!(force, "{named}: exists already; give another name, or --force to replace it");
        ensure!(
            !found.permissions().readonly(),
            "{named}: write-protected, and so not replaced, not even with --force; give another name, or allow it with chmod u+w"
        );
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    // What a file system allows is known for certain only by trying.
    tempfile::Builder::new().prefix(".campanile-").tempfile_in(folder).map(drop).map_err(|error| {
        anyhow::anyhow!(
            "{named}: no file can be made in {}: {}; give another folder, or make this one writable",
            folder.display(),
            error.kind()
        )
    })
}

#[cfg(test)]
mod tests;
