//! Dense parameters, in the buckets in which their gradients are reduced.
//!
//! A bucket is one buffer, so a reduction needs no packing and an update is one pass.

use crate::Error;
use kernels::{Buffer, Device, Element, KernelError, LinearAt, Space};
use spec::model::{BlockName, LinearLayer, Parameter};
use spec::optimizer::UpdateRule;
use spec::random::RandomSequence;
use spec::schedule::Bucket;
use std::ops::{Deref, Range};

/// Weights of a bucket, and a count of their changes: whoever keeps them in another order looks at it.
#[derive(Debug)]
pub struct Weights {
    buffer: Buffer<f32>,
    version: u64,
}

impl Weights {
    fn new(buffer: Buffer<f32>) -> Self {
        Self { buffer, version: 0 }
    }

    /// The weights to be written: the only way to them.
    pub fn change(&mut self) -> &mut Buffer<f32> {
        self.version += 1;
        &mut self.buffer
    }

    /// Number of times that the weights may have changed.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl Deref for Weights {
    type Target = Buffer<f32>;

    fn deref(&self) -> &Buffer<f32> {
        &self.buffer
    }
}

/// Weights, gradient and optimizer state of one bucket.
#[derive(Debug)]
pub struct BucketState {
    /// Weights.
    pub weights: Weights,
    /// Gradient: of this rank after backward; after the reduction of the world, or for towers of their group, which is the same
    /// sum.
    pub gradient: Buffer<f32>,
    /// Gradient of each node that is emulated, after backward; empty where none is.
    pub node_gradients: Vec<Buffer<f32>>,
    /// State of the optimizer.
    pub state: Buffer<f32>,
    /// Range of each tensor among the weights, ascending: some rules look at a tensor as a whole.
    pub tensors: Vec<Range<usize>>,
}

impl BucketState {
    /// Weights, and the buffers for their gradient: one, or one for each node that is emulated, of the node's samples.
    pub(super) fn weights_and_gradients(&mut self) -> (&Weights, &mut [Buffer<f32>]) {
        let Self { weights, gradient, node_gradients, .. } = self;
        let gradients = match node_gradients.as_mut_slice() {
            [] => std::slice::from_mut(gradient),
            nodes => nodes,
        };
        (weights, gradients)
    }
}

/// The dense parameters of a model that a rank has: the network's, those of the towers of its group, and the cores of its tensor trains.
#[derive(Debug)]
pub struct Parameters {
    space: Space,
    list: Vec<Parameter>,
    /// Bucket and position of each parameter of `list`; `None` for those that other ranks have.
    places: Vec<Option<(usize, usize)>>,
    /// The buckets.
    pub buckets: Vec<BucketState>,
}

impl Parameters {
    /// Initial weights, drawn from `seed` and each parameter's name.
    pub fn new(
        device: &Device,
        list: Vec<Parameter>,
        buckets: &[Bucket],
        rule: &UpdateRule,
        seed: u64,
    ) -> Result<Self, KernelError> {
        let mut places = vec![None; list.len()];
        let mut states = Vec::with_capacity(buckets.len());
        for (b, bucket) in buckets.iter().enumerate() {
            let mut weights = Buffer::zeroed(device, bucket.elements)?;
            let mut tensors = Vec::with_capacity(bucket.parameters.len());
            for (&parameter, &start) in bucket.parameters.iter().zip(&bucket.starts) {
                places[parameter] = Some((b, start));
                let Parameter { name, len, bound, .. } = &list[parameter];
                let stream = RandomSequence::new(seed, name);
                weights.write_blocks(start, *len, *len, |first, block| {
                    for (weight, i) in block.iter_mut().zip(first as u64..) {
                        *weight = stream.symmetric(i, *bound);
                    }
                })?;
                tensors.push(start..start + len);
            }
            tensors.sort_by_key(|tensor| tensor.start);
            states.push(BucketState {
                weights: Weights::new(weights),
                tensors,
                gradient: Buffer::zeroed(device.for_exchange(), bucket.elements)?,
                node_gradients: Vec::new(),
                state: Buffer::zeroed(device, rule.state_per_row(bucket.elements))?,
            });
        }
        Ok(Self { space: device.into(), list, places, buckets: states })
    }

    /// Gives each of `nodes` nodes that are emulated a gradient of a bucket.
    pub fn emulate(&mut self, device: &Device, bucket: usize, nodes: usize) -> Result<(), KernelError> {
        let BucketState { weights, node_gradients, .. } = &mut self.buckets[bucket];
        let gradient = |_| Buffer::zeroed(device.for_exchange(), weights.len());
        *node_gradients = (0..nodes).map(gradient).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Space of the device that the parameters live on.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Makes an empty buffer for what is computed with the parameters.
    pub fn buffer<T: Element>(&self) -> Buffer<T> {
        Buffer::new(&self.space)
    }

    /// The parameters of the model, in its order.
    pub fn list(&self) -> &[Parameter] {
        &self.list
    }

    /// Bucket of parameter `index`, and where it begins there; `None` where other ranks have it.
    pub fn place(&self, index: usize) -> Option<(usize, usize)> {
        self.places[index]
    }

    fn here(&self, index: usize) -> Result<(usize, usize), Error> {
        self.places[index].ok_or_else(|| Error::NoParameter { name: self.list[index].name.clone() })
    }

    /// Current weights of parameter `index`, which must be here.
    pub fn weights(&self, index: usize) -> Result<Vec<f32>, Error> {
        let (bucket, at) = self.here(index)?;
        let mut weights = vec![0.0; self.list[index].len];
        self.buckets[bucket].weights.read(at, &mut weights)?;
        Ok(weights)
    }

    /// Overwrites the weights of parameter `index`, which must be here.
    pub fn set_weights(&mut self, index: usize, weights: &[f32]) -> Result<(), Error> {
        let (bucket, at) = self.here(index)?;
        assert_eq!(weights.len(), self.list[index].len, "weights of {}", self.list[index].name);
        Ok(self.buckets[bucket].weights.change().write(at, weights)?)
    }

    /// Current gradient of parameter `index`, which must be here.
    pub fn gradient(&self, index: usize) -> Result<Vec<f32>, Error> {
        let (bucket, at) = self.here(index)?;
        let mut gradient = vec![0.0; self.list[index].len];
        self.buckets[bucket].gradient.read(at, &mut gradient)?;
        Ok(gradient)
    }

    /// Bucket and position of the parameters of an owner, which must be here, in the order of the model.
    pub(crate) fn of_owner(&self, owner: (BlockName, usize)) -> Result<Vec<(usize, usize)>, Error> {
        let of = |(_, parameter): &(usize, &Parameter)| parameter.owner == owner;
        self.list.iter().enumerate().filter(of).map(|(index, _)| self.here(index)).collect()
    }

    /// Bucket and offsets of the matrix `matrix` and the bias `bias` of a layer. A layer never spans two buckets.
    pub(super) fn locate(
        &self,
        layer: &LinearLayer,
        matrix: &str,
        bias: &str,
    ) -> Result<(usize, LinearAt), Error> {
        let find = |name: &str| match self.list.iter().position(|parameter| parameter.name == name) {
            Some(index) => self.here(index),
            None => Err(Error::NoParameter { name: name.into() }),
        };
        let (bucket, weight) = find(matrix)?;
        let bias = layer.bias.then(|| find(bias)).transpose()?.map(|(_, bias)| bias);
        Ok((bucket, LinearAt { weight, bias }))
    }
}
