//! Files of a log: resolves patterns, and reads files decompressed.
//!
//! The first bytes of a file determine the compression, not its name:
//!
//! ```text
//! 1f 8b               gzip, any number of members
//! fd 37 7a 58 5a 00   xz, any number of streams
//! 28 b5 2f fd         zstd, any number of frames
//! anything else       not compressed
//! ```

use crate::DataError;
use liblzma::stream::{CONCATENATED, Stream};
use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of bytes that are read from a file at a time.
const READ: usize = 256 << 10;

/// Resolves `patterns` to files: a path stands for itself, a glob for its matches in alphabetical order.
pub fn resolve(patterns: &[String]) -> Result<Vec<PathBuf>, DataError> {
    let mut files = vec![];
    for pattern in patterns {
        // The name of a file may look like a pattern.
        match Path::new(pattern).metadata() {
            Ok(_) => {
                files.push(PathBuf::from(pattern));
                continue;
            }
            Err(_) if pattern.contains(['*', '?', '[']) => {}
            Err(error) => return Err(DataError::file(pattern, unreachable(pattern, &error))),
        }
        let refuse = |problem: String| DataError::file(pattern, problem);
        let matches = glob::glob(pattern).map_err(|error| refuse(format!("not a pattern: {error}")))?;
        let mut matches = matches
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| DataError::file(error.path(), error.error()))?;
        if matches.is_empty() {
            return Err(refuse("no file matches this pattern".into()));
        }
        matches.sort();
        files.append(&mut matches);
    }
    for file in &files {
        if file.is_dir() {
            let prepared = |folder: PathBuf| folder.join(crate::prepared::MANIFEST).is_file();
            let problem = match () {
                () if prepared(file.clone()) => "is a prepared log; read it with --format prepared",
                () if prepared(file.join("train")) => {
                    "is a folder of prepared logs; read them with --format prepared, as --data FOLDER/train and --eval \
                     FOLDER/eval"
                }
                () => "is a folder; name its files, as in folder/*",
            };
            return Err(DataError::file(file, problem));
        }
    }
    Ok(files)
}

/// Message that says why there is nothing to read at `path`.
fn unreachable(path: &str, error: &io::Error) -> String {
    match Path::new(path).read_link() {
        Ok(to) if error.kind() == ErrorKind::NotFound => {
            format!("is a symbolic link to {}, where no file is", to.display())
        }
        Ok(to) if error.raw_os_error() == Some(TOO_MANY_LINKS) => {
            format!(
                "is a symbolic link to {}, and links from there lead in a circle; link it to a file",
                to.display()
            )
        }
        _ if error.raw_os_error() == Some(TOO_MANY_LINKS) => {
            "leads through symbolic links in a circle; link them to a folder".into()
        }
        _ if error.kind() == ErrorKind::NotFound => "no such file".into(),
        _ => format!("cannot be read: {error}"),
    }
}

/// Error number ELOOP of Linux: too many symbolic links.
const TOO_MANY_LINKS: i32 = 40;

/// Opens the file at `path` and decompresses it. The decompressor may use `memory` bytes. `consumed` grows by the number of
/// bytes that were read from the file itself.
pub fn open(path: &Path, memory: u64, consumed: Arc<AtomicU64>) -> Result<Box<dyn Read + Send>, DataError> {
    let refuse = |error: io::Error| DataError::file(path, error);
    let mut file = Counted { file: File::open(path).map_err(refuse)?, consumed };
    let mut magic = vec![];
    file.by_ref().take(6).read_to_end(&mut magic).map_err(refuse)?;
    let (begins, too_large) = (magic.clone(), memory >> 10);
    let file = BufReader::with_capacity(READ, Cursor::new(magic).chain(file));
    let (format, reader): (_, Box<dyn Read + Send>) = match begins.as_slice() {
        [0x1f, 0x8b, ..] => ("gzip", Box::new(flate2::bufread::MultiGzDecoder::new(file))),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let stream = Stream::new_stream_decoder(memory, CONCATENATED).map_err(|e| refuse(e.into()))?;
            ("xz", Box::new(liblzma::bufread::XzDecoder::new_stream(file, stream)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(file).map_err(refuse)?;
            decoder.window_log_max(memory.max(1).ilog2().clamp(10, 31)).map_err(refuse)?;
            ("zstd", Box::new(decoder))
        }
        _ => return Ok(Box::new(file)),
    };
    Ok(Box::new(Compressed { format, memory: too_large, reader }))
}

/// Reader that counts the bytes of a file as they are read.
struct Counted {
    file: File,
    consumed: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Decompressor whose errors name the compression and the memory limit.
struct Compressed {
    format: &'static str,
    /// Memory limit in KiB.
    memory: u64,
    reader: Box<dyn Read + Send>,
}

impl Read for Compressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).map_err(|error| {
            let Self { format, memory, .. } = self;
            let problem = format!(
                "{format} data is cut short, damaged, or needs more than the {memory} KiB it may take: {error}"
            );
            io::Error::new(error.kind(), problem)
        })
    }
}

#[cfg(test)]
mod tests;
