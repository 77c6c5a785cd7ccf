//! Labels of a model with several: one shared network, and a linear head for each label.
//!
//! The last layer of the network has as many outputs as there are labels. The loss of a model is the sum of the losses of its
//! labels, each times its weight.
//!
//! ```
//! use spec::model::ModelLabel;
//! use spec::presets::Preset;
//! let model = Preset::Demo.model("dlrm".parse().unwrap(), None, None).unwrap();
//! let label = |name: &str, weight| ModelLabel { name: name.into(), weight };
//! let two = model.clone().with_labels(vec![label("click", 1.0), label("buy", 0.5)]).unwrap();
//! assert_eq!((model.outputs(), two.outputs()), (1, 2));
//! assert_eq!(two.dense_parameters() - model.dense_parameters(), 64 + 1);
//! ```

use super::{Architecture, Model, ModelError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One of several labels of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelLabel {
    /// Name of the label: its column in the log.
    pub name: String,
    /// Factor of the label's loss in the loss of the model. Default: 1.
    #[serde(default = "one")]
    pub weight: f32,
}

fn one() -> f32 {
    1.0
}

impl Model {
    /// Model with a head for each of these labels; one label or none leaves the model with its one output.
    pub fn with_labels(self, labels: Vec<ModelLabel>) -> Result<Self, ModelError> {
        if labels.len() < 2 {
            return Ok(self);
        }
        if let Architecture::DeepFm { .. } = self.architecture {
            let problem = format!(
                "{} labels cannot be learnt by a deepfm model, whose factorization machine has a single output; use the model \
                 dlrm or dcn, or one label",
                labels.len()
            );
            return Err(ModelError::new("model.labels", problem));
        }
        for (i, label) in labels.iter().enumerate() {
            let refuse = |problem: String| Err(ModelError::new(format!("model.labels[{i}]"), problem));
            if label.name.is_empty() || labels[..i].iter().any(|other| other.name == label.name) {
                return refuse(format!(
                    "{:?} is empty or taken; every label needs a name of its own",
                    label.name
                ));
            }
            if !(label.weight.is_finite() && label.weight > 0.0) {
                return refuse(format!("weight {} must be a finite number above 0", label.weight));
            }
        }
        let network = self.architecture.network(self.sample(labels.len()))?;
        Ok(Self { labels, network, ..self })
    }

    /// Labels of a model with several, in the order of its outputs; empty for a model with one label.
    pub fn labels(&self) -> &[ModelLabel] {
        &self.labels
    }

    /// Number of outputs of the network: one for each label.
    pub fn outputs(&self) -> usize {
        self.labels.len().max(1)
    }
}
