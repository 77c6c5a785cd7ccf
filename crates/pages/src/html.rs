//! HTML documents, and text that is escaped for them.

use std::fmt::{self, Display, Write};

/// Text that HTML shows as it is, between tags or in a quoted attribute, whatever it contains.
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                // Not allowed in HTML, not even as a reference.
                c if c.is_control() && !matches!(c, '\n' | '\t') => self.0.write_char('\u{fffd}')?,
                c => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A value with four digits after the point; a dash where there is none.
pub fn four(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or("–".into(), |v| format!("{v:.4}"))
}

/// A whole page. `title` is text, `body` is HTML.
pub fn document(title: &str, body: &str) -> String {
    document_with(title, body, "", "")
}

/// A whole page with further style rules and a further script, beside those of every page.
pub fn document_with(title: &str, body: &str, style: &str, script: &str) -> String {
    // The policy keeps a page from loading anything, whatever a file smuggled into it.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}{style}</style>\n</head>\n<body>\n<main>\n{body}\
         </main>\n<script>\n{}{script}</script>\n</body>\n</html>\n",
        Escaped(title),
        include_str!("page.css"),
        include_str!("hover.js"),
    )
}

#[cfg(test)]
mod tests;
