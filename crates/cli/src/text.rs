//! Numbers as people read them, and texts of others as they may be shown.

pub use pages::text::{bytes, columns, grouped, median, printable, printable_lines, si};

/// Tells people something, on standard error: names that it quotes from files cannot drive their terminals.
pub fn tell(text: impl std::fmt::Display) {
    eprintln!("{}", printable_lines(&text.to_string()));
}
