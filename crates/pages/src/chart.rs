//! Charts as SVG, drawn here: nothing to download, nothing that must run in the browser.
//!
//! Colours, fonts and dark mode are the style sheet's; `c0`, `c1`, … are the classes of its palette.

mod axis;
mod lines;
mod rules;

pub use axis::{Axis, shown};
pub use lines::{Line, LineChart, Look, smoothed};
pub use rules::Rule;

use super::Escaped;
use std::fmt::Write;

/// Colours of the palette; beyond them, colours repeat.
pub const COLOURS: usize = 12;
/// Index of the grey colour of the palette.
pub const GREY: usize = 6;
/// Width of a drawing that shares its row with another.
pub const WIDTH: f64 = 520.0;
/// Width of a drawing that has a row alone.
pub const WHOLE_WIDTH: f64 = 1100.0;

/// The rectangle in which values are drawn, in units of the drawing.
pub struct Plot {
    /// Left edge.
    pub left: f64,
    /// Right edge.
    pub right: f64,
    /// Upper edge.
    pub top: f64,
    /// Lower edge.
    pub bottom: f64,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
}

impl Plot {
    /// Horizontal position of a value in the drawing.
    pub fn across(&self, x: f64) -> f64 {
        self.left + (x - self.x.low) / (self.x.high - self.x.low) * (self.right - self.left)
    }

    /// Vertical position of a value, downward from the top of the drawing.
    pub fn up(&self, y: f64) -> f64 {
        self.bottom - (y - self.y.low) / (self.y.high - self.y.low) * (self.bottom - self.top)
    }

    /// Draws the grid, marks and names of both axes.
    pub fn frame(&self, svg: &mut String, x_name: &str, y_name: &str) {
        self.upward(svg, y_name);
        self.marks_across(svg, x_name);
    }

    /// Draws the grid, marks and name of the vertical axis, and a line at the bottom.
    pub fn upward(&self, svg: &mut String, name: &str) {
        let Plot { left, right, bottom, .. } = *self;
        for mark in self.y.marks() {
            let y = self.up(mark);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                y + 4.0,
                self.y.label(mark)
            );
        }
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" x=\"2\" y=\"12\">{}</text>",
            Escaped(name),
        );
    }

    fn marks_across(&self, svg: &mut String, name: &str) {
        let Plot { right, bottom, .. } = *self;
        for mark in self.x.marks() {
            let x = self.across(mark);
            let _ = write!(
                svg,
                "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text class=\"mark\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 4.0,
                bottom + 18.0,
                self.x.label(mark)
            );
        }
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            bottom + 36.0,
            Escaped(name),
        );
    }
}

/// A chart in its frame. `legend` and `svg` are HTML, the other texts are not.
pub fn figure(id: &str, title: &str, note: &str, legend: &str, svg: &str) -> String {
    let note =
        if note.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>", Escaped(note)) };
    let legend = if legend.is_empty() { String::new() } else { format!("<p class=\"legend\">{legend}</p>") };
    format!(
        "<figure class=\"card\" id=\"{id}\"><figcaption>{}</figcaption>{note}{legend}{svg}</figure>\n",
        Escaped(title)
    )
}

/// One entry of a legend: a sample of the mark and its name.
pub fn key(class: &str, name: &str) -> String {
    format!("<span class=\"key\"><i class=\"swatch {class}\"></i>{}</span>", Escaped(name))
}
