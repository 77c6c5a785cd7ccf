//! Results of an exploration as text.

use super::Explored;
use crate::text::{columns, si};
use planning::explore::{Cell, Found, Subject, Tally};
use std::fmt::Write;

impl Explored {
    /// Baseline that strategies of a model, on a system with a batch size, are compared with.
    pub(super) fn baseline(&self, model: usize, system: usize, batch: usize) -> Option<Found> {
        let of = |model: usize| self.summary.cell(model, system, batch, 0).baseline;
        // Models that are trained are compared with the first of them.
        let trained = |&model: &usize| matches!(self.space.models()[model], Subject::Trained(_));
        let first = (0..self.space.models().len()).find(trained).filter(|_| trained(&model));
        of(model).or(first.and_then(of))
    }

    /// Indices of model, system and batch size with the results of all strategies, on hardware as it is.
    pub(super) fn cells(&self) -> impl Iterator<Item = ([usize; 3], &Cell)> {
        let (systems, batches) = (self.space.systems().len(), self.space.batches().len());
        let all = 0..self.space.models().len() * systems * batches;
        all.map(move |i| {
            let [model, system, batch] = [i / batches / systems, i / batches % systems, i % batches];
            ([model, system, batch], self.summary.cell(model, system, batch, 0))
        })
    }

    /// Rows of the what-if table: indices of model, system and hardware; the best strategy there, and its speedup over hardware
    /// as it is.
    pub(super) fn what_if(&self) -> Vec<([usize; 3], Found, Option<f64>)> {
        let mut rows = Vec::new();
        for model in 0..self.space.models().len() {
            for system in 0..self.space.systems().len() {
                let best = |row: usize| {
                    let cells = (0..self.space.batches().len())
                        .filter_map(|batch| self.summary.cell(model, system, batch, row).best.within_memory);
                    cells.reduce(|a, b| if b.beats(&a) { b } else { a })
                };
                let plain = best(0).map(|found| found.outcome.samples_per_s);
                for row in 1..self.space.what_if().rows() {
                    let Some(found) = best(row) else { continue };
                    let times = plain.map(|plain| found.outcome.samples_per_s / plain);
                    rows.push(([model, system, row], found, times));
                }
            }
        }
        rows
    }
}

/// Tables of the fastest strategies, the Pareto front, the distribution of step times, and other hardware.
pub fn to_text(explored: &Explored) -> String {
    let Explored { space, summary, seconds, cost } = explored;
    let mut text = String::new();
    let cut = if explored.is_whole() { "" } else { ", then stopped" };
    let _ = writeln!(
        text,
        "{} of {} points, {}, priced by {cost}: {seconds:.1} s, {} a second{cut}",
        summary.count(),
        space.len(),
        space.task(),
        si(summary.count() as f64 / seconds)
    );
    refused(&mut text, &summary.as_is);
    best(&mut text, explored);
    section(&mut text, "Fastest that fit", explored, &summary.as_is.top);
    let front = summary.as_is.front.points();
    let shown = &front[..front.len().min(40)];
    section(&mut text, "The best throughput for every amount of memory", explored, shown);
    if shown.len() < front.len() || summary.as_is.front.is_thinned() {
        let thinned =
            if summary.as_is.front.is_thinned() { ", of those within 1 % only the fastest" } else { "" };
        let _ = writeln!(text, "  {} of {} points{thinned}; all are in --json", shown.len(), front.len());
    }
    distribution(&mut text, &summary.as_is);
    what_if(&mut text, explored);
    if explored.summary.what_if.count > 0 {
        section(&mut text, "Fastest of all changed hardware", explored, &summary.what_if.top);
    }
    text
}

fn refused(text: &mut String, tally: &Tally) {
    if tally.refused.too_big() > 0 {
        let parts = tally.refused.too_big.iter().map(|(part, count)| format!("{count} by {part}"));
        let parts: Vec<String> = parts.collect();
        let (count, all) = (tally.refused.too_big(), tally.count);
        let _ = writeln!(text, "{count} of {all} do not fit on hardware as it is: {}", parts.join(", "));
    }
    if let Some((_, why)) = &tally.refused.first {
        let _ = writeln!(text, "{} cannot be simulated; the first: {why}", tally.refused.impossible);
    }
}

fn row(explored: &Explored, found: &Found) -> Vec<String> {
    let space = &explored.space;
    let point = space.point(found.index);
    let baseline = explored.baseline(point.model, point.system, point.batch);
    let over = baseline.map(|baseline| found.outcome.samples_per_s / baseline.outcome.samples_per_s);
    let hardware = match point.scaling {
        0 => String::new(),
        _ => format!(", {}", space.scaling(&point)),
    };
    vec![
        format!("{} {}", space.models()[point.model].name(), space.described(&point)),
        format!("{}{hardware}", space.systems()[point.system].name),
        space.batches()[point.batch].to_string(),
        format!("{:.2} ms", 1e3 * found.outcome.iteration_s),
        format!("{:.2} ms", 1e3 * found.outcome.exposed_s),
        si(found.outcome.samples_per_s),
        over.map_or_else(String::new, |over| format!("{over:.2} ×")),
        format!("{:.1} GB", found.outcome.memory_bytes / 1e9),
        if found.outcome.fits { "fits" } else { "too big" }.into(),
    ]
}

const HEAD: [&str; 9] = ["", "system", "batch", "step", "exposed", "samples/s", "× baseline", "memory", ""];

fn section(text: &mut String, title: &str, explored: &Explored, found: &[Found]) {
    let mut rows = vec![HEAD.map(String::from).to_vec()];
    rows.extend(found.iter().map(|found| row(explored, found)));
    let table = if found.is_empty() { "  none\n".into() } else { columns(&rows) };
    let _ = write!(text, "\n{title}\n{table}");
}

fn best(text: &mut String, explored: &Explored) {
    let mut rows = vec![HEAD.map(String::from).to_vec()];
    for (_, cell) in explored.cells() {
        let named = |what: &str, found: Option<Found>| {
            let Some(found) = found else { return vec![format!("{what}: none")] };
            let mut row = row(explored, &found);
            row[0] = format!("{what}: {}", row[0]);
            row
        };
        // What is compared with another model's has it in that one's rows.
        if cell.baseline.is_some() {
            rows.push(named("baseline", cell.baseline));
        }
        rows.push(named("within memory", cell.best.within_memory));
        rows.push(named("if memory were free", cell.best.memory_free));
    }
    let _ = write!(text, "\nBaseline and best\n{}", columns(&rows));
}

fn distribution(text: &mut String, tally: &Tally) {
    let Some((least, most)) = tally.times.range() else { return };
    let ms = |seconds: f64| format!("{:.2} ms", 1e3 * seconds);
    let mut rows = vec![vec!["fastest".into(), ms(least), String::new()]];
    for part in [0.1, 0.25, 0.5, 0.75, 0.9] {
        let Some(seconds) = tally.times.quantile(part) else { continue };
        // How far it is on a logarithmic scale.
        let far = if most > least { (seconds / least).ln() / (most / least).ln() } else { 0.0 };
        rows.push(vec![
            format!("{:.0} % take at most about", 100.0 * part),
            ms(seconds),
            "▪".repeat(1 + (29.0 * far) as usize),
        ]);
    }
    rows.push(vec!["slowest".into(), ms(most), "▪".repeat(30)]);
    // Bars begin at the left.
    for row in &mut rows {
        row[2] = format!("{:30}", row[2]);
    }
    let _ = write!(text, "\nTimes of a step, over all strategies\n{}", columns(&rows));
}

fn what_if(text: &mut String, explored: &Explored) {
    let found = explored.what_if();
    if found.is_empty() {
        return;
    }
    let head = ["hardware", "model", "system", "samples/s", "× as it is", "best strategy"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for ([model, system, row], found, times) in found {
        let space = &explored.space;
        rows.push(vec![
            space.what_if().scaling_of_row(row).to_string(),
            space.models()[model].name().into(),
            space.systems()[system].name.clone(),
            si(found.outcome.samples_per_s),
            times.map_or_else(|| "none fits".into(), |times| format!("{times:.2} ×")),
            space.described(&space.point(found.index)),
        ]);
    }
    let _ = write!(
        text,
        "\nWhat more would bring: the best that fits, beside the best on hardware as it is\n{}",
        columns(&rows)
    );
}
