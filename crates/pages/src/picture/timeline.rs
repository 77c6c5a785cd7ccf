//! A timeline: lanes below each other, time from left to right.
//!
//! The script that zooms moves the rectangles drawn here; it finds times in `data-t` and what to read out in `<title>`.

mod labels;
mod rows;

use super::palette::Palette;
use super::{NOTHING, Span, Timeline, left_out, number};
use crate::Escaped;
use crate::chart::{Axis, WHOLE_WIDTH, key, shown};
use labels::{Labels, shortened};
use rows::Rows;
use std::collections::BTreeSet;
use std::fmt::Write;

/// From one row of spans to the next, and how high a span is.
const ROW: f64 = 25.0;
const BAR: f64 = 21.0;
/// Above and below the rows of a lane.
const PADDING: f64 = 7.0;
const TOP: f64 = 4.0;
/// Below the lanes: marks, and the name of the axis.
const BELOW: f64 = 40.0;
const RIGHT: f64 = WHOLE_WIDTH - 14.0;
/// About as wide as a letter of a lane's name.
const LETTER: f64 = 7.0;
/// Spans are drawn at least this wide, so that the shortest are seen.
const NARROWEST: f64 = 0.75;

impl Timeline {
    /// Legend and drawing, for the figure of this number.
    pub(super) fn html(&self, id: usize, palette: &Palette) -> String {
        let drawn: Vec<&Span> = self.spans.iter().filter(|span| self.can_show(span)).collect();
        let why = "without a lane, or without a begin and an end after it";
        let rest = left_out(self.spans.len() - drawn.len(), "spans", why);
        if drawn.is_empty() {
            return format!("{NOTHING}{rest}");
        }
        let rows = Rows::of(&drawn, self.lanes.len());
        let crowded = match rows.crowded {
            0 => String::new(),
            n => format!("<p class=\"note\">{n} spans lie on others: too many of a lane overlap.</p>"),
        };
        let mut legend = palette.legend(drawn.iter().map(|span| span.class.as_str()), "block");
        if drawn.iter().any(|span| span.exposed) {
            legend += &key("hatched", "exposed communication");
        }
        let mut svg = String::new();
        Drawing::new(self, &drawn, &rows, palette, id).write(&mut svg);
        format!("<p class=\"legend\">{legend}</p>{rest}{crowded}<div class=\"scroll\">{svg}</div>")
    }

    fn can_show(&self, span: &Span) -> bool {
        let (begin, end) = (span.begin_ms, span.end_ms);
        span.lane < self.lanes.len() && shown(begin) && shown(end) && begin <= end
    }
}

/// What the parts of a drawing need.
struct Drawing<'a> {
    timeline: &'a Timeline,
    drawn: &'a [&'a Span],
    rows: &'a Rows,
    palette: &'a Palette,
    id: usize,
    /// Where time begins and ends, in milliseconds.
    range: (f64, f64),
    /// Where the lanes begin, to the right of their names.
    left: f64,
    /// Where they end.
    bottom: f64,
}

impl<'a> Drawing<'a> {
    fn new(
        timeline: &'a Timeline,
        drawn: &'a [&'a Span],
        rows: &'a Rows,
        palette: &'a Palette,
        id: usize,
    ) -> Self {
        let end = if shown(timeline.end_ms) { timeline.end_ms } else { 0.0 };
        let low = drawn.iter().map(|span| span.begin_ms).fold(0.0, f64::min);
        let high = drawn.iter().map(|span| span.end_ms).fold(end, f64::max);
        let longest = timeline.lanes.iter().map(|lane| lane.chars().count()).max().unwrap_or(0);
        Self {
            timeline,
            drawn,
            rows,
            palette,
            id,
            range: (low, if high > low { high } else { low + 1.0 }),
            left: (longest as f64 * LETTER + 18.0).clamp(60.0, 190.0),
            bottom: TOP + rows.lanes.iter().map(|&rows| height(rows)).sum::<f64>(),
        }
    }

    fn write(&self, svg: &mut String) {
        let (low, high) = self.range;
        let (unit, ms) = unit(high - low);
        let _ = write!(
            svg,
            "<svg class=\"timeline-plot\" role=\"group\" aria-label=\"{}\" viewBox=\"0 0 {WHOLE_WIDTH} {}\" \
             data-plot=\"{} {RIGHT} {}\" data-range=\"{low} {high}\" data-unit=\"{unit} {ms}\">",
            Escaped(&self.timeline.caption),
            self.bottom + BELOW,
            self.left,
            self.bottom,
        );
        self.definitions(svg);
        self.lanes(svg);
        self.marks(svg, unit, ms);
        self.spans(svg);
        svg.push_str("</svg>");
    }

    /// What is drawn by reference: where spans end to be seen, and the hatching of each colour.
    fn definitions(&self, svg: &mut String) {
        let Self { id, left, bottom, .. } = *self;
        let _ = write!(
            svg,
            "<defs><clipPath id=\"clip-{id}\"><rect x=\"0\" y=\"0\" width=\"{}\" height=\"{bottom}\"/></clipPath>",
            RIGHT - left
        );
        let exposed = self.drawn.iter().filter(|span| span.exposed);
        for colour in exposed.map(|span| self.palette.colour(&span.class)).collect::<BTreeSet<_>>() {
            let _ = write!(
                svg,
                "<pattern id=\"hatch-{id}-{colour}\" class=\"hatch c{colour}\" width=\"7\" height=\"7\" \
                 patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
                 <rect width=\"7\" height=\"7\"/><line x1=\"1.5\" x2=\"1.5\" y1=\"0\" y2=\"7\"/></pattern>"
            );
        }
        svg.push_str("</defs>");
    }

    /// Names and backgrounds.
    fn lanes(&self, svg: &mut String) {
        let Self { left, .. } = *self;
        let most = ((left - 14.0) / LETTER) as usize;
        for ((name, &rows), top) in self.timeline.lanes.iter().zip(&self.rows.lanes).zip(self.tops()) {
            let height = height(rows);
            let _ = write!(
                svg,
                "<g class=\"lane\"><title>{}</title><rect x=\"{left}\" y=\"{:.1}\" width=\"{}\" height=\"{:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></g>",
                Escaped(name),
                top + 1.0,
                RIGHT - left,
                height - 2.0,
                left - 10.0,
                top + height / 2.0 + 4.0,
                Escaped(shortened(name, most)),
            );
        }
    }

    /// Where each lane begins.
    fn tops(&self) -> impl Iterator<Item = f64> {
        self.rows.lanes.iter().scan(TOP, |top, &rows| {
            let this = *top;
            *top += height(rows);
            Some(this)
        })
    }

    /// The axis. The script draws its marks anew for every window.
    fn marks(&self, svg: &mut String, unit: &str, ms: f64) {
        let Self { left, bottom, range: (low, high), .. } = *self;
        let axis = Axis::over([low / ms, high / ms].into_iter(), 10);
        svg.push_str("<g class=\"marks\">");
        for mark in axis.marks() {
            let x = left + self.across(mark * ms);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
                 <text class=\"mark\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                axis.label(mark)
            );
        }
        let _ = write!(
            svg,
            "</g><line class=\"axis\" x1=\"{left}\" x2=\"{RIGHT}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">time, {unit}</text>",
            bottom + 34.0
        );
    }

    fn spans(&self, svg: &mut String) {
        let tops: Vec<f64> = self.tops().collect();
        let _ = write!(
            svg,
            "<g transform=\"translate({:.2} 0)\"><g class=\"spans\" clip-path=\"url(#clip-{})\">",
            self.left, self.id
        );
        let mut labels = Labels::default();
        let mut lane = usize::MAX;
        for &(index, row) in &self.rows.order {
            let span = self.drawn[index];
            if span.lane != lane {
                let close = if lane == usize::MAX { "" } else { "</g>" };
                lane = span.lane;
                labels.begin_lane();
                let _ = write!(svg, "{close}<g data-lane=\"{lane}\">");
            }
            let top = tops[lane] + PADDING + ROW * row as f64;
            let (x, width) = self.span(svg, span, top);
            labels.add(span, row, (x, top, width));
        }
        let _ = write!(
            svg,
            "</g></g><g class=\"labels\" clip-path=\"url(#clip-{})\">{}</g></g>",
            self.id, labels.svg
        );
    }

    /// Draws a span, and says where it begins and how wide it is.
    fn span(&self, svg: &mut String, span: &Span, top: f64) -> (f64, f64) {
        let Span { name, begin_ms, end_ms, .. } = span;
        let colour = self.palette.colour(&span.class);
        let x = self.across(*begin_ms);
        let width = (self.across(*end_ms) - x).max(NARROWEST);
        let look = match span.exposed {
            true => format!("c{colour} exposed\" fill=\"url(#hatch-{}-{colour})", self.id),
            false => format!("c{colour}"),
        };
        let _ = write!(
            svg,
            "<rect class=\"{look}\" data-t=\"{begin_ms} {end_ms}\" x=\"{x:.2}\" y=\"{top}\" width=\"{width:.2}\" \
             height=\"{BAR}\"><title>{}\nbegin\t{}\nend\t{}\nduration\t{}\nclass\t{}",
            Escaped(name),
            self.moment(*begin_ms),
            self.moment(*end_ms),
            duration(end_ms - begin_ms),
            Escaped(&span.class),
        );
        if span.exposed {
            svg.push_str("\nexposed\tyes: nothing hides it");
        }
        for (what, value) in &span.details {
            let _ = write!(svg, "\n{}\t{}", Escaped(what), Escaped(value));
        }
        svg.push_str("</title></rect>");
        (x, width)
    }

    /// A time in the unit of the axis, to a millionth of it.
    fn moment(&self, ms: f64) -> String {
        let length = self.range.1 - self.range.0;
        let (unit, per_unit) = unit(length);
        let after = (5.0 - (length / per_unit).log10().floor()).clamp(0.0, 9.0) as usize;
        format!("{:.after$} {unit}", ms / per_unit)
    }

    /// Where a time is, from the left of the lanes.
    fn across(&self, ms: f64) -> f64 {
        let (low, high) = self.range;
        (ms - low) / (high - low) * (RIGHT - self.left)
    }
}

/// How high a lane of so many rows is.
fn height(rows: usize) -> f64 {
    2.0 * PADDING + ROW * (rows.max(1) - 1) as f64 + BAR
}

/// The unit in which a stretch of time has short numbers, and its milliseconds.
fn unit(ms: f64) -> (&'static str, f64) {
    match ms.abs() {
        ms if ms >= 2000.0 => ("s", 1e3),
        ms if ms >= 1.0 => ("ms", 1.0),
        ms if ms >= 1e-3 => ("µs", 1e-3),
        _ => ("ns", 1e-6),
    }
}

/// A duration with four significant digits, in the unit that suits it.
fn duration(ms: f64) -> String {
    if ms == 0.0 {
        return "0 ms".into();
    }
    let (unit, per_unit) = unit(ms);
    format!("{} {unit}", number(ms / per_unit, 4))
}

#[cfg(test)]
mod tests;
