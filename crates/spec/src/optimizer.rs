//! Update rules, and learning rates over time.
//!
//! Given a gradient `g`, a weight `w` and a learning rate `lr`:
//!
//! | rule | update |
//! |---|---|
//! | SGD | `w −= lr·g` |
//! | Adagrad | `h += g²; w −= lr·g / (√h + ε)` |
//! | row-wise Adagrad | one `h` per row: `h += mean(g²); w −= lr·g / (√h + ε)` |
//! | Adam | `m = β₁m + (1−β₁)g; v = β₂v + (1−β₂)g²; w −= lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε·√(1−β₂ᵗ))` |
//! | AdamW | `w −= lr·λ·w`, then Adam |
//!
//! On embedding tables every rule is *lazy*: a row that no sample of the step touches keeps its weights and its
//! moments, and `t` counts steps of the whole run, as PyTorch's `SparseAdam` does, whose ε is not scaled
//! (`w −= lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε)`).

use serde::{Deserialize, Serialize};

/// How a gradient changes a weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum UpdateRule {
    /// Plain stochastic gradient descent.
    Sgd,
    /// One accumulator per weight.
    Adagrad {
        /// Added to the root, against division by zero.
        eps: f32,
    },
    /// One accumulator per table row (FBGEMM's `EXACT_ROWWISE_ADAGRAD`). Tables only.
    RowWiseAdagrad {
        /// Added to the root, against division by zero.
        eps: f32,
    },
    /// Two moments per weight.
    Adam {
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Added to the root, against division by zero.
        eps: f32,
        /// Decoupled weight decay (AdamW); 0 for Adam.
        weight_decay: f32,
    },
}

impl UpdateRule {
    /// Floats of state kept beside each table row of `dim` weights.
    pub fn state_per_row(&self, dim: usize) -> usize {
        match self {
            UpdateRule::Sgd => 0,
            UpdateRule::Adagrad { .. } => dim,
            UpdateRule::RowWiseAdagrad { .. } => 1,
            UpdateRule::Adam { .. } => 2 * dim,
        }
    }

    /// The rule's name, as flags have it.
    pub fn name(&self) -> &'static str {
        match self {
            UpdateRule::Sgd => "sgd",
            UpdateRule::Adagrad { .. } => "adagrad",
            UpdateRule::RowWiseAdagrad { .. } => "row-wise-adagrad",
            UpdateRule::Adam { weight_decay, .. } if *weight_decay != 0.0 => "adamw",
            UpdateRule::Adam { .. } => "adam",
        }
    }
}

/// The learning rate over steps: linear warm-up to `peak`, hold, then decay.
///
/// ```
/// use spec::optimizer::{Decay, LearningRate};
/// let rate = LearningRate { peak: 1.0, warm_up: 2, hold: 2, decay: Decay::Linear { steps: 4, floor: 0.0 } };
/// let curve: Vec<f32> = (0..9).map(|step| rate.at(step)).collect();
/// assert_eq!(curve, [0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearningRate {
    /// The highest rate.
    pub peak: f32,
    /// Steps over which the rate climbs to `peak`.
    #[serde(default)]
    pub warm_up: u64,
    /// Steps at `peak` before the decay begins.
    #[serde(default)]
    pub hold: u64,
    /// What follows.
    #[serde(default)]
    pub decay: Decay,
}

/// How the rate falls after warm-up and hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decay {
    /// The rate stays at its peak.
    #[default]
    None,
    /// A straight line to `floor · peak` over `steps` steps.
    Linear {
        /// Length of the decay.
        steps: u64,
        /// What remains at its end, as a share of the peak.
        floor: f32,
    },
    /// Half a cosine to `floor · peak` over `steps` steps.
    Cosine {
        /// Length of the decay.
        steps: u64,
        /// What remains at its end, as a share of the peak.
        floor: f32,
    },
}

impl LearningRate {
    /// A rate that never changes.
    pub fn constant(peak: f32) -> Self {
        Self { peak, warm_up: 0, hold: 0, decay: Decay::None }
    }

    /// The rate of `step`, counted from 0.
    pub fn at(&self, step: u64) -> f32 {
        if step < self.warm_up {
            return self.peak * (step + 1) as f32 / self.warm_up as f32;
        }
        let since = (step - self.warm_up).saturating_sub(self.hold);
        let progress = |steps: u64| if steps == 0 { 1.0 } else { (since as f32 / steps as f32).min(1.0) };
        let share = match self.decay {
            Decay::None => 1.0,
            Decay::Linear { steps, floor } => 1.0 - (1.0 - floor) * progress(steps),
            Decay::Cosine { steps, floor } => {
                floor + (1.0 - floor) * 0.5 * (1.0 + (std::f32::consts::PI * progress(steps)).cos())
            }
        };
        self.peak * share
    }
}
