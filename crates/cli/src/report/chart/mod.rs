//! Charts as SVG, drawn here: nothing to download, nothing that must run in the browser.
//!
//! Colours, fonts and dark mode are the style sheet's; `c0`, `c1`, … are the classes of its palette.

mod axis;
mod bars;
mod lines;
mod reliability;

pub use bars::{Bar, bars};
pub use lines::{Line, LineChart, Look, smoothed};
pub use reliability::{Dots, reliability};

use super::html::Escaped;
use axis::Axis;
use std::fmt::Write;

/// Colours of the palette; beyond them, colours repeat.
pub const COLOURS: usize = 7;

/// The rectangle in which values are drawn, in units of the drawing.
struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Axis,
    y: Axis,
}

impl Plot {
    fn across(&self, x: f64) -> f64 {
        self.left + (x - self.x.low) / (self.x.high - self.x.low) * (self.right - self.left)
    }

    fn up(&self, y: f64) -> f64 {
        self.bottom - (y - self.y.low) / (self.y.high - self.y.low) * (self.bottom - self.top)
    }

    /// Grid, marks and the names of both axes.
    fn frame(&self, svg: &mut String, x_name: &str, y_name: &str) {
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
            "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text class=\"name\" x=\"2\" y=\"12\">{}</text>",
            bottom + 36.0,
            Escaped(x_name),
            Escaped(y_name),
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
