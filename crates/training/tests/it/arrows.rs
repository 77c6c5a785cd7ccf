//! The folders of this crate use each other in one direction, as `src/lib.rs` says, and no files import each other in a
//! circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which folder may use which.
fn allowed() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("run", &["checkpoint", "step", "dataflow", "layers", "samples", "cache"] as &[_]),
        ("checkpoint", &["step", "layers", "cache"]),
        ("step", &["dataflow", "layers", "samples", "cache"]),
        ("dataflow", &["layers", "samples", "cache"]),
        ("cache", &[]),
        ("layers", &[]),
        ("samples", &[]),
    ])
}

/// What every folder may use: the crate's error, and modules at the root that use no folder.
const ROOT: [&str; 3] = ["Error", "cpu_clock", "metrics"];

/// A module's path below the crate, such as `["run", "trainer"]`.
type Module = Vec<String>;

/// Every module of this crate but the root, with its source without tests.
fn modules() -> BTreeMap<Module, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut modules = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap().with_extension("");
            let module: Module = name.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            let source = fs::read_to_string(&path).unwrap();
            let source = source.split("#[cfg(test)]").next().unwrap().to_owned();
            if module != ["lib"] && module.last().unwrap() != "tests" {
                modules.insert(module, source);
            }
        }
    }
    modules
}

/// The paths that `source`, of `module`, names below the crate: `use` trees written out, and paths inside the code.
fn paths(module: &Module, source: &str) -> Vec<Vec<String>> {
    let code: String = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == ':') {
            expand(&code[at + "crate::".len()..], &[], &mut paths);
        }
    }
    for (at, _) in code.match_indices("use super::") {
        let (mut rest, mut base) = (&code[at + "use ".len()..], module.clone());
        while let Some(tail) = rest.strip_prefix("super::") {
            base.pop();
            rest = tail;
        }
        expand(rest, &base, &mut paths);
    }
    paths
}

/// Adds the paths of the tree at the beginning of `text`, each behind `base`; gives what follows the tree.
fn expand<'a>(text: &'a str, base: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = expand(rest, base, paths).trim_start();
            match rest.strip_prefix(',') {
                Some(next) if !next.trim_start().starts_with('}') => rest = next,
                Some(next) => return next.trim_start().strip_prefix('}').unwrap(),
                None => return rest.strip_prefix('}').unwrap(),
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut path = base.to_vec();
    if name != "self" {
        path.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) => expand(rest, &path, paths),
        None => {
            paths.push(path);
            rest
        }
    }
}

#[test]
fn folders_point_one_way() {
    let allowed = allowed();
    let mut seen = 0;
    for (module, source) in modules() {
        let folder = module[0].as_str();
        for path in paths(&module, &source) {
            let to = path[0].as_str();
            match allowed.get(folder) {
                Some(may) => assert!(
                    to == folder || may.contains(&to) || ROOT.contains(&to),
                    "{folder} must not use {to}: {} names {}",
                    module.join("::"),
                    path.join("::")
                ),
                // The error of the crate has variants of all folders.
                None if folder == "error" => {}
                None => assert!(to == folder || to == "Error", "{folder} must not use {to}"),
            }
            seen += usize::from(to != folder);
        }
    }
    assert!(seen > 50, "the sources were not understood: only {seen} uses between folders");
}

/// A file may use items that the files above it define or pass on, and pass on those of the files below it.
#[test]
fn no_files_use_each_other_in_a_circle() {
    let modules = modules();
    let file_of = |path: &[String]| {
        (1..=path.len()).rev().map(|end| path[..end].to_vec()).find(|prefix| modules.contains_key(prefix))
    };
    let mut uses: BTreeMap<&Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, source) in modules.iter().filter(|(module, _)| module[0] != "error") {
        let to = paths(module, source).into_iter().filter_map(|path| file_of(&path));
        let apart = |to: &Module| !module.starts_with(to) && !to.starts_with(module);
        uses.insert(module, to.filter(apart).filter(|to| to[0] != "error").collect());
    }
    assert!(uses.values().map(BTreeSet::len).sum::<usize>() > 80, "the sources were not understood");
    // What uses nothing that is left is no part of a circle.
    let mut left = uses.clone();
    loop {
        let done: BTreeSet<Module> = left
            .iter()
            .filter(|(_, to)| to.iter().all(|to| !left.contains_key(to)))
            .map(|(&m, _)| m.clone())
            .collect();
        if done.is_empty() {
            break;
        }
        left.retain(|module, _| !done.contains(*module));
    }
    let circle: Vec<String> = left.keys().map(|module| module.join("::")).collect();
    assert!(circle.is_empty(), "these import each other in a circle: {circle:?}");
}

#[test]
fn trees_are_written_out() {
    let module = vec!["run".to_owned(), "trainer".to_owned()];
    let source = "use crate::run::{digest, event::{self, Event},};\nuse super::Session;\npub(crate) fn f() -> crate::Error {}";
    let found: Vec<String> = paths(&module, source).into_iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["run::digest", "run::event", "run::event::Event", "Error", "run::Session"]);
}
