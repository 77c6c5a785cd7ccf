//! Updates of dense weights. Tables are updated by [`Device::update_tables`].

use super::{Check, Result};
use crate::{Buffer, Device, KernelError};
use ground::optimizer::UpdateRule;
use std::ops::Range;

/// One update of weights: the rule, the numbers of a step, and what is done to gradients and weights before the rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Rule by which a gradient changes a weight (see [`ground::optimizer`]).
    pub rule: UpdateRule,
    /// Learning rate of the step.
    pub rate: f32,
    /// Number of the step, counted from 1.
    pub step: u64,
    /// Decoupled weight decay λ: `w −= rate·λ·w` before the rule, in tables for the rows that are updated. The constants of
    /// Adam and LAMB come on top of it.
    pub weight_decay: f32,
    /// Largest magnitude of an element of a gradient; elements beyond it are cut to it. `None` for no limit.
    pub clip: Option<f32>,
    /// Factor of all gradients, after they were clipped.
    pub scale: f32,
}

impl Update {
    /// An update by the rule alone.
    pub fn new(rule: UpdateRule, rate: f32, step: u64) -> Self {
        Self { rule, rate, step, weight_decay: 0.0, clip: None, scale: 1.0 }
    }

    /// Share of a weight that decays in this step.
    pub(crate) fn decay(&self) -> f32 {
        self.rate * self.weight_decay
    }

    /// Whether the rule sees other gradients than those given.
    pub(crate) fn changes_gradients(&self) -> bool {
        self.clip.is_some() || self.scale != 1.0
    }

    /// Element of a gradient as the rule sees it.
    #[inline(always)]
    pub(crate) fn changed(&self, gradient: f32) -> f32 {
        clipped(gradient, self.clip.unwrap_or(f32::INFINITY)) * self.scale
    }
}

/// Gradient cut to `±limit`.
#[inline(always)]
pub(crate) fn clipped(gradient: f32, limit: f32) -> f32 {
    // A NaN stays one.
    if gradient > limit {
        limit
    } else if gradient < -limit {
        -limit
    } else {
        gradient
    }
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
    /// Gradient of each weight. Clipping and scaling change it in place.
    pub gradient: &'a mut Buffer<f32>,
    /// Optimizer state, `rule.state_per_row(weights)` floats: for Adam the first moments of all weights, then the second.
    pub state: &'a mut Buffer<f32>,
}

impl Device {
    /// One update of dense weights by a rule of [`ground::optimizer`].
    ///
    /// ```
    /// use kernels::{Buffer, Device, Update, UpdateDense};
    /// use ground::optimizer::UpdateRule;
    /// let device = Device::cpu(1)?;
    /// let mut weights = Buffer::from_slice(&device, &[1.0, 2.0])?;
    /// device.update_dense(UpdateDense {
    ///     update: Update::new(UpdateRule::Sgd, 0.5, 1),
    ///     tensors: &[0..2],
    ///     weights: &mut weights,
    ///     gradient: &mut Buffer::from_slice(&device, &[1.0, -1.0])?,
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

    /// Sum of the squares of all elements, each cut to `±clip` before: the square of a gradient's norm. The bits do not depend
    /// on the number of threads. `None` on a device that computes nothing.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let gradient = Buffer::from_slice(&device, &[3.0, -4.0])?;
    /// assert_eq!(device.sum_of_squares(&gradient, None)?, Some(25.0));
    /// assert_eq!(device.sum_of_squares(&gradient, Some(2.0))?, Some(8.0));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn sum_of_squares(&self, gradient: &Buffer<f32>, clip: Option<f32>) -> Result<Option<f64>> {
        Check::new("sum_of_squares", self).buffer("gradient", gradient, 0)?;
        self.backend().sum_of_squares(gradient, clip.unwrap_or(f32::INFINITY))
    }
}
