//! A table of measured and predicted step times.

use super::cases::ALL;
use super::{Kind, PredictionResult, Setting};
use crate::Report;
use crate::error::{During, Error, Result};
use crate::program::Program;
use pages::text::{columns, median};
use planning::measured::step_s;
use serde_json::{Value, json};
use spec::schedule::Task;
use spec::volume::BatchSizes;
use std::fmt::Write;
use std::path::Path;

/// Step times of one case on ranks of one kind.
pub struct Row {
    kind: Kind,
    case: String,
    /// Seconds of a step in each job, sorted, and their median.
    jobs: Vec<f64>,
    measured_s: f64,
    predicted_s: f64,
}

impl Row {
    /// Predicted over measured step time.
    fn ratio(&self) -> f64 {
        self.predicted_s / self.measured_s
    }

    fn error(&self) -> f64 {
        (self.ratio() - 1.0).abs()
    }
}

/// Description of ranks of a kind, for texts.
pub fn ranks(kind: Kind) -> &'static str {
    match kind {
        Kind::InProcess => "threads of one process",
        Kind::Mpi => "processes on hosts joined by links",
    }
}

/// Measured beside predicted steps, as text and as JSON. `left_out` says why ranks that are processes were not measured.
pub fn report(
    records: &[PredictionResult],
    setting: &Setting,
    folder: &Path,
    left_out: Option<&str>,
    program: &dyn Program,
) -> Result<Report> {
    let rows = rows(records, setting, folder, program)?;
    let json = to_json(&rows, setting, left_out).to_string();
    Ok(Report { text: to_text(&rows, setting, left_out), json })
}

/// A row for each case that was measured, priced by the machine rates of its kind of ranks.
fn rows(
    records: &[PredictionResult],
    setting: &Setting,
    folder: &Path,
    program: &dyn Program,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        if !records.iter().any(|record| record.ranks == kind) {
            continue;
        }
        let rates = program.read_rates(&kind.calibration(folder)).map_err(Error::Program)?;
        for case in &ALL {
            let of_case = records.iter().filter(|r| r.ranks == kind && r.case == case.name);
            let mut jobs: Vec<f64> = of_case.map(|record| record.step_s).collect();
            if jobs.is_empty() {
                continue;
            }
            let run = case.run(setting.hosts, setting.ranks_per_host, program)?;
            let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
            let predicted_s = step_s(&rates, &run.schedule(Task::Train), &sizes);
            let predicted_s = predicted_s.during(|| case.name.to_owned())?;
            let measured_s = median(&mut jobs); // sorts them
            rows.push(Row { kind, case: case.name.into(), jobs, measured_s, predicted_s });
        }
    }
    Ok(rows)
}

/// Number of rows, their median error and their largest error.
fn errors<'a>(rows: impl Iterator<Item = &'a Row>) -> (usize, f64, f64) {
    let mut errors: Vec<f64> = rows.map(Row::error).collect();
    let middle = median(&mut errors); // sorts them
    (errors.len(), middle, errors.last().copied().unwrap_or(0.0))
}

/// The table as text.
fn to_text(rows: &[Row], setting: &Setting, left_out: Option<&str>) -> String {
    let Setting { hosts, ranks_per_host, rate, steps } = setting;
    let mut text = format!(
        "Steps of real runs on {hosts} × {ranks_per_host} ranks ({steps} steps a job, median of jobs) against what was predicted \
         from a calibration that has not seen them\n"
    );
    for kind in Kind::ALL {
        let of_kind = || rows.iter().filter(|row| row.kind == kind);
        if of_kind().next().is_none() {
            continue;
        }
        let links = if kind == Kind::Mpi { format!(" of {rate}") } else { String::new() };
        let _ = writeln!(text, "\nRanks are {}{links}", ranks(kind));
        let head = ["case", "measured ms", "from", "to", "predicted ms", "predicted / measured"];
        let mut cells = vec![head.map(String::from).to_vec()];
        cells.extend(of_kind().map(|row| {
            let ms = |seconds: f64| format!("{:.2}", 1e3 * seconds);
            let (least, most) = (row.jobs[0], row.jobs[row.jobs.len() - 1]);
            let times = [row.measured_s, least, most, row.predicted_s].map(ms);
            let ratio = format!("{:.2}", row.ratio());
            std::iter::once(row.case.clone()).chain(times).chain([ratio]).collect()
        }));
        text += &columns(&cells);
        text += &said(errors(of_kind()));
    }
    if let Some(why) = left_out {
        let _ = writeln!(text, "\nRanks that are {} were not measured: {why}", ranks(Kind::Mpi));
    }
    text += "\nAll: ";
    text + said(errors(rows.iter())).trim_start()
}

fn said((cases, middle, worst): (usize, f64, f64)) -> String {
    let (middle, worst) = (100.0 * middle, 100.0 * worst);
    format!("  off by {middle:.1} % in the median and {worst:.1} % at worst, over {cases} cases\n")
}

/// The table as one JSON object.
fn to_json(rows: &[Row], setting: &Setting, left_out: Option<&str>) -> Value {
    let (cases, middle, worst) = errors(rows.iter());
    let listed = rows.iter().map(|row| {
        json!({
            "ranks": row.kind,
            "case": row.case,
            "jobs": row.jobs,
            "measured_s": row.measured_s,
            "predicted_s": row.predicted_s,
            "ratio": row.ratio(),
        })
    });
    json!({
        "setting": setting,
        "cases": cases,
        "median_error": middle,
        "worst_error": worst,
        "left_out": left_out,
        "rows": listed.collect::<Vec<_>>(),
    })
}
