//! Update rules, and learning rates over time.
//!
//! Everything about a rule as a value is here: its name, its usual constants, how much state it keeps, what it may be used
//! for, and which constants make sense. `kernels` has its arithmetic, in `reference/optimizer.rs` and `cpu/optimizer.rs`.
//!
//! Given a gradient `g`, a weight `w` and a learning rate `lr`:
//!
//! | rule | update |
//! |---|---|
//! | SGD | `w −= lr·g` |
//! | Adagrad | `h += g²; w −= lr·g / (√h + ε)` |
//! | row-wise Adagrad | one `h` per row: `h += mean(g²); w −= lr·g / (√h + ε)` |
//! | Adam | `m = β₁m + (1−β₁)g; v = β₂v + (1−β₂)g²; w −= lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε·√(1−β₂ᵗ))` |
//! | AdamW, and any other rule with weight decay λ | `w −= lr·λ·w`, then the rule |
//! | LAMB | `m`, `v` as Adam's; `u = m/(1−β₁ᵗ) / (√(v/(1−β₂ᵗ)) + ε) + λ·w; w −= lr·‖w‖/‖u‖·u`, the ratio 1 where a norm is 0 |
//!
//! LAMB's trust ratio `‖w‖/‖u‖` is of a tensor in dense layers and of a row in tables (of the slice that a rank holds, where the
//! columns of a table are cut).
//!
//! Weight decay treats all dense parameters alike, biases too, as PyTorch's AdamW does by default. Adam and LAMB have λ as a
//! constant of their own, the others get it from the run (`spec::run::Regularisation`).
//!
//! On embedding tables every rule is *lazy*: a row that no sample of the step touches keeps its weights and its
//! moments (and does not decay), and `t` counts steps of the whole run, as PyTorch's `SparseAdam` does, whose ε is not scaled
//! (`w −= lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε)`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Update rule: how a gradient changes a weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum UpdateRule {
    /// Plain stochastic gradient descent.
    Sgd,
    /// Adagrad, with one accumulator per weight.
    Adagrad {
        /// Constant ε that is added to the root, against division by zero.
        eps: f32,
    },
    /// Row-wise Adagrad, with one accumulator per table row (FBGEMM's `EXACT_ROWWISE_ADAGRAD`). Tables only.
    RowWiseAdagrad {
        /// Constant ε that is added to the root, against division by zero.
        eps: f32,
    },
    /// Adam or AdamW, with two moments per weight.
    Adam {
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Constant ε that is added to the root, against division by zero.
        eps: f32,
        /// Decoupled weight decay (AdamW); 0 for Adam.
        weight_decay: f32,
    },
    /// Adam with a step that is scaled to the norm of each tensor, or of each table row (You et al., 2020).
    Lamb {
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Added to the root, against division by zero.
        eps: f32,
        /// Weight decay, part of the update that the trust ratio scales.
        weight_decay: f32,
    },
}

impl UpdateRule {
    /// Number of floats kept beside each table row of `dim` weights; for dense layers beside `dim` weights.
    pub fn state_per_row(&self, dim: usize) -> usize {
        match self {
            UpdateRule::Sgd => 0,
            UpdateRule::Adagrad { .. } => dim,
            UpdateRule::RowWiseAdagrad { .. } => 1,
            UpdateRule::Adam { .. } | UpdateRule::Lamb { .. } => 2 * dim,
        }
    }

    /// Name of the rule, as flags have it.
    pub fn name(&self) -> &'static str {
        match self {
            UpdateRule::Sgd => "sgd",
            UpdateRule::Adagrad { .. } => "adagrad",
            UpdateRule::RowWiseAdagrad { .. } => "row-wise-adagrad",
            UpdateRule::Adam { weight_decay, .. } if *weight_decay != 0.0 => "adamw",
            UpdateRule::Adam { .. } => "adam",
            UpdateRule::Lamb { .. } => "lamb",
        }
    }

    /// Weight decay that is a constant of the rule; `None` for rules that have no such constant.
    pub fn own_decay(&self) -> Option<f32> {
        match self {
            UpdateRule::Adam { weight_decay, .. } | UpdateRule::Lamb { weight_decay, .. } => {
                Some(*weight_decay)
            }
            UpdateRule::Sgd | UpdateRule::Adagrad { .. } | UpdateRule::RowWiseAdagrad { .. } => None,
        }
    }

    /// The rule with another weight decay, where that is a constant of the rule; otherwise the rule as it is.
    pub fn with_own_decay(mut self, decay: f32) -> Self {
        match &mut self {
            UpdateRule::Adam { weight_decay, .. } | UpdateRule::Lamb { weight_decay, .. } => {
                *weight_decay = decay
            }
            UpdateRule::Sgd | UpdateRule::Adagrad { .. } | UpdateRule::RowWiseAdagrad { .. } => {}
        }
        self
    }

    /// Whether the state of a row is one number, whatever its width: then each slice of a row whose columns are cut has
    /// a number of its own.
    pub fn keeps_one_per_row(&self) -> bool {
        matches!(self, UpdateRule::RowWiseAdagrad { .. })
    }

    /// Whether dense layers can use the rule.
    pub fn for_dense(&self) -> bool {
        self.dense_problem().is_none()
    }

    /// Why dense layers cannot use the rule, if they cannot.
    pub fn dense_problem(&self) -> Option<&'static str> {
        match self {
            UpdateRule::RowWiseAdagrad { .. } => Some(
                "row_wise_adagrad keeps one number per table row and dense layers have none; use adagrad",
            ),
            UpdateRule::Sgd | UpdateRule::Adagrad { .. } => None,
            UpdateRule::Adam { .. } | UpdateRule::Lamb { .. } => None,
        }
    }

    /// Constant of the rule that makes no sense, if there is one: its name, and what is wrong.
    ///
    /// ```
    /// use ground::optimizer::UpdateRule;
    /// assert_eq!(UpdateRule::Adagrad { eps: 1e-8 }.problem(), None);
    /// let (constant, problem) = UpdateRule::Adagrad { eps: 0.0 }.problem().unwrap();
    /// assert_eq!((constant, problem.as_str()), ("eps", "0 must be above 0 (1e-8 is usual)"));
    /// ```
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let positive = |name, value: f32| {
            let problem = || (name, format!("{value} must be above 0 (1e-8 is usual)"));
            (!(value.is_finite() && value > 0.0)).then(problem)
        };
        let decay_of_moments = |name, value: f32| {
            let problem = || (name, format!("{value} must lie in 0..1 (0.9 and 0.999 are usual)"));
            (!(0.0..1.0).contains(&value)).then(problem)
        };
        match *self {
            UpdateRule::Sgd => None,
            UpdateRule::Adagrad { eps } | UpdateRule::RowWiseAdagrad { eps } => positive("eps", eps),
            UpdateRule::Adam { beta1, beta2, eps, weight_decay }
            | UpdateRule::Lamb { beta1, beta2, eps, weight_decay } => {
                let decay = || {
                    let problem = || ("weight_decay", format!("{weight_decay} must be 0 or more"));
                    (!(weight_decay >= 0.0 && weight_decay.is_finite())).then(problem)
                };
                decay_of_moments("beta1", beta1)
                    .or_else(|| decay_of_moments("beta2", beta2))
                    .or_else(|| positive("eps", eps))
                    .or_else(decay)
            }
        }
    }
}

/// An optimizer that a flag can name, with its usual constants; a config file sets other constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedOptimizer {
    /// Name of the optimizer, as flags have it.
    pub name: &'static str,
    /// One line about the optimizer, for help texts.
    pub about: &'static str,
    /// Rule of dense layers.
    pub dense: UpdateRule,
    /// Rule of tables.
    pub tables: UpdateRule,
    /// Learning rate that is usual for the rules.
    pub usual_rate: f32,
}

const ADAGRAD: UpdateRule = UpdateRule::Adagrad { eps: 1e-8 };
/// Adam with its usual constants.
pub const ADAM: UpdateRule = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
const ADAMW: UpdateRule = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
const LAMB: UpdateRule = UpdateRule::Lamb { beta1: 0.9, beta2: 0.999, eps: 1e-6, weight_decay: 0.0 };
const LAMB_WITH_DECAY: UpdateRule =
    UpdateRule::Lamb { beta1: 0.9, beta2: 0.999, eps: 1e-6, weight_decay: 0.01 };

impl NamedOptimizer {
    /// All optimizers that have a name.
    ///
    /// ```
    /// use ground::optimizer::NamedOptimizer;
    /// let named: NamedOptimizer = "row-wise-adagrad".parse().unwrap();
    /// assert_eq!((named.dense.name(), named.tables.name()), ("adagrad", "row-wise-adagrad"));
    /// assert!("adamax".parse::<NamedOptimizer>().is_err());
    /// ```
    pub const ALL: &[NamedOptimizer] = &[
        NamedOptimizer {
            name: "sgd",
            about: "Plain stochastic gradient descent",
            dense: UpdateRule::Sgd,
            tables: UpdateRule::Sgd,
            usual_rate: 0.1,
        },
        NamedOptimizer {
            name: "adagrad",
            about: "One accumulator per weight",
            dense: ADAGRAD,
            tables: ADAGRAD,
            usual_rate: 0.01,
        },
        NamedOptimizer {
            name: "row-wise-adagrad",
            about: "One accumulator per table row; dense layers use adagrad",
            dense: ADAGRAD,
            tables: UpdateRule::RowWiseAdagrad { eps: 1e-8 },
            usual_rate: 0.01,
        },
        NamedOptimizer {
            name: "adam",
            about: "Two moments per weight; lazy on tables",
            dense: ADAM,
            tables: ADAM,
            usual_rate: 0.002,
        },
        NamedOptimizer {
            name: "adamw",
            about: "Adam with a weight decay of 0.01 on dense layers",
            dense: ADAMW,
            tables: ADAM,
            usual_rate: 0.002,
        },
        NamedOptimizer {
            name: "lamb",
            about: "Adam scaled to the norm of each tensor and table row, for large batches; weight decay of 0.01 on dense layers",
            dense: LAMB_WITH_DECAY,
            tables: LAMB,
            usual_rate: 0.01,
        },
    ];
}

impl FromStr for NamedOptimizer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|optimizer| optimizer.name == name).copied();
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|optimizer| optimizer.name).collect();
            format!("unknown optimizer {name:?}; the known ones are {}", names.join(", "))
        })
    }
}

/// The learning rate over steps: linear warm-up to `peak`, hold, then decay.
///
/// ```
/// use ground::optimizer::{Decay, LearningRate};
/// let rate = LearningRate { peak: 1.0, warm_up: 2, hold: 2, decay: Decay::Linear { steps: 4, floor: 0.0 } };
/// let curve: Vec<f32> = (0..9).map(|step| rate.at(step)).collect();
/// assert_eq!(curve, [0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LearningRate {
    /// Largest learning rate.
    pub peak: f32,
    /// Number of steps over which the rate rises to `peak`.
    #[serde(default)]
    pub warm_up: u64,
    /// Number of steps at `peak` before the decay begins.
    #[serde(default)]
    pub hold: u64,
    /// Decay after warm-up and hold.
    #[serde(default)]
    pub decay: Decay,
}

/// Decay of the learning rate after warm-up and hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decay {
    /// The rate stays at its peak.
    #[default]
    None,
    /// Linear decay to `floor · peak` over `steps` steps.
    Linear {
        /// Number of steps of the decay.
        steps: u64,
        /// Rate at the end of the decay, as a share of the peak.
        floor: f32,
    },
    /// Cosine decay to `floor · peak` over `steps` steps.
    Cosine {
        /// Number of steps of the decay.
        steps: u64,
        /// Rate at the end of the decay, as a share of the peak.
        floor: f32,
    },
}

impl LearningRate {
    /// Constant learning rate.
    pub fn constant(peak: f32) -> Self {
        Self { peak, warm_up: 0, hold: 0, decay: Decay::None }
    }

    /// Learning rate of `step`, counted from 0.
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
