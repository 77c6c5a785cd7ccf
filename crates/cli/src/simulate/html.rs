//! A prediction as a page.

use super::hints::hints;
use super::prediction::{Prediction, class, volumes};
use crate::text::{bytes, si};
use pages::picture::{Bars, Page, Picture, Series, Span, Table, Timeline};

/// A page with the timeline, times by kind of work, and memory by part.
pub fn page(prediction: &Prediction) -> Page {
    let simulation = &prediction.simulation;
    let subtitle = format!(
        "{} on {} ({}), {}; {:.3} ms a step, {} samples/s, {:.3} ms of communication exposed; priced by {}",
        prediction.task,
        prediction.system.name,
        prediction.cluster(),
        prediction.spread.described,
        1e3 * simulation.iteration_s(),
        si(simulation.samples_per_s),
        1e3 * simulation.exposed_s(),
        prediction.cost
    );
    let pictures = vec![
        Picture::Timeline(timeline(prediction)),
        Picture::Bars(breakdown(prediction)),
        Picture::Bars(memory_bars(prediction)),
        Picture::Table(verdict(prediction)),
    ];
    Page { title: format!("{} on {}", prediction.model, prediction.system.name), subtitle, pictures }
}

fn timeline(prediction: &Prediction) -> Timeline {
    let lanes = prediction.lanes();
    let operations = prediction.step.operations.iter().zip(&prediction.simulation.timeline.spans);
    let drawn = operations.zip(prediction.exposed()).filter(|((_, span), _)| span.end_s > span.begin_s);
    let spans = drawn.map(|((op, span), exposed_s)| {
        let (flops, volume) = volumes(op);
        let mut details = Vec::new();
        if flops > 0.0 {
            details.push(("FLOPs".into(), si(flops)));
        }
        if volume > 0.0 {
            details.push(("bytes".into(), bytes(volume as u64)));
        }
        if !op.computes() {
            details.push(("exposed".into(), format!("{:.3} ms", 1e3 * exposed_s)));
        }
        Span {
            lane: lanes.iter().position(|lane| *lane == op.lane).unwrap_or(0),
            name: op.label.to_string(),
            class: class(op).into(),
            begin_ms: 1e3 * span.begin_s,
            end_ms: 1e3 * span.end_s,
            // More of it is waited for than is hidden.
            exposed: exposed_s > (span.end_s - span.begin_s) / 2.0,
            details,
        }
    });
    Timeline {
        caption: "A step of one device".into(),
        lanes: lanes.iter().map(ToString::to_string).collect(),
        spans: spans.collect(),
        end_ms: 1e3 * prediction.simulation.iteration_s(),
    }
}

fn bars(caption: &str, unit: &str, values: impl Iterator<Item = (&'static str, f64)>) -> Bars {
    let (groups, values) =
        values.filter(|(_, value)| *value > 0.0).map(|(name, value)| (name.into(), Some(value))).unzip();
    let series = Series { name: unit.into(), values, reference: Vec::new() };
    Bars { caption: caption.into(), unit: unit.into(), groups, series: vec![series] }
}

fn breakdown(prediction: &Prediction) -> Bars {
    bars("Time by kind of work, overlapped or not", "ms", prediction.breakdown_ms().into_iter())
}

fn memory_bars(prediction: &Prediction) -> Bars {
    let parts = prediction.memory.parts().into_iter().map(|(part, bytes)| (part, bytes / 1e9));
    bars("Memory of the device that needs most", "GB", parts)
}

fn verdict(prediction: &Prediction) -> Table {
    let row = |name: &str, value: String| vec![name.to_string(), value];
    let mut rows = vec![
        row("needed", format!("{:.2} GB", prediction.memory.total() / 1e9)),
        row(
            "a device has",
            prediction.device_memory().map_or("not known".into(), |bytes| format!("{:.2} GB", bytes / 1e9)),
        ),
    ];
    match prediction.memory.fits(&prediction.system) {
        Ok(()) if prediction.device_memory().is_none() => {}
        Ok(()) => rows.push(row("verdict", "it fits".into())),
        Err(too_big) => {
            rows.push(row("verdict", format!("it does not fit: {too_big}")));
            rows.extend(hints(prediction, &too_big).into_iter().map(|hint| row("what to do", hint)));
        }
    }
    Table { caption: "Does it fit?".into(), head: vec!["memory".into(), String::new()], rows }
}
