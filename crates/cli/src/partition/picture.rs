//! Figure 9 of the DMT paper: the affinity with features ordered by tower, and the plane with features coloured by tower.

use super::Divided;
use anyhow::{Result, bail};
use pages::{Escaped, document};
use planning::partitioner::Partition;
use spec::affinity::Affinity;
use std::fmt::Write;
use std::path::Path;

/// Side of each of the two drawings.
const SIDE: f64 = 460.0;
/// Margin for names.
const MARGIN: f64 = 60.0;

/// Whether a picture of this name is a page, or SVG alone.
pub fn is_page(path: &Path) -> Result<bool> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => Ok(true),
        Some("svg") => Ok(false),
        _ => bail!("--picture {}: a picture is an .svg, or an .html page", path.display()),
    }
}

/// The picture as SVG, or inside a page.
pub fn of(Divided { affinity, found, .. }: &Divided, page: bool) -> String {
    let svg = svg(affinity, found);
    if !page {
        return svg;
    }
    let show = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    let body = format!(
        "<h1>{} towers of {} features</h1>\n<p>Affinity {} within towers, {} across. Largest tower over smallest: {:.3}.</p>\n\
         <figure class=\"card\">{svg}</figure>\n",
        found.towers.len(),
        affinity.features().len(),
        show(found.within),
        show(found.across),
        found.max_over_min
    );
    document("Towers", &body)
}

fn svg(affinity: &Affinity, found: &Partition) -> String {
    let width = if found.plane.is_some() { 2.0 * (SIDE + MARGIN) + MARGIN } else { SIDE + 2.0 * MARGIN };
    let height = SIDE + 2.0 * MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" role=\"img\">\n\
         <title>Affinity of features by tower</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    matrix(&mut text, affinity, found);
    plane(&mut text, affinity, found);
    text.push_str("</svg>\n");
    text
}

/// The most features whose every pair is drawn; of more, the means of blocks.
const CELLS: usize = 128;

/// The affinity, features in the order of their towers, towers framed in their colour.
fn matrix(text: &mut String, affinity: &Affinity, found: &Partition) {
    let order: Vec<usize> = found.towers.concat();
    let cell = SIDE / order.len() as f64;
    let place = |i: usize| MARGIN + i as f64 * cell;
    let value = |i: usize, j: usize| if i == j { 1.0 } else { affinity.between(order[i], order[j]) };
    let off_diagonal =
        || (0..order.len()).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| value(i, j));
    let (least, most) = ends(off_diagonal());
    let block = order.len().div_ceil(CELLS);
    let starts = || (0..order.len()).step_by(block);
    for i in starts() {
        for j in starts() {
            let (rows, columns) = (i..(i + block).min(order.len()), j..(j + block).min(order.len()));
            let pairs = rows.clone().flat_map(|i| columns.clone().map(move |j| (i, j)));
            let mean = pairs.map(|(i, j)| value(i, j)).sum::<f64>() / (rows.len() * columns.len()) as f64;
            let title = match block {
                1 => {
                    let name = |i: usize| Escaped(&affinity.features()[order[i]]);
                    format!("<title>{} and {}: {mean:.3}</title>", name(i), name(j))
                }
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{}\">{title}</rect>",
                place(j),
                place(i),
                columns.len() as f64 * cell,
                rows.len() as f64 * cell,
                shade((mean - least) / (most - least).max(1e-12)),
            );
        }
    }
    // Names as long as they can be read.
    for (i, &feature) in order.iter().enumerate().filter(|_| order.len() <= 64) {
        let size = cell.min(11.0);
        let _ = writeln!(
            text,
            "<text x=\"{:.2}\" y=\"{:.2}\" font-size=\"{size:.1}\" text-anchor=\"end\">{}</text>",
            MARGIN - 4.0,
            place(i) + 0.5 * cell + 0.35 * size,
            Escaped(&affinity.features()[feature])
        );
    }
    if order.len() > 1 {
        caption(text, MARGIN, &format!("affinity by tower, from {least:.2} (white) to {most:.2} (blue)"));
    }
    let mut first = 0;
    for (tower, members) in found.towers.iter().enumerate() {
        let side = members.len() as f64 * cell;
        let at = place(first);
        let colour = colour(tower, found.towers.len());
        let _ = writeln!(
            text,
            "<rect x=\"{at:.2}\" y=\"{at:.2}\" width=\"{side:.2}\" height=\"{side:.2}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>"
        );
        first += members.len();
    }
}

/// Features on the first two dimensions of the plane, coloured by tower.
fn plane(text: &mut String, affinity: &Affinity, found: &Partition) {
    let Some(plane) = &found.plane else { return };
    let points = &plane.points;
    let along = |dim: usize| -> Vec<f64> {
        (0..points.rows()).map(|i| if dim < points.columns() { points.at(i, dim) } else { 0.0 }).collect()
    };
    let (x, y) = (along(0), along(1));
    caption(text, SIDE + 2.0 * MARGIN, &format!("features on the plane, stress {:.2}", plane.stress));
    let ((left, right), (low, high)) = (ends(x.iter().copied()), ends(y.iter().copied()));
    let span = (right - left).max(high - low).max(1e-12);
    let across = |x: f64| SIDE + 2.0 * MARGIN + (x - left) / span * SIDE;
    let down = |y: f64| MARGIN + (high - y) / span * SIDE;
    for (tower, members) in found.towers.iter().enumerate() {
        let colour = colour(tower, found.towers.len());
        for &feature in members {
            let (x, y) = (across(x[feature]), down(y[feature]));
            let name = Escaped(&affinity.features()[feature]);
            let _ = writeln!(
                text,
                "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"6\" fill=\"{colour}\"><title>{name}, tower {tower}</title></circle>\
                 <text x=\"{:.2}\" y=\"{:.2}\" font-size=\"11\">{name}</text>",
                x + 8.0,
                y + 4.0
            );
        }
    }
}

/// A line under a drawing that begins at `x`.
fn caption(text: &mut String, x: f64, line: &str) {
    let y = SIDE + 1.6 * MARGIN;
    let _ = writeln!(text, "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"13\" fill=\"#555555\">{line}</text>");
}

/// Smallest and largest value.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)))
}

/// Colour of a value from 0 to 1: white to dark blue.
fn shade(value: f64) -> String {
    let mix = |from: f64, to: f64| (from + (to - from) * value.clamp(0.0, 1.0)) as u8;
    format!("#{:02x}{:02x}{:02x}", mix(255.0, 8.0), mix(255.0, 48.0), mix(255.0, 107.0))
}

/// Hues evenly around the circle, every other one darker.
fn colour(tower: usize, towers: usize) -> String {
    let hue = 360.0 * tower as f64 / towers as f64;
    let light = if tower.is_multiple_of(2) { 42 } else { 58 };
    format!("hsl({hue:.0}, 70%, {light}%)")
}
