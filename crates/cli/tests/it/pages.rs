//! The documents: links lead somewhere, paths and tests that they name exist, and formats are described as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All Markdown documents, by their path from the root.
fn documents() -> BTreeMap<String, String> {
    let mut found: Vec<String> = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(String::from).into();
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                folders.push(name);
            } else if name.ends_with(".md") {
                found.push(name);
            }
        }
    }
    found.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// Anchors of the headings of a document, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let mut number = 0;
        let mut unique = anchor.clone();
        while !anchors.insert(unique.clone()) {
            number += 1;
            unique = format!("{anchor}-{number}");
        }
    }
    anchors
}

/// Targets of the links in a document, pictures included.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    // What stands in code is no link.
    let words: String = prose.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let targets = words.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.split_whitespace().next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let (mut checked, mut broken) = (0, Vec::new());
    for (path, text) in &documents {
        for link in
            links(text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => root().join(path),
                file => root().join(path).parent().unwrap().join(file),
            };
            let there = target.exists();
            let text = fs::read_to_string(&target).unwrap_or_default();
            if !there || !(anchor.is_empty() || anchors(&text).contains(anchor)) {
                broken.push(format!("{path}: {link}"));
            }
            checked += 1;
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
    assert!(checked > 30, "only {checked} links found: the documents were not understood");
}

/// Files of the repository that documents name in backticks.
#[test]
fn paths_in_documents_exist() {
    let folders = ["crates/", "scripts/", "reports/", "examples/", "docs/", "fuzz/", ".ci/"];
    let (mut checked, mut missing) = (0, Vec::new());
    for (path, text) in documents() {
        for quoted in prose(&text).split('`').skip(1).step_by(2) {
            let is_path = folders.iter().any(|folder| quoted.starts_with(folder));
            if !is_path || quoted.contains([' ', '*', '…', '<', '{', '|']) {
                continue;
            }
            let file = quoted.split([':', '#']).next().unwrap();
            if !root().join(file).exists() {
                missing.push(format!("{path}: {quoted}"));
            }
            checked += 1;
        }
    }
    assert!(missing.is_empty(), "paths that do not exist: {missing:#?}");
    assert!(checked > 50, "only {checked} paths found: the documents were not understood");
}

/// Every promise names at least one test, or a script, that holds it.
#[test]
fn promises_name_what_holds_them() {
    let text = read("docs/design/promises.md");
    let promises: Vec<&str> = text.split("\n- ").skip(1).collect();
    assert!(promises.len() > 15, "only {} promises: the page was not understood", promises.len());
    for promise in promises {
        let names: Vec<&str> = promise.split('`').skip(1).step_by(2).collect();
        let holds =
            |name: &&&str| name.contains("/tests") || name.contains("tests/") || name.starts_with("scripts/");
        assert!(names.iter().any(|name| holds(&name)), "no test holds this promise: {promise}");
    }
}

/// The value of a constant in a source file, as it is written there.
fn constant(source: &str, name: &str) -> String {
    let (_, rest) =
        source.split_once(&format!("const {name}: ")).unwrap_or_else(|| panic!("no constant {name}"));
    let (value, _) = rest.split_once(";\n").unwrap();
    value.split_once(" = ").unwrap().1.trim_matches(['"', 'b', '*']).to_owned()
}

#[test]
fn formats_are_described_as_they_are() {
    let (page, source) = (read("docs/reference/prepared.md"), read("crates/data/src/prepared.rs"));
    assert!(page.contains(&format!("\"{}\"", constant(&source, "MAGIC"))));
    assert!(page.contains(&format!("version u32 = {}", constant(&source, "VERSION"))));
    assert!(page.contains(&format!("describes version {} ", constant(&source, "VERSION"))));
    for name in ["MANIFEST", "SAMPLES", "INDEX"] {
        assert!(page.contains(&constant(&source, name)), "the page does not name {name}");
    }
    assert!(page.contains(&format!("a header of {} bytes", constant(&source, "ALIGNMENT"))));
    let vocabulary = read("crates/data/src/vocabulary.rs");
    assert!(page.contains(&constant(&vocabulary, "MAGIC")));

    let page = read("docs/reference/checkpoint.md");
    let source = read("crates/training/src/checkpoint/manifest.rs");
    for name in ["NAME", "FORMAT"] {
        assert!(page.contains(&constant(&source, name)), "the page does not name {name}");
    }
    assert!(page.contains(&format!("`version` is {}", constant(&source, "VERSION"))));
    let folder = read("crates/training/src/checkpoint/folder.rs");
    for name in ["WRITING", "DELETING", "DAMAGED", "IN_RUN"] {
        assert!(page.contains(&constant(&folder, name)), "the page does not name {name}");
    }
    assert!(source.contains("rank-{rank:04}.safetensors") && page.contains("`rank-0000.safetensors`"));
}

/// Without a link from the front page or another document nobody finds a page.
#[test]
fn every_page_is_linked_to() {
    let documents = documents();
    let mut linked: BTreeSet<PathBuf> = BTreeSet::new();
    for (path, text) in &documents {
        let folder = root().join(path).parent().unwrap().to_owned();
        let files = links(text).into_iter().map(|link| link.split('#').next().unwrap().to_owned());
        linked.extend(files.filter_map(|file| folder.join(file).canonicalize().ok()));
        // Pages that say where things are name files in backticks.
        let quoted = prose(text);
        let quoted = quoted.split('`').skip(1).step_by(2).filter(|quoted| quoted.ends_with(".md"));
        linked.extend(quoted.filter_map(|file| root().join(file).canonicalize().ok()));
    }
    for path in documents.keys().filter(|path| path.starts_with("docs/")) {
        let page = root().join(path);
        assert!(linked.contains(&page), "no document leads to {path}");
    }
}

/// Numbers of a text with at least two digits after the point, or with three digits.
fn figures(text: &str) -> Vec<String> {
    let numbers =
        text.split(|c: char| !c.is_ascii_digit() && c != '.').map(|number| number.trim_end_matches('.'));
    let exact = |number: &&str| match number.split_once('.') {
        Some((_, digits)) => digits.len() >= 2,
        None => number.len() >= 3,
    };
    numbers.filter(exact).map(|number| number.trim_start_matches('0').to_owned()).collect()
}

/// The front page repeats figures of the results; they are those of the pages behind its links.
#[test]
fn figures_of_the_front_page_are_those_of_the_results() {
    assert_eq!(figures("0.7566 and .34, 28 runs, 406 MB/s, 1.5."), [".7566", ".34", "406"]);
    let text = read("README.md");
    let (mut checked, mut page) = (0, String::new());
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        // A row without a link goes on with the one above.
        if let Some(link) = links(row).first() {
            page = link.split('#').next().unwrap().to_owned();
        }
        if !page.starts_with("docs/results/") {
            continue;
        }
        let results = read(&page);
        // Targets are what was aimed at, and stand in no record.
        for figure in figures(row.split('|').nth(2).unwrap_or_default()) {
            assert!(results.contains(&figure), "README.md says {figure}, which {page} does not: {row}");
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} figures found: the front page was not understood");
}
