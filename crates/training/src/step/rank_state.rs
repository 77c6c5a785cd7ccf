//! The state of one rank: its part of the model, its batches, and the code behind every operation of a schedule.

use crate::Error;
use crate::dataflow::{self, Dataflow, Flat, Input, Payload, Sptt, Step};
use crate::layers::dense::Parameters;
use crate::layers::network::{Network, Samples};
use crate::metrics::Histogram;
use crate::samples::source::Source;
use kernels::{Bce, Buffer, Device, Table, Update, UpdateDense};
use spec::dataflow::Dataflow as Planned;
use spec::model::{BlockName, Model};
use spec::placement::Placement;
use spec::run::{Optimizer, Run};
use spec::schedule::{Bucket, Operation, Schedule, Slot};
use spec::volume::Leg;
use std::ops::Range;

/// The state of one rank between and during steps.
#[derive(Debug)]
pub struct RankState {
    device: Device,
    model: Model,
    placement: Placement,
    dense_optimizer: Optimizer,
    table_optimizer: Optimizer,
    /// Dense parameters.
    pub parameters: Parameters,
    /// Dense layers.
    pub network: Network,
    /// The shards held here, in the order of [`Placement::held_by`].
    pub tables: Vec<Table>,
    dataflow: Dataflow,
    inputs: [Input; 2],
    /// What is read.
    pub source: Source,
    /// Updates done so far.
    pub steps: u64,
    /// Sum of the losses of this rank's samples in the last step; `None` before the first, and on a device that computes nothing.
    pub loss: Option<f64>,
    /// Predictions of the training steps, made before each update.
    pub seen: Histogram,
    /// Predictions of the last batch of an evaluation.
    pub predictions: Vec<f32>,
    /// Their labels.
    pub labels: Vec<f32>,
    probabilities: Buffer<f32>,
    host: Vec<f32>,
}

impl RankState {
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
        // The network's buckets, and behind them that of the group's towers.
        let mut buckets: Vec<Bucket> = schedule.buckets().to_vec();
        if let Some(plan) = run.dataflow.sptt() {
            buckets.push(schedule.tower_buckets()[plan.groups().group_of(rank)].clone());
        }
        let list = run.model.dense_parameter_list();
        let parameters = Parameters::new(&device, list, &buckets, rule, run.seed)?;
        let (model, placement, tables) = (&run.model, &run.placement, &run.table_optimizer.update);
        Ok(Self {
            network: Network::new(model.network(), &parameters),
            tables: dataflow::allocate(&device, model, placement, rank, tables, run.seed)?,
            dataflow: match &run.dataflow {
                Planned::Flat(all_to_all) => Dataflow::Flat(Box::new(Flat::new(
                    &device,
                    model,
                    placement,
                    *all_to_all,
                    run.wire,
                    rank,
                ))),
                Planned::Sptt(plan) => {
                    let sptt = Sptt::new(&device, model, placement, plan, run.wire, rank, &parameters);
                    Dataflow::Sptt(Box::new(sptt))
                }
            },
            parameters,
            model: run.model.clone(),
            placement: run.placement.clone(),
            dense_optimizer: run.dense_optimizer,
            table_optimizer: run.table_optimizer,
            inputs: [Input::new(&device, rank, ranks), Input::new(&device, rank, ranks)],
            source,
            steps: 0,
            loss: None,
            seen: Histogram::default(),
            predictions: Vec::new(),
            labels: Vec::new(),
            probabilities: Buffer::new(&device),
            host: Vec::new(),
            device,
        })
    }

    /// Prepares for the ids of a batch whose lengths have arrived.
    pub fn expect_ids(&mut self, batch: u64) -> Result<(), Error> {
        self.inputs[(batch % 2) as usize].expect_ids(&self.model, &self.placement)
    }

    /// The buffers of the collective that brings `slot`.
    pub fn carried(&mut self, slot: Slot, batch: u64) -> Payload<'_> {
        let input = &mut self.inputs[(batch % 2) as usize];
        match (slot, &mut self.dataflow) {
            (Slot::Lengths, _) => Payload::Words(&mut input.lengths),
            (Slot::Ids, _) => Payload::Words(&mut input.ids),
            (Slot::Weights, _) => Payload::Floats(&mut input.weights),
            (Slot::BucketGradient(bucket), _) => {
                Payload::Gradient(&mut self.parameters.buckets[bucket].gradient)
            }
            (Slot::Summed, Dataflow::Sptt(sptt)) => Payload::Floats(&mut sptt.sums),
            (Slot::ArrivedSumGradient, Dataflow::Sptt(sptt)) => Payload::Floats(&mut sptt.sum_gradients),
            (Slot::InHost(leg), dataflow) => dataflow.leg(leg).in_host(),
            (Slot::Arriving(leg), dataflow) => dataflow.leg(leg).last(),
            // What is not encoded arrives as it is.
            (Slot::Arrived, dataflow @ Dataflow::Flat(_)) => dataflow.leg(Leg::Pooled).last(),
            (Slot::ArrivedGradient, dataflow @ Dataflow::Flat(_)) => dataflow.leg(Leg::Gradient).last(),
            (Slot::Gathered, dataflow) => dataflow.leg(Leg::Group).last(),
            (Slot::Arrived, dataflow) => dataflow.leg(Leg::Peer).last(),
            (Slot::LeavingGradient, dataflow) => dataflow.leg(Leg::PeerGradient).last(),
            (Slot::ArrivedGradient, dataflow) => dataflow.leg(Leg::GroupGradient).last(),
            (slot, _) => unreachable!("no collective of this dataflow brings {slot:?}"),
        }
    }

    /// Carries out one operation for a batch. `next` is the range of samples to read, for [`Operation::ReadBatch`].
    pub fn compute(
        &mut self,
        operation: &Operation,
        batch: u64,
        next: Option<Range<u64>>,
    ) -> Result<(), Error> {
        let Self { device, parameters, network, tables, dataflow, .. } = self;
        let input = &mut self.inputs[(batch % 2) as usize];
        let rows = input.rows();
        match operation {
            Operation::ReadBatch => {
                let next = next.expect("a batch is read only when there is one");
                input.read(&mut self.source, &self.model, &self.placement, next)
            }
            Operation::IndexIds => input.find_bags(device, &self.placement, None),
            Operation::IndexIdsInPeerOrder => {
                input.find_bags(device, &self.placement, Some(dataflow.sptt().peer_order()))
            }
            Operation::SortIds => {
                Ok(device.sort_ids(tables, &input.index, &input.ids.recv, &mut input.sorted)?)
            }
            Operation::Lookup => match dataflow {
                Dataflow::Flat(flat) => flat.lookup(device, tables, input),
                Dataflow::Sptt(sptt) => sptt.lookup(device, tables, input),
            },
            Operation::PermutePeers => dataflow.sptt().permute_peers(device, input),
            Operation::PermuteForHosts => dataflow.leg(Leg::Pooled).permute(device),
            // Pooled vectors alone are looked up in the order of ranks.
            Operation::Encode(leg) => dataflow.leg(*leg).encode(device, *leg == Leg::Pooled),
            Operation::Decode(leg) => dataflow.leg(*leg).decode(device),
            Operation::Regroup(leg) => dataflow.leg(*leg).regroup(device),
            Operation::Transpose => dataflow.sptt().transpose(device, input),
            Operation::RestoreOrder => {
                let (dense, features) = network.leading_and_features();
                match dataflow {
                    Dataflow::Flat(flat) => flat.restore_order(device, rows, dense, features),
                    Dataflow::Sptt(sptt) => sptt.restore_order(device, rows, dense, features),
                }
            }
            Operation::Forward(BlockName::TOWERS) => {
                dataflow.sptt().towers_forward(device, parameters, input)
            }
            Operation::Forward(block) => {
                let samples = Samples { rows, dense: &input.dense };
                Ok(network.forward(device, parameters, *block, samples)?)
            }
            Operation::Loss => self.take_loss(batch),
            Operation::Predict => self.predict(batch),
            Operation::Backward(BlockName::TOWERS, _) => {
                dataflow.sptt().towers_backward(device, parameters, input)
            }
            Operation::Backward(block, layers) => {
                let samples = Samples { rows, dense: &input.dense };
                Ok(network.backward(device, parameters, *block, layers.clone(), samples)?)
            }
            Operation::SplitGradients => {
                let (features, dense) = network.features_and_leading_gradient();
                match dataflow {
                    Dataflow::Flat(flat) => flat.split_gradients(device, input, features, dense),
                    Dataflow::Sptt(sptt) => sptt.split_gradients(device, rows, features, dense),
                }
            }
            Operation::ReverseTranspose => dataflow.sptt().reverse_transpose(device, input),
            Operation::ReversePermute => dataflow.sptt().reverse_permute(device, input),
            Operation::UpdateTables => {
                let Optimizer { update: rule, rate } = self.table_optimizer;
                let step = Step { rule, rate: rate.at(self.steps), number: self.steps + 1 };
                match dataflow {
                    Dataflow::Flat(flat) => flat.update(device, tables, input, &step),
                    Dataflow::Sptt(sptt) => sptt.update(device, tables, input, &step),
                }
            }
            Operation::UpdateDense(bucket) => {
                let Optimizer { update, rate } = &self.dense_optimizer;
                let b = &mut parameters.buckets[*bucket];
                let (rate, step) = (rate.at(self.steps), self.steps + 1);
                Ok(device.update_dense(UpdateDense {
                    update: Update { rule: *update, rate, step },
                    tensors: &b.tensors,
                    weights: &mut b.weights,
                    gradient: &b.gradient,
                    state: &mut b.state,
                })?)
            }
        }
    }

    /// Loss of this rank's samples, and its gradient: divided by the global batch, once, here.
    fn take_loss(&mut self, batch: u64) -> Result<(), Error> {
        let input = &self.inputs[(batch % 2) as usize];
        let (rows, world) = (input.rows(), input.world_rows());
        let (logits, gradient) = self.network.logits_and_gradient();
        gradient.resize(rows)?;
        self.loss = self.device.bce(Bce {
            rows,
            logits,
            labels: &input.labels,
            scale: 1.0 / world as f32,
            dlogits: gradient,
        })?;
        self.probabilities.resize(rows)?;
        self.device.sigmoid(rows, logits, &mut self.probabilities)?;
        // Without a loss nothing was predicted.
        let Some(loss) = self.loss else { return Ok(()) };
        if !loss.is_finite() {
            return Err(Error::Diverged { step: self.steps, loss });
        }
        self.host.resize(rows, 0.0);
        self.probabilities.read(0, &mut self.host)?;
        Ok(self.seen.add(&self.host, &input.batch.labels)?)
    }

    fn predict(&mut self, batch: u64) -> Result<(), Error> {
        let input = &self.inputs[(batch % 2) as usize];
        let rows = input.rows();
        self.probabilities.resize(rows)?;
        self.device.sigmoid(rows, self.network.logits(), &mut self.probabilities)?;
        self.predictions.resize(rows, 0.0);
        self.probabilities.read(0, &mut self.predictions)?;
        self.labels.clone_from(&input.batch.labels);
        Ok(())
    }
}
