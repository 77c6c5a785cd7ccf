//! Rows of text.

use super::{NOTHING, Table};
use crate::Escaped;
use std::fmt::Write;

/// Longer tables scroll inside their card.
const TALL: usize = 24;

impl Table {
    /// The table, for a figure.
    pub(super) fn html<'a>(&'a self) -> String {
        if self.rows.is_empty() {
            return NOTHING.into();
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0).max(self.head.len());
        let left: Vec<bool> = (0..columns).map(|column| self.is_text(column)).collect();
        let class = |column: usize| if left[column] { " class=\"left\"" } else { "" };
        let cell = |row: &'a [String], column: usize| Escaped(row.get(column).map_or("", String::as_str));
        let tall = if self.rows.len() > TALL { " tall\" tabindex=\"0" } else { "" };
        let mut html = format!("<div class=\"scroll{tall}\"><table><thead><tr>");
        for column in 0..columns {
            let _ = write!(html, "<th scope=\"col\"{}>{}</th>", class(column), cell(&self.head, column));
        }
        html.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            html.push_str("<tr>");
            for column in 0..columns {
                let _ = write!(html, "<td{}>{}</td>", class(column), cell(row, column));
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div>");
        html
    }

    /// Whether a column holds words, which begin on the left; numbers end on the right.
    fn is_text(&self, column: usize) -> bool {
        let cells = || self.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
        let is_number =
            |cell: &&String| cell.starts_with(|c: char| c.is_ascii_digit() || "+-−–—<>≤≥~≈.×".contains(c));
        2 * cells().filter(is_number).count() <= cells().count()
    }
}
