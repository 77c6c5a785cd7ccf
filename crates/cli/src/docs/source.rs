//! Comments in source files, for pages that repeat them.

use pages::markdown::table;

/// Comment at the head of a module as Markdown: without examples that run, and without links between items.
pub fn module(source: &str) -> String {
    let lines = source.lines().take_while(|line| line.starts_with("//!"));
    let mut text = String::new();
    let mut fence: Option<bool> = None;
    for line in lines.map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or_default()) {
        let kept = match (line.strip_prefix("```"), fence) {
            // The line that opens a block: only blocks of text are kept.
            (Some(language), None) => {
                let kept = language == "text";
                fence = Some(kept);
                kept
            }
            (Some(_), Some(kept)) => {
                fence = None;
                kept
            }
            (None, Some(kept)) => kept,
            (None, None) => true,
        };
        if kept {
            text += &if fence.is_some() { line.to_owned() } else { unlinked(line) };
            text += "\n";
        }
    }
    let mut text = text.trim_end().to_owned();
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text + "\n"
}

/// A line without links to items: what they show stays.
fn unlinked(line: &str) -> String {
    let mut text = line.to_owned();
    while let Some(at) = text.find("[`") {
        let Some(end) = text[at..].find("`]").map(|end| at + end + 2) else { break };
        let target = text[end..].strip_prefix('(').and_then(|rest| rest.find(')'));
        let after = target.map_or(end, |length| end + length + 2);
        text = format!("{}{}{}", &text[..at], &text[at + 1..end - 1], &text[after..]);
    }
    text
}

/// Fields of a struct that is written out in a source file, with the comments on them.
pub fn fields(source: &str, name: &str) -> Option<Vec<(String, String)>> {
    let (_, body) = source.split_once(&format!("pub struct {name} {{\n"))?;
    let (body, _) = body.split_once("\n}\n")?;
    let (mut found, mut comment) = (Vec::new(), Vec::new());
    for line in body.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            comment.push(words.trim());
        } else if let Some((field, _)) = line.strip_prefix("pub ").and_then(|line| line.split_once(':')) {
            found.push((field.to_owned(), comment.join(" ")));
            comment.clear();
        }
    }
    Some(found)
}

/// Table of the fields of a struct.
pub fn fields_table(source: &str, name: &str) -> Option<String> {
    let row = |(field, comment): (String, String)| vec![format!("`{field}`"), unlinked(&comment)];
    let rows: Vec<Vec<String>> = fields(source, name)?.into_iter().map(row).collect();
    Some(table(2, &["field", "meaning"], &rows))
}
