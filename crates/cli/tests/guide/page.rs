//! A page of Markdown: fenced blocks, headings and links.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Text of a file of the repository.
pub fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
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

/// Lines of a page outside of its fenced blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    page.lines().filter(move |line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Anchors of the headings of a page, as GitHub makes them: lower case, spaces as hyphens, punctuation left out.
pub fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let kept = line.trim_start_matches('#').trim().chars().filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            });
            kept.flat_map(char::to_lowercase).collect()
        })
        .collect()
}

/// Targets of the links of a page.
pub fn links(page: &str) -> Vec<String> {
    let lines: Vec<&str> = prose(page).collect();
    let targets = lines.iter().flat_map(|line| line.split("](").skip(1));
    targets.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// What is wrong with a link of the page `from`: the file that is missing, or the heading.
pub fn broken(from: &str, target: &str) -> Option<String> {
    if target.starts_with("http") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let page = root().join(from);
    let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
    if !path.exists() {
        return Some(format!("{from}: {target}: there is no {}", path.display()));
    }
    let missing = !anchor.is_empty() && !anchors(&std::fs::read_to_string(&path).unwrap()).contains(&anchor.into());
    missing.then(|| format!("{from}: {target}: the page has no such heading"))
}
