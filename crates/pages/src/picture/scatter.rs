//! Points on a plane, the Pareto front among them, and what a limit leaves out.
//!
//! The script that reads points out finds what to say in `<title>`.

use super::palette::Palette;
use super::{NOTHING, Point, Scatter, left_out, number};
use crate::Escaped;
use crate::chart::{Axis, Plot, Rule, WHOLE_WIDTH, key, shown};
use std::collections::BTreeMap;
use std::fmt::Write;

const HEIGHT: f64 = 440.0;
/// Radii of points, and of those on the front.
const SMALL: f64 = 3.2;
const LARGE: f64 = 5.0;

impl Scatter {
    /// Legend and drawing, for a figure.
    pub(super) fn html(&self, palette: &Palette) -> String {
        let drawn: Vec<&Point> =
            self.points.iter().filter(|point| shown(point.x) && shown(point.y)).collect();
        let rest = left_out(self.points.len() - drawn.len(), "points", "that are no numbers");
        if drawn.is_empty() {
            return format!("{NOTHING}{rest}");
        }
        let mut legend = palette.legend(drawn.iter().map(|point| point.class.as_str()), "dots");
        if drawn.iter().any(|point| point.on_front) {
            legend += &key("front", "Pareto front");
        }
        format!(
            "<p class=\"legend\">{legend}</p>{rest}<div class=\"scroll\">{}</div>",
            self.svg(&drawn, palette)
        )
    }

    fn svg(&self, drawn: &[&Point], palette: &Palette) -> String {
        let limit = self.limit_x.as_ref().filter(|(x, _)| shown(*x));
        let xs = || drawn.iter().map(|point| point.x).chain(limit.map(|limit| limit.0));
        let ys = || drawn.iter().map(|point| point.y);
        let zero = |near: bool| near.then_some(0.0);
        let plot = Plot {
            left: 66.0,
            right: WHOLE_WIDTH - 14.0,
            top: 28.0,
            bottom: HEIGHT - 42.0,
            x: Axis::over(xs().chain(zero(Axis::is_near_zero(xs()))), 10).rounded(),
            y: Axis::over(ys().chain(zero(Axis::is_near_zero(ys()))), 6).rounded(),
        };
        let limit_rule = limit.map(|(x, name)| Rule { x: *x, name: name.clone() });
        let plot = plot.with_room_for(limit_rule.as_slice());
        let mut svg = format!(
            "<svg class=\"points\" role=\"group\" aria-label=\"{}\" viewBox=\"0 0 {WHOLE_WIDTH} {HEIGHT}\">",
            Escaped(&self.caption)
        );
        if let Some((x, _)) = limit {
            let (x, right) = (plot.across(*x), plot.right);
            let _ = write!(
                svg,
                "<rect class=\"beyond\" x=\"{x:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\"/>",
                plot.top,
                right - x,
                plot.bottom - plot.top
            );
        }
        plot.frame(&mut svg, &self.x_label, &self.y_label);
        let (mut front, others): (Vec<&Point>, Vec<&Point>) = drawn.iter().partition(|point| point.on_front);
        front.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
        self.circles(&mut svg, &plot, palette, &others, SMALL);
        if front.len() > 1 {
            let path: Vec<String> = front
                .iter()
                .map(|point| format!("{:.2} {:.2}", plot.across(point.x), plot.up(point.y)))
                .collect();
            let _ = write!(svg, "<path class=\"front\" d=\"M{}\"/>", path.join("L"));
        }
        self.circles(&mut svg, &plot, palette, &front, LARGE);
        plot.rules(&mut svg, limit_rule.as_slice());
        svg.push_str("</svg>");
        svg
    }

    /// Points by colour, so that each need not name it.
    fn circles(&self, svg: &mut String, plot: &Plot, palette: &Palette, points: &[&Point], radius: f64) {
        let mut by_colour: BTreeMap<usize, Vec<&Point>> = BTreeMap::new();
        for point in points {
            by_colour.entry(palette.colour(&point.class)).or_default().push(point);
        }
        let (x_label, y_label) = (Escaped(&self.x_label), Escaped(&self.y_label));
        for (colour, points) in by_colour {
            let front = if radius == LARGE { " on-front" } else { "" };
            let _ = write!(svg, "<g class=\"c{colour}{front}\">");
            for point in points {
                let _ = write!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}\n{x_label}\t{}\n{y_label}\t{}{}{}</title></circle>",
                    plot.across(point.x),
                    plot.up(point.y),
                    Escaped(&point.name),
                    number(point.x, 4),
                    number(point.y, 4),
                    if point.class.is_empty() { "" } else { "\nclass\t" },
                    Escaped(&point.class),
                );
            }
            svg.push_str("</g>");
        }
    }
}
