//! The order in which the interaction sees the vectors of a sample: the dense one first, then what a dataflow brings.

use crate::Error;
use kernels::{Buffer, ColumnCopy, Device, Matrix, MatrixMut, Stored};
use spec::model::{Block, Model};

/// Columns of a sample, and the dense vector's place among them.
#[derive(Debug)]
pub struct Order {
    /// All columns.
    pub width: usize,
    dense: Option<ColumnCopy>,
}

impl Order {
    /// The order of a model.
    pub fn new(model: &Model) -> Self {
        let network = model.network();
        let copy = |block: &Block| ColumnCopy { from: 0, to: 0, width: block.layers.output_width() };
        Self { width: network.features_width(), dense: network.leading().map(copy) }
    }

    /// Makes room for all vectors of `rows` samples, stored so, and puts the dense ones in their place.
    pub fn begin(
        &self,
        device: &Device,
        rows: usize,
        dense: Option<&Buffer<f32>>,
        (features, stored): (&mut Buffer<f32>, Stored),
    ) -> Result<(), Error> {
        features.resize_rows(stored, rows, self.width)?;
        if let (Some(copy), Some(dense)) = (self.dense, dense) {
            device.copy_columns(
                rows,
                &[copy],
                Matrix { buffer: dense, at: 0, width: copy.width },
                MatrixMut { buffer: features, at: 0, width: self.width },
            )?;
        }
        Ok(())
    }

    /// Takes the gradient of the dense vectors out of that of all.
    pub fn take_dense(
        &self,
        device: &Device,
        rows: usize,
        dfeatures: &Buffer<f32>,
        ddense: Option<&mut Buffer<f32>>,
    ) -> Result<(), Error> {
        if let (Some(copy), Some(ddense)) = (self.dense, ddense) {
            ddense.resize(rows * copy.width)?;
            device.copy_columns(
                rows,
                &[copy],
                Matrix { buffer: dfeatures, at: 0, width: self.width },
                MatrixMut { buffer: ddense, at: 0, width: copy.width },
            )?;
        }
        Ok(())
    }
}
