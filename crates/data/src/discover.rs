//! What a log is, found by looking at it: format, delimiter, header, and what each column is for.
//!
//! ```text
//! files → some rows of them → a profile of each column → roles → a schema that reads the log
//!         text, Parquet       types, missing texts,      label, time, numbers, ids, left out
//!                             order, lists
//! ```
//!
//! Only so many rows are looked at, spread over the beginning of the log, so that a column may hold more than was seen.
//! A pass over the whole log with the schema ([`crate::inspect`]) counts ids and finds lines that do not fit.
//!
//! ```
//! use data::discover::{Asked, Role, discover};
//! let file = std::env::temp_dir().join(format!("campanile-discover-{}.csv", std::process::id()));
//! let rows = (0..50).map(|i| format!("u{},{}.5,{}\n", i % 7, i, i % 3 / 2)).collect::<String>();
//! std::fs::write(&file, format!("user;price;clicked\n{}", rows.replace(',', ";"))).unwrap();
//! let found = discover(&[file.clone()], &Asked::default())?;
//! assert_eq!((found.delimiter, found.header), (Some(';'), Some(true)));
//! let roles: Vec<Role> = found.columns.iter().map(|column| column.role).collect();
//! assert_eq!(roles, [Role::Id, Role::Number, Role::Label]);
//! # std::fs::remove_file(file).unwrap();
//! # Ok::<(), data::DataError>(())
//! ```

mod column;
mod criteo;
mod integer;
mod label;
mod list;
mod missing;
mod name;
mod roles;
mod sample;
mod text;
mod time;

pub(crate) use sample::{FIRST_ROWS, Sample, Stored};

use crate::DataError;
use serde::Serialize;
use spec::run::DataFormat;
use spec::schema::Schema;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a user says of a log that is to be looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The column of the label; absent, it is looked for.
    pub label: Option<&'a str>,
    /// The column of time; absent, it is looked for.
    pub time: Option<&'a str>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// How the log is written.
    pub format: DataFormat,
    /// What stands between fields, in text.
    pub delimiter: Option<char>,
    /// Whether the first line names the columns, in text.
    pub header: Option<bool>,
    /// Every column of the log, in order.
    pub columns: Vec<FoundColumn>,
    /// Rows that were looked at.
    pub rows: u64,
    /// What a user should know before training.
    pub warnings: Vec<String>,
    /// What reads the log. Tables have no rows yet: their ids were not counted.
    pub schema: Schema,
}

/// A column that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundColumn {
    /// Name in the header or the file; `column7` where there is none.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// What it holds, in a word or two.
    #[serde(rename = "type")]
    pub kind: String,
    /// Share of rows without a value.
    pub missing: f64,
    /// Different values among the rows looked at, or in the whole log once they were counted.
    pub distinct: u64,
    /// Why it has this role.
    pub reason: String,
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the model learns to predict.
    Label,
    /// When each row happened.
    Time,
    /// A number that the model gets.
    Number,
    /// An id, or several, that the model has vectors for.
    Id,
    /// Nothing.
    LeftOut,
}

impl Role {
    /// Name as it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Role::Label => "label",
            Role::Time => "time",
            Role::Number => "number",
            Role::Id => "id",
            Role::LeftOut => "left out",
        }
    }
}

/// Looks at the log in `files`.
///
/// # Errors
/// Names the file that holds no log and what was looked for, or the columns where there is no label or no id among them.
pub fn discover(files: &[PathBuf], asked: &Asked) -> Result<Found, DataError> {
    let Some(first) = files.first() else {
        return Err(DataError::file("", "no files to look at"));
    };
    let parquet = files.iter().map(|file| is_parquet(file)).collect::<Result<Vec<_>, _>>()?;
    if let Some(at) = parquet.iter().position(|&is| is != parquet[0]) {
        let (one, other) = if parquet[0] { ("Parquet", "not") } else { ("not Parquet", "is") };
        let problem = format!("{} is {one} and this file {other}; look at them apart", first.display());
        return Err(DataError::file(&files[at], problem));
    }
    if parquet[0] {
        let sample = crate::parquet::sample(files)?;
        return roles::assign(first, &sample, None, asked);
    }
    let found = text::look(files)?;
    if found.criteo {
        return criteo::found(first, &found.sample, asked);
    }
    let dialect = roles::Dialect { delimiter: found.delimiter, header: found.header };
    roles::assign(first, &found.sample, Some(dialect), asked)
}

/// Whether a file begins as Parquet does.
fn is_parquet(path: &Path) -> Result<bool, DataError> {
    let refuse = |error| DataError::file(path, error);
    let mut head = vec![];
    std::fs::File::open(path).map_err(refuse)?.take(4).read_to_end(&mut head).map_err(refuse)?;
    Ok(head == b"PAR1")
}

#[cfg(test)]
mod tests;
