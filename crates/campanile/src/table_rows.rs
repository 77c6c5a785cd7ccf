//! Rows of a feature's table in a checkpoint: as they are stored, or multiplied out of the cores of a tensor train.

use crate::Error;
use crate::inputs::{no_table, table_name};
use crate::onnx::model_of;
use spec::tensor_train::TensorTrain;
use std::ops::Range;
use training::checkpoint::Checkpoint;

/// Rows of the table of one feature.
pub(crate) struct TableRows<'a> {
    checkpoint: &'a Checkpoint,
    name: String,
    /// Number of rows.
    pub rows: usize,
    /// Number of values of a row.
    pub dim: usize,
    train: Option<(TensorTrain, [Vec<f32>; 3])>,
}

impl<'a> TableRows<'a> {
    /// Rows of the table of `feature`. The cores of a tensor train are read at once.
    pub fn of(checkpoint: &'a Checkpoint, feature: &str) -> Result<Self, Error> {
        let name = table_name(feature);
        let stored = checkpoint.tensors().find(|(tensor, _)| *tensor == name).map(|(_, shape)| shape);
        if let Some(&[rows, dim]) = stored {
            return Ok(Self { checkpoint, name, rows, dim, train: None });
        }
        let model = model_of(checkpoint)?;
        let index = model.features().iter().position(|of| of.name == feature);
        let Some((index, train)) = index.and_then(|index| Some((index, model.tensor_train(index)?))) else {
            return Err(no_table(checkpoint, feature).into());
        };
        let mut cores = [const { Vec::new() }; 3];
        for (core, parameter) in cores.iter_mut().zip(model.cores_of(index)) {
            *core = vec![0.0; parameter.len];
            let [rows, columns] = [0, 1].map(|side| 0..parameter.shape[side]);
            checkpoint.read_rows(&parameter.name, rows, columns, core)?;
        }
        let (rows, dim) = (model.features()[index].rows, train.width);
        Ok(Self { checkpoint, name, rows, dim, train: Some((train, cores)) })
    }

    /// Reads some rows, one after the other.
    pub fn read(&self, rows: Range<usize>, to: &mut [f32]) -> Result<(), Error> {
        match &self.train {
            None => self.checkpoint.read_rows(&self.name, rows, 0..self.dim, to)?,
            Some((train, [first, second, third])) => {
                for (row, to) in rows.zip(to.chunks_exact_mut(self.dim)) {
                    train.row([first, second, third], row, to);
                }
            }
        }
        Ok(())
    }
}
