//! Plain text for terminals: numbers with units, aligned columns, and texts from files with control characters escaped.

use std::borrow::Cow;
use std::fmt::Write;

/// A text from a file, with everything escaped that would not show as itself: control characters, which drive terminals,
/// and marks that change the direction of text or take no room.
pub fn printable(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
            c if hidden(c) => {
                let _ = write!(shown, "{}", c.escape_unicode());
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Escapes every line of a text as [`printable`] does, and keeps the line ends.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// A count with an SI prefix: `12.3 M`.
pub fn si(value: f64) -> String {
    const PREFIXES: [&str; 6] = ["", " k", " M", " G", " T", " P"];
    let mut scaled = value;
    let mut prefix = 0;
    while scaled.abs() >= 999.95 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    let digits = if prefix == 0 && scaled.fract() == 0.0 { 0 } else { 1 };
    format!("{scaled:.digits$}{}", PREFIXES[prefix])
}

/// A count with all digits, in groups of three: `17,600`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes with an SI prefix: `12.3 MB`.
pub fn bytes(value: u64) -> String {
    let text = si(value as f64);
    if text.ends_with(|c: char| c.is_ascii_digit()) { format!("{text} B") } else { format!("{text}B") }
}

/// Rows of cells as aligned columns; the first column left, the others right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let shown = |row: &Vec<String>| row.iter().map(|cell| printable(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; count];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::from("  ");
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            line.push_str(&if i == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Sorts `values` and returns their median; 0 for an empty slice.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests;
