//! Curves of one run, or of several laid over each other, by the number of samples seen.

use super::recorded::RecordedRun;
use super::reliability::{Dots, reliability};
use crate::folder::metrics::{BEST_AUC, Train};
use pages::chart::{COLOURS, GREY, Line, LineChart, Look, Rule, WIDTH, figure, key, smoothed};

/// Training loss, and the logloss of evaluations.
pub fn loss(runs: &[RecordedRun]) -> String {
    let mut lines = Vec::new();
    let mut note = String::new();
    for (i, run) in runs.iter().enumerate() {
        let raw = over_samples(run, |train| Some(train.loss));
        let reach = raw.len() / 40;
        let smooth = smoothed(&raw, reach);
        note = format!("Thin: every record. Bold: the mean of {} neighbours.", 2 * reach + 1);
        if runs.len() == 1 {
            lines.push(line("loss of the record", i, Look::Faint, raw).unlisted());
        }
        lines.push(line(name_or(runs, i, "training, smoothed"), i, Look::Bold, smooth));
    }
    if runs.len() > 1 {
        note = "Bold: smoothed training loss. Dots: logloss of evaluations.".into();
    }
    lines.extend(evaluations(runs, "logloss"));
    chart("loss", "Loss", &note, "cross-entropy, nats", false, lines, &best(runs))
}

/// AUC of training so far, and of evaluations.
pub fn auc(runs: &[RecordedRun]) -> String {
    let mut lines = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let points = over_samples(run, |train| train.auc);
        lines.push(line(name_or(runs, i, "training so far"), i, Look::Bold, points));
    }
    lines.extend(evaluations(runs, "auc"));
    // The same for all runs on the same data; of others, that of the first is shown.
    if let Some(best) = runs.iter().find_map(|run| run.evals.last()?.metrics.get(BEST_AUC)) {
        let ends = runs.iter().filter_map(|run| run.trains.last()).map(|train| train.samples as f64);
        let points = vec![(0.0, best), (ends.fold(0.0, f64::max), best)];
        lines.push(line("best possible on this data", GREY, Look::Dashed, points));
    }
    let note = "Training: each sample is predicted before it is learnt. Dots: evaluations.";
    chart("auc", "AUC", note, "area under the ROC curve", false, lines, &best(runs))
}

/// A mark where the best state of the run was, on the page of one run.
fn best(runs: &[RecordedRun]) -> Vec<Rule> {
    let [run] = runs else { return Vec::new() };
    let best = run.end.as_ref().and_then(|end| end.best.as_ref());
    best.map(|best| Rule { x: run.samples_at(best.step), name: format!("best {}", best.label) })
        .into_iter()
        .collect()
}

/// Learning rates.
pub fn rates(runs: &[RecordedRun]) -> String {
    let mut lines = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let dense = over_samples(run, |train| Some(train.rate_dense));
        let tables = over_samples(run, |train| Some(train.rate_tables));
        let same = dense == tables;
        let name = name_or(runs, i, if same { "dense layers and tables" } else { "dense layers" });
        lines.push(line(name, i, Look::Bold, dense));
        if !same && runs.len() == 1 {
            lines.push(line("tables", 1, Look::Bold, tables));
        } else if !same {
            let tables = line(format!("{} · tables", runs[i].name), i, Look::Dashed, tables);
            lines.push(tables.unlisted());
        }
    }
    let note = if runs.len() == 1 { "" } else { "Solid: dense layers. Dashed: tables, where they differ." };
    chart("rates", "Learning rate", note, "learning rate", true, lines, &[])
}

/// Samples a second.
pub fn throughput(runs: &[RecordedRun]) -> String {
    let lines = runs.iter().enumerate().map(|(i, run)| {
        let points = over_samples(run, |train| Some(train.samples_per_s));
        line(name_or(runs, i, "samples a second"), i, Look::Bold, points)
    });
    let lines = lines.collect();
    chart(
        "throughput",
        "Throughput",
        "Between one record and the next.",
        "samples a second",
        true,
        lines,
        &[],
    )
}

/// Predicted against actual click rates, of the last evaluation.
pub fn calibration(runs: &[RecordedRun]) -> String {
    let last = runs.iter().enumerate().filter_map(|(i, run)| Some((i, run, run.evals.last()?)));
    let dots: Vec<Dots> =
        last.map(|(i, run, eval)| Dots { name: &run.name, colour: i, bins: &eval.bins }).collect();
    let legend = match runs.len() {
        1 => String::new(),
        _ => runs
            .iter()
            .enumerate()
            .map(|(i, run)| key(&format!("c{} dots", i % COLOURS), &run.name))
            .collect(),
    };
    let note = "Last evaluation. Right is on the diagonal. Larger dots hold more samples.";
    figure("calibration", "Calibration", note, &legend, &reliability(&dots))
}

fn chart(
    id: &str,
    title: &str,
    note: &str,
    y_name: &str,
    from_zero: bool,
    lines: Vec<Line>,
    rules: &[Rule],
) -> String {
    let chart = LineChart {
        x_name: "samples seen",
        y_name,
        from_zero: [true, from_zero],
        lines,
        rules,
        width: WIDTH,
    };
    figure(id, title, note, &chart.legend(), &chart.svg())
}

fn line(name: impl Into<String>, colour: usize, look: Look, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.into(), colour, look, listed: true, points }
}

/// Name of a curve: that of its run where there are several.
fn name_or(runs: &[RecordedRun], i: usize, alone: &str) -> String {
    match runs.get(i) {
        Some(run) if runs.len() > 1 => run.name.clone(),
        _ => alone.into(),
    }
}

fn over_samples(run: &RecordedRun, value: impl Fn(&Train) -> Option<f64>) -> Vec<(f64, f64)> {
    run.trains.iter().map(|train| (train.samples as f64, value(train).unwrap_or(f64::NAN))).collect()
}

/// Values of a metric in all evaluations.
fn evaluations(runs: &[RecordedRun], metric: &str) -> Vec<Line> {
    let alone = runs.len() == 1;
    let dots = runs.iter().enumerate().map(|(i, run)| {
        let points = run.evals.iter().filter_map(|eval| {
            let value = eval.metrics.get(metric)?;
            Some((run.samples_at(eval.step), value))
        });
        let name = if alone { "evaluation".into() } else { format!("{} · evaluation", run.name) };
        let dots = line(name, if alone { 1 } else { i }, Look::Dots, points.collect());
        if alone { dots } else { dots.unlisted() }
    });
    dots.collect()
}
