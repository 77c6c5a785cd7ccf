//! Nodes that one rank emulates: the reduction of their dense gradients.

use crate::layers::dense::{BucketState, Parameters};
use crate::step::rounding::Rounding;
use collectives::EmulatedAllReduce;
use kernels::{Buffer, Device, KernelError};
use spec::program::Units;
use spec::run::Run;
use spec::schedule::Schedule;

/// Reductions of the buckets whose gradients emulated nodes have.
#[derive(Debug)]
pub struct EmulatedNodes {
    /// Reduction of each bucket; `None` where ranks reduce it.
    reductions: Vec<Option<EmulatedReduction>>,
    /// Rounding of each node.
    rounding: Vec<Rounding>,
}

/// Reduction of one bucket among all nodes.
#[derive(Debug)]
struct EmulatedReduction {
    sum: EmulatedAllReduce,
    /// Name of the phase in which ranks would reduce the bucket.
    phase: String,
}

impl EmulatedNodes {
    /// Nodes that the run emulates, each with a gradient of every bucket that the schedule reduces among them.
    pub fn new(
        device: &Device,
        run: &Run,
        schedule: &Schedule,
        parameters: &mut Parameters,
    ) -> Result<Self, KernelError> {
        let mut reductions: Vec<_> = parameters.buckets.iter().map(|_| None).collect();
        let Some(emulation) = run.emulation else { return Ok(Self { reductions, rounding: Vec::new() }) };
        let (dense, hosts, nodes) = (run.wire.dense, emulation.hosts(), emulation.nodes);
        for bucket in schedule.emulated_buckets() {
            parameters.emulate(device, bucket, nodes)?;
            let BucketState { gradient, tensors, .. } = &parameters.buckets[bucket];
            let units = Units::of_tensors(dense.codec, gradient.len(), tensors);
            let sum = EmulatedAllReduce::new(device, run.all_reduce, units, &hosts, dense.compensation)?;
            let phase = format!("reduce bucket {bucket}");
            reductions[bucket] = Some(EmulatedReduction { sum, phase });
        }
        let rounding = (0..nodes).map(|node| Rounding::of_node(run, node, nodes)).collect();
        Ok(Self { reductions, rounding })
    }

    /// Reduces the gradient of a bucket among all nodes, in step `step` of the run.
    pub fn reduce(
        &mut self,
        device: &Device,
        bucket: usize,
        step: u64,
        state: &mut BucketState,
    ) -> Result<(), KernelError> {
        let Self { reductions, rounding } = self;
        let Some(EmulatedReduction { sum, phase }) = &mut reductions[bucket] else { return Ok(()) };
        let BucketState { gradient, node_gradients, .. } = state;
        sum.run(device, node_gradients, |node| rounding[node].of(phase, step))?;
        // Every node has the same sum.
        std::mem::swap(gradient, &mut node_gradients[0]);
        Ok(())
    }

    /// Errors that nodes carry from one step to the next, by bucket and node; none where nothing is compensated.
    pub fn errors(&self) -> impl Iterator<Item = (usize, usize, &Buffer<f32>)> {
        let all = self.reductions.iter().enumerate().filter_map(|(bucket, of)| Some((bucket, of.as_ref()?)));
        let errors =
            all.flat_map(|(bucket, of)| of.sum.errors().enumerate().map(move |(i, e)| (bucket, i, e)));
        errors.filter(|(_, _, error)| !error.is_empty())
    }

    /// Errors that nodes carry, to be replaced.
    pub fn errors_mut(&mut self) -> impl Iterator<Item = (usize, usize, &mut Buffer<f32>)> {
        let all =
            self.reductions.iter_mut().enumerate().filter_map(|(bucket, of)| Some((bucket, of.as_mut()?)));
        all.flat_map(|(bucket, of)| of.sum.errors_mut().enumerate().map(move |(i, e)| (bucket, i, e)))
    }
}
