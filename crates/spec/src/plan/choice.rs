//! The plan of a config: the word `auto`, or the contents of a plan file.

use super::PlanFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Plan that a run shall follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenPlan", into = "WrittenPlan")]
pub enum PlanChoice {
    /// The planner makes the plan, with every scheme.
    Auto,
    /// A plan that was made before.
    File(Box<PlanFile>),
}

/// A plan as it stands in a config.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a plan is \"auto\", the name of a plan file, or the contents of one")]
enum WrittenPlan {
    /// `"auto"`: the planner makes a plan with every scheme. Otherwise the name of a plan file, relative to the folder of the
    /// config.
    Word(String),
    /// Contents of a plan file.
    Contents(Box<PlanFile>),
}

impl TryFrom<WrittenPlan> for PlanChoice {
    type Error = String;

    fn try_from(written: WrittenPlan) -> Result<Self, String> {
        match written {
            WrittenPlan::Word(word) if word == "auto" => Ok(Self::Auto),
            WrittenPlan::Word(word) => Err(format!(
                "unknown plan {word:?}; use \"auto\", or the name of a plan file in a config that is read from a file"
            )),
            WrittenPlan::Contents(plan) => Ok(Self::File(plan)),
        }
    }
}

impl From<PlanChoice> for WrittenPlan {
    fn from(plan: PlanChoice) -> Self {
        match plan {
            PlanChoice::Auto => Self::Word("auto".into()),
            PlanChoice::File(plan) => Self::Contents(plan),
        }
    }
}
