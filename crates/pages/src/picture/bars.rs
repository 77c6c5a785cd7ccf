//! Groups of bars, with ticks where others published a value.

use super::palette::Palette;
use super::{Bars, NOTHING, Series, number};
use crate::Escaped;
use crate::chart::{Axis, Plot, key, shown};
use std::fmt::Write;

/// Without the names of groups.
const HEIGHT: f64 = 270.0;
/// About as wide as a letter.
const LETTER: f64 = 6.9;
/// The widest bar.
const WIDEST: f64 = 46.0;
/// The most letters of a group's name.
const MOST_LETTERS: usize = 24;

impl Bars {
    /// Legend and drawing, for a figure.
    pub(super) fn html(&self, palette: &Palette, width: f64) -> String {
        let of = |values: &[Option<f64>]| -> Vec<f64> {
            (0..self.groups.len()).filter_map(|group| value(values, group)).collect()
        };
        let values: Vec<f64> = self.series.iter().flat_map(|series| of(&series.values)).collect();
        let references: Vec<f64> = self.series.iter().flat_map(|series| of(&series.reference)).collect();
        if values.is_empty() && references.is_empty() {
            return NOTHING.into();
        }
        let mut legend = String::new();
        if self.series.len() > 1 {
            legend = palette.legend(self.series.iter().map(|series| series.name.as_str()), "solid");
        }
        if !references.is_empty() {
            legend += &key("published", "published");
        }
        let layout = BarGeometry::new(self, width);
        // Ticks are as honest as bars: both begin at zero.
        let y = Axis::over(values.into_iter().chain(references).chain([0.0]), 5).rounded();
        let plot = Plot {
            left: layout.left,
            right: width - 12.0,
            top: 30.0,
            bottom: HEIGHT,
            // Groups are numbered, and have names in the place of marks.
            x: Axis { low: 0.0, high: self.groups.len() as f64, step: 1.0 },
            y,
        };
        let legend =
            if legend.is_empty() { String::new() } else { format!("<p class=\"legend\">{legend}</p>") };
        format!("{legend}{}", self.svg(&plot, &layout, palette, width))
    }

    fn svg(&self, plot: &Plot, layout: &BarGeometry, palette: &Palette, width: f64) -> String {
        let mut svg = format!(
            "<svg class=\"bar-groups\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {:.0}\">",
            Escaped(&self.caption),
            HEIGHT + layout.below
        );
        plot.upward(&mut svg, &self.unit);
        for (group, name) in self.groups.iter().enumerate() {
            let middle = plot.across(group as f64 + 0.5);
            for (i, series) in self.series.iter().enumerate() {
                let x = middle + (i as f64 - self.series.len() as f64 / 2.0) * layout.bar;
                let colour = palette.colour(&series.name);
                series.bar(&mut svg, plot, group, name, (x, layout.bar), colour);
            }
            layout.name(&mut svg, plot, middle, name, group);
        }
        if plot.y.low < 0.0 {
            let (left, right, zero) = (plot.left, plot.right, plot.up(0.0));
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{zero:.1}\" y2=\"{zero:.1}\"/>"
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

impl Series {
    /// The bar of one group, its value above it, and its tick.
    fn bar(&self, svg: &mut String, plot: &Plot, group: usize, name: &str, (x, width): (f64, f64), c: usize) {
        let (value, reference) = (value(&self.values, group), value(&self.reference, group));
        let zero = plot.up(0.0);
        let text = value.map_or("–".into(), |value| number(value, 3));
        let _ = write!(svg, "<g class=\"c{c}\"><title>{}\n{}: {text}", Escaped(name), Escaped(&self.name));
        if let Some(reference) = reference {
            let _ = write!(svg, "\npublished: {}", number(reference, 3));
        }
        svg.push_str("</title>");
        let gap = (width * 0.06).min(1.5);
        let end = value.map_or(zero, |value| plot.up(value));
        let _ = write!(
            svg,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\"/>",
            x + gap,
            end.min(zero),
            width - 2.0 * gap,
            (end - zero).abs()
        );
        let tick = reference.map(|reference| plot.up(reference));
        if let Some(y) = tick {
            let _ = write!(
                svg,
                "<line class=\"published\" x1=\"{:.2}\" x2=\"{:.2}\" y1=\"{y:.2}\" y2=\"{y:.2}\"/>",
                x + gap,
                x + width - gap
            );
        }
        // Above the tick, where that would cross the number.
        let top = end.min(zero);
        let top = tick.filter(|y| (top - 16.0..top + 2.0).contains(y)).unwrap_or(top).min(top);
        if text.chars().count() as f64 * LETTER <= width + 4.0 {
            let _ = write!(
                svg,
                "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                x + width / 2.0,
                top - 5.0
            );
        }
        svg.push_str("</g>");
    }
}

/// The value of a group, where there is one that can be drawn.
fn value(values: &[Option<f64>], group: usize) -> Option<f64> {
    values.get(group).copied().flatten().filter(|value| shown(*value))
}

/// How much room there is.
struct BarGeometry {
    /// Where the plot begins.
    left: f64,
    /// Width of a bar.
    bar: f64,
    /// Height of the names of groups.
    below: f64,
    /// Whether they are slanted, to fit.
    slanted: bool,
    /// Every so many groups are named.
    every: usize,
}

impl BarGeometry {
    fn new(bars: &Bars, width: f64) -> Self {
        let group = (width - 70.0) / bars.groups.len().max(1) as f64;
        let letters = bars.groups.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let longest = letters.min(MOST_LETTERS) as f64 * LETTER;
        let slanted = longest > group - 6.0;
        // The first name reaches out to the left, by the cosine of its slant.
        let left = if slanted { (0.87 * longest - 0.4 * group).max(58.0) } else { 58.0 };
        let group = (width - left - 12.0) / bars.groups.len().max(1) as f64;
        Self {
            left,
            bar: (0.82 * group / bars.series.len().max(1) as f64).min(WIDEST),
            // The sine of the slant is a half.
            below: if slanted { 26.0 + longest * 0.5 } else { 28.0 },
            slanted,
            every: if slanted { (28.0 / group).ceil().max(1.0) as usize } else { 1 },
        }
    }

    fn name(&self, svg: &mut String, plot: &Plot, x: f64, name: &str, group: usize) {
        if !group.is_multiple_of(self.every) {
            return;
        }
        let y = plot.bottom + 18.0;
        let place = match self.slanted {
            true => format!(
                "text-anchor=\"end\" transform=\"rotate(-30 {:.1} {:.1})\" x=\"{:.1}\" y=\"{:.1}\"",
                x + 4.0,
                y - 4.0,
                x + 4.0,
                y - 4.0
            ),
            false => format!("text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\""),
        };
        let short = match name.chars().count() > MOST_LETTERS {
            true => name.chars().take(MOST_LETTERS - 1).chain(['…']).collect(),
            false => name.to_string(),
        };
        let _ = write!(svg, "<text {place}>{}</text>", Escaped(short));
    }
}
