//! Calibration: what was predicted against what happened. A calibrated model lies on the diagonal.

use crate::folder::metrics::Bin;
use crate::text::si;
use pages::Escaped;
use pages::chart::{Axis, COLOURS, Plot, WIDTH, shown};
use std::fmt::Write;

/// The bins of one run.
#[derive(Clone, Debug)]
pub struct Dots<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// Index of the run's colour in the palette.
    pub colour: usize,
    /// Bins of the run's last evaluation; empty ones are left out.
    pub bins: &'a [Bin],
}

const HEIGHT: f64 = 290.0;

/// The drawing; a sentence when there is nothing to draw.
pub fn reliability(runs: &[Dots]) -> String {
    let visible = |bin: &&Bin| bin.samples > 0 && shown(bin.mean_prediction) && shown(bin.click_rate);
    let bins = || runs.iter().flat_map(|run| run.bins).filter(visible);
    let Some(most) = bins().map(|bin| bin.samples).max() else {
        return "<p class=\"empty\">No evaluation with bins.</p>".into();
    };
    let axis =
        Axis::over(bins().flat_map(|bin| [bin.mean_prediction, bin.click_rate]).chain([0.0]), 5).rounded();
    let plot = Plot { left: 58.0, right: WIDTH - 14.0, top: 26.0, bottom: HEIGHT - 42.0, x: axis, y: axis };
    let mut svg = format!(
        "<svg class=\"reliability\" role=\"img\" aria-label=\"Calibration\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">"
    );
    plot.frame(&mut svg, "predicted click rate", "actual click rate");
    let _ = write!(
        svg,
        "<line class=\"diagonal\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        plot.left, plot.bottom, plot.right, plot.top
    );
    // Of several runs, dots must leave each other visible.
    let largest = if runs.len() == 1 { 10.0 } else { 5.0 };
    for run in runs {
        for bin in run.bins.iter().filter(visible) {
            // Areas, not radii, are what the eye compares.
            let radius = 3.0 + largest * (bin.samples as f64 / most as f64).sqrt();
            let _ = write!(
                svg,
                "<circle class=\"c{} bubble\" cx=\"{:.2}\" cy=\"{:.2}\" r=\"{radius:.2}\"><title>{}: predicted {:.4}, \
                 actual {:.4}, {} samples</title></circle>",
                run.colour % COLOURS,
                plot.across(bin.mean_prediction),
                plot.up(bin.click_rate),
                Escaped(run.name),
                bin.mean_prediction,
                bin.click_rate,
                si(bin.samples as f64),
            );
        }
    }
    svg.push_str("</svg>");
    svg
}
