//! Update rules as kernels take them: everything that is the same for all weights of a step, worked out once on the host.

use crate::Update;
use crate::reference::optimizer::bias_corrections;
use ground::optimizer::UpdateRule;

/// A rule at a step, as `struct Rule` of `kernels/rules.cuh`; an argument of kernels by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Rule {
    kind: u32,
    changes: u32,
    limit: f32,
    scale: f32,
    decay: f32,
    rate: f32,
    eps: f32,
    beta1: f32,
    rest1: f32,
    beta2: f32,
    rest2: f32,
    own: f32,
    factor: f32,
    root: f32,
    step: u64,
}

impl Rule {
    /// Rule of dense weights.
    pub(crate) fn dense(update: Update) -> Self {
        Self::new(update, |rate, c1, c2| ((rate / c1) as f32, c2.sqrt() as f32))
    }

    /// Rule of rows of tables, where Adam does not scale its ε.
    pub(crate) fn row(update: Update) -> Self {
        Self::new(update, |rate, c1, c2| ((rate * c2.sqrt() / c1) as f32, 1.0))
    }

    /// The rule with the number of the step, by which rows are rounded at random. Elsewhere the number is 0: steps that differ in nothing
    /// else have the same arguments, and a graph of such a step needs none set.
    pub(crate) fn rounding_in(self, step: u64) -> Self {
        Self { step, ..self }
    }

    /// The rule as an argument of kernels: [`Launch::words`](super::launch::Launch::words).
    pub(crate) fn words(&self) -> [u64; 8] {
        bytemuck::cast(*self)
    }

    /// Whether something is done to gradients or weights before the rule.
    pub(crate) fn precedes(&self) -> bool {
        self.changes != 0 || self.decay != 0.0
    }

    /// Whether the rule looks at a tensor or row as a whole.
    pub(crate) fn is_lamb(&self) -> bool {
        self.kind == 4
    }

    /// `adam` gives factor and divisor of Adam's moments, given the rate and both bias corrections.
    fn new(update: Update, adam: impl Fn(f64, f64, f64) -> (f32, f32)) -> Self {
        let rate = update.rate;
        let base = Self {
            kind: 0,
            changes: update.changes_gradients().into(),
            limit: update.clip.unwrap_or(f32::INFINITY),
            scale: update.scale,
            decay: update.decay(),
            rate,
            eps: 0.0,
            beta1: 0.0,
            rest1: 1.0,
            beta2: 0.0,
            rest2: 1.0,
            own: 0.0,
            factor: 1.0,
            root: 1.0,
            step: 0,
        };
        let moments = |beta1: f32, beta2: f32| {
            let (rest1, rest2) = (1.0 - beta1, 1.0 - beta2);
            Self { beta1, rest1, beta2, rest2, ..base }
        };
        match update.rule {
            UpdateRule::Sgd => base,
            UpdateRule::Adagrad { eps } => Self { kind: 1, eps, ..base },
            UpdateRule::RowWiseAdagrad { eps } => Self { kind: 2, eps, ..base },
            UpdateRule::Adam { beta1, beta2, eps, weight_decay } => {
                let (c1, c2) = bias_corrections(beta1, beta2, update.step);
                let (factor, root) = adam(rate.into(), c1, c2);
                Self { kind: 3, eps, own: rate * weight_decay, factor, root, ..moments(beta1, beta2) }
            }
            UpdateRule::Lamb { beta1, beta2, eps, weight_decay } => {
                let (c1, c2) = bias_corrections(beta1, beta2, update.step);
                let (factor, root) = ((1.0 / c1) as f32, c2.sqrt() as f32);
                Self { kind: 4, eps, own: weight_decay, factor, root, ..moments(beta1, beta2) }
            }
        }
    }
}
