//! A step against the limits of the machine, as text.

use super::result::{GroupShare, Limit, Peak, PhaseShare, Roofline};
use crate::text::columns;

/// Speed with its unit, in giga, or in tera from ten thousand on.
pub fn speed(value: f64, limit: Limit) -> String {
    if value >= 1e13 {
        return format!("{:.1} T{}", value / 1e12, limit.unit());
    }
    let digits = if value < 99.95e9 { 1 } else { 0 };
    format!("{:.digits$} G{}", value / 1e9, limit.unit())
}

/// Share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// One sentence on what was measured.
pub fn about(of: &Roofline) -> String {
    let preset = of.preset.as_ref().map(|preset| format!("{preset} ")).unwrap_or_default();
    let (device, median) = match of.device {
        "cpu" => {
            (format!("{} threads", of.threads), format!("{} in {} rounds", of.rounds * of.steps, of.rounds))
        }
        _ => (of.device_name.clone(), format!("{} rounds of {} steps", of.rounds, of.steps)),
    };
    format!(
        "{preset}{} in {}, batch {}, {device}: {:.2} ms a step (median of {median}; best {:.2})",
        of.model, of.precision, of.batch, of.ms_per_step, of.ms_of_best_step
    )
}

/// Peaks, phases and groups as tables.
pub fn to_text(of: &Roofline) -> String {
    let mut peaks = vec![["peak", "median", "best"].map(String::from).to_vec()];
    peaks.extend(of.peaks.all().map(|peak| peak_cells(peak, of.row_bytes)));
    let mut phases = vec![head()];
    phases.extend(of.phases.iter().map(cells));
    let between = ["between phases".to_string(), format!("{:.3}", of.ms_between_phases)];
    phases.push([&between[..], &[percent(of.ms_between_phases / of.ms_of_phases)]].concat());
    let mut groups = vec![["group", "ms", "of step", "of its limits"].map(String::from).to_vec()];
    groups.extend(of.groups.iter().map(group_cells));
    format!("{}\n\n{}\n{}\n{}", about(of), columns(&peaks), columns(&phases), columns(&groups))
}

/// Names of the columns of phases.
pub fn head() -> Vec<String> {
    ["phase", "ms", "of step", "GFLOP", "MB", "reached", "peak", "limit", "share"].map(String::from).to_vec()
}

/// A phase in the columns of [`head`].
pub fn cells(phase: &PhaseShare) -> Vec<String> {
    let amount = |value: f64, unit: f64| match value > 0.0 {
        true => format!("{:.3}", value / unit),
        false => "–".into(),
    };
    let (reached, share) = match phase.reached.zip(phase.share) {
        Some((reached, share)) => (speed(reached, phase.limit), percent(share)),
        None => ("–".into(), "–".into()),
    };
    vec![
        phase.name.clone(),
        format!("{:.3}", phase.ms),
        percent(phase.share_of_step),
        amount(phase.flops, 1e9),
        amount(phase.bytes, 1e6),
        reached,
        speed(phase.peak, phase.limit),
        phase.limit.name(),
        share,
    ]
}

fn peak_cells(peak: &Peak, row_bytes: usize) -> Vec<String> {
    let name = match peak.limit {
        Limit::Gather | Limit::Update => format!("{}, {row_bytes} B each", peak.limit.name()),
        Limit::Products(_) | Limit::Stream => peak.limit.name(),
    };
    vec![name, speed(peak.median, peak.limit), speed(peak.best, peak.limit)]
}

fn group_cells(group: &GroupShare) -> Vec<String> {
    vec![
        group.name.name().into(),
        format!("{:.3}", group.ms),
        percent(group.share_of_step),
        group.share.map_or("–".into(), percent),
    ]
}
