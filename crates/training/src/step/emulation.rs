//! Nodes that one rank emulates: the reduction of their dense gradients.

use crate::layers::dense::{BucketState, Parameters};
use collectives::EmulatedAllReduce;
use kernels::{Device, KernelError, Round};
use spec::codec::Rounding;
use spec::program::Units;
use spec::random::RandomSequence;
use spec::run::Run;
use spec::schedule::Schedule;

/// Reductions of the buckets whose gradients emulated nodes have.
#[derive(Debug)]
pub struct EmulatedNodes {
    /// Reduction of each bucket; `None` where ranks reduce it.
    reductions: Vec<Option<EmulatedAllReduce>>,
    rounding: Rounding,
    seed: u64,
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
        if let Some(emulation) = run.emulation {
            let (dense, hosts) = (run.wire.dense, emulation.hosts());
            for bucket in schedule.emulated_buckets() {
                parameters.emulate(device, bucket, emulation.nodes)?;
                let BucketState { gradient, tensors, .. } = &parameters.buckets[bucket];
                let units = Units::of_tensors(dense.codec, gradient.len(), tensors);
                let reduction =
                    EmulatedAllReduce::new(device, run.all_reduce, units, &hosts, dense.compensation)?;
                reductions[bucket] = Some(reduction);
            }
        }
        Ok(Self { reductions, rounding: run.wire.rounding, seed: run.seed })
    }

    /// Reduces the gradient of a bucket among all nodes, in step `step` of the run.
    pub fn reduce(
        &mut self,
        device: &Device,
        bucket: usize,
        step: u64,
        state: &mut BucketState,
    ) -> Result<(), KernelError> {
        let Self { reductions, rounding, seed } = self;
        let Some(reduction) = &mut reductions[bucket] else { return Ok(()) };
        let BucketState { gradient, node_gradients, .. } = state;
        reduction.run(device, node_gradients, |node| match rounding {
            Rounding::Nearest => Round::Nearest,
            Rounding::Stochastic => {
                let sequence = RandomSequence::new(*seed, "emulated reduction");
                let at = (step << 24) ^ ((bucket as u64) << 12) ^ node as u64;
                Round::Stochastic { key: sequence.bits(at) }
            }
        })?;
        // Every node has the same sum.
        std::mem::swap(gradient, &mut node_gradients[0]);
        Ok(())
    }
}
