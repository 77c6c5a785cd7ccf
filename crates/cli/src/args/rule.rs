//! Update rules by name.

use clap::ValueEnum;
use spec::optimizer::UpdateRule;

/// Update rules by name, with their usual constants; a config file sets the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// Plain stochastic gradient descent
    Sgd,
    /// One accumulator per weight
    Adagrad,
    /// One accumulator per table row; dense layers use adagrad
    RowWiseAdagrad,
    /// Two moments per weight; lazy on tables
    Adam,
    /// Adam with a weight decay of 0.01 on dense layers
    Adamw,
}

impl Rule {
    /// The rule of dense layers, and that of tables.
    pub fn rules(self) -> (UpdateRule, UpdateRule) {
        let adam = |weight_decay| UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay };
        let adagrad = UpdateRule::Adagrad { eps: 1e-8 };
        match self {
            Rule::Sgd => (UpdateRule::Sgd, UpdateRule::Sgd),
            Rule::Adagrad => (adagrad, adagrad),
            Rule::RowWiseAdagrad => (adagrad, UpdateRule::RowWiseAdagrad { eps: 1e-8 }),
            Rule::Adam => (adam(0.0), adam(0.0)),
            Rule::Adamw => (adam(0.01), adam(0.0)),
        }
    }

    /// The peak learning rate that is usual for the rule.
    pub fn usual_rate(self) -> f32 {
        match self {
            Rule::Sgd => 0.1,
            Rule::Adagrad | Rule::RowWiseAdagrad => 0.01,
            Rule::Adam | Rule::Adamw => 0.002,
        }
    }
}
