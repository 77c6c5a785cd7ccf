//! Bytes on their way to an output.

use super::{Output, OutputError, Target, cannot_write};
use crate::file::PARTIAL;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written at once.
const BUFFER: usize = 256 << 10;

/// An output that is being written. A file has its name once it is finished, and leaves nothing behind if it never is.
#[must_use = "an output that is not finished is no output"]
pub struct Writing {
    /// Name that the user gave.
    path: PathBuf,
    out: Option<BufWriter<Sink>>,
    partial: Option<Partial>,
}

enum Sink {
    File(File),
    Stdout,
    Stderr,
}

/// A file that is not complete.
struct Partial {
    /// Temporary path until the output is complete.
    path: PathBuf,
    /// Final path of the output.
    file: PathBuf,
    /// Whether that may be the name of another file.
    force: bool,
}

impl Writing {
    pub(super) fn begin(output: &Output) -> Result<Self, OutputError> {
        let path = output.path.clone();
        let (sink, partial) = match &output.target {
            Target::File(file) => {
                let (made, beside) = beside(file).map_err(cannot_write(&path))?;
                let partial = Partial { path: beside, file: file.clone(), force: output.force };
                (Sink::File(made), Some(partial))
            }
            Target::Through(device) => {
                let opened = OpenOptions::new().write(true).open(device);
                (Sink::File(opened.map_err(cannot_write(&path))?), None)
            }
            Target::Descriptor(1) => (Sink::Stdout, None),
            Target::Descriptor(2) => (Sink::Stderr, None),
            // What others wrote to the same file stays.
            Target::Descriptor(number) => {
                let opened = OpenOptions::new().append(true).open(format!("/proc/self/fd/{number}"));
                (Sink::File(opened.map_err(cannot_write(&path))?), None)
            }
        };
        Ok(Self { path, out: Some(BufWriter::with_capacity(BUFFER, sink)), partial })
    }

    /// Completes the output: a file is brought to the disk and gets its name.
    pub fn finish(mut self) -> Result<(), OutputError> {
        let path = self.path.clone();
        let Some(mut out) = self.out.take() else { return Ok(()) };
        let flushed = out.flush();
        // What is still in the buffer must not be written again.
        let (sink, _) = out.into_parts();
        flushed.map_err(cannot_write(&path))?;
        let (Sink::File(file), Some(partial)) = (&sink, &self.partial) else { return Ok(()) };
        file.sync_all().map_err(cannot_write(&path))?;
        if let Err(error) = partial.complete() {
            if error.kind() != ErrorKind::AlreadyExists {
                return Err(cannot_write(&path)(error));
            }
            let kept = partial.path.clone();
            self.partial = None;
            return Err(OutputError::Appeared { path, kept });
        }
        self.partial = None;
        Ok(())
    }
}

impl Write for Writing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.as_mut().map_or(Ok(bytes.len()), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), |out| out.flush())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // Half a file would be taken for a whole one by whoever finds it. Nobody can be told if this fails.
        if let Some(partial) = self.partial.take() {
            if let Some(out) = self.out.take() {
                drop(out.into_parts());
            }
            let _ = fs::remove_file(&partial.path);
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout => io::stdout().write(bytes),
            Self::Stderr => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout => io::stdout().flush(),
            Self::Stderr => io::stderr().flush(),
        }
    }
}

impl Partial {
    /// Gives the file its name.
    fn complete(&self) -> io::Result<()> {
        if self.force {
            if let Ok(before) = fs::metadata(&self.file) {
                fs::set_permissions(&self.path, before.permissions())?;
            }
            fs::rename(&self.path, &self.file)?;
        } else {
            // A second name is never that of another file, as a new name might be.
            match fs::hard_link(&self.path, &self.file) {
                Ok(()) => fs::remove_file(&self.path)?,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
                // Some file systems have one name for a file.
                Err(_) if self.file.exists() => return Err(ErrorKind::AlreadyExists.into()),
                Err(_) => fs::rename(&self.path, &self.file)?,
            }
        }
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        File::open(folder)?.sync_all()
    }
}

/// A new file beside another, under a name that nobody else has.
fn beside(file: &Path) -> io::Result<(File, PathBuf)> {
    let process = std::process::id();
    for number in 0..1000 {
        let path = file.with_file_name(format!(".campanile-{process}-{number}{PARTIAL}"));
        match File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return Ok((made?, path)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
