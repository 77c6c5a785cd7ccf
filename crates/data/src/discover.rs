//! Discovers what a log is by looking at it: format, delimiter, header, and the role of each column.
//!
//! ```text
//! files → some rows of them → a profile of each column → roles → a schema that reads the log
//!         text, Parquet       types, missing texts,      label, time, numbers, ids, left out
//!                             order, lists
//! ```
//!
//! A limited number of rows is examined, spread over the beginning of the log, so a column may hold more than was seen. A pass
//! over the whole log with the schema ([`crate::inspect`]) counts ids and finds bad lines.
//!
//! ```
//! use data::discover::{Request, Role, discover};
//! let file = std::env::temp_dir().join(format!("campanile-discover-{}.csv", std::process::id()));
//! let rows = (0..50).map(|i| format!("u{},{}.5,{}\n", i % 7, i, i % 3 / 2)).collect::<String>();
//! std::fs::write(&file, format!("user;price;clicked\n{}", rows.replace(',', ";"))).unwrap();
//! let found = discover(&[file.clone()], &Request::default())?;
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
use crate::table::Table;
use serde::Serialize;
use spec::run::DataFormat;
use spec::schema::Schema;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a user specifies about a log that is to be discovered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Name of the label column; `None` to search for it.
    pub label: Option<&'a str>,
    /// Name of the time column; `None` to search for it.
    pub time: Option<&'a str>,
}

/// Result of discovering a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Format of the log.
    pub format: DataFormat,
    /// Delimiter between fields; `None` if the log is not text.
    pub delimiter: Option<char>,
    /// Whether the first line names the columns; `None` if the log is not text.
    pub header: Option<bool>,
    /// Every column of the log, in order.
    pub columns: Vec<FoundColumn>,
    /// Number of rows that were examined.
    pub rows: u64,
    /// Warnings that a user should read before training.
    pub warnings: Vec<String>,
    /// Schema that reads the log. It does not say how many rows the tables have, since ids were not counted.
    pub schema: Schema,
}

/// A column of a discovered log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundColumn {
    /// Name in the header or the file; `column7` where there is none.
    pub name: String,
    /// Role of the column.
    pub role: Role,
    /// Kind of values in the column, in a word or two.
    #[serde(rename = "type")]
    pub kind: String,
    /// Share of rows without a value.
    pub missing: f64,
    /// Number of different values among the rows examined, or in the whole log once they were counted.
    pub distinct: u64,
    /// Reason why the column has this role.
    pub reason: String,
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The label, which the model learns to predict.
    Label,
    /// Time of each row.
    Time,
    /// A dense input of the model.
    Number,
    /// A sparse input of the model: one id, or a list of ids.
    Id,
    /// Weight of each row in the loss.
    Weight,
    /// No role: the column is left out.
    LeftOut,
}

impl Role {
    /// Name of the role in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Role::Label => "label",
            Role::Time => "time",
            Role::Number => "number",
            Role::Id => "id",
            Role::Weight => "weight",
            Role::LeftOut => "left out",
        }
    }
}

/// Discovers the log in `files`.
///
/// # Errors
/// Fails if a file is not a log, or if no column can be the label or an id; the error lists what was searched for, or the
/// columns.
pub fn discover(files: &[PathBuf], request: &Request) -> Result<Found, DataError> {
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
        return roles::assign(first, &sample, None, request);
    }
    let found = text::look(files)?;
    if found.criteo {
        return criteo::found(first, &found.sample, request);
    }
    let dialect = roles::Dialect { delimiter: found.delimiter, header: found.header };
    roles::assign(first, &found.sample, Some(dialect), request)
}

/// Discovers the log in a table, whose types say more than texts do.
///
/// # Errors
/// Fails if no column can be the label or an id; the error lists the columns.
pub fn discover_table(table: &Table, request: &Request) -> Result<Found, DataError> {
    roles::assign(Path::new(crate::table::NAME), &crate::table::sample(table), None, request)
}

/// Format of files whose columns are described by a schema: Parquet if the first begins as such files do, else text.
pub fn format_of(files: &[PathBuf]) -> Result<DataFormat, DataError> {
    match files.first().map(|file| is_parquet(file)).transpose()? {
        Some(true) => Ok(DataFormat::Parquet),
        Some(false) | None => Ok(DataFormat::Csv),
    }
}

/// Whether a file begins with the magic bytes of Parquet.
fn is_parquet(path: &Path) -> Result<bool, DataError> {
    let refuse = |error| DataError::file(path, error);
    let mut head = vec![];
    std::fs::File::open(path).map_err(refuse)?.take(4).read_to_end(&mut head).map_err(refuse)?;
    Ok(head == b"PAR1")
}

#[cfg(test)]
mod tests;
