//! A part of the machine that was looked for: a library, a program or a folder.

use serde_json::{Value, json};

/// A library, a program or a folder that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name in texts.
    pub name: &'static str,
    /// What was found.
    pub state: State,
}

/// What was found of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The part is there.
    Present {
        /// Version, as the part itself says.
        version: String,
        /// File that was found, where one is known.
        path: Option<String>,
    },
    /// The part is missing or cannot be used.
    Missing {
        /// What is wrong.
        problem: String,
        /// What the part is needed for, and what to install or do.
        remedy: String,
    },
}

impl Part {
    /// A part that is there.
    pub fn present(name: &'static str, version: impl Into<String>, path: Option<String>) -> Self {
        Self { name, state: State::Present { version: version.into(), path } }
    }

    /// A part that is missing.
    pub fn absent(name: &'static str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: State::Missing { problem: problem.into(), remedy: remedy.into() } }
    }

    /// Name, problem and remedy of a part that is missing.
    pub fn missing(&self) -> Option<(&'static str, &str, &str)> {
        match &self.state {
            State::Present { .. } => None,
            State::Missing { problem, remedy } => Some((self.name, problem, remedy)),
        }
    }

    /// The part in a line.
    pub fn line(&self) -> String {
        match &self.state {
            State::Present { version, path: Some(path) } => format!("{} {version} ({path})", self.name),
            State::Present { version, path: None } => format!("{} {version}", self.name),
            State::Missing { .. } => format!("{}: missing, see below", self.name),
        }
    }

    /// The part as JSON.
    pub fn to_json(&self) -> Value {
        match &self.state {
            State::Present { version, path } => json!({ "found": true, "version": version, "path": path }),
            State::Missing { problem, remedy } => {
                json!({ "found": false, "problem": problem, "remedy": remedy })
            }
        }
    }
}
