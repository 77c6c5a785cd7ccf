//! Tensor trains of one rank: tables whose rows are computed from cores, which are dense parameters.

use super::input::Input;
use crate::Error;
use crate::layers::dense::{BucketState, Parameters};
use kernels::{Buffer, Device, LookupTensorTrains, SumRows, Table, TensorTrainAt, TensorTrainGradients};
use spec::dataflow::Deployment;
use spec::model::BlockName;
use spec::tensor_train::TensorTrain;

/// Tensor trains of one rank.
#[derive(Debug)]
pub(super) struct TensorTrains {
    /// Index of each among the rank's tables.
    pub tables: Vec<usize>,
    /// Feature and shape of each.
    shapes: Vec<(usize, TensorTrain)>,
    /// Where the cores lie; found at the first use.
    places: Vec<TensorTrainAt>,
    /// Bucket of the cores.
    bucket: usize,
    /// Sums of gradients by row.
    sums: Buffer<f32>,
}

impl TensorTrains {
    /// Tensor trains of `rank` in a deployment.
    pub fn new(device: &Device, deployment: &Deployment, rank: usize) -> Self {
        let (model, placement) = (&deployment.model, &deployment.placement);
        let first = placement.with_rows_by(rank).len();
        let trains = placement.tensor_trains_by(rank).iter();
        let shapes: Vec<_> =
            trains.filter_map(|shard| Some((shard.feature, model.tensor_train(shard.feature)?))).collect();
        let tables = (first..first + shapes.len()).collect();
        Self { tables, shapes, places: Vec::new(), bucket: 0, sums: Buffer::new(device) }
    }

    /// Finds the cores among the parameters.
    fn locate(&mut self, parameters: &Parameters) -> Result<(), Error> {
        if self.places.len() == self.shapes.len() {
            return Ok(());
        }
        for (&table, &(feature, train)) in self.tables.iter().zip(&self.shapes) {
            let owner = (BlockName::TENSOR_TRAINS, feature);
            let cores = parameters.of_owner(owner)?;
            let [(bucket, first), (_, second), (_, third)] = cores[..] else {
                return Err(Error::NoParameter { name: format!("cores of feature {feature}") });
            };
            self.bucket = bucket;
            self.places.push(TensorTrainAt { table, train, cores: [first, second, third] });
        }
        Ok(())
    }

    /// Computes and pools rows for so many samples; vectors of the rank's tables begin at `columns` in rows of `width` floats of `out`.
    pub fn lookup(
        &mut self,
        device: &Device,
        tables: &[Table],
        parameters: &Parameters,
        input: &Input,
        (columns, width, samples): (&[usize], usize, usize),
        out: &mut Buffer<f32>,
    ) -> Result<(), Error> {
        self.locate(parameters)?;
        if self.places.is_empty() {
            return Ok(());
        }
        Ok(device.lookup_tensor_trains(LookupTensorTrains {
            tables,
            trains: &self.places,
            parameters: &parameters.buckets[self.bucket].weights,
            columns,
            width,
            index: &input.index,
            samples,
            values: &input.ids.recv,
            weights: input.weights(),
            out,
        })?)
    }

    /// Gradients of the cores, by the gradients of vectors, which lie as in [`TensorTrains::lookup`].
    pub fn gradients(
        &mut self,
        device: &Device,
        tables: &[Table],
        parameters: &mut Parameters,
        input: &Input,
        (columns, width): (&[usize], usize),
        dout: &Buffer<f32>,
    ) -> Result<(), Error> {
        self.locate(parameters)?;
        if self.places.is_empty() {
            return Ok(());
        }
        let (runs, rows) = &input.touched.trains;
        device.sum_rows(SumRows {
            tables,
            which: &self.tables,
            columns,
            width,
            index: &input.index,
            sorted: &input.sorted,
            runs,
            weights: input.weights(),
            dout,
            sums: &mut self.sums,
        })?;
        let BucketState { weights, gradient, .. } = &mut parameters.buckets[self.bucket];
        Ok(device.tensor_train_gradients(TensorTrainGradients {
            tables,
            trains: &self.places,
            parameters: weights,
            runs,
            rows,
            sums: &self.sums,
            gradient,
        })?)
    }
}
