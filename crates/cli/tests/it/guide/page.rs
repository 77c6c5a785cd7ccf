//! A page of Markdown and its fenced blocks.

use std::path::Path;

/// Text of a file of the repository.
pub fn text(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A fenced block of a page.
pub struct Block {
    /// Words behind the opening fence: the language, then marks (`sh fails`).
    pub marks: Vec<String>,
    pub body: String,
    /// Number of the line of the opening fence, from 1.
    pub line: usize,
}

impl Block {
    pub fn has(&self, mark: &str) -> bool {
        self.marks.iter().any(|m| m == mark)
    }

    pub fn is(&self, language: &str) -> bool {
        self.marks.first().is_some_and(|first| first == language)
    }
}

/// The fenced blocks of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => {
                let marks = info.split_whitespace().map(str::to_owned).collect();
                open = Some(Block { marks, body: String::new(), line: index + 1 });
            }
            (None, Some(block)) => {
                block.body += line;
                block.body.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}
