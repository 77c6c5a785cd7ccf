//! docs/results: pages that are written by hand, with tables between markers that are made from records.
//!
//! ```text
//! <!-- table: real data -->
//! …
//! <!-- end -->
//! ```

use super::Page;
use crate::progress::Console;
use crate::reproduce::ThisProgram;
use anyhow::{Context, Result, bail};
use reproduce::results::{Sources, table};
use std::path::Path;

const BEGIN: &str = "<!-- table: ";
const END: &str = "<!-- end -->";

/// The pages of docs/results with all tables made again.
pub fn pages(root: &Path, console: Console) -> Result<Vec<Page>> {
    let folder = root.join("docs/results");
    let (reports, program) = (root.join("reports"), ThisProgram::new(console)?);
    let sources = Sources { reports: &reports, program: &program };
    let listed =
        std::fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut names = Vec::new();
    for entry in listed {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.ends_with(".md").then_some(name));
    }
    names.sort();
    let page = |name: &String| {
        let text = std::fs::read_to_string(folder.join(name)).with_context(|| name.clone())?;
        let text = replaced(&text, &|table| make(table, &sources)).with_context(|| name.clone())?;
        Ok(Page::new(&format!("results/{name}"), text))
    };
    names.iter().map(page).collect()
}

fn make(name: &str, sources: &Sources) -> Result<String> {
    let made = table(name, sources).with_context(|| format!("reproduce::results has no table {name:?}"))?;
    Ok(made?)
}

/// Names of the tables in a page.
#[cfg(test)]
pub fn tables(text: &str) -> Vec<&str> {
    text.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(" -->")).map(|(name, _)| name).collect()
}

/// A page with each of its tables as `make` gives it.
pub fn replaced(text: &str, make: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let mut parts = text.split(BEGIN);
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((name, rest)) = part.split_once(" -->\n") else {
            bail!("{BEGIN}… is not closed by --> at the end of its line");
        };
        let Some((_, after)) = rest.split_once(END) else { bail!("the table {name:?} has no {END}") };
        let table = make(name).with_context(|| format!("table {name:?}"))?;
        page += &format!("{BEGIN}{name} -->\n{table}{END}{after}");
    }
    Ok(page)
}
