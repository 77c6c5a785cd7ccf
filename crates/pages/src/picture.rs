//! Pictures of what commands compute: timelines, bars, points, curves and tables, on one page that opens in any browser,
//! without a network.
//!
//! The caller fills plain values and writes [`Page::to_html`] to a file. Everything is drawn here as SVG; scripts only add
//! zoom and read-outs. Numbers that cannot be drawn (NaN, infinities) are left out, and the picture says so.
//!
//! ```
//! use pages::picture::{Page, Picture, Span, Timeline};
//! let gemm = Span {
//!     lane: 0,
//!     name: "top forward".into(),
//!     class: "gemm".into(),
//!     begin_ms: 0.0,
//!     end_ms: 1.5,
//!     exposed: false,
//!     details: vec![("FLOPs".into(), "3.1 G".into())],
//! };
//! let timeline = Timeline { caption: "A step".into(), lanes: vec!["compute".into()], spans: vec![gemm], end_ms: 1.5 };
//! let page = Page { title: "DLRM-A".into(), subtitle: "128 GPUs".into(), pictures: vec![Picture::Timeline(timeline)] };
//! assert!(page.to_html().contains("top forward"));
//! ```

mod bars;
mod curves;
mod palette;
mod roofline;
mod scatter;
mod table;
#[cfg(test)]
mod tests;
mod timeline;

use crate::chart::{WHOLE_WIDTH, WIDTH};
use crate::{Escaped, document_with};
use palette::Palette;
use std::fmt::Write;

/// A page of pictures under one title.
#[derive(Clone, Debug)]
pub struct Page {
    /// Subject of the page, in large letters.
    pub title: String,
    /// A line below the title; may be empty.
    pub subtitle: String,
    /// Pictures from top to bottom. Bars and curves that follow each other share rows, two by two.
    pub pictures: Vec<Picture>,
}

/// A picture of any kind.
#[derive(Clone, Debug)]
pub enum Picture {
    /// Lanes of spans over time.
    Timeline(Timeline),
    /// Values side by side.
    Bars(Bars),
    /// Points on a plane.
    Scatter(Scatter),
    /// Points below the roofs of a machine.
    Roofline(Roofline),
    /// Curves over a common axis.
    Curves(Curves),
    /// Rows of text.
    Table(Table),
}

/// Lanes of spans: what happens when in a step. Spans of a lane that overlap lie one below the other.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Caption of the timeline.
    pub caption: String,
    /// Names of the lanes, from top to bottom.
    pub lanes: Vec<String>,
    /// Spans of all lanes, in any order.
    pub spans: Vec<Span>,
    /// Least end of the time axis, in milliseconds. The axis begins at zero, or at a span before zero.
    pub end_ms: f64,
}

/// An operation that takes time, on a lane of a [`Timeline`].
#[derive(Clone, Debug)]
pub struct Span {
    /// Index of the lane.
    pub lane: usize,
    /// Name of the operation.
    pub name: String,
    /// Class of the operation, for its colour and the legend: `gemm`, `embedding`, `all-to-all`.
    pub class: String,
    /// Begin, in milliseconds.
    pub begin_ms: f64,
    /// End, in milliseconds; not before the begin.
    pub end_ms: f64,
    /// Whether the span is communication that no computation hides.
    pub exposed: bool,
    /// Further properties for the read-out: `bytes` → `92.4 MB`.
    pub details: Vec<(String, String)>,
}

/// Groups of bars, one bar of each series in every group.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Caption of the bars.
    pub caption: String,
    /// Quantity or unit of the values: `speedup`, `ms`.
    pub unit: String,
    /// Names of the groups, from left to right.
    pub groups: Vec<String>,
    /// Series, each with a bar in every group.
    pub series: Vec<Series>,
}

/// Values of one kind, a bar in every group of [`Bars`].
#[derive(Clone, Debug)]
pub struct Series {
    /// Name of the series in the legend.
    pub name: String,
    /// Values by group; `None`, or a missing element, draws no bar.
    pub values: Vec<Option<f64>>,
    /// Published values by group, drawn as ticks on the bars. May be empty.
    pub reference: Vec<Option<f64>>,
}

/// Points on a plane, with their names on hover. Those of the Pareto front are joined.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// Caption of the points.
    pub caption: String,
    /// Quantity and unit of the horizontal axis.
    pub x_label: String,
    /// Quantity and unit of the vertical axis.
    pub y_label: String,
    /// Points, in any order.
    pub points: Vec<Point>,
    /// A limit on the horizontal axis beyond which points do not fit, and its name.
    pub limit_x: Option<(f64, String)>,
}

/// A point of a [`Scatter`].
#[derive(Clone, Debug)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Position on the vertical axis.
    pub y: f64,
    /// Name of the point, for the read-out.
    pub name: String,
    /// Class of the point, for its colour and the legend.
    pub class: String,
    /// Whether the point is on the Pareto front: no other is better in both coordinates.
    pub on_front: bool,
}

/// Speed of parts of a program against their arithmetic intensity, below the roofs of a machine, on logarithmic axes.
#[derive(Clone, Debug)]
pub struct Roofline {
    /// Caption of the picture.
    pub caption: String,
    /// Peaks of computation by name, in FLOP/s: flat roofs.
    pub compute: Vec<(String, f64)>,
    /// Bandwidths of memory by name, in bytes a second: slopes.
    pub memory: Vec<(String, f64)>,
    /// Parts of the program. Those without FLOPs or bytes are left out, and the picture says so.
    pub points: Vec<RoofPoint>,
}

/// Part of a program in a [`Roofline`].
#[derive(Clone, Debug)]
pub struct RoofPoint {
    /// Name of the part.
    pub name: String,
    /// Class of the part, for its colour and the legend.
    pub class: String,
    /// Arithmetic intensity: FLOPs for each byte of memory.
    pub intensity: f64,
    /// FLOPs a second.
    pub speed: f64,
    /// Further properties for the read-out: `time` → `1.2 ms`.
    pub details: Vec<(String, String)>,
}

/// Curves over a common axis.
#[derive(Clone, Debug)]
pub struct Curves {
    /// Caption of the curves.
    pub caption: String,
    /// Quantity and unit of the horizontal axis.
    pub x_label: String,
    /// Quantity and unit of the vertical axis.
    pub y_label: String,
    /// Name and points of each curve, from left to right. A point that is NaN interrupts the curve.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
    /// Positions on the horizontal axis that are marked, with their names.
    pub markers: Vec<(f64, String)>,
}

/// Rows of text below a head.
#[derive(Clone, Debug)]
pub struct Table {
    /// Caption of the table.
    pub caption: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows of cells; missing cells are empty.
    pub rows: Vec<Vec<String>>,
}

impl Page {
    /// The page as one HTML document.
    pub fn to_html(&self) -> String {
        let mut body = format!(
            "<header class=\"picture-title\"><p class=\"kicker\">campanile</p><h1>{}</h1>",
            Escaped(&self.title)
        );
        if !self.subtitle.is_empty() {
            let _ = write!(body, "<p class=\"subtitle\">{}</p>", Escaped(&self.subtitle));
        }
        body.push_str("</header>\n<section class=\"grid2 pictures\">\n");
        if self.pictures.is_empty() {
            body.push_str(NOTHING);
        }
        let palettes = Palettes::of(&self.pictures);
        for (id, (picture, width)) in self.pictures.iter().zip(widths(&self.pictures)).enumerate() {
            body.push_str(&picture.figure(id + 1, width, &palettes));
        }
        body.push_str("</section>\n");
        let style = include_str!("picture/picture.css");
        let script = concat!(
            include_str!("picture/readout.js"),
            include_str!("picture/timeline.js"),
            include_str!("picture/scatter.js")
        );
        document_with(&format!("{} · campanile", self.title), &body, style, script)
    }
}

/// HTML that stands for a picture without content.
const NOTHING: &str = "<p class=\"empty\">Nothing to show.</p>";

/// Colours by name. The same name has the same colour all over a page; spans have colours apart from other things.
struct Palettes {
    spans: Palette,
    others: Palette,
}

impl Palettes {
    fn of(pictures: &[Picture]) -> Self {
        let mut palettes = Self { spans: Palette::default(), others: Palette::default() };
        for picture in pictures {
            match picture {
                Picture::Timeline(timeline) => {
                    timeline.spans.iter().for_each(|span| palettes.spans.add(&span.class))
                }
                Picture::Bars(bars) => {
                    bars.series.iter().for_each(|series| palettes.others.add(&series.name))
                }
                Picture::Scatter(scatter) => {
                    scatter.points.iter().for_each(|point| palettes.others.add(&point.class))
                }
                Picture::Roofline(roofline) => {
                    roofline.points.iter().for_each(|point| palettes.others.add(&point.class))
                }
                Picture::Curves(curves) => {
                    curves.curves.iter().for_each(|(name, _)| palettes.others.add(name))
                }
                Picture::Table(_) => {}
            }
        }
        palettes
    }
}

/// How wide each picture is drawn.
fn widths(pictures: &[Picture]) -> Vec<f64> {
    let mut widths = Vec::with_capacity(pictures.len());
    let mut rest = pictures;
    while let [first, after @ ..] = rest {
        rest = match after {
            [second, after @ ..] if first.may_share() && second.may_share() => {
                widths.extend([WIDTH, WIDTH]);
                after
            }
            _ => {
                widths.push(WHOLE_WIDTH);
                after
            }
        };
    }
    widths
}

impl Picture {
    /// Whether half a row is enough.
    fn may_share(&self) -> bool {
        match self {
            Self::Bars(bars) => bars.groups.len() * bars.series.len() <= 16,
            Self::Curves(_) => true,
            Self::Timeline(_) | Self::Scatter(_) | Self::Roofline(_) | Self::Table(_) => false,
        }
    }

    fn figure(&self, id: usize, width: f64, palettes: &Palettes) -> String {
        let (kind, caption, body) = match self {
            Self::Timeline(timeline) => ("timeline", &timeline.caption, timeline.html(id, &palettes.spans)),
            Self::Bars(bars) => ("bar-groups", &bars.caption, bars.html(&palettes.others, width)),
            Self::Scatter(scatter) => ("scatter", &scatter.caption, scatter.html(&palettes.others)),
            // The class of points lets their script read these out, too.
            Self::Roofline(roofline) => {
                ("scatter roofline", &roofline.caption, roofline.html(&palettes.others))
            }
            Self::Curves(curves) => ("curves", &curves.caption, curves.html(&palettes.others, width)),
            Self::Table(table) => ("table", &table.caption, table.html()),
        };
        let size = if width == WIDTH { "half" } else { "whole" };
        let caption = Escaped(caption);
        format!(
            "<figure class=\"card {kind} {size}\" id=\"picture-{id}\"><figcaption>{caption}</figcaption>{body}</figure>\n"
        )
    }
}

/// A note on how many values were left out and why; empty for none. `what` is in the plural.
fn left_out(number: usize, what: &str, why: &str) -> String {
    match number {
        0 => String::new(),
        _ => format!("<p class=\"note\">Left out: {number} {what} {why}.</p>"),
    }
}

/// A value with `digits` significant digits.
fn number(value: f64, digits: u8) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e7).contains(&size) => format!("{value:.0$e}", usize::from(digits) - 1),
        size => {
            format!("{value:.0$}", (f64::from(digits) - 1.0 - size.log10().floor()).clamp(0.0, 6.0) as usize)
        }
    }
}
