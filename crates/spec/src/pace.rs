//! Pace: given times of the computations of a step, for runs that do not compute.
//!
//! ```
//! let pace: spec::pace::Pace = serde_json::from_str(
//!     r#"{"threads": 1, "scale": 0.5, "phases": {"lookup": [0.002, 0.003], "top forward": 0.01}}"#,
//! ).unwrap();
//! assert_eq!(pace.seconds("lookup", 1), Some(0.0015));
//! assert_eq!(pace.seconds("top forward", 1), Some(0.005));
//! ```

use crate::schedule::{CollectiveKind, Operation, Schedule, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time of every computation of a step, those of its reductions included, by the name of its phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Number of threads per rank when the times were measured; `None` if they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Factor of all times: 0.1 stands for an accelerator ten times as fast.
    #[serde(default = "one")]
    pub scale: f64,
    /// Time of each phase, by name.
    pub phases: BTreeMap<String, Seconds>,
}

/// Time of one phase, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Seconds {
    /// One time for all ranks, in seconds.
    Everywhere(f64),
    /// Time on each rank in seconds, in rank order.
    ByRank(Vec<f64>),
}

fn one() -> f64 {
    1.0
}

/// The longest time of a phase that is believed, in seconds; the message of [`PaceError::Number`] names it too.
const LONGEST: f64 = 3600.0;

/// Reason why a pace does not match a step.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PaceError {
    /// Some computations have no time.
    #[error("the pace has no time for {}; `campanile pace` measures all computations", listed(.phases))]
    Missing {
        /// Names of the phases.
        phases: Vec<String>,
    },
    /// Times are given for phases that the step does not have, or that communicate.
    #[error("{} is not a computation of this step; `campanile schedule` lists the computations",
    listed(.phases))]
    Unknown {
        /// Names of the phases.
        phases: Vec<String>,
    },
    /// A list of times does not have one time for each rank.
    #[error(
        "{phase:?} has {got} times, but the run has {ranks} ranks; give one for each, or a single number"
    )]
    Ranks {
        /// Name of the phase.
        phase: String,
        /// Number of ranks of the run.
        ranks: usize,
        /// Number of times that were given.
        got: usize,
    },
    /// A number is not a valid time or scale.
    #[error("{what} is {value}; a time lies between 0 and 3600 s, and a scale between 0 and 1e6")]
    Number {
        /// Name of the phase, or `scale`.
        what: String,
        /// Value that was given.
        value: f64,
    },
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

impl Pace {
    /// Time of a phase on a rank in seconds; `None` if no time is given.
    pub fn seconds(&self, phase: &str, rank: usize) -> Option<f64> {
        let seconds = match self.phases.get(phase)? {
            Seconds::Everywhere(seconds) => seconds,
            Seconds::ByRank(by_rank) => by_rank.get(rank)?,
        };
        Some(self.scale * seconds)
    }

    /// Fails if the pace does not match `schedule`: every computation must have a time, reductions to all ranks of a group may
    /// have one, for all that they encode, decode and add, and nothing else may have one. Reading lengths, and bringing the loss
    /// and predictions to the host, may be left out, and then take no time: times measured before these were phases are still
    /// whole.
    pub fn check(&self, schedule: &Schedule) -> Result<(), PaceError> {
        let ranks = schedule.placement().topology().ranks();
        let computations: Vec<&str> = schedule
            .phases()
            .iter()
            .filter(|phase| match &phase.work {
                Work::Compute(_) => true,
                Work::Collective(collective) => collective.kind == CollectiveKind::AllReduce,
            })
            .map(|phase| phase.name.as_str())
            .collect();
        let needed = schedule.phases().iter().filter(|phase| match &phase.work {
            Work::Compute(operation) => !matches!(operation, Operation::ReadLengths | Operation::ReadBack),
            Work::Collective(_) => false,
        });
        let missing = needed.filter(|phase| !self.phases.contains_key(&phase.name));
        let missing: Vec<String> = missing.map(|phase| phase.name.clone()).collect();
        if !missing.is_empty() {
            return Err(PaceError::Missing { phases: missing });
        }
        let unknown = self.phases.keys().filter(|name| !computations.contains(&name.as_str()));
        let unknown: Vec<String> = unknown.cloned().collect();
        if !unknown.is_empty() {
            return Err(PaceError::Unknown { phases: unknown });
        }
        if !(0.0..=1e6).contains(&self.scale) {
            return Err(PaceError::Number { what: "scale".into(), value: self.scale });
        }
        for (phase, seconds) in &self.phases {
            let given = match seconds {
                Seconds::Everywhere(seconds) => std::slice::from_ref(seconds),
                Seconds::ByRank(by_rank) if by_rank.len() == ranks => by_rank,
                Seconds::ByRank(by_rank) => {
                    return Err(PaceError::Ranks { phase: phase.clone(), ranks, got: by_rank.len() });
                }
            };
            let mut scaled = given.iter().map(|seconds| seconds * self.scale);
            if let Some(value) = scaled.find(|seconds| !(0.0..=LONGEST).contains(seconds)) {
                return Err(PaceError::Number { what: format!("{phase:?}"), value });
            }
        }
        Ok(())
    }

    /// Times of a rank, one for each phase of `schedule`: of a collective, the time of what it computes.
    pub fn of_rank(&self, schedule: &Schedule, rank: usize) -> Result<Vec<Duration>, PaceError> {
        self.check(schedule)?;
        let phases = schedule.phases().iter();
        let seconds = phases.map(|phase| self.seconds(&phase.name, rank).unwrap_or(0.0));
        Ok(seconds.map(Duration::from_secs_f64).collect())
    }
}

#[cfg(test)]
mod tests;
