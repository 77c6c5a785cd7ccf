//! Updates of dense weights. Tables are updated by [`Device::update_tables`].

use super::{Check, Result};
use crate::{Buffer, Device, KernelError};
use spec::optimizer::UpdateRule;
use std::ops::Range;

/// One update of weights: the rule and the numbers of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Rule by which a gradient changes a weight (see [`spec::optimizer`]).
    pub rule: UpdateRule,
    /// Learning rate of the step.
    pub rate: f32,
    /// Number of the step, counted from 1.
    pub step: u64,
}

/// Arguments of [`Device::update_dense`].
#[derive(Debug)]
pub struct UpdateDense<'a> {
    /// Rule, rate and number of the step.
    pub update: Update,
    /// Ranges of `weights` that are one tensor each, ascending, for rules that look at a tensor as a whole. Elements
    /// between tensors belong to none.
    pub tensors: &'a [Range<usize>],
    /// Weights of all tensors.
    pub weights: &'a mut Buffer<f32>,
    /// Gradient of each weight.
    pub gradient: &'a Buffer<f32>,
    /// Optimizer state, `rule.state_per_row(weights)` floats: for Adam the first moments of all weights, then the second.
    pub state: &'a mut Buffer<f32>,
}

impl Device {
    /// One update of dense weights by a rule of [`spec::optimizer`].
    ///
    /// ```
    /// use kernels::{Buffer, Device, Update, UpdateDense};
    /// use spec::optimizer::UpdateRule;
    /// let device = Device::cpu(1)?;
    /// let mut weights = Buffer::from_slice(&device, &[1.0, 2.0])?;
    /// device.update_dense(UpdateDense {
    ///     update: Update { rule: UpdateRule::Sgd, rate: 0.5, step: 1 },
    ///     tensors: &[0..2],
    ///     weights: &mut weights,
    ///     gradient: &Buffer::from_slice(&device, &[1.0, -1.0])?,
    ///     state: &mut Buffer::new(&device),
    /// })?;
    /// assert_eq!(weights.to_vec()?, [0.5, 2.5]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn update_dense(&self, args: UpdateDense) -> Result {
        let (check, rule, len) = (Check::new("update_dense", self), args.update.rule, args.weights.len());
        if !rule.for_dense() {
            return Err(KernelError::TablesOnly { rule: rule.name() });
        }
        check.buffer("weights", args.weights, len)?;
        check.buffer("gradient", args.gradient, len)?;
        check.buffer("state", args.state, rule.state_per_row(len))?;
        let mut end = 0;
        for tensor in args.tensors {
            check.count("the gap before a tensor", end, tensor.start)?;
            check.count("a tensor", tensor.start, tensor.end)?;
            end = tensor.end;
        }
        check.count("weights", end, len)?;
        self.backend().update_dense(args)
    }
}
