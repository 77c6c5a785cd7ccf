//! Exports a checkpoint as one plain safetensors file, as other programs read it: whole tensors, names unchanged.

use super::folder::sync_folder;
use super::tensor_file::TensorFile;
use super::tiling::Extent;
use super::{Checkpoint, CheckpointError, FileRecord};
use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

/// Names of optimizer state begin with this.
const OPTIMIZER: &str = "optimizer.";
/// Floats in memory at once.
const BLOCK: usize = 1 << 18;

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// What a prediction needs: every tensor whose name does not begin with `optimizer.`.
    Parameters,
    /// All tensors.
    ParametersAndOptimizer,
}

/// Writes the tensors of a checkpoint to `file`, a megabyte at a time. `file` is replaced when all is on disk, not
/// before. The checkpoint's data is not verified: call [`Checkpoint::verify`] first.
pub fn export(
    checkpoint: &Checkpoint,
    file: &Path,
    contents: Contents,
) -> Result<FileRecord, CheckpointError> {
    let Some(name) = file.file_name() else {
        return Err(CheckpointError::malformed(file, "not the name of a file"));
    };
    let partial = file.with_file_name(format!(".{}.partial", name.display()));
    remove(&partial)?; // What a killed export left.
    let written = write(checkpoint, &partial, contents).and_then(|record| {
        fs::rename(&partial, file).map_err(CheckpointError::io("complete", file))?;
        file.parent().map_or(Ok(()), sync_folder)?;
        Ok(FileRecord { name: name.display().to_string(), ..record })
    });
    if written.is_err() {
        // The first error is the one to tell.
        let _ = remove(&partial);
    }
    written
}

fn write(checkpoint: &Checkpoint, path: &Path, contents: Contents) -> Result<FileRecord, CheckpointError> {
    let wanted = |name: &str| match contents {
        Contents::Parameters => !name.starts_with(OPTIMIZER),
        Contents::ParametersAndOptimizer => true,
    };
    let tensors: Vec<_> = checkpoint
        .tensors()
        .filter(|(name, _)| wanted(name))
        .map(|(name, shape)| (name, shape.to_vec()))
        .collect();
    let manifest = checkpoint.manifest();
    let notes = HashMap::from([
        ("step".to_owned(), manifest.step.to_string()),
        ("run".to_owned(), manifest.run.to_string()),
    ]);
    let mut out = TensorFile::create(path, &tensors, Some(notes))?;
    let mut block = vec![0.0; BLOCK];
    for (name, shape) in &tensors {
        let Some(Extent { rows, columns }) = Extent::of(shape) else { continue };
        // Many rows at once, or a part of one.
        let (row_step, column_step) = ((BLOCK / columns).max(1), columns.min(BLOCK));
        for row in (0..rows).step_by(row_step) {
            let rows = row..rows.min(row + row_step);
            for column in (0..columns).step_by(column_step) {
                let columns = column..columns.min(column + column_step);
                let floats = &mut block[..rows.len() * columns.len()];
                checkpoint.read_rows(name, rows.clone(), columns, floats)?;
                out.write(floats)?;
            }
        }
    }
    out.finish()
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CheckpointError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
