//! Speed against arithmetic intensity on logarithmic axes, below the roofs of a machine.
//!
//! A flat roof is a peak of computation, a slope is a bandwidth of memory: what reaches neither could be faster. The script of
//! [`Scatter`](super::Scatter) reads points out.

use super::palette::Palette;
use super::{NOTHING, RoofPoint, Roofline, left_out, number};
use crate::Escaped;
use crate::chart::{Axis, Plot, WHOLE_WIDTH, shown};
use std::fmt::Write;

const HEIGHT: f64 = 500.0;
const RADIUS: f64 = 5.0;
/// About as wide as a letter of a name.
const LETTER: f64 = 6.6;
/// About as high as a line of text.
const LINE: f64 = 14.0;

impl Roofline {
    /// Legend and drawing, for a figure.
    pub(super) fn html(&self, palette: &Palette) -> String {
        let drawn: Vec<&RoofPoint> =
            self.points.iter().filter(|point| on_axis(point.intensity) && on_axis(point.speed)).collect();
        let rest =
            left_out(self.points.len() - drawn.len(), "phases", "without a number of FLOPs or of bytes");
        if drawn.is_empty() {
            return format!("{NOTHING}{rest}");
        }
        let legend = palette.legend(drawn.iter().map(|point| point.class.as_str()), "dots");
        format!(
            "<p class=\"legend\">{legend}</p>{rest}<div class=\"scroll\">{}</div>",
            self.svg(&drawn, palette)
        )
    }

    fn svg(&self, drawn: &[&RoofPoint], palette: &Palette) -> String {
        let flat: Vec<&(String, f64)> = self.compute.iter().filter(|roof| on_axis(roof.1)).collect();
        let slopes: Vec<&(String, f64)> = self.memory.iter().filter(|roof| on_axis(roof.1)).collect();
        // Where a slope meets a flat roof, phases change from one limit to the other: that must be in the picture.
        let ridges = flat.iter().flat_map(|flat| slopes.iter().map(|slope| flat.1 / slope.1));
        let xs = drawn.iter().map(|point| point.intensity).chain(ridges.filter(|x| on_axis(*x)));
        let ys = drawn.iter().map(|point| point.speed).chain(flat.iter().map(|roof| roof.1));
        let plot = Plot {
            left: 66.0,
            right: WHOLE_WIDTH - 14.0,
            top: 28.0,
            bottom: HEIGHT - 42.0,
            x: decades(xs.collect()),
            y: decades(ys.collect()),
        };
        let mut svg = format!(
            "<svg class=\"points\" role=\"group\" aria-label=\"{}\" viewBox=\"0 0 {WHOLE_WIDTH} {HEIGHT}\">",
            Escaped(&self.caption)
        );
        frame(&mut svg, &plot);
        let mut labels = Labels::new(&plot, drawn);
        let highest = |roofs: &[&(String, f64)]| roofs.iter().map(|roof| roof.1).fold(0.0, f64::max);
        let (top, steepest) = (highest(&flat), highest(&slopes));
        for (name, flops) in &flat {
            let from = if steepest > 0.0 { (flops / steepest).log10().max(plot.x.low) } else { plot.x.low };
            roof(&mut svg, &plot, (from, flops.log10()), (plot.x.high, flops.log10()), "roof");
            let y = plot.up(flops.log10());
            let text = format!("{name}: {} FLOP/s", prefixed(*flops));
            labels.place(
                &mut svg,
                &text,
                "roof-name",
                [(plot.right - 2.0, y - 6.0, Anchor::End), (plot.right - 2.0, y + LINE + 2.0, Anchor::End)],
            );
        }
        for (name, bytes) in &slopes {
            let slope = bytes.log10();
            let begin = plot.x.low.max(plot.y.low - slope);
            let end = match top > 0.0 {
                true => (top / bytes).log10(),
                false => plot.y.high - slope,
            };
            let end = end.min(plot.x.high).min(plot.y.high - slope);
            if begin < end {
                roof(&mut svg, &plot, (begin, begin + slope), (end, end + slope), "roof memory");
                let text = format!("{name}: {}B/s", prefixed(*bytes));
                let along = (0..24).map(|i| begin + (end - begin) * (0.96 - 0.04 * f64::from(i)));
                labels.place(
                    &mut svg,
                    &text,
                    "roof-name",
                    along.map(|x| (plot.across(x) - 6.0, plot.up(x + slope) - 3.0, Anchor::End)),
                );
            }
        }
        for point in drawn {
            self.point(&mut svg, &plot, point, palette.colour(&point.class), &mut labels);
        }
        svg.push_str("</svg>");
        svg
    }

    /// A point with its name beside it, where there is room for the name.
    fn point(&self, svg: &mut String, plot: &Plot, point: &RoofPoint, colour: usize, labels: &mut Labels) {
        let (x, y) = (plot.across(point.intensity.log10()), plot.up(point.speed.log10()));
        let _ = write!(
            svg,
            "<g class=\"c{colour}\"><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\"><title>{}\nFLOP per byte\t{}\nFLOP/s\t{}",
            Escaped(&point.name),
            number(point.intensity, 3),
            prefixed(point.speed),
        );
        for (what, value) in &point.details {
            let _ = write!(svg, "\n{}\t{}", Escaped(what), Escaped(value));
        }
        svg.push_str("</title></circle></g>");
        let (beside, below) = (RADIUS + 4.0, RADIUS + LINE - 1.0);
        labels.place(
            svg,
            &point.name,
            "point-name",
            [
                (x + beside, y + 4.0, Anchor::Start),
                (x - beside, y + 4.0, Anchor::End),
                (x, y - RADIUS - 4.0, Anchor::Middle),
                (x, y + below, Anchor::Middle),
                (x + beside, y - LINE + 3.0, Anchor::Start),
                (x + beside, y + LINE + 3.0, Anchor::Start),
                (x - beside, y - LINE + 3.0, Anchor::End),
                (x - beside, y + LINE + 3.0, Anchor::End),
            ],
        );
    }
}

/// Whether a logarithmic axis can show a value.
fn on_axis(value: f64) -> bool {
    shown(value) && value > 1e-30
}

/// An axis over the logarithms of values, from one power of ten to another.
fn decades(values: Vec<f64>) -> Axis {
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value.log10()), high.max(value.log10()))
    });
    let (low, high) = ((low - 0.1).floor(), (high + 0.1).ceil());
    // Far apart, not every power of ten has room for a mark.
    Axis { low, high, step: ((high - low) / 10.0).ceil().max(1.0) }
}

/// Grid, marks and names of both axes.
fn frame(svg: &mut String, plot: &Plot) {
    let Plot { left, right, top, bottom, .. } = *plot;
    for mark in plot.y.marks() {
        let y = plot.up(mark);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 7.0,
            y + 4.0,
            prefixed(10f64.powf(mark)),
        );
    }
    for mark in plot.x.marks() {
        let x = plot.across(mark);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
             <text class=\"mark\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            prefixed(10f64.powf(mark)),
        );
    }
    let _ = write!(
        svg,
        "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
         <text class=\"name\" x=\"2\" y=\"12\">FLOP/s</text>\
         <text class=\"name\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">arithmetic intensity, FLOP per byte</text>",
        bottom + 36.0,
    );
}

fn roof(svg: &mut String, plot: &Plot, from: (f64, f64), to: (f64, f64), class: &str) {
    let _ = write!(
        svg,
        "<path class=\"{class}\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
        plot.across(from.0),
        plot.up(from.1),
        plot.across(to.0),
        plot.up(to.1)
    );
}

/// A value with a prefix, as marks of axes have it: `0.1`, `20 G`.
fn prefixed(value: f64) -> String {
    let prefixes = [(" T", 1e12), (" G", 1e9), (" M", 1e6), (" k", 1e3)];
    // A little below, so that a power of ten that was rounded keeps its prefix.
    let found = prefixes.into_iter().find(|(_, factor)| (0.9999 * factor..1e4 * factor).contains(&value));
    match found {
        Some((prefix, factor)) => {
            let text = number(value / factor, 3);
            let text =
                if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            format!("{text}{prefix}")
        }
        None => {
            let text = number(value, 3);
            match text.contains('.') && !text.contains('e') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
    }
}

/// Which side of a text a place is.
#[derive(Clone, Copy, PartialEq)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// Rectangles that are taken, so that no text lies on another.
struct Labels {
    frame: [f64; 4],
    taken: Vec<[f64; 4]>,
}

impl Labels {
    /// Labels of a plot on whose points no text may lie.
    fn new(plot: &Plot, points: &[&RoofPoint]) -> Self {
        let of = |point: &&RoofPoint| {
            let (x, y) = (plot.across(point.intensity.log10()), plot.up(point.speed.log10()));
            [x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS]
        };
        Self {
            frame: [plot.left, plot.top - 8.0, plot.right, plot.bottom - 2.0],
            taken: points.iter().map(of).collect(),
        }
    }

    /// Writes a text at the first of some places where there is room; nowhere where there is none.
    fn place(
        &mut self,
        svg: &mut String,
        text: &str,
        class: &str,
        places: impl IntoIterator<Item = (f64, f64, Anchor)>,
    ) {
        let width = LETTER * text.chars().count() as f64;
        for (x, y, end) in places {
            let left = match end {
                Anchor::Start => x,
                Anchor::Middle => x - width / 2.0,
                Anchor::End => x - width,
            };
            let [l, t, r, b] = [left, y - LINE + 3.0, left + width, y + 3.0];
            let inside = l >= self.frame[0] && t >= self.frame[1] && r <= self.frame[2] && b <= self.frame[3];
            let meets = |of: &[f64; 4]| l < of[2] && of[0] < r && t < of[3] && of[1] < b;
            if inside && !self.taken.iter().any(meets) {
                let anchor = match end {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let _ = write!(
                    svg,
                    "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                    Escaped(text)
                );
                self.taken.push([l, t, r, b]);
                return;
            }
        }
    }
}
