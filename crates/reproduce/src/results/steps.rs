//! Step times on a wire, and what the simulator predicts of real runs.

use super::Sources;
use crate::error::{Error, Result};
use crate::{dmt_speedup, predictions};
use pages::markdown::table;
use serde::Deserialize;

/// A case of `reproduce dmt-speedup --json`.
#[derive(Deserialize)]
struct Row {
    model: String,
    hosts: usize,
    wire: String,
    way: String,
    jobs: usize,
    step_s: f64,
    compute_s: f64,
    exposed_s: f64,
    over_flat: Option<f64>,
    over_sptt: Option<f64>,
    limit_s: Option<f64>,
    network_bytes: u64,
    messages: u64,
    message_bytes: u64,
}

fn rows(sources: &Sources, folder: &str) -> Result<Vec<Row>> {
    let report = dmt_speedup::recorded(&sources.reports.join(folder), sources.program)?;
    serde_json::from_str(&report.json).map_err(Error::json(folder))
}

/// Name of a way to bring vectors to samples.
fn name(row: &Row) -> String {
    let papers = if row.way == "cr2" && row.model == "dlrm" { " (the paper’s)" } else { "" };
    match row.way.as_str() {
        "hierarchical" => "flat, hierarchical all-to-all".into(),
        "sptt" => "SPTT".into(),
        "paper" => "DMT, D = 128 (the paper’s)".into(),
        way => match way.strip_prefix("cr") {
            Some(ratio) => format!("DMT, CR {ratio}{papers}"),
            None => way.into(),
        },
    }
}

/// Speedup of towers for one model on the largest cluster that was measured.
pub fn speedup(sources: &Sources, model: &str) -> Result<String> {
    const FOLDER: &str = "dmt-speedup";
    let rows = rows(sources, FOLDER)?;
    let of_model: Vec<&Row> =
        rows.iter().filter(|row| row.model == model && !row.way.ends_with("serial")).collect();
    let most = of_model.iter().map(|row| row.hosts).max().unwrap_or(0);
    let mut smaller: Vec<usize> =
        of_model.iter().map(|row| row.hosts).filter(|&hosts| hosts < most).collect();
    smaller.sort_unstable();
    smaller.dedup();
    let ms = |seconds: f64| format!("{:.0}", 1e3 * seconds);
    let times = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    let cells = of_model.iter().filter(|row| row.hosts == most).map(|row| {
        let elsewhere = |hosts: &usize| {
            let same =
                |other: &&&Row| other.hosts == *hosts && other.wire == row.wire && other.way == row.way;
            times(of_model.iter().find(same).and_then(|other| other.over_flat))
        };
        let elsewhere: Vec<String> = smaller.iter().map(elsewhere).collect();
        let over_flat = match row.way.as_str() {
            "flat" => String::new(),
            _ => format!("{} ({})", times(row.over_flat), elsewhere.join(", ")),
        };
        vec![
            name(row),
            row.wire.clone(),
            ms(row.step_s),
            ms(row.compute_s),
            ms(row.exposed_s),
            format!("{:.0} %", 100.0 * row.exposed_s / row.step_s),
            over_flat,
            times(row.over_sptt),
            times(row.limit_s.map(|limit| row.step_s / limit)),
            format!("{:.0}", row.network_bytes as f64 / 1e6 / row.hosts as f64),
            format!(
                "{} × {:.0} kB",
                row.messages,
                row.message_bytes as f64 / 1e3 / row.messages.max(1) as f64
            ),
        ]
    });
    let listed: Vec<String> = smaller.iter().map(ToString::to_string).collect();
    let flat = format!("× flat ({} hosts)", listed.join(", "));
    let head = [
        "way",
        "wire",
        "step, ms",
        "compute",
        "exposed",
        "share",
        &flat,
        "× SPTT",
        "step / limit",
        "MB a host",
        "messages",
    ];
    let jobs = of_model.iter().map(|row| row.jobs).min().unwrap_or(0);
    Ok(format!(
        "{}\nOn {most} hosts; {}. Medians of {jobs} jobs. Measured by `campanile reproduce dmt-speedup`; `campanile reproduce \
         dmt-speedup --out reports/{FOLDER} --table` prints all of it. The records name no day and no commit.\n",
        table(2, &head, &cells.collect::<Vec<_>>()),
        dmt_speedup::setting(&sources.reports.join(FOLDER))?,
    ))
}

/// Flat and towers on wires of few bits: each against flat in 16 bits, and against the fastest flat setting.
pub fn wires(sources: &Sources) -> Result<String> {
    const FOLDER: &str = "wire-speedup";
    if !sources.reports.join(FOLDER).exists() {
        return Ok(format!(
            "| |\n|---|\n\nNot measured yet: `campanile reproduce dmt-speedup --out reports/{FOLDER}` will.\n"
        ));
    }
    let rows = rows(sources, FOLDER)?;
    let flat = |wire: Option<&str>, model: &str| {
        let all = rows.iter().filter(|row| row.way == "flat" && row.model == model);
        let steps = all.filter(|row| wire.is_none_or(|wire| row.wire == wire)).map(|row| row.step_s);
        steps.fold(f64::INFINITY, f64::min)
    };
    let cells = rows.iter().map(|row| {
        let (bits, levels) =
            row.wire.strip_suffix("-two-level").map_or((&*row.wire, "direct"), |bits| (bits, "two-level"));
        vec![
            row.model.clone(),
            name(row),
            bits.to_owned(),
            levels.to_owned(),
            format!("{:.0}", 1e3 * row.step_s),
            format!("{:.0}", 1e3 * row.compute_s),
            format!("{:.0}", 1e3 * row.exposed_s),
            format!("{:.2}", flat(Some("bf16"), &row.model) / row.step_s),
            format!("{:.2}", flat(None, &row.model) / row.step_s),
            format!("{:.1}", row.network_bytes as f64 / 1e6 / row.hosts as f64),
        ]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    let jobs = rows.iter().map(|row| row.jobs).min().unwrap_or(0);
    let hosts = rows.iter().map(|row| row.hosts).max().unwrap_or(0);
    let head = [
        "model",
        "way",
        "wire",
        "all-reduce",
        "step, ms",
        "compute",
        "exposed",
        "× flat bf16",
        "× best flat",
        "MB a host",
    ];
    Ok(format!(
        "{}\nOn {hosts} hosts; {}; encodes, decodes and sums of reductions are paced too. Medians of {jobs} jobs. Measured by `campanile \
         reproduce dmt-speedup --wires … --out reports/{FOLDER}`.\n",
        table(4, &head, &cells),
        dmt_speedup::setting(&sources.reports.join(FOLDER))?,
    ))
}

/// Speedup where ranks compute really and share the cores of one machine.
pub fn speedup_computed(sources: &Sources) -> Result<String> {
    const FOLDER: &str = "dmt-speedup-real";
    let cells = rows(sources, FOLDER)?.into_iter().map(|row| {
        let over_flat = row.over_flat.map_or(String::new(), |times| format!("{times:.2}"));
        let (jobs, hosts) = (row.jobs.to_string(), row.hosts.to_string());
        vec![
            row.model.clone(),
            name(&row),
            row.wire.clone(),
            hosts,
            jobs,
            format!("{:.0}", 1e3 * row.step_s),
            over_flat,
        ]
    });
    Ok(format!(
        "{}\n{}. Measured by `campanile reproduce dmt-speedup --real`; records: `reports/{FOLDER}`, which name no day and no \
         commit.\n",
        table(
            3,
            &["model", "way", "wire", "hosts", "jobs", "step, ms", "× flat"],
            &cells.collect::<Vec<_>>()
        ),
        dmt_speedup::setting(&sources.reports.join(FOLDER))?,
    ))
}

/// Steps of real runs beside what a calibration predicts of them.
pub fn predictions(sources: &Sources) -> Result<String> {
    let folder = sources.reports.join("predictions");
    let report = predictions::recorded(&folder, sources.program)?;
    let mut measured = Vec::new();
    for name in ["in-process", "mpi"] {
        let path = folder.join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path, "read"))?;
        let about = text.lines().find_map(|line| line.strip_prefix("about = "));
        measured.push(format!("{name} {}", about.unwrap_or("at an unknown time").trim_matches('"')));
    }
    Ok(format!(
        "```text\n{}```\n\nMeasured by `campanile reproduce predictions`; `campanile reproduce predictions --table` prints it again. \
         Calibrated: {}. Records: `reports/predictions`.\n",
        report.text,
        measured.join("; "),
    ))
}
