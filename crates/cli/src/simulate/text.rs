//! A prediction as text.

use super::hints::hints;
use super::prediction::{Prediction, class, volumes};
use crate::text::{bytes, columns, si};
use std::fmt::Write;

/// Rows of the timeline; of longer steps only the longest operations are shown.
const ROWS: usize = 48;

/// The headline, times by kind of work, memory and its verdict, the timeline as a table or with bars.
pub fn to_text(prediction: &Prediction, bars: bool) -> String {
    let mut text = headline(prediction);
    let _ = write!(text, "\nWhere the time goes\n{}", breakdown(prediction));
    let _ = write!(text, "\nMemory of a device\n{}", memory(prediction));
    let note = match prediction.cost {
        "roofline" => {
            ", in the order of its operations (the time of a step is Equation 1's, which has no lanes)"
        }
        _ => "",
    };
    let timeline = match bars {
        true => planning::text::render(&prediction.step, &prediction.simulation),
        false => timeline(prediction),
    };
    let _ = write!(text, "\nTimeline{note}\n{timeline}");
    text
}

fn headline(prediction: &Prediction) -> String {
    let simulation = &prediction.simulation;
    let (step_s, exposed_s) = (simulation.iteration_s(), simulation.exposed_s());
    let of_step = if step_s > 0.0 { 100.0 * exposed_s / step_s } else { 0.0 };
    let latency = prediction.latency_s().map_or(String::new(), |seconds| {
        format!("  {} ms from the arrival of a batch at idle devices to its predictions\n", ms(seconds))
    });
    let loads = prediction.spread.lookup_loads.as_ref().map_or(String::new(), |loads| {
        let (least, most) =
            loads.iter().fold((f64::INFINITY, 0.0f64), |(a, b), &load| (a.min(load), b.max(load)));
        format!("  devices look up {least:.2} to {most:.2} times the mean; all wait for the busiest\n")
    });
    format!(
        "{}, {}, on {} ({}), {} samples a step; priced by {}\n  {}\n\n  \
         {} ms a step, {} samples/s\n{latency}{loads}  \
         {} ms of communication exposed: {of_step:.1} % of the step, {:.1} % of all communication\n",
        prediction.model,
        prediction.task,
        prediction.system.name,
        prediction.cluster(),
        prediction.step.samples,
        prediction.cost,
        prediction.spread.in_full(),
        ms(step_s),
        si(simulation.samples_per_s),
        ms(exposed_s),
        100.0 * prediction.exposed_share(),
    )
}

/// Milliseconds with about four significant digits.
fn ms(seconds: f64) -> String {
    match 1e3 * seconds {
        ms if ms >= 1000.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}

fn breakdown(prediction: &Prediction) -> String {
    let serial = prediction.simulation.breakdown.serial();
    let row = |name: &str, seconds: f64| {
        let share = if serial > 0.0 { 100.0 * seconds / serial } else { 0.0 };
        vec![name.to_string(), ms(seconds), format!("{share:.1} %")]
    };
    let mut rows = vec![["", "ms", "of all"].map(String::from).to_vec()];
    let parts = prediction.breakdown_ms().into_iter().filter(|(_, ms)| *ms > 0.0);
    rows.extend(parts.map(|(name, ms)| row(name, ms / 1e3)));
    rows.push(row("one after the other", serial));
    columns(&rows)
}

fn memory(prediction: &Prediction) -> String {
    let gb = |bytes: f64| format!("{:.2}", bytes / 1e9);
    let memory = &prediction.memory;
    let mut rows = vec![["", "GB"].map(String::from).to_vec()];
    let parts = memory.parts().into_iter().filter(|(_, bytes)| *bytes > 0.0);
    rows.extend(parts.map(|(name, bytes)| vec![name.to_string(), gb(bytes)]));
    rows.push(vec!["all".into(), gb(memory.total())]);
    rows.push(vec!["a device has".into(), prediction.device_memory().map_or("not known".into(), gb)]);
    let mut text = columns(&rows);
    if prediction.device_memory().is_none() {
        return text;
    }
    match memory.fits(&prediction.system) {
        Ok(()) => text.push_str("  It fits.\n"),
        Err(too_big) => {
            let over = (too_big.need - too_big.have) / 1e9;
            let _ = writeln!(text, "  It does not fit, by {over:.1} GB: {too_big}.");
            for hint in hints(prediction, &too_big) {
                let _ = writeln!(text, "  - {hint}");
            }
        }
    }
    text
}

fn timeline(prediction: &Prediction) -> String {
    let simulation = &prediction.simulation;
    let operations = &prediction.step.operations;
    let begin = |i: usize| simulation.timeline.spans[i].begin_s;
    let mut shown: Vec<usize> =
        (0..operations.len()).filter(|&i| simulation.timeline.spans[i].end_s > begin(i)).collect();
    let left_out = (shown.len() > ROWS).then(|| {
        shown.sort_by(|&a, &b| simulation.seconds[b].total_cmp(&simulation.seconds[a]));
        shown.split_off(ROWS).len()
    });
    shown.sort_by(|&a, &b| begin(a).total_cmp(&begin(b)));
    let head = ["operation", "lane", "begin, ms", "end, ms", "bytes", "rate"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(shown.into_iter().map(|i| {
        let (op, span) = (&operations[i], simulation.timeline.spans[i]);
        let (flops, volume) = volumes(op);
        // With what else is under way: links that are shared go slower.
        let seconds = span.end_s - span.begin_s;
        let rate = match class(op) {
            "gemm" => format!("{}FLOP/s", spaced(flops / seconds)),
            _ => format!("{}B/s", spaced(volume / seconds)),
        };
        let (begin, end) = (format!("{:.3}", 1e3 * span.begin_s), format!("{:.3}", 1e3 * span.end_s));
        vec![op.label.to_string(), op.lane.to_string(), begin, end, bytes(volume as u64), rate]
    }));
    let mut text = columns(&rows);
    if let Some(count) = left_out {
        let _ = writeln!(text, "  {count} shorter ones are left out; --json, --html and --trace have all.");
    }
    text
}

/// A number with its prefix, ready for a unit.
fn spaced(value: f64) -> String {
    let text = si(value);
    if text.ends_with(|c: char| c.is_ascii_digit()) { text + " " } else { text }
}
