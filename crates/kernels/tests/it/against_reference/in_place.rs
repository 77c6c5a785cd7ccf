//! Vectors that are looked up where products read them: rows of bf16 on a GPU, beside columns that are copied there.

use super::support::*;
use crate::gpu::in_precision;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use ground::precision::Precision;
use half::bf16;
use kernels::{BagIndex, Buffer, ColumnCopy, Device, KernelError, Lookup, Matrix, MatrixMut, Stored, Table};

const SAMPLES: usize = 333;
const ROWS: usize = 50;

/// A leading vector and one vector of each table, side by side, in a buffer that stores them so.
fn side_by_side(device: &Device, dims: &[usize], stored: Stored) -> Result<Vec<f32>, KernelError> {
    let mut numbers = Numbers(5);
    let (leading, tables) = (dims[0], &dims[1..]);
    let width: usize = dims.iter().sum();
    let mut columns: Vec<usize> = vec![leading];
    tables.iter().for_each(|dim| columns.push(columns[columns.len() - 1] + dim));
    columns.pop();
    let made: Vec<Table> = tables
        .iter()
        .map(|&dim| {
            let mut table = Table::zeroed(device, ROWS, dim, Pooling::Mean, &UpdateRule::Sgd).unwrap();
            table.weights.write(0, &numbers.floats(ROWS * dim).to_vec().unwrap()).unwrap();
            table
        })
        .collect();
    let bags = tables.len() * SAMPLES;
    let lengths: Vec<u32> = (0..bags).map(|_| numbers.next() as u32 % 4).collect();
    let starts: Vec<u32> =
        lengths.iter().scan(0, |next, length| Some(std::mem::replace(next, *next + length))).collect();
    let values: Vec<u32> = (0..lengths.iter().sum()).map(|_| numbers.next() as u32 % ROWS as u32).collect();
    let first = on(device, &numbers.floats(SAMPLES * leading));
    let mut out = Buffer::new(device);
    out.resize_rows(stored, SAMPLES, width)?;
    device.copy_columns(
        SAMPLES,
        &[ColumnCopy { from: 0, to: 0, width: leading }],
        Matrix { buffer: &first, at: 0, width: leading },
        MatrixMut { buffer: &mut out, at: 0, width },
    )?;
    device.lookup(Lookup {
        tables: &made,
        which: 0..made.len(),
        columns: &columns,
        width,
        index: &BagIndex::from_bags(device, made.len(), &starts, &lengths)?,
        samples: 0..SAMPLES,
        values: &on(device, &buffer(&values)),
        weights: None,
        out: &mut out,
    })?;
    device.check()?;
    out.to_vec()
}

/// Columns by fours and any others; rows with and without padding.
#[test]
fn rows_of_bf16_are_rounded_floats() {
    let Some(device) = in_precision(Precision::Bf16) else { return };
    for dims in [&[16, 8, 128, 64][..], &[8, 4, 12], &[5, 3, 12, 1], &[4, 2], &[7, 200, 33]] {
        let stored = device.keeps(dims.iter().sum());
        assert_ne!(stored, Stored::Plain);
        let floats = side_by_side(&device, dims, Stored::Plain).unwrap();
        let rounded: Vec<f32> = floats.into_iter().map(|value| bf16::from_f32(value).to_f32()).collect();
        assert_eq!(side_by_side(&device, dims, stored).unwrap(), rounded, "{dims:?}");
    }
}

#[test]
fn hosts_refuse_rows_of_bf16() {
    for device in host_devices() {
        let refused = side_by_side(&device, &[8, 8], Stored::Bf16Rows { width: 16 }).unwrap_err();
        assert_eq!(refused, KernelError::StoredAsRows { op: "copy_columns" });
    }
}
