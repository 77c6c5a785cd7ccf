//! Regularisation: what a run does to weights, gradients and labels besides its update rules. Dropout is part of the model.

use super::{Run, RunError, TrainConfig};

/// Options of a run against overfitting and diverging. By default all are off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Regularisation {
    /// Weight decay λ of the dense layers that comes before the rule: `w −= lr·λ·w`. 0 where it is a constant of the rule.
    pub weight_decay: f32,
    /// Weight decay λ of the table rows that a step touches. 0 where it is a constant of the rule.
    pub table_weight_decay: f32,
    /// Label smoothing ε: losses and gradients of training are of labels `y·(1 − ε) + ε/2`. Metrics keep the labels.
    pub label_smoothing: f32,
    /// Largest magnitude of an element of a gradient: of the dense gradients after their reduction, and of the sum of a table
    /// row's gradients. Elements beyond it are cut to it.
    pub clip_value: Option<f32>,
    /// Largest norm (L2) of all dense gradients together, tower modules included and tables not: beyond it, they are scaled
    /// down to it. Elements are clipped first.
    pub clip_norm: Option<f32>,
}

impl Regularisation {
    /// Factor of all dense gradients whose norm is `norm`, as PyTorch's `clip_grad_norm_` has it.
    ///
    /// ```
    /// use spec::run::Regularisation;
    /// let clipped = Regularisation { clip_norm: Some(1.0), ..Regularisation::default() };
    /// assert_eq!((clipped.scale(0.5), clipped.scale(4.0)), (1.0, 0.24999994));
    /// ```
    pub fn scale(&self, norm: f64) -> f32 {
        let Some(most) = self.clip_norm else { return 1.0 };
        let scale = f64::from(most) / (norm + 1e-6);
        // A norm that is not a number stays one.
        if scale > 1.0 { 1.0 } else { scale as f32 }
    }
}

impl Run {
    /// Weight decay of the dense layers, whether it is a constant of their rule or comes before it.
    pub fn weight_decay(&self) -> f32 {
        self.dense_optimizer.update.own_decay().unwrap_or(self.regularisation.weight_decay)
    }

    /// Weight decay of the tables, whether it is a constant of their rule or comes before it.
    pub fn table_weight_decay(&self) -> f32 {
        self.table_optimizer.update.own_decay().unwrap_or(self.regularisation.table_weight_decay)
    }

    /// Options of regularisation that are on: names as in a config, and values.
    ///
    /// ```
    /// # use spec::run::Run;
    /// fn decays(run: &Run) -> bool {
    ///     run.regularised().iter().any(|(name, _)| *name == "weight_decay")
    /// }
    /// ```
    pub fn regularised(&self) -> Vec<(&'static str, f32)> {
        let options = [
            ("weight_decay", self.weight_decay()),
            ("table_weight_decay", self.table_weight_decay()),
            ("label_smoothing", self.regularisation.label_smoothing),
            ("dropout", self.model.dropout()),
            ("clip_value", self.regularisation.clip_value.unwrap_or(0.0)),
            ("clip_norm", self.regularisation.clip_norm.unwrap_or(0.0)),
        ];
        options.into_iter().filter(|(_, value)| *value != 0.0).collect()
    }

    /// Options of regularisation that are on, as text: "weight decay 0.01, dropout 0.1". `None` where all are off.
    pub fn regularisation_text(&self) -> Option<String> {
        let options = self.regularised();
        let text = |(name, value): &(&str, f32)| format!("{} {value}", name.replace('_', " "));
        (!options.is_empty()).then(|| options.iter().map(text).collect::<Vec<_>>().join(", "))
    }
}

impl TrainConfig {
    /// Refuses options of regularisation that make no sense.
    pub(super) fn check_regularisation(&self) -> Result<(), RunError> {
        for (field, flag, most) in [
            ("train.clip_value", "--clip-value", self.clip_value),
            ("train.clip_norm", "--clip-norm", self.clip_norm),
        ] {
            if let Some(most) = most.filter(|most| !(*most > 0.0 && most.is_finite())) {
                let problem =
                    format!("{most} is no limit of gradients; use a number above 0, or leave it out");
                return Err(RunError::new(format!("{field} ({flag})"), problem));
            }
        }
        match self.label_smoothing {
            Some(smoothing) if !(0.0..1.0).contains(&smoothing) => {
                let problem = format!("{smoothing} must lie in 0..1 (0.1 is usual, 0 is off)");
                Err(RunError::new("train.label_smoothing (--label-smoothing)", problem))
            }
            _ => Ok(()),
        }
    }
}
