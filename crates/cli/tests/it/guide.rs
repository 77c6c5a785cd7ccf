//! The guides say what happens: every command of `docs/guide` runs, and prints what the page says; the README is short; a
//! stranger's questions lead to headings that exist.
//!
//! Blocks of a page run in order, in one empty folder per page, with this build's `campanile` on the path:
//!
//! - `sh`: must succeed. A `text` block that follows holds what it prints (`output` says how the two are compared).
//! - `sh fails`: must fail; the `text` block that follows holds the message.
//! - `sh mpi`: as `sh`, where Open MPI is installed and the build has MPI; skipped elsewhere.
//! - `sh no-run`: is not run; its first line is a comment that tells the reader what it needs (`# Needs Slurm`).

mod output;
mod page;

use crate::support::skipped::skipped;
use page::{Block, blocks, text};
use std::path::Path;
use std::process::Command;

/// Runs the blocks of a page; what is wrong with it, or how many blocks ran.
fn follow(page: &str) -> Result<usize, String> {
    let folder = tempfile::tempdir().unwrap();
    let all = blocks(page);
    let (mut ran, mut mpi) = (0, None);
    for (index, block) in all.iter().enumerate().filter(|(_, block)| block.is("sh")) {
        let at = |what: String| format!("line {}: {what}\n{}", block.line, block.body);
        if block.has("no-run") {
            if !block.body.starts_with("# Needs ") {
                return Err(at("a block that is not run must begin with a comment `# Needs …`".into()));
            }
            continue;
        }
        if block.has("mpi") && !*mpi.get_or_insert_with(|| mpi_works(folder.path())) {
            continue;
        }
        let (succeeded, printed) = run(folder.path(), &block.body);
        if succeeded == block.has("fails") {
            let ended = if succeeded { "succeeded, although it is marked `fails`" } else { "failed" };
            return Err(at(format!("{ended}; it printed\n{printed}")));
        }
        let expected: Option<&Block> = all.get(index + 1).filter(|next| next.is("text"));
        if let Some(wrong) = expected.and_then(|next| output::mismatch(&next.body, &printed)) {
            return Err(at(format!("{wrong}\nAll that was printed:\n{printed}")));
        }
        ran += 1;
    }
    Ok(ran)
}

/// Runs commands in a folder, which pages call `/home/me`: whether they succeeded, and standard output, then standard error
/// without progress.
fn run(folder: &Path, commands: &str) -> (bool, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_campanile")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = [binary.to_owned()].into_iter().chain(std::env::split_paths(&path));
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", commands])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(paths).unwrap())
        // Containers run tests as root, which mpirun refuses by default.
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .envs([("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("OMPI_MCA_mpi_yield_when_idle", "1")])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told.lines().filter(|line| !is_progress(line));
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    told.for_each(|line| printed += &format!("{line}\n"));
    let here = folder.canonicalize().unwrap();
    (output.status.success(), printed.replace(here.to_str().unwrap(), "/home/me"))
}

/// Whether a line tells how far a command is: `training: 48 of 128 steps …`, `measuring affinity: 8 of 9 samples (88 %), 1 s left`, or
/// `[1/5] flat: …`; or where the tables of a run are.
fn is_progress(line: &str) -> bool {
    if line.contains(" of ") && line.ends_with(" s left") {
        return true;
    }
    let before = line.split_once(": ").map_or("", |(before, _)| before);
    line.starts_with('[') || line.starts_with("plan: ") || (before.ends_with("ing") && !before.contains(' '))
}

/// Whether `mpirun` starts ranks of this build here.
fn mpi_works(folder: &Path) -> bool {
    let one = "mpirun -np 1 campanile train --transport mpi --hosts 1 --ranks-per-host 1 --steps 1 --samples 64 --eval-samples 64";
    let (works, said) = run(folder, &format!("command -v mpirun >/dev/null && {one}"));
    if !works {
        skipped("mpi", &format!("commands of docs/guide/cluster.md over MPI do not run here: {said}"));
    }
    works
}

fn guide(name: &str) {
    let page = text(&format!("docs/guide/{name}.md"));
    match follow(&page) {
        // Without MPI most commands of the page on clusters are left out.
        Ok(ran) if name == "cluster" => assert!(ran >= 1, "no block of docs/guide/{name}.md ran"),
        Ok(ran) => assert!(ran >= 3, "only {ran} blocks of docs/guide/{name}.md ran"),
        Err(wrong) => panic!("docs/guide/{name}.md, {wrong}"),
    }
}

#[test]
fn a_page_that_lies_fails() {
    let page = |block: &str, says: &str| format!("# Page\n\n```{block}\n```\n\n```text\n{says}\n```\n");
    assert_eq!(follow(&page("sh\necho 3 apples", "4 apples")), Ok(1));
    assert!(follow(&page("sh\necho 3 apples", "3 pears")).is_err());
    assert!(follow(&page("sh\nfalse", "")).is_err());
    assert!(follow(&page("sh fails\ntrue", "")).is_err());
    assert!(follow(&page("sh no-run\necho", "")).is_err());
    assert_eq!(follow(&page("sh no-run\n# Needs a cluster\nfalse", "")), Ok(0));
}

#[test]
fn train() {
    guide("train");
}

#[test]
fn your_own_log() {
    guide("your-own-log");
}

#[test]
fn python() {
    guide("python");
}

#[test]
fn towers() {
    guide("towers");
}

#[test]
fn cluster() {
    guide("cluster");
}

#[test]
fn gpu() {
    guide("gpu");
}

#[test]
fn plan() {
    guide("plan");
}

#[test]
fn simulate() {
    guide("simulate");
}

/// A newcomer reads the front page whole; what is longer belongs to a guide.
#[test]
fn the_readme_is_short() {
    let readme = text("README.md");
    let lines = readme.lines().count();
    assert!(
        lines <= 150,
        "README.md has {lines} lines, at most 150 are meant to be: move some to docs/guide"
    );
    for part in
        ["## Your own log", "## Towers", "## On a cluster", "## On hardware you do not have", "**missed**"]
    {
        assert!(readme.contains(part), "README.md has no {part}");
    }
}

/// Every question has an answer and the heading that tells more; `pages.rs` checks that the heading exists.
#[test]
fn questions_lead_to_headings() {
    let page = text("docs/guide/questions.md");
    let questions: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && line.contains('?')).collect();
    assert!(questions.len() >= 20, "only {} questions", questions.len());
    for question in questions {
        let cells: Vec<&str> = question.split(" | ").collect();
        assert_eq!(cells.len(), 3, "question, answer and link: {question}");
        let target = cells[2].split_once("](").and_then(|(_, rest)| rest.split_once(')'));
        assert!(
            target.is_some_and(|(target, _)| target.contains(".md#")),
            "no heading is linked to: {question}"
        );
    }
}
