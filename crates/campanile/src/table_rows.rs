//! Rows of a feature's table in a checkpoint: as they are stored, or multiplied out of the cores of a tensor train.

use crate::Error;
use crate::inputs::{no_table, table_name};
use crate::onnx::model_of;
use spec::model::Parameter;
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
    train: Option<Train>,
}

/// A tensor train, and its cores.
struct Train {
    shape: TensorTrain,
    parameters: Vec<Parameter>,
    /// Weights of the cores; empty until they are read.
    cores: [Vec<f32>; 3],
}

impl<'a> TableRows<'a> {
    /// Finds the table of `feature`, and reads none of its weights.
    pub fn of(checkpoint: &'a Checkpoint, feature: &str) -> Result<Self, Error> {
        let name = table_name(feature);
        let stored = checkpoint.tensors().find(|(tensor, _)| *tensor == name).map(|(_, shape)| shape);
        if let Some(&[rows, dim]) = stored {
            return Ok(Self { checkpoint, name, rows, dim, train: None });
        }
        let model = model_of(checkpoint)?;
        let index = model.features().iter().position(|of| of.name == feature);
        let Some((index, shape)) = index.and_then(|index| Some((index, model.tensor_train(index)?))) else {
            return Err(no_table(checkpoint, feature).into());
        };
        let (rows, dim) = (model.features()[index].rows, shape.width);
        let train = Train { shape, parameters: model.cores_of(index), cores: Default::default() };
        Ok(Self { checkpoint, name, rows, dim, train: Some(train) })
    }

    /// Reads some rows, one after the other. The cores of a tensor train are read with the first of them.
    pub fn read(&mut self, rows: Range<usize>, to: &mut [f32]) -> Result<(), Error> {
        let Some(Train { shape, parameters, cores }) = &mut self.train else {
            return Ok(self.checkpoint.read_rows(&self.name, rows, 0..self.dim, to)?);
        };
        for (core, Parameter { name, shape, len, .. }) in cores.iter_mut().zip(parameters) {
            if core.is_empty() {
                core.resize(*len, 0.0);
                self.checkpoint.read_rows(name, 0..shape[0], 0..shape[1], core)?;
            }
        }
        let [first, second, third] = &*cores;
        for (row, to) in rows.zip(to.chunks_exact_mut(self.dim)) {
            shape.row([first, second, third], row, to);
        }
        Ok(())
    }
}
