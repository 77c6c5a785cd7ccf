//! Operations: the computations of a step, each described once.
//!
//! [`Operation::describe`] is the only place that says what an operation is called, which rates apply to it, to which part of
//! a step it belongs, and what it costs. A schedule takes names and costs from it, machine rates the class, and a simulation
//! the part. A new operation is a variant, a line there, and code in training.

use super::{Bucket, CopiedTable, CopyReduction, Cost, Part, Task};
use crate::dataflow::Deployment;
use crate::machine_rates::Class;
use crate::model::{BlockName, Model};
use crate::volume::{Leg, Quantity, Volume};
use serde::Serialize;
use std::ops::Range;

/// Bytes of an id, a length or a float, in memory and, except for floats in another format, on the wire.
pub(super) const WORD: u64 = 4;

/// Operations on a hidden unit under dropout: its random word, a comparison and a product.
const DROPOUT_FLOPS: u64 = 12;

/// Operation: a computation of the models that are trained. Training maps each to code, the simulator maps its cost to time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Read this rank's samples and lay out their ids by holder.
    ReadBatch,
    /// Read the lengths of bags that arrived, and say how many ids each rank sends. Where no bag varies in length, that follows
    /// from the batch, and a step has no such operation.
    ReadLengths,
    /// Find the bags in the ids that arrived.
    IndexIds,
    /// Find the bags in the ids that arrived and bring them into peer order: steps b and c of SPTT swapped.
    IndexIdsInPeerOrder,
    /// Group ids by row, in global sample order.
    SortIds,
    /// Find the rows that ids name in memory, where it holds some rows of a table only: ids become slots, missing rows get one, and rows
    /// that leave are copied out. In training, rows will be changed.
    FindCachedRows(Task),
    /// Read the rows that are not in memory.
    FetchRows,
    /// Write the rows that left memory.
    WriteBackRows,
    /// Put the rows that were read into their slots.
    PlaceRows,
    /// Look up and pool the world's samples in all tables held here.
    Lookup,
    /// Compute the rows of tensor trains, of these features, that the samples served here name, and pool them.
    LookupTensorTrains(Vec<usize>),
    /// Look up and pool vectors, and multiply the vectors of a sample with each other: the lookup and the forward pass of a block of
    /// dot products as one, where no vector leaves its rank.
    LookupDot(BlockName),
    /// Look up and pool vectors where the network reads them, beside the dense one: the lookup and the order of the interaction as
    /// one, where no vector leaves its rank.
    LookupInPlace,
    /// Step c of SPTT: bring pooled vectors from the order of ranks into peer order.
    PermutePeers,
    /// Bring pooled vectors from the order of ranks into the order that the first level of a hierarchical all-to-all sends
    /// them in: by index on the host, then by host.
    PermuteForHosts,
    /// Encode the vectors of a leg in its wire format, laid out for the first exchange of the leg.
    Encode(Leg),
    /// Decode the vectors that arrived on a leg.
    Decode(Leg),
    /// Regroup vectors between the two levels of a hierarchical all-to-all: from blocks by sender to blocks by destination
    /// host.
    Regroup(Leg),
    /// Step e of SPTT: transpose features × peers into peers × features, for the towers and for columns that pass through.
    Transpose,
    /// Bring the vectors that arrived, and the dense one, into the order of the interaction.
    RestoreOrder,
    /// Forward pass of a block of the network.
    Forward(BlockName),
    /// Forward pass of a block of the network with dropout of its hidden units, for training.
    ForwardWithDropout(BlockName),
    /// Loss, the gradient of the loss by the logits, and the predicted probabilities.
    Loss,
    /// Probabilities for evaluation.
    Predict,
    /// Bring the loss, the predicted probabilities and the faults that the device met to the host. On a device with queues of
    /// its own they may arrive a step late.
    ReadBack,
    /// Backward pass of some layers of a block of the network, last layer first.
    Backward(BlockName, Range<usize>),
    /// Lay out the gradients of the vectors that arrived by the rank that sent the vectors.
    SplitGradients,
    /// Step e of SPTT in reverse: gradients from peers × features to features × peers.
    ReverseTranspose,
    /// Step c of SPTT in reverse: gradients from peer order into the order of ranks.
    ReversePermute,
    /// Backward pass of the lookup fused with the tables' optimizer.
    UpdateTables,
    /// Backward pass of a block of dot products and of the lookup, fused with the tables' optimizer, where no vector leaves its rank.
    DotUpdate(BlockName),
    /// Backward pass of the lookup fused with the tables' optimizer, by gradients that are read where the network left them; that of
    /// the dense vector is taken out of them.
    UpdateInPlace,
    /// Find the rows of data-parallel tables that ids touch.
    FindRows,
    /// Backward pass of the lookup in data-parallel tables: sum the gradients of samples by row, and lay the sums out.
    SumRows(Vec<CopiedTable>),
    /// Add up the sums of all copies of data-parallel tables by row, where that is not done yet, and update every touched row.
    UpdateCopies(Vec<CopiedTable>),
    /// Backward pass of the lookup in tensor trains of these features: sum the gradients of samples by row, and bring the sums to the cores.
    TensorTrainGradients(Vec<usize>),
    /// Reduction of one bucket of dense gradients among the nodes that this rank emulates.
    ReduceEmulated(usize),
    /// Square of the norm of the gradients of this rank's towers.
    TowerNorm,
    /// Norm of all dense gradients, by which they are clipped.
    GradientNorm,
    /// Update of one bucket of dense parameters.
    UpdateDense(usize),
}

/// Description of an operation in the step of one model on one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name of the phase that carries the operation out.
    pub name: String,
    /// Class of computation, whose rates apply.
    pub class: Class,
    /// Part of a step that the operation belongs to.
    pub part: Part,
    /// Floating-point operations and bytes of memory on one rank.
    pub cost: Cost,
    /// Bytes by which rates are measured, if these are not the bytes of memory of the cost: for a block of the network, the
    /// bytes that its layers read and write.
    pub bytes: Option<Volume>,
    /// Items by which rates are measured: ids of a lookup or an update, samples of all other operations.
    pub items: Volume,
}

impl Description {
    fn new(name: impl Into<String>, class: Class, part: Part) -> Self {
        let items = Volume::of(1, Quantity::Samples);
        Self { name: name.into(), class, part, cost: Cost::default(), bytes: None, items }
    }

    fn flops(mut self, each: u64, quantity: Quantity) -> Self {
        self.cost.flops = self.cost.flops.and(each, quantity);
        self
    }

    fn touching(mut self, bytes: u64, quantity: Quantity) -> Self {
        self.cost.memory = self.cost.memory.and(bytes, quantity);
        self
    }

    /// Touching rows of tables, and gradients of them, so many times each. Rows have the bytes of their tables' number formats.
    fn touching_rows(
        self,
        (rows, gradients): (u64, u64),
        [floats, bytes]: [Quantity; 2],
        model: &Model,
    ) -> Self {
        let rounded = (0..model.features().len()).any(|feature| model.table_format(feature).rounds());
        match rounded {
            false => self.touching((rows + gradients) * WORD, floats),
            true => self.touching(gradients * WORD, floats).touching(rows, bytes),
        }
    }

    /// With rates measured by the floats that layers read and write for a sample.
    fn measured_by(self, floats: usize) -> Self {
        Self { bytes: Some(Volume::of(WORD * floats as u64, Quantity::Samples)), ..self }
    }

    fn by_ids(self) -> Self {
        self.by(Quantity::HeldIds)
    }

    /// With rates measured by these items.
    fn by(self, items: Quantity) -> Self {
        Self { items: Volume::of(1, items), ..self }
    }
}

impl Operation {
    /// Name, class, part and cost of the operation in a step of a deployment, with the buckets of its network.
    pub fn describe(&self, deployment: &Deployment, buckets: &[Bucket]) -> Description {
        // Bytes of an encoded value, for codecs whose rows have no header.
        let value = |leg: &Leg| {
            let codec = deployment.wire.of(*leg);
            (!codec.by_rows()).then(|| codec.encoded_bytes(1, 1))
        };
        let recoded = |of: Description, leg: &Leg, floats, bytes| match value(leg) {
            Some(value) => of.touching(WORD + value, floats),
            None => of.touching(WORD, floats).touching(1, bytes),
        };
        let copied = |width: usize| 2 * WORD * width as u64;
        let features = copied(deployment.model.network().features_width());
        let dense = copied(deployment.model.network().leading_width());
        let of = |name: &str, class, part| Description::new(name, class, part);
        let exchange = |leg: &Leg| if leg.backward() { Part::GradientExchange } else { Part::VectorExchange };
        match self {
            Self::ReadBatch => {
                of("read batch", Class::ReadBatch, Part::Input).touching(2 * WORD, Quantity::Ids)
            }
            // A pass over lengths on the host, far below what rates can tell apart.
            Self::ReadLengths => of("read lengths", Class::IndexIds, Part::Input),
            Self::IndexIds => {
                of("index ids", Class::IndexIds, Part::Input).touching(2 * WORD, Quantity::HeldIds)
            }
            Self::IndexIdsInPeerOrder => of("index ids in peer order", Class::IndexIds, Part::Input)
                .touching(2 * WORD, Quantity::HeldIds),
            Self::SortIds => {
                of("sort ids", Class::SortIds, Part::Input).touching(4 * WORD, Quantity::HeldIds)
            }
            // A set of slots is compared for each id.
            Self::FindCachedRows(_) => {
                of("find cached rows", Class::SortIds, Part::Input).touching(4 * WORD, Quantity::HeldIds)
            }
            Self::FetchRows => {
                of("fetch rows", Class::Storage, Part::Input).touching(1, Quantity::MissingBytes)
            }
            Self::WriteBackRows => {
                of("write back rows", Class::Storage, Part::Input).touching(1, Quantity::MissingBytes)
            }
            Self::PlaceRows => {
                of("place rows", Class::Permute, Part::Lookup).touching(2, Quantity::MissingBytes)
            }
            Self::Lookup => Self::lookup_of("lookup", &deployment.model),
            // The dense vector is copied beside the others.
            Self::LookupInPlace => {
                Self::lookup_of("lookup in place", &deployment.model).touching(dense, Quantity::Samples)
            }
            Self::LookupTensorTrains(features) => Self::lookup_tensor_trains(features, deployment),
            Self::TensorTrainGradients(features) => Self::tensor_train_gradients(features, deployment),
            Self::LookupDot(block) => Self::lookup_dot_of(*block, deployment),
            Self::DotUpdate(block) => Self::dot_update_of(*block, deployment),
            Self::PermutePeers => of("peer permute", Class::Permute, Part::VectorExchange)
                .touching(2 * WORD, Quantity::OwnedVectors),
            Self::PermuteForHosts => of("peer permute", Class::Permute, Part::VectorExchange)
                .touching(2 * WORD, Quantity::Sent(Leg::Pooled)),
            Self::Encode(leg) => {
                let of = Description::new(format!("encode {leg}"), Class::Encode, exchange(leg));
                recoded(of, leg, Quantity::Sent(*leg), Quantity::EncodedSent(*leg))
            }
            Self::Decode(leg) => {
                let of = Description::new(format!("decode {leg}"), Class::Decode, exchange(leg));
                recoded(of, leg, Quantity::Received(*leg), Quantity::EncodedReceived(*leg))
            }
            Self::Regroup(leg) => {
                let of = Description::new(format!("{leg} regroup"), Class::Regroup, exchange(leg));
                match value(leg) {
                    Some(value) => of.touching(2 * value, Quantity::Relayed(*leg)),
                    None => of.touching(2, Quantity::EncodedRelayed(*leg)),
                }
            }
            Self::Transpose => of("transpose", Class::Transpose, Part::VectorExchange)
                .touching(2 * WORD, Quantity::GatheredVectors),
            Self::RestoreOrder => of("restore order", Class::RestoreOrder, Part::VectorExchange)
                .touching(features, Quantity::Samples),
            Self::Forward(block) => Self::forward_of(*block, &deployment.model, 0),
            Self::ForwardWithDropout(block) => {
                let layers = &deployment.model.network().block(*block).layers;
                Self::forward_of(*block, &deployment.model, layers.hidden_units(0..layers.count()))
            }
            Self::Loss => of("loss", Class::Loss, Part::TopForward),
            Self::Predict => of("predict", Class::Loss, Part::TopForward),
            Self::ReadBack => of("read back", Class::ReadBack, Part::TopForward)
                .touching(WORD * deployment.model.outputs() as u64, Quantity::Samples),
            Self::Backward(block, layers) => Self::backward_of(*block, layers.clone(), &deployment.model),
            Self::SplitGradients => of("split gradients", Class::SplitGradients, Part::GradientExchange)
                .touching(features, Quantity::Samples),
            Self::ReverseTranspose => of("reverse transpose", Class::Transpose, Part::GradientExchange)
                .touching(2 * WORD, Quantity::GatheredVectors),
            Self::ReversePermute => of("reverse permute", Class::Permute, Part::GradientExchange)
                .touching(2 * WORD, Quantity::OwnedVectors),
            Self::UpdateTables => Self::update_of("update tables", &deployment.model),
            Self::UpdateInPlace => Self::update_of("update tables in place", &deployment.model)
                .touching(dense, Quantity::Samples),
            Self::FindRows => {
                of("find rows", Class::SortIds, Part::Input).touching(2 * WORD, Quantity::HeldIds)
            }
            Self::SumRows(copies) => Self::sum_rows(copies, deployment),
            Self::UpdateCopies(copies) => Self::update_copies(copies, deployment),
            // The gradient of every node is read and written once as sums are made, and once as sums are shared.
            Self::ReduceEmulated(bucket) => {
                let nodes = deployment.emulation.map_or(1, |emulation| emulation.nodes as u64);
                let elements = buckets[*bucket].elements as u64;
                Description::new(format!("emulate reduction {bucket}"), Class::Decode, Part::DenseExchange)
                    .flops((nodes - 1) * elements, Quantity::Step)
                    .touching(4 * WORD * nodes * elements, Quantity::Step)
            }
            // Every gradient is read once, squared and added.
            Self::TowerNorm => of("tower norm", Class::UpdateDense, Part::DenseUpdate)
                .flops(2, Quantity::TowerWeights)
                .touching(WORD, Quantity::TowerWeights),
            Self::GradientNorm => {
                let elements: u64 = buckets.iter().map(|bucket| bucket.elements as u64).sum();
                of("gradient norm", Class::UpdateDense, Part::DenseUpdate)
                    .flops(2 * elements, Quantity::Step)
                    .touching(WORD * elements, Quantity::Step)
            }
            // Decay and clipping work on what the rule reads anyway.
            Self::UpdateDense(bucket) => {
                // The bucket behind those of the network holds the parameters of a group: of its towers, and its tensor trains.
                let (name, elements, quantity) = match buckets.get(*bucket) {
                    Some(of) => (format!("update bucket {bucket}"), of.elements as u64, Quantity::Step),
                    None => ("update towers".into(), 1, Quantity::TowerWeights),
                };
                Description::new(name, Class::UpdateDense, Part::DenseUpdate)
                    .flops(2 * elements, quantity)
                    .touching(3 * WORD * elements, quantity)
            }
        }
    }

    /// Block of the network, or the towers, whose layers the operation carries out; `None` for all other operations.
    pub fn block(&self) -> Option<BlockName> {
        match self {
            Self::Forward(block)
            | Self::ForwardWithDropout(block)
            | Self::Backward(block, _)
            | Self::LookupDot(block)
            | Self::DotUpdate(block) => Some(*block),
            _ => None,
        }
    }

    /// Operations that this one replaces, in their order; none where it is not fused of others.
    pub fn replaces(&self, model: &Model) -> Vec<Self> {
        match self {
            Self::LookupDot(block) => vec![Self::Lookup, Self::RestoreOrder, Self::Forward(*block)],
            Self::LookupInPlace => vec![Self::Lookup, Self::RestoreOrder],
            Self::UpdateInPlace => vec![Self::SplitGradients, Self::UpdateTables],
            Self::DotUpdate(block) => {
                let layers = 0..model.network().block(*block).layers.count();
                vec![Self::Backward(*block, layers), Self::SplitGradients, Self::UpdateTables]
            }
            _ => Vec::new(),
        }
    }

    /// A lookup: every row is read once per id, every pooled vector written once.
    fn lookup_of(name: &str, model: &Model) -> Description {
        Description::new(name, Class::Lookup, Part::Lookup)
            .by_ids()
            .flops(1, Quantity::LookedUpRows)
            .touching_rows((1, 0), [Quantity::LookedUpRows, Quantity::LookedUpBytes], model)
            .touching(WORD, Quantity::LookedUpVectors)
    }

    /// A lookup in tensor trains, at most: for every id the products of its cores, whose slices are read, and a row.
    fn lookup_tensor_trains(features: &[usize], deployment: &Deployment) -> Description {
        let mut of = Description::new("lookup tensor trains", Class::TensorTrainForward, Part::Lookup);
        for &feature in features {
            let Some(train) = deployment.model.tensor_train(feature) else { continue };
            let floats = (train.slices().iter().sum::<usize>() + train.width) as u64;
            of = of
                .flops(train.row_flops(), Quantity::CopiedIds(feature))
                .touching(WORD * floats, Quantity::CopiedIds(feature));
        }
        of
    }

    /// Gradients of cores: the gradient of every id is read and added, and for every row that is touched there are the products of its cores.
    fn tensor_train_gradients(features: &[usize], deployment: &Deployment) -> Description {
        let name = "tensor train gradients";
        let mut of = Description::new(name, Class::TensorTrainBackward, Part::EmbeddingUpdate);
        for &feature in features {
            let Some(train) = deployment.model.tensor_train(feature) else { continue };
            let (width, slices) = (train.width as u64, train.slices().iter().sum::<usize>() as u64);
            of = of
                .flops(2 * width, Quantity::CopiedIds(feature))
                .touching(WORD * width, Quantity::CopiedIds(feature))
                .flops(train.gradient_flops(), Quantity::TouchedRows(feature))
                .touching(WORD * (4 * width + 2 * slices), Quantity::TouchedRows(feature))
                .touching(WORD * train.parameters() as u64, Quantity::CopyOf(feature));
        }
        of
    }

    /// An update of tables: every gradient is read once per id, every row read and written once.
    fn update_of(name: &str, model: &Model) -> Description {
        Description::new(name, Class::UpdateTables, Part::EmbeddingUpdate)
            .by(Quantity::UpdatedIds)
            .flops(2, Quantity::HeldRows)
            .touching_rows((2, 1), [Quantity::HeldRows, Quantity::HeldBytes], model)
    }

    /// Lookup and dot products: every row is read once per id; the leading vector is read and the products written for every sample.
    fn lookup_dot_of(block: BlockName, deployment: &Deployment) -> Description {
        let layers = &deployment.model.network().block(block).layers;
        Description::new(format!("lookup and {block}"), Class::LookupDot, Part::Lookup)
            .by_ids()
            .flops(1, Quantity::LookedUpRows)
            .flops(layers.forward_flops(), Quantity::Samples)
            .touching_rows((1, 0), [Quantity::LookedUpRows, Quantity::LookedUpBytes], &deployment.model)
            .touching(WORD * (deployment.model.dim() + layers.output_width()) as u64, Quantity::Samples)
    }

    /// Gradients of dot products and updates: every row is read and written once; the gradients of the products and the leading vector
    /// are read, and the gradient of the leading vector written, for every sample.
    fn dot_update_of(block: BlockName, deployment: &Deployment) -> Description {
        let layers = &deployment.model.network().block(block).layers;
        let floats = 2 * deployment.model.dim() + layers.output_width();
        Description::new(format!("{block} and table update"), Class::DotUpdate, Part::EmbeddingUpdate)
            .by(Quantity::UpdatedIds)
            .flops(2, Quantity::HeldRows)
            .flops(layers.backward_flops(0..layers.count()), Quantity::Samples)
            .touching_rows((2, 0), [Quantity::HeldRows, Quantity::HeldBytes], &deployment.model)
            .touching(WORD * floats as u64, Quantity::Samples)
    }

    /// Whether the host needs values that the device computes, so that it may have to wait for the device: the loss and the
    /// predictions, norms, and counts of the rows that data-parallel tables touch. All other operations are only enqueued.
    pub fn reads_back(&self) -> bool {
        match self {
            Self::ReadBack | Self::FindRows | Self::TowerNorm | Self::GradientNorm => true,
            Self::UpdateCopies(copies) => copies.iter().any(|copy| copy.reduction == CopyReduction::Dense),
            _ => false,
        }
    }

    /// Sums of gradients by row: the gradient of every id is read and added, the sum of every row written.
    fn sum_rows(copies: &[CopiedTable], deployment: &Deployment) -> Description {
        let mut of = Description::new("sum rows", Class::UpdateTables, Part::EmbeddingUpdate);
        of.items = Volume::none();
        for &CopiedTable { feature, reduction } in copies {
            let (rows, width) = deployment.size_of_table(feature);
            of.items = of.items.and(1, Quantity::CopiedIds(feature));
            of = of
                .flops(2 * width, Quantity::CopiedIds(feature))
                .touching(WORD * width, Quantity::CopiedIds(feature))
                .touching(WORD * width, Quantity::TouchedRows(feature));
            if reduction == CopyReduction::Dense {
                // The vector is cleared, and the sums are copied into it.
                of = of
                    .touching(WORD * rows * (width + 1), Quantity::CopyOf(feature))
                    .touching(2 * WORD * width, Quantity::TouchedRows(feature));
            }
        }
        of
    }

    /// Updates by the sums of all copies: every sum is read and added, every row read and written.
    fn update_copies(copies: &[CopiedTable], deployment: &Deployment) -> Description {
        let mut of = Description::new("update copies", Class::UpdateTables, Part::EmbeddingUpdate);
        of.items = Volume::none();
        for &CopiedTable { feature, reduction } in copies {
            let (rows, width) = deployment.size_of_table(feature);
            of.items = of.items.and(1, Quantity::CopiesTouched(feature));
            let row = deployment.model.table_format(feature).row_bytes(width as usize) as u64;
            of = of
                .flops(3 * width, Quantity::CopiesTouched(feature))
                .touching(WORD * width + 2 * row, Quantity::CopiesTouched(feature));
            if reduction == CopyReduction::Dense {
                of = of.touching(WORD * rows * (width + 1), Quantity::CopyOf(feature));
            }
        }
        of
    }

    /// The forward pass of a block that drops some of `dropped` hidden units.
    fn forward_of(block: BlockName, model: &Model, dropped: usize) -> Description {
        let of = |part| Description::new(format!("{block} forward"), Class::of_block(block, model).0, part);
        if block == BlockName::TOWERS {
            let of = of(Part::TopForward).flops(1, Quantity::TowerFlops);
            return of.touching(WORD, Quantity::GatheredVectors).touching(WORD, Quantity::LeavingVectors);
        }
        let below = model.network().runs_before_vectors(block);
        let layers = &model.network().block(block).layers;
        of(if below { Part::BottomForward } else { Part::TopForward })
            .flops(layers.forward_flops() + DROPOUT_FLOPS * dropped as u64, Quantity::Samples)
            .measured_by(layers.floats_touched(0..layers.count()) + 2 * dropped)
    }

    fn backward_of(block: BlockName, range: Range<usize>, model: &Model) -> Description {
        let of = |name: String, part| Description::new(name, Class::of_block(block, model).1, part);
        if block == BlockName::TOWERS {
            let of = of(format!("{block} backward"), Part::TopBackward).flops(2, Quantity::TowerFlops);
            return of.touching(2 * WORD, Quantity::GatheredVectors).touching(WORD, Quantity::LeavingVectors);
        }
        let below = model.network().runs_before_vectors(block);
        let layers = &model.network().block(block).layers;
        // A block whose gradients lie in several buckets has a phase for each.
        let name = match range.len() {
            all if all == layers.count() => format!("{block} backward"),
            1 => format!("{block} backward {}", range.start),
            _ => format!("{block} backward {}-{}", range.start, range.end - 1),
        };
        // The gradients of hidden units that dropout kept are scaled.
        let scaled = if model.dropout() > 0.0 { layers.hidden_units(range.clone()) } else { 0 };
        of(name, if below { Part::BottomBackward } else { Part::TopBackward })
            .flops(layers.backward_flops(range.clone()) + scaled as u64, Quantity::Samples)
            .measured_by(layers.floats_touched(range) + 2 * scaled)
    }
}
