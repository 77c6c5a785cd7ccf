//! Exports a checkpoint as one plain safetensors file, as other programs read it: whole tensors, names unchanged.

use super::tensor_file::TensorFile;
use super::tiling::Extent;
use super::values::dtype;
use super::{Checkpoint, CheckpointError, FileEntry};
use kernels::{RowRounding, store_row};
use spec::table_format::TableFormat;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

/// Names of optimizer state begin with this.
const OPTIMIZER: &str = "optimizer.";
/// Floats in memory at once.
const BLOCK: usize = 1 << 18;

/// Tensors that are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Parameters only: every tensor whose name does not begin with `optimizer.`.
    Parameters,
    /// All tensors.
    ParametersAndOptimizer,
}

/// Format in which a tensor is exported: its own, but for int8, which is exported as the floats that its rows stand for.
fn exported(format: TableFormat) -> TableFormat {
    if format == TableFormat::Int8 { TableFormat::F32 } else { format }
}

/// Writes the tensors of a checkpoint to `out`, which messages call `path`, a megabyte at a time. The checkpoint's data is not
/// verified: call [`Checkpoint::verify`] first.
pub fn export(
    checkpoint: &Checkpoint,
    path: &Path,
    out: impl Write,
    contents: Contents,
) -> Result<FileEntry, CheckpointError> {
    let wanted = |name: &str| match contents {
        Contents::Parameters => !name.starts_with(OPTIMIZER),
        Contents::ParametersAndOptimizer => true,
    };
    let tensors: Vec<_> = checkpoint
        .tensors()
        .filter(|(name, _)| wanted(name))
        .map(|(name, shape)| (name, shape.to_vec(), exported(checkpoint.format(name))))
        .collect();
    let manifest = checkpoint.manifest();
    let notes = HashMap::from([
        ("step".to_owned(), manifest.step.to_string()),
        ("run".to_owned(), manifest.run.to_string()),
    ]);
    let header: Vec<_> =
        tensors.iter().map(|(name, shape, format)| (*name, shape.clone(), dtype(*format))).collect();
    let mut out = TensorFile::begin(path, out, &header, Some(notes))?;
    let (mut block, mut bytes) = (vec![0.0; BLOCK], Vec::new());
    for (name, shape, format) in &tensors {
        let Some(Extent { rows, columns }) = Extent::of(shape) else { continue };
        // Many rows at once, or a part of one.
        let (row_step, column_step) = ((BLOCK / columns).max(1), columns.min(BLOCK));
        for row in (0..rows).step_by(row_step) {
            let rows = row..rows.min(row + row_step);
            for column in (0..columns).step_by(column_step) {
                let columns = column..columns.min(column + column_step);
                let floats = &mut block[..rows.len() * columns.len()];
                checkpoint.read_rows(name, rows.clone(), columns, floats)?;
                // What was read from numbers of 16 bits is rounded to the same numbers.
                bytes.resize(format.row_bytes(floats.len()), 0);
                store_row(*format, floats, RowRounding::NEAREST, &mut bytes);
                out.write(&bytes)?;
            }
        }
    }
    Ok(out.finish()?.0)
}
