//! Dense parameters in buckets: what is reduced together lies together.

use super::Bucket;
use crate::dataflow::Deployment;
use crate::model::{BlockName, Model, Parameter};
use crate::volume::ReducedVector;
use std::ops::Range;

/// Parameters of a bucket begin at multiples of this many floats: a cache line.
const ALIGN: usize = 16;

/// Layers in the order in which backward finishes their gradients, cut into runs of about `bytes`. A bucket never spans
/// two blocks, a layer never two buckets; inside a layer the matrix comes before the bias.
pub(super) fn of_network(parameters: &[Parameter], bytes: usize) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut block = None;
    let mut end = parameters.len();
    for layer in parameters.chunk_by(|a, b| a.owner == b.owner).rev() {
        let first = end - layer.len();
        let full = buckets.last().is_none_or(|b| b.elements * size_of::<f32>() >= bytes);
        if full || block != Some(layer[0].owner.0) {
            buckets.push(Bucket::default());
        }
        block = Some(layer[0].owner.0);
        let bucket = buckets.last_mut().expect("the first layer opens a bucket");
        for (i, parameter) in layer.iter().enumerate() {
            bucket.add(first + i, parameter);
        }
        end = first;
    }
    buckets
}

/// The parameters of each group: those of its towers, and the cores of its tensor trains; `first` is the index of the first parameter of
/// `parameters` that is none of the network's. None where no dataflow goes by way of groups.
pub(super) fn of_groups(deployment: &Deployment, parameters: &[Parameter], first: usize) -> Vec<Bucket> {
    let Some(sptt) = deployment.dataflow.sptt() else { return Vec::new() };
    let mut buckets = vec![Bucket::default(); sptt.groups().count()];
    for (index, parameter) in parameters.iter().enumerate().skip(first) {
        if let Some(group) = deployment.group_of(parameter) {
            buckets[group].add(index, parameter);
        }
    }
    buckets
}

/// The cores of all tensor trains, where every rank has them; `None` where there are none, or groups have them.
pub(super) fn of_cores(deployment: &Deployment, parameters: &[Parameter]) -> Option<Bucket> {
    let mut bucket = Bucket::default();
    for (index, parameter) in parameters.iter().enumerate() {
        if parameter.owner.0 == BlockName::TENSOR_TRAINS && deployment.dataflow.sptt().is_none() {
            bucket.add(index, parameter);
        }
    }
    Some(bucket).filter(|bucket| bucket.elements > 0)
}

impl Bucket {
    /// Floats of the bucket as a vector that is reduced.
    pub(super) fn vector(&self, model: &Model) -> ReducedVector {
        let list = model.dense_parameter_list();
        let tensors = self.parameters.iter().zip(&self.starts);
        let tensors = tensors.map(|(&parameter, &start)| start..start + list[parameter].len).collect();
        ReducedVector { elements: self.elements, tensors }
    }

    fn add(&mut self, index: usize, parameter: &Parameter) {
        self.parameters.push(index);
        self.starts.push(self.elements);
        self.elements += parameter.len.next_multiple_of(ALIGN);
    }
}

/// Buckets of a block, with the layers whose gradients they hold.
pub(super) fn of_block(
    buckets: &[Bucket],
    parameters: &[Parameter],
    block: BlockName,
) -> Vec<(usize, Range<usize>)> {
    buckets
        .iter()
        .enumerate()
        .filter_map(|(i, bucket)| {
            let layers = bucket.parameters.iter().map(|&p| parameters[p].owner).filter(|o| o.0 == block);
            let (first, last) = (layers.clone().map(|o| o.1).min()?, layers.map(|o| o.1).max()?);
            Some((i, first..last + 1))
        })
        .collect()
}
