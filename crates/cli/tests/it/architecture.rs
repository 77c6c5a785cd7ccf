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
        "collectives" => &["ground"],
        "training" => &["ground", "planning"],
        _ => &[],
    }
}

/// Which crate may use which: nothing points upward.
fn allowed() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("ground", &[] as &[_]),
        ("spec", &["ground"]),
        ("kernels", &["ground"]),
        ("collectives", &["kernels", "spec"]),
        ("data", &["spec"]),
        ("training", &["collectives", "data", "kernels", "spec"]),
        ("planning", &["spec"]),
        ("pages", &[]),
        ("reproduce", &["campanile", "collectives", "kernels", "pages", "planning", "spec"]),
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
        [("kernels", Some("cuda.rs")), ("data", Some("mapped.rs")), ("collectives", Some("transport.rs"))]
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

/// All Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let found = paths.flat_map(|path| match path.is_dir() {
        true => rust_files(&path),
        false => vec![path],
    });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Texts of the module that `path` names, counted from the root of a crate, with those of the modules inside it.
fn module_texts(krate: &str, path: &[&str]) -> Vec<String> {
    let module =
        path.iter().fold(root().join(format!("crates/{krate}/src")), |folder, name| folder.join(name));
    let mut files = rust_files(&module);
    files.extend(Some(module.with_extension("rs")).filter(|file| file.exists()));
    files.into_iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// Whether one of the texts declares an item of this name.
fn declares(texts: &[String], name: &str) -> bool {
    let kinds = ["struct", "enum", "trait", "type", "fn", "const"];
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let declared = |text: &String, kind: &str| {
        let item = format!("{kind} {name}");
        text.match_indices(&item).any(|(at, found)| ends(&text[at + found.len()..]))
    };
    texts.iter().any(|text| kinds.iter().any(|kind| declared(text, kind)))
}

/// Names that the glossary writes as paths from a crate, without those that it says were used before.
fn glossary_paths(text: &str) -> Vec<Vec<String>> {
    let mut current = String::new();
    for (i, part) in text.split("(was ").enumerate() {
        current += if i == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) };
    }
    let quoted: Vec<&str> = current.split('`').skip(1).step_by(2).collect();
    let is_path = |text: &&&str| text.contains("::") && !text.contains(' ') || text.contains("::{");
    let split = |text: &&str| {
        let (path, names) = text.rsplit_once("::").unwrap();
        let names = names.trim_matches(['{', '}']).split(", ");
        let path: Vec<String> = path.split("::").map(Into::into).collect();
        names.map(|name| [path.clone(), vec![name.into()]].concat()).collect::<Vec<_>>()
    };
    quoted.iter().filter(is_path).flat_map(split).collect()
}

#[test]
fn glossary_names_types_that_exist() {
    let text = fs::read_to_string(root().join("docs/design/glossary.md")).unwrap();
    let crates = allowed();
    let everything: Vec<String> = crates.keys().flat_map(|krate| module_texts(krate, &[])).collect();
    let (mut checked, mut missing) = (0, Vec::new());
    for path in glossary_paths(&text) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let (name, before) = path.split_last().unwrap();
        let exists = match before {
            ["crate"] => continue,
            [krate, modules @ ..] if crates.contains_key(krate) => {
                let inside = module_texts(krate, modules);
                declares(&inside, name) || !module_texts(krate, &[modules, &[name]].concat()).is_empty()
            }
            // A method, a field or a variant of a type.
            [.., owner] => {
                let implements = format!("impl {owner} ");
                let owns = |text: &&String| {
                    declares(std::slice::from_ref(*text), owner) || text.contains(&implements)
                };
                everything.iter().filter(owns).any(|text| text.contains(name))
            }
            [] => false,
        };
        checked += 1;
        if !exists {
            missing.push(path.join("::"));
        }
    }
    assert!(missing.is_empty(), "docs/design/glossary.md names {missing:?}, which do not exist");
    assert!(checked > 60, "only {checked} names found: the glossary was not understood");
}
