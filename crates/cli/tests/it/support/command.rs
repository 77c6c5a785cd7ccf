//! Running the binary, and the files it is given.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// What the binary does with these arguments.
pub fn campanile(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_campanile")).args(args).output().unwrap()
}

/// What a command says that must succeed: the last line of standard output as JSON, and standard error.
pub fn json_and_warnings(args: &[&str]) -> (Value, String) {
    let output = campanile(args);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{args:?}: {err}");
    let last = out.lines().last().unwrap_or_default();
    let value = serde_json::from_str(last).unwrap_or_else(|e| panic!("{args:?}: {e} in {out}"));
    // Every run says where its tables are.
    let warnings = err.split_inclusive('\n').filter(|line| !line.starts_with("plan: ")).collect();
    (value, warnings)
}

/// The last line of standard output as JSON.
pub fn json(args: &[&str]) -> Value {
    json_and_warnings(args).0
}

/// What a command says on standard error that must fail, but not by a panic.
pub fn refusal(args: &[&str]) -> String {
    let output = campanile(args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{args:?} should have been refused");
    assert!(output.status.code().is_some_and(|code| code != 101), "{args:?}: {}, {message}", output.status);
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    message
}

/// Asserts that a command is refused with a message that has all of these parts.
pub fn refused_with(args: &[&str], parts: &[&str]) {
    let message = refusal(args);
    for part in parts {
        assert!(message.contains(part), "{args:?} should say {part:?}, said: {message}");
    }
}

/// Asserts that a value has these keys.
pub fn has(value: &Value, keys: &str) {
    for key in keys.split_whitespace() {
        assert!(!value[key].is_null(), "{key} is missing in {value}");
    }
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A temporary folder for the files of one test.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The path of `name`, which need not exist.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and gives its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}
