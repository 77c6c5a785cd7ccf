//! Inputs of a command, which no output may overwrite.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that a command reads, known by device and inode: whatever name, link or spelling leads to one leads to the same.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    files: Vec<Input>,
}

#[derive(Clone, Debug)]
struct Input {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Inputs {
    /// Adds the file at `path`, or all files in the folder at `path`. What is not there is left out: whoever reads it says so.
    pub fn add(&mut self, path: impl AsRef<Path>) -> &mut Self {
        let path = path.as_ref();
        if path.is_dir() {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                self.add_file(&entry.path());
            }
        } else {
            self.add_file(path);
        }
        self
    }

    /// Adds files that need not be asked for.
    pub fn add_all<P: AsRef<Path>>(&mut self, paths: impl IntoIterator<Item = P>) -> &mut Self {
        for path in paths {
            self.add(path);
        }
        self
    }

    /// Adds the files of a log: paths, globs, or the folder of a prepared one.
    pub fn add_log(&mut self, patterns: &[String]) -> &mut Self {
        for pattern in patterns {
            if Path::new(pattern).exists() {
                self.add(pattern);
            } else {
                let files = data::files::resolve(std::slice::from_ref(pattern));
                self.add_all(files.unwrap_or_default());
            }
        }
        self
    }

    fn add_file(&mut self, path: &Path) {
        let Ok(found) = fs::metadata(path) else { return };
        // A terminal or a pipe may well be read and written.
        if found.is_file() {
            self.files.push(Input { path: path.to_owned(), device: found.dev(), inode: found.ino() });
        }
    }

    /// An input that lies in `folder`, whatever name it was given by.
    pub(super) fn inside(&self, folder: &Path) -> Option<&Path> {
        let inside = |input: &&Input| input.path.canonicalize().is_ok_and(|file| file.starts_with(folder));
        self.files.iter().find(inside).map(|input| input.path.as_path())
    }

    /// The input that `path` leads to.
    pub(super) fn same_as(&self, path: &Path) -> Option<&Path> {
        let found = fs::metadata(path).ok()?;
        let same = |input: &&Input| (input.device, input.inode) == (found.dev(), found.ino());
        self.files.iter().find(same).map(|input| input.path.as_path())
    }
}
