//! Pages that are written by hand, with parts between markers that are made from records and sources.
//!
//! ```text
//! <!-- made from table: real data -->                            a table of reproduce::results
//! <!-- made from module: crates/data/src/prepared.rs -->         the comment at the head of a module
//! <!-- made from fields: crates/…/manifest.rs Manifest -->       the fields of a struct, with their comments
//! …
//! <!-- end -->
//! ```

use super::{Page, source};
use crate::progress::Console;
use crate::reproduce::ThisProgram;
use anyhow::{Context, Result, bail};
use reproduce::results::{Sources, table};
use std::path::Path;

const BEGIN: &str = "<!-- made from ";
const END: &str = "<!-- end -->";

/// The pages with markers, with all marked parts made again.
pub fn pages(root: &Path, console: Console) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for folder in ["reference", "results"] {
        let path = root.join("docs").join(folder);
        let listed =
            std::fs::read_dir(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut names = Vec::new();
        for entry in listed {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        for name in names.iter().filter(|name| name.ends_with(".md")) {
            let text = std::fs::read_to_string(path.join(name)).with_context(|| name.clone())?;
            if text.contains(BEGIN) {
                let text =
                    replaced(&text, &|what| make(what, root, console)).with_context(|| name.clone())?;
                pages.push(Page::new(&format!("{folder}/{name}"), text));
            }
        }
    }
    Ok(pages)
}

/// Makes the part that a marker names.
fn make(what: &str, root: &Path, console: Console) -> Result<String> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
    match what.split_once(": ") {
        Some(("table", name)) => {
            let (reports, program) = (root.join("reports"), ThisProgram::new(console)?);
            let sources = Sources { reports: &reports, program: &program };
            let made = table(name, &sources);
            Ok(made.with_context(|| format!("reproduce::results has no table {name:?}"))??)
        }
        Some(("module", path)) => Ok(source::module(&read(path)?)),
        Some(("fields", place)) => {
            let (path, name) = place.split_once(' ').context("a file and a struct are needed")?;
            source::fields_table(&read(path)?, name).with_context(|| format!("{path} has no struct {name}"))
        }
        _ => bail!("a part is made from `table: NAME`, `module: FILE` or `fields: FILE STRUCT`"),
    }
}

/// Names of the markers in a page.
#[cfg(test)]
pub fn markers(text: &str) -> Vec<&str> {
    text.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(" -->")).map(|(name, _)| name).collect()
}

/// A page with each marked part as `make` gives it.
pub fn replaced(text: &str, make: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let mut parts = text.split(BEGIN);
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((what, rest)) = part.split_once(" -->\n") else {
            bail!("{BEGIN}… is not closed by --> at the end of its line");
        };
        let Some((_, after)) = rest.split_once(END) else {
            bail!("the part made from {what:?} has no {END}")
        };
        let made = make(what).with_context(|| format!("made from {what}"))?;
        page += &format!("{BEGIN}{what} -->\n{made}{END}{after}");
    }
    Ok(page)
}
