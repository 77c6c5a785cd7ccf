//! What a run writes as checkpoints.

use super::{CheckpointConfig, Every, RunError};
use crate::table_format::TableFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a checkpoint holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointKind {
    /// All of the state.
    #[default]
    Full,
    /// The rows of tables that were updated since the checkpoint before it, and everything that is not a table. The first is full.
    Incremental,
}

impl CheckpointKind {
    /// Name in configs and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Incremental => "incremental",
        }
    }
}

impl fmt::Display for CheckpointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CheckpointKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = [Self::Full, Self::Incremental];
        let found = kinds.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("{text:?} is no kind of checkpoint; use full or incremental"))
    }
}

/// Checkpoints of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checkpoints {
    /// Interval between checkpoints; `None` to write only the last one.
    pub every: Option<Every>,
    /// Number of checkpoints that are kept.
    pub keep: usize,
    /// What a checkpoint holds.
    pub kind: CheckpointKind,
    /// Number of increments after which they are brought together with their base.
    pub increments: usize,
    /// Number format of the weights of increments; `None` for that of their table.
    pub increment_format: Option<TableFormat>,
    /// Bytes of state on each host that are copied for a writer beside the training; `None` to copy all of it. What is more is written while
    /// the training waits.
    pub memory: Option<u64>,
}

impl Checkpoints {
    /// Number of increments where the config says nothing.
    pub const INCREMENTS: usize = 8;
}

impl CheckpointConfig {
    /// Checks the section `[checkpoint]`.
    pub fn check(&self) -> Result<Checkpoints, RunError> {
        let refused =
            |field: &str, problem: String| Err(RunError::new(format!("checkpoint.{field}"), problem));
        if let Some(problem) = self.every.as_ref().and_then(Every::problem) {
            return refused("every", problem);
        }
        if self.keep == Some(0) {
            return refused("keep", "keep at least 1".into());
        }
        let kind = self.kind.unwrap_or_default();
        if self.increments == Some(0) {
            let problem = "0 increments after a full checkpoint; use 1 or more, or kind = \"full\"";
            return refused("increments (--increments)", problem.into());
        }
        for (field, given) in [
            ("increments (--increments)", self.increments.is_some()),
            ("increment_format (--increment-format)", self.increment_format.is_some()),
        ] {
            if given && kind == CheckpointKind::Full {
                let problem =
                    "full checkpoints have no increments; add --checkpoint-kind incremental, or leave it out";
                return refused(field, problem.into());
            }
        }
        Ok(Checkpoints {
            every: self.every,
            keep: self.keep.unwrap_or(2),
            kind,
            increments: self.increments.unwrap_or(Checkpoints::INCREMENTS),
            increment_format: self.increment_format,
            memory: self.memory.map(|memory| memory.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_increments_need_increments() {
        let config = CheckpointConfig { increments: Some(3), ..CheckpointConfig::default() };
        let error = config.check().unwrap_err();
        assert_eq!(error.field, "checkpoint.increments (--increments)");
        let kind = Some(CheckpointKind::Incremental);
        let settings = CheckpointConfig { kind, ..config.clone() }.check().unwrap();
        assert_eq!((settings.increments, settings.keep), (3, 2));
        assert!(CheckpointConfig { kind, increments: Some(0), ..config }.check().is_err());
    }

    #[test]
    fn kinds_are_named() {
        for kind in [CheckpointKind::Full, CheckpointKind::Incremental] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("partial".parse::<CheckpointKind>().unwrap_err().contains("use full or incremental"));
    }
}
