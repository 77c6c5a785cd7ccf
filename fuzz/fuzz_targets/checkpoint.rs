//! Checkpoints: a file of tensors under a manifest that finds it right, and a manifest that finds itself right.
//!
//!     cargo +nightly fuzz run checkpoint
//!
//! The first byte chooses between the two; the rest is the file of tensors, or the manifest's text without its checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use training::checkpoint::{
    Checkpoint, CheckpointError, Folder, Manifest, Piece, TopologyEntry, write_pieces,
};

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A checkpoint of one small tensor, whose file is `tensors` where that is given.
fn write(root: &Path, tensors: Option<&[u8]>) -> Result<std::path::PathBuf, CheckpointError> {
    let folder = Folder::open(root)?;
    let writing = folder.begin(1)?;
    let piece = Piece { name: "t".into(), shape: vec![2, 2], rows: 0..2, columns: 0..2, data: vec![0.5; 4] };
    let mut written = write_pieces(&writing, 0, &[piece])?;
    if let Some(bytes) = tensors {
        fs::write(writing.join(&written.file.name), bytes).unwrap();
        written.file.bytes = bytes.len() as u64;
        written.file.sha256 = hex(bytes);
    }
    folder.commit(&Manifest::new(1, TopologyEntry { hosts: 1, ranks_per_host: 1 }, vec![written]))
}

/// A manifest's text with its checksum as the last field.
fn seal(body: &[u8]) -> Vec<u8> {
    let fields = body.strip_suffix(b"\n}").unwrap_or(body);
    [fields, b",\n  \"sha256\": \"", hex(body).as_bytes(), b"\"\n}\n"].concat()
}

fn read(path: &Path) -> Result<(), CheckpointError> {
    let checkpoint = Checkpoint::open(path)?;
    let _ = checkpoint.verify(&|_, _| ());
    let tensors: Vec<(String, Vec<usize>)> =
        checkpoint.tensors().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
    for (name, shape) in tensors {
        let rows = shape.first().copied().unwrap_or(1).min(10);
        let columns = shape.iter().skip(1).try_fold(1usize, |n, &m| n.checked_mul(m)).unwrap_or(1).min(10);
        let mut floats = vec![0.0; rows * columns];
        let _ = checkpoint.read_rows(&name, 0..rows, 0..columns, &mut floats);
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let [choice, bytes @ ..] = bytes else { return };
    let root = tempfile::tempdir().unwrap();
    if choice % 2 == 0 {
        let Ok(path) = write(root.path(), Some(bytes)) else { return };
        let _ = read(&path);
    } else {
        let path = write(root.path(), None).unwrap();
        fs::write(path.join("manifest.json"), seal(bytes)).unwrap();
        let _ = read(&path);
    }
});
