//! Figures that a simulator redoes: their numbers beside the papers', and the pages that draw them, as a browser sees them.

use crate::support::browser::Browser;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn campanile(args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_campanile")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn figure(name: &str) -> Value {
    serde_json::from_slice(&campanile(&["reproduce", name, "--json"])).unwrap()
}

/// The rows whose quantity begins so, with what the paper prints.
fn rows<'a>(figure: &'a Value, quantity: &str) -> Vec<(&'a str, f64, Option<f64>)> {
    let all = figure["rows"].as_array().unwrap().iter();
    let chosen = all.filter(|row| row["quantity"].as_str().unwrap().contains(quantity));
    chosen
        .map(|row| (row["case"].as_str().unwrap(), row["ours"].as_f64().unwrap(), row["paper"].as_f64()))
        .collect()
}

/// Every figure has rows of numbers.
#[test]
fn every_figure_is_there() {
    let names = "madmax-table1 madmax-fig3 madmax-fig4 madmax-fig7 madmax-fig8 madmax-fig9 madmax-fig10 madmax-fig11 \
                 madmax-fig12 madmax-fig13 madmax-fig14 madmax-fig15 dmt-fig6 dmt-fig12 dmt-fig13 dmt-xlrm neo-fig9 \
                 neo-fig10 neo-fig11 neo-capacity neo-roofline";
    for name in names.split_whitespace() {
        let figure = figure(name);
        let rows = figure["rows"].as_array().unwrap();
        assert!(rows.len() > 2, "{name}");
        let nothing = |row: &Value| row["quantity"].as_str().unwrap().ends_with("nothing fits");
        assert!(rows.iter().all(|row| row["ours"].is_number() || nothing(row)), "{name}");
    }
}

/// What the paper predicts comes out of its rules, and both cost models price the same workloads.
#[test]
fn what_madmax_prints_comes_out() {
    let figure = figure("madmax-table1");
    let predicted = rows(&figure, "against what the paper predicts");
    assert_eq!(predicted.len(), 6);
    for (case, ours, paper) in predicted {
        assert!((ours / paper.unwrap() - 1.0).abs() < 0.02, "{case}: {ours} for {paper:?}");
    }
    let cases = |cost: &str| -> Vec<String> {
        let rows = rows(&figure, &format!("{cost}, against what was measured"));
        rows.into_iter().map(|(case, ..)| case.to_owned()).collect()
    };
    let ours = cases("hierarchical");
    assert!(cases("madmax").iter().all(|case| ours.contains(case)));
}

/// All numbers of MAD-Max's text on its figures 7 to 15.
#[test]
fn figures_of_madmax_have_the_papers_numbers() {
    let mut found = Vec::new();
    for name in [7, 8, 9, 10, 11, 12, 13, 14, 15].map(|number| format!("madmax-fig{number}")) {
        for row in figure(&name)["rows"].as_array().unwrap() {
            let (Some(ours), Some(paper)) = (row["ours"].as_f64(), row["paper"].as_f64()) else { continue };
            let explained = (ours / paper - 1.0).abs() < 0.02;
            assert!(
                explained || row["note"].as_str().is_some_and(|note| note.starts_with("not explained")),
                "{name}: {row}"
            );
            found.push(paper);
        }
    }
    for printed in [2.24, 2.43, 5.27, 12.13, 1.68, 0.18, 0.19, 1.14, 1.34, 1.82, 1.64, 2.12, 65.9, 8.0] {
        assert!(found.contains(&printed), "{printed} of {found:?}");
    }
}

/// DMT pays more as clusters grow, for the DLRM; for the DCN it pays at once.
#[test]
fn dmt_at_scale() {
    let figure = figure("dmt-fig10");
    let speedups = rows(&figure, "speedup of");
    let of = |case: &str| speedups.iter().find(|row| row.0 == case).unwrap_or_else(|| panic!("no {case}")).1;
    for gpu in ["A100", "H100"] {
        let dlrm = |devices: usize| of(&format!("DLRM on {devices} {gpu}"));
        assert!(dlrm(16) < dlrm(64) && dlrm(64) < dlrm(256), "{gpu}");
        assert!((1.7..2.1).contains(&dlrm(512)), "{gpu}: {}", dlrm(512));
        assert!(of(&format!("DCN on 16 {gpu}")) > 1.5, "{gpu}");
    }
}

fn opens(browser: &Browser, page: &Path, figure: &str) {
    let view = browser.open(page, 1200, 1600);
    assert!(view.dom.contains(figure), "{}", page.display());
    view.is_quiet_and_painted();
}

#[test]
fn pages_open_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let page = |name: &str| folder.path().join(name);
    let (step, space, bars) = (page("step.html"), page("space.html"), page("bars.html"));
    let path = |page: &Path| page.to_str().unwrap().to_owned();
    campanile(&["simulate", "--model", "8t-dlrm", "--html", &path(&step)]);
    campanile(&["explore", "--cost", "madmax", "--what-if", "inter=2", "--html", &path(&space)]);
    campanile(&["reproduce", "dmt-fig12", "--html", &path(&bars)]);
    let Some(browser) = Browser::found() else { return };
    opens(&browser, &step, "peer exchange");
    opens(&browser, &space, "<circle");
    opens(&browser, &bars, "CR 16");
}
