//! One rank: its part of the model, its batches, and the code behind every operation of a schedule.

use crate::Error;
use crate::dataflow::{Flat, Input};
use crate::dense::Parameters;
use crate::metrics::Histogram;
use crate::network::Network;
use crate::source::Source;
use kernels::{Buffer, Device};
use spec::model::Model;
use spec::placement::Placement;
use spec::run::{Optimizer, Run};
use spec::schedule::{Operation, Schedule};
use std::ops::Range;

/// A rank's state.
#[derive(Debug)]
pub struct Rank {
    device: Device,
    model: Model,
    placement: Placement,
    dense_optimizer: Optimizer,
    table_optimizer: Optimizer,
    /// Dense parameters.
    pub parameters: Parameters,
    /// Dense layers.
    pub network: Network,
    /// Tables, and what is exchanged with their holders.
    pub flat: Flat,
    inputs: [Input; 2],
    /// What is read.
    pub source: Source,
    /// Updates done so far.
    pub steps: u64,
    /// Sum of the losses of this rank's samples in the last step.
    pub loss: f64,
    /// Predictions of the training steps, made before each update.
    pub seen: Histogram,
    /// Predictions of the last batch of an evaluation.
    pub predictions: Vec<f32>,
    /// Their labels.
    pub labels: Vec<f32>,
    probabilities: Buffer<f32>,
    host: Vec<f32>,
}

impl Rank {
    /// Rank `rank` of `run`, at its initial weights.
    pub fn new(
        device: Device,
        run: &Run,
        schedule: &Schedule,
        rank: usize,
        source: Source,
    ) -> Result<Self, Error> {
        let ranks = run.topology().ranks();
        let rule = &run.dense_optimizer.update;
        let list = run.model.network().parameters();
        let parameters = Parameters::new(&device, list, schedule.buckets(), rule, run.seed)?;
        Ok(Self {
            network: Network::new(run.model.network(), &parameters),
            flat: Flat::new(
                &device,
                &run.model,
                &run.placement,
                rank,
                &run.table_optimizer.update,
                run.seed,
            )?,
            parameters,
            device,
            model: run.model.clone(),
            placement: run.placement.clone(),
            dense_optimizer: run.dense_optimizer,
            table_optimizer: run.table_optimizer,
            inputs: [Input::new(rank, ranks), Input::new(rank, ranks)],
            source,
            steps: 0,
            loss: 0.0,
            seen: Histogram::default(),
            predictions: Vec::new(),
            labels: Vec::new(),
            probabilities: Buffer::empty(),
            host: Vec::new(),
        })
    }

    /// The batch of this number; batches alternate between two places.
    pub fn input(&mut self, batch: u64) -> &mut Input {
        &mut self.inputs[(batch % 2) as usize]
    }

    /// Prepares for the ids of a batch whose lengths have arrived.
    pub fn expect_ids(&mut self, batch: u64) -> Result<(), Error> {
        self.inputs[(batch % 2) as usize].expect_ids(&self.model, &self.placement)
    }

    /// Carries out one operation for a batch. `next` is the range of samples to read, for [`Operation::ReadBatch`].
    pub fn compute(
        &mut self,
        operation: &Operation,
        batch: u64,
        next: Option<Range<u64>>,
    ) -> Result<(), Error> {
        let Self { device, parameters, network, flat, .. } = self;
        let input = &mut self.inputs[(batch % 2) as usize];
        let rows = input.rows();
        match operation {
            Operation::ReadBatch => {
                let next = next.expect("a batch is read only when there is one");
                input.read(&mut self.source, &self.model, &self.placement, next)
            }
            Operation::IndexIds => input.find_bags(device, &self.placement),
            Operation::SortIds => {
                Ok(device.sort_ids(&flat.tables, &input.index, &input.ids.recv, &mut input.sorted)?)
            }
            Operation::Lookup => flat.lookup(device, input),
            Operation::RestoreOrder => {
                let dense = (self.model.dense_features() > 0).then(|| network.bottom.output());
                flat.restore_order(device, rows, dense, &mut network.features)
            }
            Operation::Forward(block) => {
                Ok(network.forward(device, parameters, *block, rows, &input.dense)?)
            }
            Operation::Loss => self.take_loss(batch),
            Operation::Predict => self.predict(batch),
            Operation::Backward(block, layers) => {
                Ok(network.backward(device, parameters, *block, layers.clone(), rows, &input.dense)?)
            }
            Operation::SplitGradients => {
                flat.split_gradients(device, input, &network.dfeatures, &mut network.bottom.gradient)
            }
            Operation::UpdateTables => {
                let Optimizer { update, rate } = &self.table_optimizer;
                flat.update(device, input, update, rate.at(self.steps), self.steps + 1)
            }
            Operation::UpdateDense(bucket) => {
                let Optimizer { update, rate } = &self.dense_optimizer;
                let b = &mut parameters.buckets[*bucket];
                let (rate, step) = (rate.at(self.steps), self.steps + 1);
                Ok(device.update_dense(update, rate, step, &mut b.weights, &b.gradient, &mut b.state)?)
            }
        }
    }

    /// Loss of this rank's samples, and its gradient: divided by the global batch, once, here.
    fn take_loss(&mut self, batch: u64) -> Result<(), Error> {
        let input = &self.inputs[(batch % 2) as usize];
        let (rows, world) = (input.rows(), input.world_rows());
        let gradient = &mut self.network.top.gradient;
        gradient.resize(rows)?;
        // The output and the gradient of the top MLP are different buffers of one value: borrow them one by one.
        let mut dlogits = std::mem::take(gradient);
        let logits = self.network.top.output();
        self.loss = self.device.bce(rows, logits, &input.labels, 1.0 / world as f32, &mut dlogits)?;
        self.probabilities.resize(rows)?;
        self.device.sigmoid(rows, logits, &mut self.probabilities)?;
        self.network.top.gradient = dlogits;
        if !self.loss.is_finite() {
            return Err(Error::Diverged { step: self.steps, loss: self.loss });
        }
        self.host.resize(rows, 0.0);
        self.probabilities.read(0, &mut self.host);
        Ok(self.seen.add(&self.host, &input.batch.labels)?)
    }

    fn predict(&mut self, batch: u64) -> Result<(), Error> {
        let input = &self.inputs[(batch % 2) as usize];
        let rows = input.rows();
        self.probabilities.resize(rows)?;
        self.device.sigmoid(rows, self.network.top.output(), &mut self.probabilities)?;
        self.predictions.resize(rows, 0.0);
        self.probabilities.read(0, &mut self.predictions);
        self.labels.clone_from(&input.batch.labels);
        Ok(())
    }
}
