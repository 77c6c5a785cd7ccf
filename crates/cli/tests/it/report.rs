//! `campanile report`, as a browser sees it. Needs Chromium for that part: `CAMPANILE_CHROMIUM` names it, or one is
//! found on the path; without one those tests say so and pass.

mod fixture;

use crate::support::browser::Browser;
use fixture::{Fixture, RECORDS};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn report(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.current_dir(folder).arg("report").args(args).output().unwrap()
}

/// The page that a successful report wrote.
fn page(folder: &Path, args: &[&str]) -> String {
    let output = report(folder, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = String::from_utf8(output.stdout).unwrap();
    fs::read_to_string(folder.join(path.trim_end())).unwrap()
}

/// The part of a page that shows one figure.
fn figure<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no figure {id}"));
    let part = &page[from..];
    &part[..part.find("</figure>").unwrap()]
}

/// Points of the longest curve.
fn longest_curve(figure: &str) -> usize {
    let paths = figure.split("<path ").skip(1).filter_map(|path| path.split(" d=\"").nth(1));
    paths.map(|d| d[..d.find('"').unwrap()].matches(['M', 'L']).count()).max().unwrap_or(0)
}

#[test]
fn one_run_opens_in_a_browser() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("kaggle-dlrm");
    Fixture::default().write(&run);
    page(dir.path(), &["kaggle-dlrm"]);
    let Some(browser) = Browser::found() else { return };
    let view = browser.open(&run.join("report.html"), 1200, 2400);
    for id in ["loss", "auc", "rates", "throughput"] {
        assert!(longest_curve(figure(&view.dom, id)) as u64 >= RECORDS - 1, "{id}");
    }
    assert_eq!(figure(&view.dom, "calibration").matches("<circle").count(), 20);
    assert!(figure(&view.dom, "times").matches("<rect").count() > 20);
    assert!(figure(&view.dom, "places").contains("rank 3"));
    view.is_quiet_and_painted();
}

#[test]
fn runs_are_compared_in_a_browser() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::default().write(&dir.path().join("base"));
    Fixture { seed: 1, batch: 4096, skill: 0.01, ..Fixture::default() }
        .write(&dir.path().join("large-batch"));
    Fixture { seed: 2, finished: false, skill: -0.006, ..Fixture::default() }
        .write(&dir.path().join("killed"));
    let html = page(dir.path(), &["base", "large-batch", "killed"]);
    assert!(figure(&html, "results").contains("▲ +"), "the better AUC is marked");
    assert!(html.contains("not finished · step 1200 of 2000"));
    assert!(
        figure(&html, "configs").contains("train.batch") && !figure(&html, "configs").contains("model.kind")
    );
    let Some(browser) = Browser::found() else { return };
    let view = browser.open(&dir.path().join("report-comparison.html"), 1200, 2400);
    assert!(figure(&view.dom, "loss").matches("<path ").count() >= 3);
    view.is_quiet_and_painted();
}

/// The tests above rely on it.
#[test]
fn a_page_that_asks_complains_or_is_blank_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.html");
    let html = "<img src=\"http://127.0.0.1:9/a.png\"><script>console.error('no')</script>";
    fs::write(&path, html).unwrap();
    let Some(browser) = Browser::found() else { return };
    let view = browser.open(&path, 1200, 2400);
    assert!(view.requests.iter().any(|url| url.ends_with("/a.png")), "{:?}", view.requests);
    assert!(view.console.iter().any(|line| line.contains("no")), "{:?}", view.console);
    assert!(!view.is_painted());
}

#[test]
fn a_killed_run_has_a_page_too() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    Fixture { finished: false, ..Fixture::default() }.write(&run);
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    fs::write(run.join("metrics.jsonl"), metrics + "{\"event\":\"dream\"}\n{\"event\":\"train\",\"loss")
        .unwrap();
    fs::remove_file(run.join("config.toml")).unwrap();
    let html = page(dir.path(), &["run"]);
    for part in ["not finished", "1 line(s) of metrics.jsonl", "unfinished"] {
        assert!(html.contains(part), "{part:?} is missing");
    }
}

#[test]
fn what_files_say_is_text() {
    let dir = tempfile::tempdir().unwrap();
    let hostile = "<script>alert(1)<\u{2044}script>\"'&";
    let run = dir.path().join(hostile);
    Fixture { data: "</title><script>alert(2)</script>", ..Fixture::default() }.write(&run);
    fs::write(run.join("config.toml"), "</pre><script>alert(3)</script>").unwrap();
    for html in [page(dir.path(), &[hostile]), page(dir.path(), &[hostile, hostile])] {
        assert_eq!(html.matches("<script>").count(), 1, "only the page's own");
        assert!(html.contains("&lt;script&gt;alert(1)"));
    }
    let Some(browser) = Browser::found() else { return };
    browser.open(&run.join("report.html"), 1200, 2400).is_quiet_and_painted();
}

#[test]
fn results_are_json_on_request() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::default().write(&dir.path().join("one"));
    Fixture { finished: false, ..Fixture::default() }.write(&dir.path().join("two"));
    let output = report(dir.path(), &["one", "two", "--json", "--out", "both.html"]);
    assert!(output.status.success());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["report"], "both.html");
    let runs = value["runs"].as_array().unwrap();
    assert_eq!((&runs[0]["state"], &runs[1]["state"]), (&"finished".into(), &"not_finished".into()));
    assert_eq!(runs[0]["steps"], 2000);
    assert!((runs[0]["auc"].as_f64().unwrap() - 0.7776).abs() < 0.001, "{}", runs[0]);
    // The records are those of a version that did not know this metric.
    assert_eq!(runs[0].get("pr_auc"), Some(&Value::Null), "{}", runs[0]);
}

#[test]
fn a_folder_that_is_no_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = report(dir.path(), &["."]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success()
            && error.contains("metrics.jsonl")
            && error.contains("not the folder of a run"),
        "{error}"
    );
}
