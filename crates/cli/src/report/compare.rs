//! The page of several runs: results, curves over common axes, and differences of configs.

use super::curves;
use super::page::{state_badge, warnings};
use super::recorded::{RecordedRun, Results};
use crate::text::si;
use pages::chart::COLOURS;
use pages::{Escaped, document};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use training::metrics::{Better, METRICS, Metric};

/// The page of several runs. Differences are relative to the first.
pub fn page(runs: &[RecordedRun]) -> String {
    let mut body = format!(
        "<header><p class=\"kicker\">campanile</p><h1>{} runs compared</h1>{}</header>\n",
        runs.len(),
        runs.iter().map(warnings).collect::<String>()
    );
    body.push_str(&results(runs));
    body.push_str("<section class=\"grid2\">\n");
    for chart in [curves::loss, curves::auc, curves::calibration, curves::throughput, curves::rates] {
        body.push_str(&chart(runs));
    }
    body.push_str(&configs(runs));
    body.push_str("</section>\n");
    body.push_str(&phases(runs));
    document(&format!("{} runs · campanile", runs.len()), &body)
}

/// Reads a number of a run; `None` where the run has none.
type Read = Box<dyn Fn(&Results) -> Option<f64>>;

/// A number of a run that is compared.
struct Figure {
    /// Head of the column.
    name: &'static str,
    of: Read,
    show: fn(f64) -> String,
    better: Better,
}

/// Metrics of the last evaluation, then speed and length of the training.
fn figures() -> Vec<Figure> {
    let metric = |metric: &'static Metric| Figure {
        name: metric.label,
        of: Box::new(|results| results.metric(metric.field)),
        show: |value| Metric::show(Some(value)),
        better: metric.better,
    };
    let figure = |name, of: fn(&Results) -> Option<f64>, show, better| {
        let of: Read = Box::new(of);
        Figure { name, of, show, better }
    };
    let training = [
        figure("samples/s", |r| r.samples_per_s, si, Better::Higher),
        figure("seconds", |r| r.seconds, |v| format!("{v:.1}"), Better::Neither),
        figure("samples", |r| Some(r.samples as f64), si, Better::Neither),
    ];
    METRICS.iter().filter(|metric| metric.title.is_some()).map(metric).chain(training).collect()
}

fn results(runs: &[RecordedRun]) -> String {
    let mut html = String::from(
        "<figure class=\"card wide\" id=\"results\"><figcaption>Results</figcaption><p class=\"note\">Below each figure \
         its difference to the first run. ▲ better, ▼ worse.</p><div class=\"scroll\"><table><thead><tr><th>run</th>",
    );
    let figures = figures();
    for figure in &figures {
        let _ = write!(html, "<th>{}</th>", figure.name);
    }
    html.push_str("</tr></thead>");
    let results: Vec<Results> = runs.iter().map(RecordedRun::results).collect();
    for (i, (run, result)) in runs.iter().zip(&results).enumerate() {
        let _ = write!(
            html,
            "<tr><th scope=\"row\"><i class=\"swatch c{} bold\"></i>{}<br>{}</th>",
            i % COLOURS,
            Escaped(&run.name),
            state_badge(run)
        );
        for figure in &figures {
            let value = (figure.of)(result).filter(|v| v.is_finite());
            let first = results.first().and_then(&figure.of).filter(|v| v.is_finite());
            let shown = value.map_or("–".into(), figure.show);
            let difference = match (i, value, first) {
                (1.., Some(value), Some(first)) => difference(figure, value - first),
                _ => String::new(),
            };
            let _ = write!(html, "<td>{}{difference}</td>", Escaped(shown));
        }
        html.push_str("</tr>");
    }
    html.push_str("</table></div></figure>\n");
    html
}

fn difference(figure: &Figure, difference: f64) -> String {
    let text = (figure.show)(difference.abs());
    if text == (figure.show)(0.0) {
        return "<small class=\"same\">±0</small>".into();
    }
    let sign = if difference < 0.0 { "−" } else { "+" };
    let (class, arrow) = match (figure.better, difference > 0.0) {
        (Better::Neither, _) => ("same", ""),
        (Better::Higher, true) | (Better::Lower, false) => ("better", "▲ "),
        (Better::Higher, false) | (Better::Lower, true) => ("worse", "▼ "),
    };
    format!("<small class=\"{class}\">{arrow}{sign}{}</small>", Escaped(text))
}

/// Milliseconds a step of every phase, run by run, shaded by their share of the longest.
fn phases(runs: &[RecordedRun]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for phase in runs.iter().filter_map(|run| run.end.as_ref()).flat_map(|end| &end.phases) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    // At work and waited, in milliseconds a step.
    let cell = |run: &RecordedRun, name: &str| {
        let phase = run.end.as_ref()?.phases.iter().find(|phase| phase.name == name)?;
        let per_step = 1e3 / run.timed_steps() as f64;
        Some((phase.busy_s * per_step, phase.exposed_s * per_step))
    };
    let total = |(busy, waited): (f64, f64)| busy + waited;
    let cells = names.iter().flat_map(|name| runs.iter().filter_map(|run| cell(run, name)));
    let longest = cells.map(total).fold(0.0, f64::max);
    names.retain(|name| runs.iter().filter_map(|run| cell(run, name)).any(|c| total(c) >= 0.01 * longest));
    if names.is_empty() {
        return String::new();
    }
    let note = "Milliseconds a step, mean over ranks; in brackets, how much of it was waiting. Phases below a \
                hundredth of the longest are left out.";
    let mut html = table_head("phases", "card wide", "Time per phase", note, "phase", runs);
    for name in names {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Escaped(name));
        for run in runs {
            let Some(cell) = cell(run, name) else {
                html.push_str("<td>–</td>");
                continue;
            };
            let share = 100.0 * total(cell) / longest;
            let waited = if cell.1 >= 0.005 { format!(" ({:.2})", cell.1) } else { String::new() };
            let _ = write!(
                html,
                "<td class=\"share\" style=\"--share:{share:.0}%\">{:.2}{waited}</td>",
                total(cell)
            );
        }
        html.push_str("</tr>");
    }
    html.push_str("</table></div></figure>\n");
    html
}

fn configs(runs: &[RecordedRun]) -> String {
    let differing = differences(runs);
    let note = match differing.len() {
        0 => "The configs of these runs are the same.",
        _ => "Settings that are not the same in all runs.",
    };
    let mut html = table_head("configs", "card", "Config differences", note, "setting", runs);
    for (key, values) in differing {
        let _ = write!(html, "<tr><th scope=\"row\"><code>{}</code></th>", Escaped(key));
        for value in values {
            let _ = write!(html, "<td>{}</td>", Escaped(value.as_deref().unwrap_or("–")));
        }
        html.push_str("</tr>");
    }
    html.push_str("</table></div></figure>\n");
    html
}

fn table_head(id: &str, class: &str, title: &str, note: &str, first: &str, runs: &[RecordedRun]) -> String {
    let mut html = format!(
        "<figure class=\"{class}\" id=\"{id}\"><figcaption>{title}</figcaption><p class=\"note\">{note}</p>\
         <div class=\"scroll\"><table><thead><tr><th>{first}</th>"
    );
    for (i, run) in runs.iter().enumerate() {
        let _ = write!(html, "<th><i class=\"swatch c{} bold\"></i>{}</th>", i % COLOURS, Escaped(&run.name));
    }
    html.push_str("</tr></thead>");
    html
}

/// Settings by their dotted names, where runs differ: a value for each run, `None` where it has none.
fn differences(runs: &[RecordedRun]) -> Vec<(String, Vec<Option<String>>)> {
    let configs: Vec<BTreeMap<String, String>> = runs.iter().map(settings).collect();
    let keys: BTreeSet<&String> = configs.iter().flat_map(BTreeMap::keys).collect();
    keys.into_iter()
        .map(|key| (key.clone(), configs.iter().map(|config| config.get(key).cloned()).collect::<Vec<_>>()))
        .filter(|(_, values)| values.windows(2).any(|pair| pair[0] != pair[1]))
        .collect()
}

/// A config as dotted names and values. One that cannot be parsed is one setting: its text.
fn settings(run: &RecordedRun) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    match run.config.as_deref().map(|text| (text, text.parse::<toml::Table>())) {
        None => {}
        Some((_, Ok(table))) => flatten("", &toml::Value::Table(table), &mut settings),
        Some((text, Err(_))) => {
            settings.insert("(not TOML)".into(), text.into());
        }
    }
    settings
}

fn flatten(name: &str, value: &toml::Value, into: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, into);
            }
        }
        toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => {
            for (i, value) in values.iter().enumerate() {
                flatten(&format!("{name}[{i}]"), value, into);
            }
        }
        value => {
            into.insert(name.into(), value.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
