//! A step as text: a line for every operation, in issue order, with a bar that shows when its lane is at work.
//!
//! ```text
//! lane       begin ms  end ms  operation           0 ms                    2.345 ms
//! compute       0.000   0.039  lookup              █
//! exchange      0.039   0.954  vectors all-to-all  ▒▒▒▒▒▒▒▒▒▒▒
//! ```

use crate::simulator::Simulation;
use crate::step::StepGraph;
use spec::schedule::Lane;
use std::fmt::Write;

/// Columns of the bars.
const COLUMNS: usize = 60;

/// The operations of a priced step. In the steady state 0 is when the first of them begins; steps before and after go on in
/// the same lanes, so the last may end later than the step takes.
pub fn render(step: &StepGraph, simulation: &Simulation) -> String {
    let (timeline, ms) = (&simulation.timeline, |seconds: f64| format!("{:.3}", 1e3 * seconds));
    let last = timeline.spans.iter().map(|span| span.end_s).fold(0.0, f64::max);
    let names: Vec<String> = step.operations.iter().map(|op| op.label.to_string()).collect();
    let name_width = names.iter().map(|name| name.chars().count()).fold("operation".len(), usize::max);
    let width = ms(last).len().max("begin ms".len());
    let mut text = format!(
        "a step takes {} ms: {} ms of computation, {} ms of communication, of which {} ms are exposed and {} ms overlapped\n\
         {:.0} samples a step, {:.0} samples a second\n\n",
        ms(timeline.step_s),
        ms(timeline.compute_s),
        ms(timeline.communication_s),
        ms(timeline.exposed_s()),
        ms(timeline.hideable_s()),
        step.samples,
        simulation.samples_per_s
    );
    let head = ["lane", "begin ms", "end ms", "operation"];
    let scale = format!("{:<1$}{2}", "0 ms", COLUMNS.saturating_sub(ms(last).len() + 3), ms(last) + " ms");
    let [lane, begin, end, name] = head;
    line(&mut text, &format!("{lane:<9}  {begin:>width$}  {end:>width$}  {name:<name_width$}  {scale}"));
    for ((op, span), name) in step.operations.iter().zip(&timeline.spans).zip(&names) {
        let (begin, end) = (ms(span.begin_s), ms(span.end_s));
        let bar = bar(op.lane, span.begin_s / last, span.end_s / last);
        let lane = op.lane.to_string();
        line(&mut text, &format!("{lane:<9}  {begin:>width$}  {end:>width$}  {name:<name_width$}  {bar}"));
    }
    text
}

/// A line without blanks at its end.
fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", line.trim_end());
}

/// The columns that an operation touches, of which the whole has [`COLUMNS`]; a thin one where it takes no time.
fn bar(lane: Lane, begin: f64, end: f64) -> String {
    if !(begin.is_finite() && end.is_finite()) {
        return String::new();
    }
    let glyph = match lane {
        _ if end <= begin => '·',
        Lane::Compute => '█',
        Lane::Exchange => '▒',
        Lane::Gradients => '░',
        Lane::Storage => '▚',
    };
    // Lanes that take turns should not seem to overlap, so ends are rounded and not stretched.
    let column = |part: f64| (part * COLUMNS as f64).round() as usize;
    let first = column(begin).min(COLUMNS - 1);
    let columns = column(end).saturating_sub(first).max(1);
    std::iter::repeat_n(' ', first).chain(std::iter::repeat_n(glyph, columns)).collect()
}
