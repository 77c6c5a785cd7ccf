//! Tables in Markdown, for pages of the documentation.
//!
//! ```
//! let rows = [vec!["a | b".into(), "1".into()]];
//! let table = pages::markdown::table(1, &["name", "count"], &rows);
//! assert_eq!(table, "| name | count |\n|---|---:|\n| a \\| b | 1 |\n");
//! ```

/// A table whose first `texts` columns hold text, and the others numbers, which are aligned to the right.
pub fn table(texts: usize, head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&mut head.iter().map(|name| cell(name)));
    text += "|";
    for column in 0..head.len() {
        text += if column < texts { "---|" } else { "---:|" };
    }
    text += "\n";
    for row in rows {
        text += &line(&mut row.iter().map(|content| cell(content)));
    }
    text
}

/// A text as a cell of a table: in one line, with bars escaped.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
