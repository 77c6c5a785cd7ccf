//! Curves over a common axis.

use super::palette::Palette;
use super::{Curves, NOTHING, left_out};
use crate::chart::{Axis, Line, LineChart, Look, Rule, shown};

impl Curves {
    /// The chart, for a figure.
    pub(super) fn html(&self, palette: &Palette, width: f64) -> String {
        let drawn = |points: &[(f64, f64)]| points.iter().filter(|(x, y)| shown(*x) && shown(*y)).count();
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let all: usize = self.curves.iter().map(|(_, points)| drawn(points)).sum();
        if all == 0 {
            return NOTHING.into();
        }
        let line = |(name, points): &(String, Vec<(f64, f64)>)| Line {
            name: name.clone(),
            colour: palette.colour(name),
            // A path through one point would not be seen.
            look: if drawn(points) == 1 { Look::Dots } else { Look::Bold },
            listed: true,
            points: points.clone(),
        };
        let rules: Vec<Rule> =
            self.markers.iter().map(|(x, name)| Rule { x: *x, name: name.clone() }).collect();
        let chart = LineChart {
            x_name: &self.x_label,
            y_name: &self.y_label,
            from_zero: [
                Axis::is_near_zero(points().map(|point| point.0)),
                Axis::is_near_zero(points().map(|point| point.1)),
            ],
            lines: self.curves.iter().map(line).collect(),
            rules: &rules,
            width,
        };
        let legend = chart.legend();
        let legend =
            if legend.is_empty() { String::new() } else { format!("<p class=\"legend\">{legend}</p>") };
        let rest = left_out(points().count() - all, "points", "that are no numbers");
        format!("{rest}{legend}{}", chart.svg())
    }
}
