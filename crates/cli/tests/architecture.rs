//! The architecture as ARCHITECTURE.md tells it: crates depend in one direction, and the paths it names exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Which crate may use which beside those of [`allowed`], in tests only: `planning` turns a config into a run.
fn allowed_in_tests(name: &str) -> &'static [&'static str] {
    match name {
        "training" => &["planning"],
        _ => &[],
    }
}

/// Which crate may use which: nothing points upward.
fn allowed() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("spec", &[] as &[_]),
        ("kernels", &["spec"]),
        ("collectives", &["kernels", "spec"]),
        ("data", &["spec"]),
        ("training", &["collectives", "data", "kernels", "spec"]),
        ("planning", &["spec"]),
        ("pages", &[]),
        ("reproduce", &["pages", "planning", "spec"]),
        ("campanile", &["collectives", "data", "kernels", "pages", "planning", "spec", "training"]),
        (
            "cli",
            &[
                "campanile",
                "collectives",
                "data",
                "kernels",
                "pages",
                "planning",
                "reproduce",
                "spec",
                "training",
            ],
        ),
    ])
}

#[test]
fn dependencies_point_one_way() {
    let allowed = allowed();
    let mut seen = 0;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let may = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("ARCHITECTURE.md does not place crates/{name}"));
        let manifest: toml::Table = fs::read_to_string(path.join("Cargo.toml")).unwrap().parse().unwrap();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(dependencies) = manifest.get(section).and_then(|d| d.as_table()) else { continue };
            for dependency in dependencies.keys().filter(|d| allowed.contains_key(d.as_str())) {
                let in_tests =
                    section == "dev-dependencies" && allowed_in_tests(&name).contains(&dependency.as_str());
                assert!(
                    in_tests || may.contains(&dependency.as_str()),
                    "crates/{name} must not use {dependency} ({section})"
                );
                seen += 1;
            }
        }
    }
    assert!(seen >= 8, "the manifests were not understood: only {seen} dependencies inside the workspace");
}

#[test]
fn unsafe_code_stays_behind_its_fence() {
    for krate in ["spec", "training", "planning", "pages", "reproduce", "campanile"] {
        let lib = fs::read_to_string(root().join(format!("crates/{krate}/src/lib.rs"))).unwrap();
        assert!(lib.contains("#![forbid(unsafe_code)]"), "crates/{krate} must forbid unsafe code");
    }
    // With the feature `mpi` there is unsafe code, all of it in one folder.
    let lib = fs::read_to_string(root().join("crates/collectives/src/lib.rs")).unwrap();
    assert!(lib.contains(r#"#![cfg_attr(not(feature = "mpi"), forbid(unsafe_code))]"#));
    assert!(lib.contains(r#"#![cfg_attr(feature = "mpi", deny(unsafe_code))]"#));
    let cli = fs::read_to_string(root().join("crates/cli/src/main.rs")).unwrap();
    assert!(cli.contains("#![forbid(unsafe_code)]"));
    for (krate, fenced) in
        [("kernels", None), ("data", Some("mapped.rs")), ("collectives", Some("transport.rs"))]
    {
        let source = root().join(format!("crates/{krate}/src"));
        assert!(fs::read_to_string(source.join("lib.rs")).unwrap().contains("deny(unsafe_code)"));
        let outside: Vec<_> = fs::read_dir(source)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file() && path.file_name().and_then(|name| name.to_str()) != fenced)
            .filter(|path| fs::read_to_string(path).unwrap().contains("allow(unsafe_code)"))
            .collect();
        assert!(outside.is_empty(), "unsafe code outside its fence: {outside:?}");
    }
}

/// Every crate has a section of its own in ARCHITECTURE.md, and every module at the top of a crate is named there: by its path, or
/// by its name in the section. What a crate's commands and results are called need not be said twice.
#[test]
fn every_crate_and_module_has_its_place() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(
        text.lines().count() <= 200,
        "ARCHITECTURE.md has {} lines; decisions belong to docs/design",
        text.lines().count()
    );
    let sections: Vec<&str> = text.split("\n**`").skip(1).collect();
    let mut missing = Vec::new();
    for krate in allowed().into_keys() {
        let heading = format!("crates/{krate}`");
        let Some(section) = sections.iter().find(|section| section.starts_with(&heading)) else {
            panic!("ARCHITECTURE.md has no section for crates/{krate}");
        };
        // A file or folder for each command.
        if krate == "cli" {
            continue;
        }
        for entry in fs::read_dir(root().join(format!("crates/{krate}/src"))).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let is_module = path.extension().is_some_and(|e| e == "rs")
                && !["lib", "error", "tests"].contains(&name.as_str());
            let named = [format!("src/{name}.rs`"), format!("src/{name}`"), format!("`{name}`")];
            if is_module && !named.iter().any(|n| section.contains(n)) {
                missing.push(format!("crates/{krate}/src/{name}.rs"));
            }
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md does not say what these are for: {missing:#?}");
}

#[test]
fn documents_name_paths_that_exist() {
    let mut checked = 0;
    for document in ["ARCHITECTURE.md", "README.md", "docs/design/decisions.md", "docs/design/glossary.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = ["crates/", "scripts/", "reports/", "examples/", ".ci/"]
                .iter()
                .any(|p| quoted.starts_with(p));
            if is_path && !quoted.contains(' ') {
                assert!(root().join(quoted).exists(), "{document} names {quoted}, which is not there");
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "only {checked} paths found: the documents were not understood");
}
