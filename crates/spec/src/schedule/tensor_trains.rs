//! The steps of tensor trains: the lookup computes rows from cores, and the gradients of the cores are reduced in a bucket, as those of other
//! dense parameters are.
//!
//! ```text
//! ahead   find rows, as for data-parallel tables
//! lookup tensor trains      tensor train gradients   reduce bucket      update bucket
//! ```

use super::build::Build;
use super::*;
use crate::wire::Reduced;

impl Build<'_> {
    /// Features whose tables are tensor trains.
    fn tensor_trains(&self) -> Vec<usize> {
        self.deployment.model.tensor_trains().map(|(feature, _)| feature).collect()
    }

    /// Whether tower groups have parameters of their own: tower modules, or tensor trains.
    pub(super) fn groups_learn(&self) -> bool {
        let of_towers = self.deployment.model.has_tower_modules();
        self.deployment.dataflow.sptt().is_some() && (of_towers || !self.tensor_trains().is_empty())
    }

    /// Bucket of the cores: the last of the network, or that of the group.
    fn core_bucket(&self) -> usize {
        match self.deployment.dataflow.sptt() {
            Some(_) => self.buckets.len(),
            None => self.buckets.len() - 1,
        }
    }

    /// The lookup in tensor trains, beside that in tables of rows.
    pub fn lookup_tensor_trains(&mut self) {
        let features = self.tensor_trains();
        if features.is_empty() {
            return;
        }
        let mut reads = vec![Slot::Ids, Slot::Index, Slot::Parameters(self.core_bucket())];
        reads.extend(self.weighted().then_some(Slot::Weights));
        self.compute(Operation::LookupTensorTrains(features), &reads, &[Slot::CopyPooled]);
    }

    /// The gradients of the cores, and their reduction: over the world, or inside each group, with those of the towers.
    pub fn tensor_train_gradients(&mut self) {
        let features = self.tensor_trains();
        if features.is_empty() {
            return;
        }
        let bucket = self.core_bucket();
        let mut reads = vec![Slot::CopyGradient, Slot::TouchedRows, Slot::Sorted, Slot::Index];
        reads.push(Slot::Parameters(bucket));
        reads.extend(self.weighted().then_some(Slot::Weights));
        self.compute(Operation::TensorTrainGradients(features), &reads, &[Slot::BucketGradient(bucket)]);
        if self.deployment.dataflow.sptt().is_some() {
            self.reduce_in_groups();
            return;
        }
        let Reduced { codec, compensation } = self.deployment.wire.dense;
        let elements = self.buckets[bucket].vector(&self.deployment.model);
        let collective = self.reduction(Group::World, Traffic::AllReduce { elements, codec }, compensation);
        self.reduce(&format!("reduce bucket {bucket}"), collective, bucket);
    }
}
