//! From a flat model to the best towers.
//!
//! ```text
//! train a flat model for a while → affinity → towers by each strategy → train each → keep the best → train that on all rows
//! ```
//!
//! Test rows judge the result and decide nothing: affinity is measured on training rows, and strategies are compared by their AUC
//! on validation rows, a tenth of the training rows that none of these runs trains on.
//!
//! A search that was stopped goes on where it was: `records.jsonl` in its folder has the results of the runs that ended, and a run
//! that did not goes on from its last checkpoint.

mod recipe;
mod request;

pub use request::Towers;

use crate::partition::Divided;
use crate::records::RecordsError;
use planning::partitioner::Strategy;
use serde_json::{Value, json};
use spec::run::Config;
use spec::towers::{Assignment, Module};
use std::path::PathBuf;

/// Why no towers can be looked for.
#[derive(Debug, thiserror::Error)]
pub enum TowersError {
    /// A run that has towers.
    #[error("{what}: the model has towers already; this command finds towers for a flat model")]
    NotFlat {
        /// The run, in words.
        what: String,
    },
    /// A strategy that is named twice.
    #[error("--strategies: {} is named twice", strategy.name())]
    Twice {
        /// The strategy.
        strategy: Strategy,
    },
    /// No strategy.
    #[error("--strategies is empty; name at least one strategy")]
    NoStrategy,
    /// Towers that change nothing.
    #[error(
        "--tower-module none: without tower modules all assignments give the same model; choose a module"
    )]
    NoModule,
    /// A model whose towers have no modules.
    #[error(
        "--model deepfm: this command compares models by their tower modules, and deepfm has none; use --model dlrm or dcn"
    )]
    NoModules,
    /// A folder that holds something else.
    #[error("{}: not an empty folder, and no search for towers that was stopped; choose another", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing to judge towers by.
    #[error("towers are judged by their AUC; give samples to evaluate on with --eval")]
    NoEvaluation,
    /// Validation samples of one label.
    #[error("the validation samples have one label only, so there is no AUC to compare")]
    NoAuc,
    /// Results that cannot be read or added, or are those of other settings.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A run of the recipe that was asked to stop.
    #[error("{title}: stopped after step {step} of {steps}; the same command goes on from there")]
    Stopped {
        /// What the run is called.
        title: String,
        /// Steps done.
        step: u64,
        /// Steps in all.
        steps: u64,
    },
}

/// What the recipe found.
#[derive(Clone, Debug)]
pub struct FoundTowers {
    /// Every strategy that was tried, in the order they were named.
    pub tried: Vec<TriedStrategy>,
    /// Which of them is the best, by AUC on validation rows; the first of equals.
    pub best: usize,
    /// The flat model that affinity was measured on.
    pub flat: FlatResult,
    /// The best towers, trained on all training rows.
    pub test: TestResult,
    /// Which rows strategies were compared on, in words.
    pub compared_on: &'static str,
    /// Module of the towers.
    pub module: Module,
}

/// Result of one strategy.
#[derive(Clone, Debug)]
pub struct TriedStrategy {
    /// The strategy.
    pub strategy: Strategy,
    /// Towers that it found.
    pub divided: Divided,
    /// AUC on validation rows.
    pub auc: f64,
    /// Bytes between hosts a step.
    pub between_hosts: u64,
    /// Seconds of training.
    pub seconds: f64,
}

/// Result of the flat model.
#[derive(Clone, Copy, Debug)]
pub struct FlatResult {
    /// AUC on validation rows.
    pub auc: Option<f64>,
    /// Steps of training.
    pub steps: u64,
}

/// Result of the best towers on test rows.
#[derive(Clone, Copy, Debug)]
pub struct TestResult {
    /// AUC on the test rows.
    pub auc: Option<f64>,
    /// Samples that were trained on in an epoch.
    pub samples: u64,
    /// Seconds of training.
    pub seconds: f64,
}

impl FoundTowers {
    /// The best strategy.
    pub fn best(&self) -> &TriedStrategy {
        &self.tried[self.best]
    }

    /// The result as one object.
    pub fn to_json(&self) -> Value {
        let one = |tried: &TriedStrategy| {
            json!({
                "strategy": tried.strategy.name(),
                "auc": tried.auc,
                "auc_of": "validation",
                "towers": tried.divided.towers,
                "within": tried.divided.found.within,
                "across": tried.divided.found.across,
                "stress": tried.divided.found.plane.as_ref().map(|plane| plane.stress),
                "max_over_min": tried.divided.found.max_over_min,
                "bytes_between_hosts": tried.between_hosts,
                "seconds": tried.seconds,
            })
        };
        let (flat, test, best) = (self.flat, self.test, self.best());
        json!({
            "best": best.strategy.name(),
            "towers": best.divided.towers,
            "tried": self.tried.iter().map(one).collect::<Vec<_>>(),
            "flat": { "auc": flat.auc, "steps": flat.steps },
            "auc_of": self.compared_on,
            "test": { "auc": test.auc, "samples": test.samples, "seconds": test.seconds },
        })
    }
}

/// Refuses a strategy that is named twice.
pub fn distinct(strategies: &[Strategy]) -> Result<(), TowersError> {
    match (1..strategies.len()).find(|&at| strategies[..at].contains(&strategies[at])) {
        Some(at) => Err(TowersError::Twice { strategy: strategies[at] }),
        None => Ok(()),
    }
}

/// The config with towers of a module. The dense vector of a DLRM meets what towers give, so a bottom MLP that the config spells
/// out ends as wide as that.
pub fn in_towers(config: &Config, towers: Assignment, module: Module) -> Config {
    let mut config = config.clone();
    if let (Module::Dlrm { d, .. }, Some(last)) =
        (module, config.model.bottom.as_mut().and_then(|bottom| bottom.last_mut()))
    {
        *last = d;
    }
    config.model.towers = Some(towers);
    config.model.tower_module = Some(module);
    config
}
