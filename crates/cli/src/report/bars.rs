//! Horizontal bars of two parts, one below the other.

use pages::Escaped;
use pages::chart::shown;
use std::fmt::Write;

/// A bar of two parts.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Name of the bar.
    pub name: String,
    /// Lengths of the first and the second part.
    pub parts: [f64; 2],
    /// The parts in words, at the end of the bar.
    pub text: String,
}

const WIDTH: f64 = 520.0;
const ROW: f64 = 24.0;
/// Where bars begin, to the right of their names.
const LEFT: f64 = 160.0;
/// Where the longest bar ends, to the left of its text.
const RIGHT: f64 = 400.0;

/// The drawing. `parts` names both parts, for the read-out.
pub fn bars(label: &str, parts: [&str; 2], bars: &[Bar]) -> String {
    let clean = |part: f64| if shown(part) { part.max(0.0) } else { 0.0 };
    let longest = bars.iter().map(|bar| clean(bar.parts[0]) + clean(bar.parts[1])).fold(0.0, f64::max);
    if longest == 0.0 {
        return "<p class=\"empty\">Nothing was measured.</p>".into();
    }
    let height = ROW * bars.len() as f64 + 4.0;
    let mut svg = format!(
        "<svg class=\"bars\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {height}\">",
        Escaped(label)
    );
    for (i, bar) in bars.iter().enumerate() {
        let top = ROW * i as f64 + 4.0;
        let widths = bar.parts.map(|part| clean(part) / longest * (RIGHT - LEFT));
        let end = LEFT + widths[0] + widths[1];
        let name = Escaped(&bar.name);
        let _ = write!(
            svg,
            "<g><title>{name}: {} {}, {} {}</title>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"first\" x=\"{LEFT}\" y=\"{top}\" width=\"{:.2}\" height=\"16\"/>\
             <rect class=\"second\" x=\"{:.2}\" y=\"{top}\" width=\"{:.2}\" height=\"16\"/>\
             <text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            Escaped(parts[0]),
            number(bar.parts[0]),
            Escaped(parts[1]),
            number(bar.parts[1]),
            LEFT - 8.0,
            top + 12.5,
            Escaped(shortened(&bar.name)),
            widths[0],
            LEFT + widths[0],
            widths[1],
            end + 7.0,
            top + 12.5,
            Escaped(&bar.text),
        );
    }
    svg.push_str("</svg>");
    svg
}

fn number(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// A name that fits to the left of the bars; the whole one is in the read-out.
fn shortened(name: &str) -> String {
    const MOST: usize = 24;
    match name.char_indices().nth(MOST) {
        None => name.into(),
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or(name)),
    }
}

#[cfg(test)]
mod tests;
