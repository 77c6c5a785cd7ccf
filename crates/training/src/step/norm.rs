//! The norm of a step's dense gradients, by which they are clipped.
//!
//! Every rank has the same gradients of the network, and adds up their squares by itself. Towers differ by group: each group
//! gives the sum of its own, and peers add these up in the order of groups. So all ranks scale by the same bits.

use crate::Error;
use crate::dataflow::{Payload, Reduction};
use crate::layers::dense::BucketState;
use kernels::{Buffer, Device, KernelError};
use spec::run::Regularisation;

/// Norm of the dense gradients of a step, on one rank.
#[derive(Debug)]
pub(crate) struct GradientNorm {
    /// Buckets of the network; behind them is the bucket of the group's towers.
    network: usize,
    /// Sum of the squares of towers' gradients: one float, zero where there are no tower modules.
    towers: Buffer<f32>,
    reduction: Reduction,
    /// Factor of the dense gradients of the step.
    pub scale: f32,
}

impl GradientNorm {
    /// No norm yet, of a step with `network` buckets besides those of towers; `reduction` adds up the towers' squares.
    pub fn new(device: &Device, network: usize, reduction: Reduction) -> Result<Self, KernelError> {
        let towers = Buffer::zeroed(device.for_exchange(), 1)?;
        Ok(Self { network, towers, reduction, scale: 1.0 })
    }

    /// The float that peers add up.
    pub fn payload(&mut self) -> Payload<'_> {
        Payload::Gradient { gradient: &mut self.towers, reduction: &mut self.reduction }
    }

    /// Takes the gradients of the towers of this rank's group.
    pub fn take_towers(
        &mut self,
        device: &Device,
        buckets: &[BucketState],
        options: &Regularisation,
    ) -> Result<(), Error> {
        let squares = device.sum_of_squares(&buckets[self.network].gradient, options.clip_value)?;
        Ok(self.towers.write(0, &[squares.unwrap_or(0.0) as f32])?)
    }

    /// Takes the gradients of the network, and finds the factor of all dense gradients.
    pub fn take(
        &mut self,
        device: &Device,
        buckets: &[BucketState],
        options: &Regularisation,
    ) -> Result<(), Error> {
        let mut towers = [0.0];
        self.towers.read(0, &mut towers)?;
        let mut squares = f64::from(towers[0]);
        for bucket in &buckets[..self.network] {
            squares += device.sum_of_squares(&bucket.gradient, options.clip_value)?.unwrap_or(0.0);
        }
        self.scale = options.scale(squares.sqrt());
        Ok(())
    }
}
