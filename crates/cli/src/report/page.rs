//! The page of one run.

use super::breakdown::breakdown;
use super::costs::{places, ranks, times, traffic};
use super::curves;
use super::recorded::{RecordedRun, State};
use crate::folder::metrics::{BEST_AUC, Checkpoint};
use crate::text::{bytes, si};
use pages::{Escaped, document, four};
use std::fmt::Write;
use training::metrics::METRICS;

/// The page of one run.
pub fn page(run: &RecordedRun) -> String {
    let mut body = header(run);
    body.push_str(&tiles(run));
    let runs = std::slice::from_ref(run);
    body.push_str("<section class=\"grid2\">\n");
    let learning = [curves::loss, curves::auc, curves::calibration];
    for chart in learning.into_iter().filter(|_| !run.paced()).chain([curves::throughput, curves::rates]) {
        body.push_str(&chart(runs));
    }
    let steps = run.steps_of_last_sitting();
    match &run.end {
        None => body.push_str(&checkpoints(&run.checkpoints)),
        Some(end) => {
            body.push_str(&traffic(end, steps));
            body.push_str(&times(end, run.timed_steps()));
            // The bars are tall: two tables fit beside them.
            body.push_str("<div class=\"stack\">");
            body.push_str(&ranks(end, run.timed_steps()));
            body.push_str(&places(&end.placement));
            body.push_str(&checkpoints(&run.checkpoints));
            body.push_str("</div>");
        }
    }
    if let Some(eval) = run.evals.last() {
        body.push_str(&breakdown(eval));
    }
    body.push_str("</section>\n");
    body.push_str(&files(run));
    document(&format!("{} · campanile", run.name), &body)
}

fn header(run: &RecordedRun) -> String {
    let mut html = format!("<header><p class=\"kicker\">campanile run</p><h1>{}</h1>", Escaped(&run.name));
    let _ = write!(html, "<p>{}</p>", state_badge(run));
    if let Some(start) = &run.start {
        let mut facts = vec![
            ("Model", format!("{}, {} parameters", start.model, si(start.parameters as f64))),
            ("Data", start.data.clone()),
            (
                "Cluster",
                format!(
                    "{} hosts × {} ranks, {} threads a rank",
                    start.hosts, start.ranks_per_host, start.threads_per_rank
                ),
            ),
            ("Training", format!("{} steps of {} samples, seed {}", start.steps, start.batch, start.seed)),
            ("Started", moment(&start.time)),
        ];
        if !start.dataflow.is_empty() {
            facts.insert(3, ("Dataflow", start.dataflow.clone()));
        }
        if run.paced() {
            let what = "paced: computations were only waited for, so nothing was learnt";
            facts.push(("Compute", what.into()));
        }
        for resume in &run.resumes {
            facts.push(("Resumed", format!("{}, after step {}", moment(&resume.time), resume.step)));
        }
        facts.push(("Version", format!("campanile {}", start.version)));
        html.push_str("<dl class=\"facts\">");
        for (name, value) in facts {
            let _ = write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", Escaped(value));
        }
        html.push_str("</dl>");
    }
    html.push_str(&warnings(run));
    html.push_str("</header>\n");
    html
}

/// How far a run came, as a badge.
pub fn state_badge(run: &RecordedRun) -> String {
    let steps = run.steps();
    let of = run.start.as_ref().map_or(String::new(), |start| format!(" of {}", start.steps));
    let (class, text) = match run.state() {
        State::Finished => match run.end.as_ref().and_then(|end| end.stopped_early.as_ref()) {
            Some(why) => ("finished", format!("finished early · step {steps}{of}: {why}")),
            None => ("finished", format!("finished · {steps} steps")),
        },
        State::Interrupted => ("stopped", format!("interrupted after step {steps}{of}")),
        State::NotFinished => ("stopped", format!("not finished · step {steps}{of}")),
    };
    format!("<span class=\"badge {class}\">{}</span>", Escaped(text))
}

/// Warnings about records that were not understood.
pub fn warnings(run: &RecordedRun) -> String {
    let mut html = String::new();
    if run.unknown > 0 {
        let _ = write!(
            html,
            "<p class=\"warning\">Left out of {}: {} line(s) of metrics.jsonl that are no records this version knows.</p>",
            Escaped(&run.name),
            run.unknown
        );
    }
    if run.torn {
        html.push_str("<p class=\"warning\">The last line of metrics.jsonl is unfinished: the run was killed, or is writing.</p>");
    }
    html
}

fn tiles(run: &RecordedRun) -> String {
    let results = run.results();
    let unseen = run.evals.last().map_or("no evaluation yet".into(), |eval| {
        format!("{} samples, step {}", si(eval.samples as f64), eval.step)
    });
    let best = match (results.metric("auc"), results.metric(BEST_AUC)) {
        (Some(auc), Some(best)) => format!("{:.4} below the best possible", (best - auc).max(0.0)),
        _ => unseen.clone(),
    };
    let per_step = run.end.as_ref().map(|end| 1e3 * end.seconds / run.timed_steps() as f64);
    let speed = per_step.filter(|ms| ms.is_finite()).map_or(String::new(), |ms| format!("{ms:.2} ms a step"));
    let rate = results.samples_per_s.filter(|rate| rate.is_finite()).map_or("–".into(), si);
    let metrics = METRICS.iter().filter_map(|metric| {
        let note = match (metric.field, metric.note) {
            ("auc", _) => best.clone(),
            (_, "") => unseen.clone(),
            (_, note) => note.into(),
        };
        Some((metric.title?, four(results.metric(metric.field)), note))
    });
    let metrics: Vec<(String, String, String)> =
        metrics.map(|(name, value, note)| (name.into(), value, note)).collect();
    let tiles = best_tile(run).into_iter().chain(metrics).chain([("Samples a second".into(), rate, speed)]);
    let mut html = String::from("<section class=\"tiles\">");
    for (name, value, note) in tiles {
        let _ = write!(
            html,
            "<div class=\"card tile\"><span>{}</span><strong>{}</strong><small>{}</small></div>",
            Escaped(name),
            Escaped(value),
            Escaped(note)
        );
    }
    html.push_str("</section>\n");
    html
}

/// The best state, where it is not the last one.
fn best_tile(run: &RecordedRun) -> Option<(String, String, String)> {
    let best = run.end.as_ref()?.best.as_ref().filter(|best| best.step != run.steps())?;
    let epoch = (best.epoch * 100.0).round() / 100.0;
    let used = if best.checkpoint.is_some() { "; eval, predict and export use it" } else { "" };
    let note = format!("after step {} (epoch {epoch}){used}", best.step);
    Some((format!("Best {}", best.label), four(Some(best.value)), note))
}

fn checkpoints(checkpoints: &[Checkpoint]) -> String {
    if checkpoints.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<figure class=\"card\" id=\"checkpoints\"><figcaption>Checkpoints</figcaption><p class=\"note\">Training stands \
         still for the copy; writing goes on beside it.</p><div class=\"scroll\"><table><thead><tr><th>step</th>\
         <th>size</th><th>builds on</th><th>copy</th><th>write</th><th class=\"left\">folder</th></tr></thead>",
    );
    for checkpoint in checkpoints {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2} s</td><td>{:.2} s</td><td class=\"left\"><code>{}</code></td></tr>",
            checkpoint.step,
            bytes(checkpoint.bytes),
            checkpoint.base.map_or("–".into(), |step| step.to_string()),
            checkpoint.copy_s,
            checkpoint.write_s,
            Escaped(&checkpoint.path)
        );
    }
    html.push_str("</table></div></figure>\n");
    html
}

fn files(run: &RecordedRun) -> String {
    let command = run.start.as_ref().map(|start| start.command.join(" "));
    let digest = run.end.as_ref().and_then(|end| end.parameters_sha256.as_ref());
    let digest = digest.map(|digest| format!("sha256 {digest}"));
    let parts = [
        ("Command", command),
        ("Config", run.config.clone()),
        ("Schedule of a step", run.schedule.clone()),
        ("Digest of all parameters", digest),
    ];
    let mut html = String::from("<section class=\"files\">");
    for (name, text) in parts {
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            let _ = writeln!(
                html,
                "<details class=\"card\"><summary>{name}</summary><pre>{}</pre></details>",
                Escaped(text.trim_end())
            );
        }
    }
    html.push_str("</section>\n");
    html
}

/// `2026-11-15T07:12:16Z` as people write it.
fn moment(rfc3339: &str) -> String {
    rfc3339.replacen('T', " ", 1).replace('Z', " UTC")
}
