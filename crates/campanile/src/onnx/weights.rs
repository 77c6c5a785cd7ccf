//! Numbers of a checkpoint's tensors, as bytes of the type that an ONNX tensor has.

use super::graph::Parameter;
use super::proto::ElementType;
use crate::Error;
use kernels::{RowRounding, store_row};
use spec::table_format::TableFormat;
use std::io::{self, Write};
use training::checkpoint::Checkpoint;

/// Floats in memory at once.
const BLOCK: usize = 1 << 18;

/// Writes the numbers of a parameter, a megabyte at a time.
pub fn write_numbers(
    checkpoint: &Checkpoint,
    parameter: &Parameter,
    out: &mut impl Write,
    refuse: &impl Fn(io::Error) -> Error,
) -> Result<(), Error> {
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
                ElementType::Float | ElementType::Int64 => TableFormat::F32,
            };
            bytes.resize(format.row_bytes(floats.len()), 0);
            store_row(format, floats, RowRounding::NEAREST, &mut bytes);
            out.write_all(&bytes).map_err(refuse)?;
        }
    }
    Ok(())
}
