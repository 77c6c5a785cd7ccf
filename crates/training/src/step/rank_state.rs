//! The state of one rank: its part of the model, its batches, and the code behind every operation of a schedule.

use crate::Error;
use crate::cache::{CacheCounts, RowCache, TableRows, TableRowsMut};
use crate::dataflow::{self, Carries, Copies, Dataflow, Flat, Input, LossWeights, Payload, Reduction, Sptt};
use crate::layers::dense::Parameters;
use crate::layers::network::{Network, PairsBackward, PairsForward, Samples};
use crate::layers::tower::Tower;
use crate::metrics::Histogram;
use crate::samples::source::Source;
use crate::step::emulation::EmulatedNodes;
use crate::step::norm::GradientNorm;
use crate::step::read_back::{Arrived, ReadBack};
use crate::step::rounding::Rounding;
use kernels::{
    Bce, Buffer, Device, DotUpdate, LookupDot, Round, RowCopies, RowMarks, Table, TakeRows, Update,
    UpdateDense,
};
use spec::dataflow::Dataflow as Planned;
use spec::model::{BlockName, Model};
use spec::placement::Placement;
use spec::precision::Precisions;
use spec::run::{Optimizer, Regularisation, Run};
use spec::schedule::{Bucket, Operation, Phase, PhaseId, Schedule, Slot, Task};
use spec::volume::Leg;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The state of one rank between and during steps.
#[derive(Debug)]
pub struct RankState {
    device: Device,
    model: Model,
    placement: Placement,
    dense_optimizer: Optimizer,
    table_optimizer: Optimizer,
    regularisation: Regularisation,
    precision: Precisions,
    norm: GradientNorm,
    rounding: Rounding,
    /// Dense parameters.
    pub parameters: Parameters,
    /// Dense layers.
    pub network: Network,
    /// The shards held here, in the order of [`Placement::held_by`].
    pub tables: Vec<Table>,
    /// Those of the tables that are larger than memory; `None` where none is.
    pub cache: Option<RowCache>,
    dataflow: Box<dyn Dataflow>,
    /// Whether dot products are fused with the lookup and the update of tables.
    fuses_pairs: bool,
    /// Modules of the towers of this rank's group.
    towers: Vec<Tower>,
    /// Nodes that this rank emulates, if any.
    pub emulation: EmulatedNodes,
    /// Reductions of the buckets' gradients.
    pub reductions: Vec<Reduction>,
    inputs: [Input; 2],
    /// Source of the rank's samples.
    pub source: Source,
    /// Updates done so far.
    pub steps: u64,
    /// Sum of the losses of this rank's samples in the last step whose loss has arrived; `None` before the first, and on a
    /// device that computes nothing.
    pub loss: Option<f64>,
    /// Losses that arrived in this step, in the order of steps: on a device whose operations are queued, those of the step
    /// before.
    pub losses: Vec<f64>,
    /// Whether losses are looked at a step late, at the end of the next step.
    late: bool,
    /// Factor of losses whose label is 1.
    positive_weight: f32,
    /// Predictions of the training steps for the first label, made before each update.
    pub seen: Histogram,
    /// Predictions of the last batch of an evaluation.
    pub predictions: Vec<f32>,
    /// Labels of the last batch of an evaluation.
    pub labels: Vec<f32>,
    /// Weights of the samples of the last batch of an evaluation; empty where they have none.
    pub sample_weights: Vec<f32>,
    loss_sum: Buffer<f64>,
    probabilities: Buffer<f32>,
    /// Whether the predictions on the device belong to a training step.
    trained: bool,
    read_back: ReadBack,
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
        let rule = &run.dense_optimizer.update;
        // The network's buckets, and behind them that of the group's towers and tensor trains.
        let mut buckets: Vec<Bucket> = schedule.buckets().to_vec();
        if let Some(plan) = run.dataflow.sptt() {
            buckets.push(schedule.tower_buckets()[plan.groups().group_of(rank)].clone());
        }
        let reduction_of = |slot: Slot| {
            let collective = schedule.reduction_of(slot);
            Reduction::new(&device, collective, schedule.deployment(), rank)
        };
        let reductions = (0..buckets.len()).map(|bucket| reduction_of(Slot::BucketGradient(bucket)));
        let reductions = reductions.collect::<Result<_, _>>()?;
        let list = run.model.dense_parameter_list();
        let mut parameters = Parameters::new(&device, list, &buckets, rule, run.seed)?;
        let emulation = EmulatedNodes::new(&device, run, schedule, &mut parameters)?;
        let (model, placement) = (&run.model, &run.placement);
        let rule_of_tables = &run.table_optimizer.update;
        // A device that computes nothing looks nothing up.
        let cache = run.table_cache.as_ref().filter(|_| !matches!(device, Device::Idle));
        let settings = dataflow::TableSettings {
            rule: rule_of_tables,
            rounding: run.table_rounding,
            seed: run.seed,
            cache: cache.map(|cache| (cache, run.batch)),
        };
        let (tables, cache) = dataflow::allocate(&device, model, placement, rank, settings)?;
        let copies = Copies::new(&device, schedule, rank)?;
        let fused = |phase: &Phase| matches!(phase.operation(), Some(Operation::LookupDot(_)));
        let fuses_pairs = schedule.phases().iter().any(fused);
        let mut network = Network::new(model.network(), &parameters)?.with_dropout(model, run.seed);
        if fuses_pairs {
            network.fuse_pairs();
        }
        let members = schedule.deployment().members();
        Ok(Self {
            network,
            fuses_pairs,
            tables,
            cache,
            dataflow: match &run.dataflow {
                Planned::Flat(all_to_all) => {
                    Box::new(Flat::new(&device, model, placement, *all_to_all, run.wire, (rank, copies)))
                }
                Planned::Sptt(plan) => {
                    Box::new(Sptt::new(&device, model, placement, plan, run.wire, (rank, copies)))
                }
            },
            towers: towers(run, rank, &parameters)?,
            emulation,
            reductions,
            parameters,
            model: run.model.clone(),
            placement: run.placement.clone(),
            dense_optimizer: run.dense_optimizer,
            table_optimizer: run.table_optimizer,
            regularisation: run.regularisation,
            precision: run.precision.clone(),
            norm: GradientNorm::new(&device, schedule.buckets().len(), reduction_of(Slot::TowerNorm)?)?,
            rounding: Rounding::new(run, rank),
            inputs: [(); 2].map(|()| Input::new(&device, model, placement, rank, members)),
            source,
            steps: 0,
            loss: None,
            // What arrives in a step, and what settling finds.
            losses: Vec::with_capacity(4),
            late: device.is_queued(),
            positive_weight: run.positive_weight,
            seen: Histogram::default(),
            predictions: Vec::new(),
            labels: Vec::new(),
            sample_weights: Vec::new(),
            loss_sum: Buffer::zeroed(&device, 1)?,
            probabilities: Buffer::new(&device),
            trained: false,
            read_back: ReadBack::default(),
            device,
        })
    }

    /// Buffers of a collective that works on a batch.
    pub fn payload(&mut self, carries: Carries, batch: u64) -> Result<Payload<'_>, Error> {
        let input = &mut self.inputs[(batch % 2) as usize];
        match carries {
            Carries::Lengths => Ok(Payload::Words(&mut input.lengths)),
            Carries::Ids => Ok(Payload::Words(&mut input.ids)),
            Carries::Weights => Ok(Payload::Floats(&mut input.weights)),
            Carries::RowCounts => Ok(Payload::Words(&mut input.touched.counts)),
            Carries::TouchedRows => Ok(Payload::Words(&mut input.touched.rows)),
            Carries::BucketGradient(bucket) => Ok(Payload::Gradient {
                gradient: &mut self.parameters.buckets[bucket].gradient,
                reduction: &mut self.reductions[bucket],
            }),
            Carries::TowerNorm => Ok(self.norm.payload()),
            vectors => self.dataflow.payload(vectors),
        }
    }

    /// Rounding of the values of a collective that encodes them itself, in this step.
    pub fn round(&self, phase: &str) -> Round {
        self.rounding.of(phase, self.steps)
    }

    /// Lets the computations of reductions take the times of their phases, on a device that computes nothing.
    pub fn pace_reductions(&mut self, schedule: &Schedule, times: &[Duration]) {
        for (bucket, reduction) in self.reductions.iter_mut().enumerate() {
            if let Some(PhaseId(phase)) = schedule.reduced_in(Slot::BucketGradient(bucket)) {
                reduction.pace(times[phase]);
            }
        }
    }

    /// Times that the computations of each bucket's reduction take alone, in seconds.
    pub(crate) fn rehearse_reductions(&self) -> Result<Vec<f64>, Error> {
        let buckets = self.reductions.iter().zip(&self.parameters.buckets);
        let times = buckets.map(|(reduction, bucket)| reduction.rehearse(&self.device, &bucket.gradient));
        Ok(times.collect::<Result<_, _>>()?)
    }

    /// Waits for rows that an operation set out between files and memory, and says when they were there; `None` where none are on their way.
    pub fn finish_rows(&mut self, operation: &Operation) -> Result<Option<Instant>, Error> {
        match (operation, &mut self.cache) {
            (Operation::FetchRows, Some(cache)) => cache.finish_fetch(),
            (Operation::WriteBackRows, Some(cache)) => cache.finish_write_back(),
            _ => Ok(None),
        }
    }

    /// Rows of one of the rank's tables, wherever they are.
    pub(crate) fn rows_of(&self, table: usize) -> TableRows<'_> {
        let cached = self.cache.as_ref().and_then(|cache| cache.of(table));
        TableRows { table: &self.tables[table], cached }
    }

    /// Rows of one of the rank's tables, wherever they are, to be replaced.
    pub(crate) fn rows_of_mut(&mut self, table: usize) -> TableRowsMut<'_> {
        let cached = self.cache.as_mut().and_then(|cache| cache.of_mut(table));
        TableRowsMut { table: &mut self.tables[table], cached }
    }

    /// Reads rows of one of the rank's tables, wherever they are: of each, a record of its weights as they are kept, then its optimizer state.
    pub(crate) fn read_records(
        &self,
        table: usize,
        rows: &[u32],
        copies: &mut RowCopies,
        records: &mut [u8],
    ) -> Result<(), Error> {
        let TableRows { table, cached } = self.rows_of(table);
        match cached {
            Some(cached) => cached.read_some_records(table, rows, copies, records),
            None => Ok(self.device.take_rows(TakeRows { table, slots: rows, copies, records })?),
        }
    }

    /// Notes from here on which rows are updated, in those of the rank's tables that `which` names.
    pub(crate) fn track_updates(&mut self, which: impl Fn(usize) -> bool) -> Result<(), Error> {
        for (i, table) in self.tables.iter_mut().enumerate().filter(|(i, _)| which(*i)) {
            match self.cache.as_mut().and_then(|cache| cache.of_mut(i)) {
                Some(cached) => cached.track_updates()?,
                None => table.updated = Some(RowMarks::new(&self.device, table.rows)?),
            }
        }
        Ok(())
    }

    /// Rows that were updated since they were last asked for, by table, those of a batch that is under way included; none of tables that are not
    /// tracked.
    pub(crate) fn take_updated(&mut self) -> Result<Vec<Vec<u32>>, Error> {
        let cache = &mut self.cache;
        let of = |(i, table): (usize, &mut Table)| match cache.as_mut().and_then(|cache| cache.of_mut(i)) {
            Some(cached) => cached.take_updated(),
            None => table.updated.as_mut().map_or(Ok(Vec::new()), |marks| Ok(marks.take()?)),
        };
        self.tables.iter_mut().enumerate().map(of).collect()
    }

    /// Device of the rank.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// What tables larger than memory did so far.
    pub fn cache_counts(&self) -> CacheCounts {
        self.cache.as_ref().map_or(CacheCounts::default(), RowCache::counts)
    }

    /// Waits for rows on their way between files and memory, so that both hold all rows.
    pub fn settle_rows(&mut self) -> Result<(), Error> {
        self.cache.as_mut().map_or(Ok(()), |cache| cache.settle(&self.device, &mut self.tables))
    }

    /// The device as an operation computes on it: products of a block of the network are in the precision of that part.
    fn in_precision_of(&self, operation: &Operation, device: &Device) -> Device {
        match operation.block() {
            Some(part) => device.in_precision(self.precision.of(part)),
            None => device.clone(),
        }
    }

    /// Carries out one operation for a batch, on a queue of the rank's device. `next` is the range of samples to read, for [`Operation::ReadBatch`].
    pub fn compute(
        &mut self,
        device: &Device,
        operation: &Operation,
        batch: u64,
        next: Option<Range<u64>>,
    ) -> Result<(), Error> {
        let device = &self.in_precision_of(operation, device);
        let Self { parameters, network, tables, dataflow, towers, .. } = self;
        let input = &mut self.inputs[(batch % 2) as usize];
        let rows = input.rows();
        match operation {
            Operation::ReadBatch => {
                let next = next.expect("a batch is read only when there is one");
                input.read(&mut self.source, &self.model, &self.placement, next)?;
                input.weigh(LossWeights { positive: self.positive_weight, labels: self.model.labels() });
                Ok(input.upload(device)?)
            }
            Operation::ReadLengths => input.expect_ids(&self.model, &self.placement),
            Operation::IndexIds => input.find_bags(device, &self.placement, None),
            Operation::IndexIdsInPeerOrder => {
                input.find_bags(device, &self.placement, Some(dataflow.peer_order()?))
            }
            Operation::SortIds => {
                device.sort_ids(tables, &input.index, &input.ids.recv, &mut input.sorted)?;
                if self.fuses_pairs {
                    device.find_repeats(&input.index, &input.sorted, &mut input.repeats)?;
                }
                Ok(())
            }
            Operation::FindCachedRows(task) => match &mut self.cache {
                Some(cache) => cache.find(device, input, tables, (*task == Task::Train, self.steps)),
                None => Ok(()),
            },
            Operation::PlaceRows => match &mut self.cache {
                Some(cache) => cache.place(device, tables),
                None => Ok(()),
            },
            Operation::FetchRows => self.cache.as_mut().map_or(Ok(()), RowCache::start_fetch),
            Operation::WriteBackRows => self.cache.as_mut().map_or(Ok(()), RowCache::start_write_back),
            Operation::Lookup => dataflow.lookup(device, tables, input),
            Operation::LookupTensorTrains(_) => {
                dataflow.copies().lookup_tensor_trains(device, tables, parameters, input)
            }
            Operation::LookupDot(block) => {
                let PairsForward { shape, first, vectors, out } =
                    network.pairs_forward(device, *block, rows)?;
                let of = input.pair_vectors(shape, dataflow.pair_columns()?, first);
                Ok(device.lookup_dot(LookupDot { tables, of, vectors, out })?)
            }
            Operation::DotUpdate(block) => {
                let update = table_update(self.table_optimizer, &self.regularisation, self.steps);
                let PairsBackward { shape, first, dout, dfirst, vectors, gradients } =
                    network.pairs_backward(device, *block, rows)?;
                let of = input.pair_vectors(shape, dataflow.pair_columns()?, first);
                let (sorted, repeats) = (&input.sorted, &input.repeats);
                Ok(device.dot_update(DotUpdate {
                    tables,
                    of,
                    sorted,
                    repeats,
                    vectors,
                    dout,
                    dfirst,
                    gradients,
                    update,
                })?)
            }
            Operation::LookupInPlace => {
                let computing = |block| device.in_precision(self.precision.of(block));
                let stored = network.features_stored(computing);
                let (dense, features) = network.leading_and_features();
                dataflow.lookup_in_place(device, tables, input, dense, (features, stored))
            }
            Operation::UpdateInPlace => {
                let update = table_update(self.table_optimizer, &self.regularisation, self.steps);
                let gradients = network.features_and_leading_gradient();
                dataflow.update_in_place(device, tables, input, update, gradients)
            }
            Operation::PermutePeers => dataflow.permute_peers(device, input),
            Operation::PermuteForHosts => dataflow.leg(Leg::Pooled)?.permute(device),
            // Pooled vectors alone are looked up in the order of ranks.
            Operation::Encode(leg) => {
                let round = self.rounding.of(leg.name(), self.steps);
                dataflow.leg(*leg)?.encode(device, *leg == Leg::Pooled, round)
            }
            Operation::Decode(leg) => dataflow.leg(*leg)?.decode(device),
            Operation::Regroup(leg) => dataflow.leg(*leg)?.regroup(device),
            Operation::Transpose => dataflow.transpose(device, input, towers),
            Operation::RestoreOrder => {
                let (dense, features) = network.leading_and_features();
                dataflow.restore_order(device, input, dense, features)
            }
            Operation::Forward(BlockName::TOWERS) => {
                let rows = dataflow.tower_rows(input)?;
                for tower in &mut *towers {
                    tower.forward(device, parameters, rows)?;
                }
                dataflow.take_outputs(device, input, towers)
            }
            Operation::Forward(block) | Operation::ForwardWithDropout(block) => {
                let drops = matches!(operation, Operation::ForwardWithDropout(_));
                let samples = Samples { rows, dense: &input.dense, first: drops.then(|| input.first()) };
                Ok(network.forward(device, parameters, *block, samples)?)
            }
            Operation::Loss => self.take_loss(device, batch),
            Operation::Predict => self.predict(device, batch),
            Operation::ReadBack => self.read_back(device, batch),
            Operation::Backward(BlockName::TOWERS, _) => {
                let rows = dataflow.tower_rows(input)?;
                dataflow.give_gradients(device, input, towers)?;
                for tower in towers {
                    tower.backward(device, parameters, rows)?;
                }
                Ok(())
            }
            Operation::Backward(block, layers) => {
                let samples = Samples { rows, dense: &input.dense, first: None };
                Ok(network.backward(device, parameters, *block, layers.clone(), samples)?)
            }
            Operation::SplitGradients => {
                let (features, dense) = network.features_and_leading_gradient();
                dataflow.split_gradients(device, input, features, dense)
            }
            Operation::ReverseTranspose => dataflow.reverse_transpose(device, input, towers),
            Operation::ReversePermute => dataflow.reverse_permute(device, input),
            Operation::FindRows => dataflow.copies().find_rows(device, input),
            Operation::SumRows(_) => dataflow.copies().sum_rows(device, tables, input),
            Operation::TensorTrainGradients(_) => {
                dataflow.copies().tensor_train_gradients(device, tables, parameters, input)
            }
            Operation::UpdateTables | Operation::UpdateCopies(_) => {
                let update = table_update(self.table_optimizer, &self.regularisation, self.steps);
                match operation {
                    Operation::UpdateCopies(_) => dataflow.copies().update(device, tables, input, update),
                    _ => dataflow.update(device, tables, input, update),
                }
            }
            Operation::ReduceEmulated(bucket) => {
                Ok(self.emulation.reduce(device, *bucket, self.steps, &mut parameters.buckets[*bucket])?)
            }
            Operation::TowerNorm => self.norm.take_towers(device, &parameters.buckets, &self.regularisation),
            Operation::GradientNorm => self.norm.take(device, &parameters.buckets, &self.regularisation),
            Operation::UpdateDense(bucket) => {
                let Optimizer { update: rule, rate } = self.dense_optimizer;
                let b = &mut parameters.buckets[*bucket];
                let update = Update {
                    weight_decay: self.regularisation.weight_decay,
                    clip: self.regularisation.clip_value,
                    scale: self.norm.scale,
                    ..Update::new(rule, rate.at(self.steps), self.steps + 1)
                };
                device.update_dense(UpdateDense {
                    update,
                    tensors: &b.tensors,
                    weights: b.weights.change(),
                    gradient: &mut b.gradient,
                    state: &mut b.state,
                })?;
                // Here nothing waits for it; at the start of the next step all would.
                let computing = |block| device.in_precision(self.precision.of(block));
                Ok(network.pack(computing, parameters, *bucket)?)
            }
        }
    }

    /// Loss of this rank's samples against their smoothed labels, and its gradient: divided by the global batch, once, here.
    fn take_loss(&mut self, device: &Device, batch: u64) -> Result<(), Error> {
        let input = &self.inputs[(batch % 2) as usize];
        let (rows, world) = (input.rows() * self.model.outputs(), input.world_rows());
        let (logits, gradient) = self.network.logits_and_gradient();
        gradient.resize(rows)?;
        self.probabilities.resize(rows)?;
        self.trained = true;
        Ok(device.bce(Bce {
            rows,
            logits,
            labels: &input.labels,
            weights: input.weights_of_losses(),
            smoothing: self.regularisation.label_smoothing,
            scale: 1.0 / world as f32,
            dlogits: gradient,
            loss: &mut self.loss_sum,
            probabilities: Some(&mut self.probabilities),
        })?)
    }

    fn predict(&mut self, device: &Device, batch: u64) -> Result<(), Error> {
        let input = &self.inputs[(batch % 2) as usize];
        let rows = input.rows() * self.model.outputs();
        self.trained = false;
        self.probabilities.resize(rows)?;
        Ok(device.sigmoid(rows, self.network.logits(), &mut self.probabilities)?)
    }

    /// Brings predictions to the host: those of an evaluation at once; those of a training step with their loss, a step late
    /// where operations are queued.
    fn read_back(&mut self, device: &Device, batch: u64) -> Result<(), Error> {
        let input = &self.inputs[(batch % 2) as usize];
        if !self.trained {
            self.read_back.fetch(device, &self.probabilities, &mut self.predictions)?;
            self.labels.clone_from(&input.batch.labels);
            self.sample_weights.clone_from(&input.batch.sample_weights);
            return Ok(());
        }
        let predicted = (&self.loss_sum, &self.probabilities);
        let labels = &self.inputs[(batch % 2) as usize].batch.labels;
        self.read_back.begin(device, self.steps, predicted, labels)?;
        if self.late { Ok(()) } else { self.settle() }
    }

    /// Waits for all losses and predictions that are on their way to the host, and takes them in. Fails with the fault that a device
    /// met in their step.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.settle_all_but(0)
    }

    /// As [`RankState::settle`], for the steps before the last one.
    pub(super) fn settle_before(&mut self) -> Result<(), Error> {
        self.settle_all_but(1)
    }

    fn settle_all_but(&mut self, last: usize) -> Result<(), Error> {
        while self.read_back.under_way() > last {
            let Some(Arrived { step, loss, probabilities, labels }) = self.read_back.finish()? else {
                continue;
            };
            if !loss.is_finite() {
                return Err(Error::Diverged { step, loss });
            }
            self.loss = Some(loss);
            self.losses.push(loss);
            self.seen.add_column(probabilities, labels, self.model.outputs())?;
        }
        Ok(())
    }

    /// Waits for all work of the rank's device. Fails with the first fault that the device met: a state whose steps met none may
    /// be saved.
    pub fn check(&mut self) -> Result<(), Error> {
        self.settle()?;
        Ok(self.device.check()?)
    }

    /// Lets losses arrive a step late, as on a device whose operations are queued.
    pub fn arrive_late(&mut self) {
        self.late = true;
    }
}

/// Update of the tables in step `step`, from 0.
fn table_update(optimizer: Optimizer, regularisation: &Regularisation, step: u64) -> Update {
    let Optimizer { update: rule, rate } = optimizer;
    Update {
        weight_decay: regularisation.table_weight_decay,
        clip: regularisation.clip_value,
        ..Update::new(rule, rate.at(step), step + 1)
    }
}

/// Modules of the towers of `rank`'s group, in the order of its plan; none where no dataflow goes by way of groups.
fn towers(run: &Run, rank: usize, parameters: &Parameters) -> Result<Vec<Tower>, Error> {
    let Some(plan) = run.dataflow.sptt() else { return Ok(Vec::new()) };
    let here = &plan.plan(plan.groups().group_of(rank)).towers;
    let module = |&tower: &usize| Tower::new(&run.model.towers()[tower], parameters).transpose();
    here.iter().filter_map(module).collect()
}
