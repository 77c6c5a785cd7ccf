//! Files of the cache folder: compiled kernels and pinned algorithms. A file is whole or absent.

use std::io;
use std::path::Path;

/// Writes `bytes` to `file`, whatever other processes do at the same time: readers see the old file or the new one.
pub(crate) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let thread = std::thread::current().id();
    let temporary = folder.join(format!(".{name}.{}.{thread:?}", std::process::id()));
    std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, file)).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}
