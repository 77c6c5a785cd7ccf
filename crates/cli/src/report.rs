//! `campanile report`: run folders as a page that opens in any browser, without a network.
//!
//! `recorded` reads, `curves` and `costs` choose what to show, `bars` and `reliability` draw what `pages::chart` has not,
//! `page` and `compare` arrange.

mod bars;
mod breakdown;
mod compare;
mod costs;
mod curves;
mod page;
mod recorded;
mod reliability;

use crate::folder::{CONFIG, METRICS, REPORT, SCHEDULE_JSON, SUMMARY, replace};
use crate::output::{Force, Inputs, Output};
use anyhow::{Context, Result};
use recorded::{RecordedRun, Results};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Where a comparison goes unless told otherwise.
const COMPARISON: &str = "report-comparison.html";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  campanile report runs/one
  campanile report runs/one runs/two --out comparison.html")]
pub struct Args {
    /// Run folders of `campanile train --out`; several are compared with the first
    #[arg(required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// Page to write [default: report.html in DIR; for several runs report-comparison.html in the current folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    let output = output(&args)?;
    let mut runs = args.runs.iter().map(|dir| RecordedRun::load(dir)).collect::<Result<Vec<_>>>()?;
    tell_apart(&mut runs);
    let page = match &runs[..] {
        [run] => page::page(run),
        runs => compare::page(runs),
    };
    let path = match &output {
        Some(output) => {
            output.write(page.as_bytes())?;
            output.path().to_owned()
        }
        None => {
            let path = runs[0].dir.join(REPORT);
            replace(&path, page.as_bytes())?;
            path
        }
    };
    if args.json {
        let results: Vec<Results> = runs.iter().map(RecordedRun::results).collect();
        let text = serde_json::to_string(&json!({ "report": path, "runs": results }));
        println!("{}", text.context("the results as JSON")?);
    } else {
        println!("{}", path.display());
    }
    Ok(())
}

/// Where the page goes; `None` for the page of a run in its own folder, which is that run's.
fn output(args: &Args) -> Result<Option<Output>> {
    let path = match (&args.out, &args.runs[..]) {
        (Some(out), [run]) if is_report_of(out, run) => return Ok(None),
        (None, [_]) => return Ok(None),
        (out, _) => out.clone().unwrap_or_else(|| PathBuf::from(COMPARISON)),
    };
    let mut inputs = Inputs::default();
    for run in &args.runs {
        inputs.add_all([CONFIG, METRICS, SCHEDULE_JSON, SUMMARY].map(|name| run.join(name)));
    }
    Ok(Some(Output::check(&path, args.force.force, &inputs)?))
}

/// Whether `out` is the page that a run has in its folder.
fn is_report_of(out: &Path, run: &Path) -> bool {
    let folder = std::path::absolute(out).ok().and_then(|out| out.parent()?.canonicalize().ok());
    out.ends_with(REPORT) && !out.is_symlink() && folder.is_some() && folder == run.canonicalize().ok()
}

/// Writes the page of the run in `dir` into it, and says where.
// Until `train` calls it.
pub fn write_report(dir: &Path) -> Result<PathBuf> {
    let path = dir.join(REPORT);
    replace(&path, page::page(&RecordedRun::load(dir)?).as_bytes())?;
    Ok(path)
}

/// Names folders of the same name by their whole paths.
fn tell_apart(runs: &mut [RecordedRun]) {
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    for run in runs {
        if names.iter().filter(|name| **name == run.name).count() > 1 {
            run.name = run.dir.display().to_string();
        }
    }
}
