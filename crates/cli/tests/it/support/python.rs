//! Python with packages that tests compare with.

use super::skipped::skipped;
use std::path::Path;
use std::process::Command;

/// An interpreter that has these packages: that of `CAMPANILE_PYTHON`, the one that `scripts/test` makes in `target/python`, or
/// `python3`. `None`, with a word about it, where none has them.
pub fn python_with(packages: &str) -> Option<String> {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    let made = made.is_file().then(|| made.to_str().unwrap().to_owned());
    let candidates = [std::env::var("CAMPANILE_PYTHON").ok(), made, Some("python3".into())];
    let has = |python: &String| {
        let imported = Command::new(python).args(["-c", &format!("import {packages}")]).output();
        imported.is_ok_and(|output| output.status.success())
    };
    let found = candidates.into_iter().flatten().find(has);
    if found.is_none() {
        let why = format!(
            "no Python with {packages}; scripts/test installs them, or name one with CAMPANILE_PYTHON"
        );
        skipped("python", &why);
    }
    found
}

/// What a program prints that must succeed.
pub fn run(python: &str, program: &str, args: &[&str]) -> String {
    let output = Command::new(python).arg("-c").arg(program).args(args).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {err}");
    out.into_owned()
}
