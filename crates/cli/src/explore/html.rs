//! Results of an exploration as a page.

use super::Explored;
use crate::text::si;
use pages::picture::{Bars, Curves, Page, Picture, Point, Scatter, Series, Table};
use planning::explore::{Evaluator, Found};
use std::collections::HashSet;

/// Most points that are drawn. Of more points a sample is drawn, with the Pareto front and the fastest.
const DRAWN: usize = 3000;

/// Points that need more than this many times the memory of a device are not drawn.
const BEYOND: f64 = 3.0;
/// Step times beyond this many times the fastest are not drawn.
const SLOWER: f64 = 20.0;

/// A page with points, the distribution of step times, other hardware, and the fastest strategies.
pub fn page(explored: &Explored) -> Page {
    let Explored { space, summary, cost, .. } = explored;
    let names = |names: Vec<&str>| names.join(", ");
    let models = names(space.models().iter().map(|model| model.name()).collect());
    let systems = names(space.systems().iter().map(|system| system.name.as_str()).collect());
    let stopped = if explored.is_whole() { "" } else { ", then stopped" };
    let subtitle = format!(
        "{} on {systems}; {} points of {}{stopped}, priced by {cost}",
        space.task(),
        summary.count(),
        space.len()
    );
    let mut pictures = vec![Picture::Scatter(points(explored)), Picture::Curves(distribution(explored))];
    let what_if = what_if(explored);
    if !what_if.groups.is_empty() {
        pictures.push(Picture::Bars(what_if));
    }
    pictures.push(Picture::Table(top(explored)));
    Page { title: format!("Exploring {models}"), subtitle, pictures }
}

fn points(explored: &Explored) -> Scatter {
    let Explored { space, summary, cost, .. } = explored;
    let front: HashSet<usize> = summary.as_is.front.points().iter().map(|found| found.index).collect();
    let point = |found: &Found| {
        let at = space.point(found.index);
        let system = &space.systems()[at.system].name;
        let (model, batch) = (space.models()[at.model].name(), space.batches()[at.batch]);
        Point {
            x: found.outcome.memory_bytes / 1e9,
            y: found.outcome.samples_per_s,
            name: format!("{model} on {system}, {batch} samples a device, {}", space.described(&at)),
            class: format!("{model} on {system}"),
            on_front: front.contains(&found.index),
        }
    };
    let mut drawn: Vec<Point> = summary.as_is.front.points().iter().map(point).collect();
    // Points are not kept, so those that are drawn are priced once more.
    let mut evaluator = Evaluator::new(space, *cost);
    for index in (0..space.len()).step_by(space.len().div_ceil(DRAWN)) {
        let at = space.point(index);
        if at.scaling != 0 || front.contains(&index) {
            continue;
        }
        if let Ok(outcome) = evaluator.evaluate(&at) {
            drawn.push(point(&Found { index, outcome }));
        }
    }
    // Replicated tables may need thousands of times what devices have; drawn to scale they would hide all else.
    let largest = space.systems().iter().map(|system| system.device.memory_bytes / 1e9).fold(0.0, f64::max);
    let all = drawn.len();
    drawn.retain(|point| point.x <= BEYOND * largest);
    let hidden = match all - drawn.len() {
        0 => String::new(),
        hidden => format!("; {hidden} that need more than {BEYOND} times what a device has are not drawn"),
    };
    let memory = space.systems()[0].device.memory_bytes;
    let same = space.systems().iter().all(|system| system.device.memory_bytes == memory);
    Scatter {
        caption: format!("Throughput against memory: each point is a strategy{hidden}"),
        x_label: "memory of a device, GB".into(),
        y_label: "samples/s".into(),
        points: drawn,
        limit_x: same.then(|| (memory / 1e9, "what a device has".into())),
    }
}

fn distribution(explored: &Explored) -> Curves {
    let tally = &explored.summary.as_is;
    let curve = tally.times.cumulative().into_iter().map(|(seconds, part)| (1e3 * seconds, 100.0 * part));
    let curve: Vec<(f64, f64)> = curve.collect();
    let last = curve.first().map_or(0.0, |(fastest, _)| SLOWER * fastest);
    let drawn = curve.iter().copied().filter(|(ms, _)| *ms <= last);
    let baseline =
        explored.baseline(0, 0, 0).map(|found| (1e3 * found.outcome.iteration_s, "baseline".into()));
    let best =
        tally.best.within_memory.map(|found| (1e3 * found.outcome.iteration_s, "best that fits".into()));
    Curves {
        caption: format!("Times of a step, over all strategies, up to {SLOWER} times the fastest"),
        x_label: "ms".into(),
        y_label: "% take at most".into(),
        curves: vec![("all strategies".into(), drawn.collect())],
        markers: baseline.into_iter().chain(best).collect(),
    }
}

fn what_if(explored: &Explored) -> Bars {
    let space = &explored.space;
    let mut groups = Vec::new();
    let mut series: Vec<Series> = Vec::new();
    for ([model, system, row], _, times) in explored.what_if() {
        let name = format!("{} on {}", space.models()[model].name(), space.systems()[system].name);
        let group = space.what_if().scaling_of_row(row).to_string();
        let at = groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            groups.push(group);
            groups.len() - 1
        });
        if series.last().is_none_or(|last| last.name != name) {
            series.push(Series { name, values: Vec::new(), reference: Vec::new() });
        }
        if let Some(series) = series.last_mut() {
            series.values.resize(series.values.len().max(at + 1), None);
            series.values[at] = times;
        }
    }
    Bars { caption: "What more would bring".into(), unit: "× as it is".into(), groups, series }
}

fn top(explored: &Explored) -> Table {
    let space = &explored.space;
    let head = ["model", "strategy", "system", "batch", "ms", "samples/s", "memory"];
    let row = |found: &Found| {
        let point = space.point(found.index);
        vec![
            space.models()[point.model].name().into(),
            space.described(&point),
            space.systems()[point.system].name.clone(),
            space.batches()[point.batch].to_string(),
            format!("{:.2}", 1e3 * found.outcome.iteration_s),
            si(found.outcome.samples_per_s),
            format!("{:.1} GB", found.outcome.memory_bytes / 1e9),
        ]
    };
    Table {
        caption: "Fastest that fit".into(),
        head: head.map(String::from).to_vec(),
        rows: explored.summary.as_is.top.iter().map(row).collect(),
    }
}
