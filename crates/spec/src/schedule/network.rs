//! The phases of the dense network, of its loss and of tower modules, derived from the blocks and what they read.

use super::build::{Build, phase};
use super::fused::Fused;
use super::*;
use crate::codec::Compensation;
use crate::model::{Block, BlockSource, Layers};
use crate::volume::ReducedVector;
use crate::wire::Reduced;
use std::ops::Range;

impl Build<'_> {
    /// Blocks that need no vector, forward: they run while vectors travel.
    pub fn forward_before_vectors(&mut self) {
        let network = self.deployment.model.network();
        network.before_vectors().for_each(|block| self.forward(block));
    }

    /// Blocks that need no vector, backward: they run while gradients of vectors travel.
    pub fn backward_before_vectors(&mut self) {
        let network = self.deployment.model.network();
        network.before_vectors().rev().for_each(|block| self.backward(block));
    }

    /// From the vectors that arrived, through the network, to the gradients that go back, laid out; for an evaluation, to
    /// predictions.
    pub fn network(&mut self, arrived: &[Slot], laid_out: &[Slot]) {
        let network = self.deployment.model.network();
        match self.fused {
            Fused::Nothing => self.restore_order(arrived),
            Fused::Dot(dot) => self.lookup_dot(dot),
            Fused::InPlace => self.lookup_in_place(),
        }
        // Ids travel beside the last MLP.
        let is_mlp = |block: &&Block| matches!(block.layers, Layers::Mlp(_));
        let beside = network.after_vectors().rfind(is_mlp).unwrap_or(network.logit()).name;
        for block in network.after_vectors() {
            if block.name == beside {
                self.ids_ahead();
            }
            if self.fused != Fused::Dot(block.name) {
                self.forward(block);
            }
        }
        let logit = network.logit().name;
        let output = Slot::Output(logit);
        if self.task == Task::Evaluate {
            self.compute(Operation::Predict, &[output], &[Slot::Predictions]);
            self.read_back();
            return;
        }
        let writes = [Slot::Gradient(logit), Slot::Predictions];
        self.compute(Operation::Loss, &[output, Slot::Batch], &writes);
        self.read_back();
        for block in network.after_vectors().rev() {
            match self.fused {
                Fused::Dot(dot) if dot == block.name => self.dot_update(dot),
                _ => self.backward(block),
            }
        }
        match self.fused {
            Fused::Nothing => self.split_gradients(laid_out),
            Fused::Dot(_) => {}
            Fused::InPlace => self.update_in_place(),
        }
    }

    /// Predictions come to the host, beside the labels of their samples.
    fn read_back(&mut self) {
        self.compute(Operation::ReadBack, &[Slot::Predictions, Slot::Batch], &[]);
    }

    /// All vectors of a sample in the order in which blocks see them, behind the output of the leading block.
    fn restore_order(&mut self, arrived: &[Slot]) {
        let mut reads = arrived.to_vec();
        reads.extend(self.leading_output());
        self.compute(Operation::RestoreOrder, &reads, &[Slot::Features]);
    }

    /// The gradients of all vectors, laid out for the way back, and that of the leading block's output.
    fn split_gradients(&mut self, laid_out: &[Slot]) {
        let mut writes = laid_out.to_vec();
        writes.extend(self.leading_gradient());
        let reads = self.features_gradients();
        self.compute(Operation::SplitGradients, &reads, &writes);
    }

    /// Output of the leading block, if there is one.
    pub(super) fn leading_output(&self) -> Option<Slot> {
        self.deployment.model.network().leading().map(|block| Slot::Output(block.name))
    }

    /// Gradient of the leading block's output, if there is one.
    pub(super) fn leading_gradient(&self) -> Option<Slot> {
        self.deployment.model.network().leading().map(|block| Slot::Gradient(block.name))
    }

    /// Gradients of the blocks that read the vectors, which together left that of the vectors.
    pub(super) fn features_gradients(&self) -> Vec<Slot> {
        let readers = self.deployment.model.network().readers(BlockSource::Features);
        readers.map(|block| Slot::Gradient(block.name)).collect()
    }

    fn forward(&mut self, block: &Block) {
        let mut reads = self.inputs_of(block);
        let buckets = buckets::of_block(&self.buckets, &self.parameters, block.name);
        reads.extend(buckets.iter().map(|(i, _)| Slot::Parameters(*i)));
        let drops = self.task == Task::Train && self.deployment.model.dropout() > 0.0;
        let operation = match drops && block.layers.hidden_units(0..block.layers.count()) > 0 {
            true => Operation::ForwardWithDropout(block.name),
            false => Operation::Forward(block.name),
        };
        if let Operation::ForwardWithDropout(_) = operation {
            // The position of the samples, which decides what is dropped.
            reads.extend((!reads.contains(&Slot::Batch)).then_some(Slot::Batch));
        }
        self.compute(operation, &reads, &[Slot::Output(block.name)]);
    }

    /// The backward phases of a block, one per bucket, each followed by the reduction of its bucket.
    fn backward(&mut self, block: &Block) {
        let parts = buckets::of_block(&self.buckets, &self.parameters, block.name);
        if parts.is_empty() {
            // The block has no parameters.
            self.backward_part(block, 0..block.layers.count(), None);
        }
        for (bucket, layers) in parts {
            self.backward_part(block, layers, Some(bucket));
            // Where one rank emulates nodes, what they do not reduce is the gradient of the whole batch, in f32.
            let Reduced { codec, compensation } = match (self.deployment.emulation, self.emulation_of(bucket))
            {
                (_, Some(_)) => {
                    let slot = [Slot::BucketGradient(bucket)];
                    self.compute(Operation::ReduceEmulated(bucket), &slot, &slot);
                    continue;
                }
                (Some(_), None) => Reduced::default(),
                (None, None) => self.deployment.wire.dense,
            };
            let elements = self.buckets[bucket].vector(&self.deployment.model);
            let traffic = Traffic::AllReduce { elements, codec };
            let collective = self.reduction(Group::World, traffic, compensation);
            self.reduce(&format!("reduce bucket {bucket}"), collective, bucket);
        }
    }

    fn backward_part(&mut self, block: &Block, layers: Range<usize>, bucket: Option<usize>) {
        let mut reads = vec![Slot::Gradient(block.name), Slot::Output(block.name)];
        reads.extend(self.inputs_of(block));
        let mut writes = vec![Slot::Gradient(block.name)];
        if layers.start == 0 {
            // The last of a block's backward phases leaves the gradients of the outputs that the block read.
            let network = self.deployment.model.network();
            writes.extend(network.reads(block).iter().filter_map(|read| match read.from {
                BlockSource::Output(below) => Some(Slot::Gradient(below)),
                BlockSource::Dense | BlockSource::Features => None,
            }));
            // It adds to the gradient of all vectors, which the last block that reads them has set.
            let readers: Vec<BlockName> =
                network.readers(BlockSource::Features).map(|reader| reader.name).collect();
            let later = readers.iter().skip_while(|&&reader| reader != block.name).skip(1);
            reads.extend(later.map(|&reader| Slot::Gradient(reader)));
        }
        if let Some(bucket) = bucket {
            reads.push(Slot::Parameters(bucket));
            writes.push(Slot::BucketGradient(bucket));
        }
        self.compute(Operation::Backward(block.name, layers), &reads, &writes);
    }

    /// The slots that a block reads, each once.
    fn inputs_of(&self, block: &Block) -> Vec<Slot> {
        let mut slots = Vec::new();
        for read in self.deployment.model.network().reads(block) {
            let slot = match read.from {
                BlockSource::Dense => Slot::Batch,
                BlockSource::Features => Slot::Features,
                BlockSource::Output(below) => Slot::Output(below),
            };
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        slots
    }

    /// The towers' forward pass.
    pub fn towers_forward(&mut self) {
        let (reads, writes) = ([Slot::TowerInput, Slot::Parameters(self.buckets.len())], [Slot::Leaving]);
        self.compute(Operation::Forward(BlockName::TOWERS), &reads, &writes);
    }

    /// The towers' backward pass, and the reduction of their gradients, unless others are yet to join them.
    pub fn towers_backward(&mut self) {
        let bucket = self.buckets.len();
        let reads = [Slot::LeavingGradient, Slot::TowerInput, Slot::Parameters(bucket)];
        let writes = [Slot::TowerInputGradient, Slot::BucketGradient(bucket)];
        let towers = 0..self.deployment.model.towers().len();
        self.compute(Operation::Backward(BlockName::TOWERS, towers), &reads, &writes);
        // Gradients of cores lie beside those of the towers, and come later.
        if self.deployment.model.tensor_trains().next().is_none() {
            self.reduce_in_groups();
        }
    }

    /// The reduction of the parameters of groups, inside each group.
    pub(super) fn reduce_in_groups(&mut self) {
        let bucket = self.buckets.len();
        let vectors = self.tower_buckets.iter().map(|bucket| bucket.vector(&self.deployment.model));
        let Reduced { codec, compensation } = self.deployment.wire.towers;
        let traffic = Traffic::GroupAllReduce { elements: vectors.collect(), codec };
        let collective = self.reduction(Group::Tower, traffic, compensation);
        self.reduce("reduce tower gradients", collective, bucket);
    }

    /// The norm of the gradients of groups, if updates wait for norms: towers and their tensor trains differ by group, so their squares are added up among
    /// peers, in the order of groups. Every rank gets the same bits.
    pub fn tower_norm(&mut self) {
        if !self.norm {
            return;
        }
        let slot = [Slot::TowerNorm];
        self.compute(Operation::TowerNorm, &[Slot::BucketGradient(self.buckets.len())], &slot);
        let traffic = Traffic::PeerAllReduce { elements: ReducedVector::whole(1), codec: Codec::F32 };
        let work = Work::Collective(Collective::new(CollectiveKind::AllReduce, Group::Peers, traffic));
        self.push(phase("reduce tower norm", work, Lane::Gradients, &slot, &slot));
    }

    /// A reduction by the algorithm of the deployment.
    pub(super) fn reduction(&self, group: Group, traffic: Traffic, compensation: Compensation) -> Collective {
        let algorithm = self.deployment.all_reduce;
        Collective { algorithm, compensation, ..Collective::new(CollectiveKind::AllReduce, group, traffic) }
    }

    /// Adds the reduction of a bucket's gradient.
    pub(super) fn reduce(&mut self, name: &str, collective: Collective, bucket: usize) {
        let slot = [Slot::BucketGradient(bucket)];
        self.push(phase(name, Work::Collective(collective), Lane::Gradients, &slot, &slot));
    }
}
