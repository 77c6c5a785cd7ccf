//! Runs the binary.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The binary under test.
pub const CAMPANILE: &str = env!("CARGO_BIN_EXE_campanile");

/// What a command came to.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
}

impl Ended {
    /// What `output` says. A panic is never right.
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert!(!err.contains("panicked"), "{err}");
        Self { code: output.status.code(), out, err }
    }

    /// The last line of standard output, of a command that must have succeeded.
    pub fn json(&self) -> Value {
        self.json_with_code(0)
    }

    /// The last line of standard output, of a command that must have ended with this code.
    pub fn json_with_code(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{}", self.err);
        let last = self.out.lines().last().unwrap_or_else(|| panic!("no output: {}", self.err));
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{e} in {}", self.out))
    }

    /// Asserts that the command was refused, and that its message has all of `parts`.
    pub fn refused(&self, parts: &[&str]) {
        assert_eq!(self.code, Some(1), "should have been refused with {parts:?}: {self:?}");
        for part in parts {
            assert!(self.err.contains(part), "should say {part:?}, said: {}", self.err);
        }
    }
}

/// Starts `campanile` with `args`.
pub fn start(args: &[&str]) -> Child {
    start_in(Path::new("."), args)
}

/// Starts `campanile` with `args` in a folder.
pub fn start_in(folder: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(CAMPANILE);
    command.current_dir(folder).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs `campanile` with `args`.
pub fn campanile(args: &[&str]) -> Ended {
    Ended::of(start(args).wait_with_output().unwrap())
}

/// Runs `campanile` with `args` in a folder.
pub fn campanile_in(folder: &Path, args: &[&str]) -> Ended {
    Ended::of(start_in(folder, args).wait_with_output().unwrap())
}

/// Goes on with the run at `path`.
pub fn resume(path: &Path, more: &[&str]) -> Ended {
    campanile(&[&["train", "--json", "--resume", text(path)], more].concat())
}

/// The step of the last complete checkpoint of a run, every file of which is verified; `None` when there is none.
pub fn verified(run: &Path) -> Option<u64> {
    let any = names(&run.join("checkpoints")).iter().any(|name| name.starts_with("step-"));
    any.then(|| {
        let ended = campanile(&["checkpoint", "verify", "--json", text(run)]);
        ended.json()["step"].as_u64().unwrap()
    })
}

/// The names in a folder, in order; none where there is no folder.
pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Asserts that two results are those of the same run.
pub fn same(one: &Value, other: &Value) {
    for key in ["parameters_sha256", "auc", "logloss", "steps"] {
        assert!(!one[key].is_null(), "{key} is missing in {one}");
        assert_eq!(one[key], other[key], "{key}");
    }
    for key in ["metric", "value", "step", "epoch", "metrics"] {
        assert_eq!(one["best"][key], other["best"][key], "best.{key}");
    }
    assert_eq!(one["stopped_early"], other["stopped_early"]);
}
