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
    /// What it is about, in large letters.
    pub title: String,
    /// A line below that; may be empty.
    pub subtitle: String,
    /// From top to bottom. Bars and curves that follow each other share rows, two by two.
    pub pictures: Vec<Picture>,
}

/// A picture, of whatever kind.
#[derive(Clone, Debug)]
pub enum Picture {
    /// What happens when.
    Timeline(Timeline),
    /// Values side by side.
    Bars(Bars),
    /// Points on a plane.
    Scatter(Scatter),
    /// Curves over a common axis.
    Curves(Curves),
    /// Rows of text.
    Table(Table),
}

/// Lanes of spans: what happens when in a step. Spans of a lane that overlap lie one below the other.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// What it shows.
    pub caption: String,
    /// Names of the lanes, from top to bottom.
    pub lanes: Vec<String>,
    /// What happens, in any order.
    pub spans: Vec<Span>,
    /// Where the time axis ends at least; it begins at zero, or at the first span before that.
    pub end_ms: f64,
}

/// Something that takes time.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its lane, by position.
    pub lane: usize,
    /// Its name.
    pub name: String,
    /// What kind it is, for its colour and the legend: `gemm`, `embedding`, `all-to-all`.
    pub class: String,
    /// When it begins.
    pub begin_ms: f64,
    /// When it ends, not before it begins.
    pub end_ms: f64,
    /// Whether it is communication that nothing hides.
    pub exposed: bool,
    /// What else is known, for the read-out: `bytes` → `92.4 MB`.
    pub details: Vec<(String, String)>,
}

/// Groups of bars, one bar of each series in every group.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What they show.
    pub caption: String,
    /// What is measured: `speedup`, `ms`.
    pub unit: String,
    /// Names of the groups, from left to right.
    pub groups: Vec<String>,
    /// The series.
    pub series: Vec<Series>,
}

/// A bar in every group.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// By group; nothing where there is no value, or for groups beyond its end.
    pub values: Vec<Option<f64>>,
    /// What others published, by group: a tick on the bar. May be empty.
    pub reference: Vec<Option<f64>>,
}

/// Points on a plane, with their names on hover. Those of the Pareto front are joined.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// What it shows.
    pub caption: String,
    /// What is across, with its unit.
    pub x_label: String,
    /// What is up, with its unit.
    pub y_label: String,
    /// The points, in any order.
    pub points: Vec<Point>,
    /// What is beyond this does not fit: a value across, and what sets the limit.
    pub limit_x: Option<(f64, String)>,
}

/// A point.
#[derive(Clone, Debug)]
pub struct Point {
    /// Where it is across.
    pub x: f64,
    /// Where it is up.
    pub y: f64,
    /// Its name, for the read-out.
    pub name: String,
    /// What kind it is, for its colour and the legend.
    pub class: String,
    /// Whether no other point is better in both.
    pub on_front: bool,
}

/// Curves over a common axis.
#[derive(Clone, Debug)]
pub struct Curves {
    /// What they show.
    pub caption: String,
    /// What is across, with its unit.
    pub x_label: String,
    /// What is up, with its unit.
    pub y_label: String,
    /// Names and points from left to right. A point that is no number interrupts its curve.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
    /// Places across that have a name.
    pub markers: Vec<(f64, String)>,
}

/// Rows of text below a head.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows; missing cells are empty.
    pub rows: Vec<Vec<String>>,
}

impl Page {
    /// The whole page.
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

/// In the place of a picture without content.
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
            Self::Timeline(_) | Self::Scatter(_) | Self::Table(_) => false,
        }
    }

    fn figure(&self, id: usize, width: f64, palettes: &Palettes) -> String {
        let (kind, caption, body) = match self {
            Self::Timeline(timeline) => ("timeline", &timeline.caption, timeline.html(id, &palettes.spans)),
            Self::Bars(bars) => ("bar-groups", &bars.caption, bars.html(&palettes.others, width)),
            Self::Scatter(scatter) => ("scatter", &scatter.caption, scatter.html(&palettes.others)),
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

/// How many were left out, as a note; nothing for none. `what` is in the plural.
fn left_out(number: usize, what: &str, why: &str) -> String {
    match number {
        0 => String::new(),
        _ => format!("<p class=\"note\">Left out: {number} {what} {why}.</p>"),
    }
}

/// A value with so many significant digits.
fn number(value: f64, digits: u8) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e7).contains(&size) => format!("{value:.0$e}", usize::from(digits) - 1),
        size => {
            format!("{value:.0$}", (f64::from(digits) - 1.0 - size.log10().floor()).clamp(0.0, 6.0) as usize)
        }
    }
}
