//! Numbers of a checkpoint's tensors, as bytes of the type that an ONNX tensor has.

use super::graph::{Numbers, Parameter};
use super::proto::ElementType;
use crate::Error;
use kernels::{RowRounding, store_row};
use spec::table_format::TableFormat;
use std::io::{self, Write};
use std::ops::Range;
use training::checkpoint::{Checkpoint, CheckpointError};

/// Floats in memory at once.
const BLOCK: usize = 1 << 18;

/// Writes the numbers of a parameter, a megabyte at a time.
pub fn write_numbers(
    checkpoint: &Checkpoint,
    parameter: &Parameter,
    out: &mut impl Write,
    refuse: &impl Fn(io::Error) -> Error,
) -> Result<(), Error> {
    match &parameter.numbers {
        Numbers::All => {}
        Numbers::Codes => {
            let codes = |width: usize| 0..width;
            return write_stored(checkpoint, &parameter.name, codes, out, refuse);
        }
        Numbers::Ranges(table) => {
            let ranges = |width: usize| width..width + TableFormat::INT8_EXTRA;
            return write_stored(checkpoint, table, ranges, out, refuse);
        }
    }
    let (&rows, rest) = parameter.shape.split_first().unwrap_or((&1, &[]));
    let columns: usize = rest.iter().product();
    let (row_step, column_step) = ((BLOCK / columns.max(1)).max(1), columns.clamp(1, BLOCK));
    let (mut block, mut bytes) = (vec![0.0; row_step.min(rows) * column_step], Vec::new());
    for row in (0..rows).step_by(row_step) {
        let rows = row..rows.min(row + row_step);
        for column in (0..columns).step_by(column_step) {
            let columns = column..columns.min(column + column_step);
            let floats = &mut block[..rows.len() * columns.len()];
            checkpoint.read_rows(&parameter.name, rows.clone(), columns, floats)?;
            let format = match parameter.element {
                ElementType::Float16 => TableFormat::F16,
                ElementType::Bfloat16 => TableFormat::Bf16,
                ElementType::Float | ElementType::Int64 | ElementType::Uint8 => TableFormat::F32,
            };
            bytes.resize(format.row_bytes(floats.len()), 0);
            store_row(format, floats, RowRounding::NEAREST, &mut bytes);
            out.write_all(&bytes).map_err(refuse)?;
        }
    }
    Ok(())
}

/// Writes some bytes of every row of a table of 8-bit codes as they are stored; `part` says which, from the number of codes of a row.
fn write_stored(
    checkpoint: &Checkpoint,
    table: &str,
    part: impl Fn(usize) -> Range<usize>,
    out: &mut impl Write,
    refuse: &impl Fn(io::Error) -> Error,
) -> Result<(), Error> {
    let shape = checkpoint.tensors().find(|(name, _)| *name == table).map(|(_, shape)| shape);
    let Some(&[rows, width]) = shape else {
        return Err(
            CheckpointError::Unknown { path: checkpoint.path().to_owned(), tensor: table.into() }.into()
        );
    };
    let (row_bytes, part) = (TableFormat::Int8.row_bytes(width), part(width));
    let step = (BLOCK / row_bytes).max(1);
    let mut bytes = vec![0; step.min(rows) * row_bytes];
    for row in (0..rows).step_by(step) {
        let rows = row..rows.min(row + step);
        let bytes = &mut bytes[..rows.len() * row_bytes];
        checkpoint.read_stored(table, rows, &(0..width), bytes)?;
        let some: Vec<u8> =
            bytes.chunks_exact(row_bytes).flat_map(|row| &row[part.clone()]).copied().collect();
        out.write_all(&some).map_err(refuse)?;
    }
    Ok(())
}
