//! Errors of reading and writing data.

use crate::bad_lines::{BadLine, BadLines};
use std::path::{Path, PathBuf};

/// Error of reading or writing data.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file or folder cannot be read, written or understood.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Description of the problem, and what to do about it.
        problem: String,
    },
    /// The schema is invalid.
    #[error("schema: {0}")]
    Schema(#[from] spec::schema::SchemaError),
    /// A file lacks a column of the schema.
    #[error("{}: no column `{column}`; the columns are {}", file.display(), listed(columns.iter().map(String::as_str)))]
    NoColumn {
        /// Path of the file.
        file: PathBuf,
        /// Name of the missing column.
        column: String,
        /// Names of the columns of the file.
        columns: Vec<String>,
    },
    /// A bad line, in strict mode.
    #[error("{0}")]
    BadLine(BadLine),
    /// The share of bad lines is too large.
    #[error("{} of {} lines are bad ({:.2} %, at most {} % may be); the first are\n{}", bad.count, bad.lines,
        bad.share() * 100.0, max_share * 100.0, described(bad))]
    BadLines {
        /// Bad lines so far.
        bad: BadLines,
        /// Largest share of bad lines that is accepted.
        max_share: f64,
    },
    /// A vocabulary needs more memory than is allowed.
    #[error(
        "the vocabulary of column {column} has more than the {most} ids that fit into {memory} bytes; raise \
        min_count, set rows, or allow more memory"
    )]
    VocabularySize {
        /// Column of the vocabulary.
        column: String,
        /// Number of ids that fit into the memory.
        most: u64,
        /// Memory that is allowed, in bytes.
        memory: u64,
    },
    /// The ids of a column cannot make a vocabulary.
    #[error("the vocabulary of column {column}: {problem}")]
    Vocabulary {
        /// Column of the vocabulary.
        column: String,
        /// Description of the problem.
        problem: String,
    },
    /// The learnt values of transforms are missing or not those of the schema.
    #[error("transforms of the dense columns: {problem}")]
    Transforms {
        /// Description of the problem.
        problem: String,
    },
    /// The memory limit is too low for reading.
    #[error(
        "reading the log needs at least {needed} bytes of memory, but {allowed} are allowed; raise the memory limit"
    )]
    Memory {
        /// Memory that is needed, in bytes.
        needed: u64,
        /// Memory that is allowed, in bytes.
        allowed: u64,
    },
    /// A thread panicked, which is a defect of this program.
    #[error("the {thread} panicked: {message}")]
    Panic {
        /// Role of the thread: `reader` or `parser`.
        thread: &'static str,
        /// Message of the panic.
        message: String,
    },
    /// A column of a file has the wrong type or values.
    #[error("{}: column {column}: {problem}", path.display())]
    Column {
        /// Path of the file.
        path: PathBuf,
        /// Name of the column.
        column: String,
        /// Description of the problem, and what the column should hold.
        problem: String,
    },
    /// The log cannot be split by this column.
    #[error("--split-by {column}: {problem}")]
    SplitBy {
        /// Name of the column.
        column: String,
        /// What is wrong with the times in the column, and what to do about it.
        problem: String,
    },
    /// Reading was stopped on request.
    #[error("stopped while the data was being read")]
    Stopped,
    /// Data of this format is not stored in files.
    #[error("data of format {format} is not read from files; use criteo-tsv, csv, parquet or prepared")]
    Format {
        /// Name of the format.
        format: &'static str,
    },
    /// A batch was requested in another order than it was read ahead, which is a defect of this program.
    #[error(
        "the batch at positions {asked:?} was requested, but {next:?} was read ahead; please report this"
    )]
    Order {
        /// Positions that were requested.
        asked: std::ops::Range<u64>,
        /// Positions of the next batch that was read ahead; `None` if reading has ended.
        next: Option<std::ops::Range<u64>>,
    },
    /// A part of a batch has the wrong size.
    #[error("a batch has {got} for {what}, expected {expected}")]
    Size {
        /// Name of the part.
        what: &'static str,
        /// Size of the part.
        got: usize,
        /// Size that the part should have.
        expected: usize,
    },
    /// A label is neither 0 nor 1.
    #[error("sample {sample} has label {label}, neither 0 nor 1")]
    Label {
        /// Index of the sample in its batch.
        sample: usize,
        /// Label of the sample.
        label: f32,
    },
    /// A sample weight is negative or not a finite number.
    #[error("sample {sample} has weight {weight}; expected a finite number of at least 0")]
    SampleWeight {
        /// Index of the sample in its batch.
        sample: usize,
        /// Weight of the sample.
        weight: f32,
    },
    /// A dense input is not a finite number.
    #[error("sample {sample} has dense feature {column} = {value}, not a finite number")]
    Dense {
        /// Index of the sample in its batch.
        sample: usize,
        /// Index of the dense feature.
        column: usize,
        /// Value of the dense feature.
        value: f32,
    },
    /// The ids of a feature begin at the wrong offset in a batch.
    #[error("feature {feature} starts at value {got}, but its lengths add up to {expected}")]
    Start {
        /// Name of the feature.
        feature: String,
        /// Offset at which the ids begin.
        got: usize,
        /// Offset that follows from the bag lengths.
        expected: usize,
    },
    /// A bag of a single-hot feature does not hold exactly one id.
    #[error("feature {feature}, sample {sample}: {length} ids, but the feature has exactly one")]
    Length {
        /// Name of the feature.
        feature: String,
        /// Index of the sample in its batch.
        sample: usize,
        /// Number of ids in the bag.
        length: u32,
    },
    /// An id is not a row of its table.
    #[error("feature {feature}, sample {sample}: id {id} is outside the table's {rows} rows")]
    Id {
        /// Name of the feature.
        feature: String,
        /// Index of the sample in its batch.
        sample: usize,
        /// Value of the id.
        id: u32,
        /// Number of rows of the table.
        rows: usize,
    },
    /// A weight is not finite, or not 1 for an unweighted feature.
    #[error("feature {feature}, sample {sample}: weight {weight} (finite when weighted, 1 otherwise)")]
    Weight {
        /// Name of the feature.
        feature: String,
        /// Index of the sample in its batch.
        sample: usize,
        /// Weight of the id.
        weight: f32,
    },
    /// The settings of a synthetic log are invalid.
    #[error("synthetic data: {0}")]
    Synthetic(#[from] spec::synthetic::SyntheticError),
    /// A synthetic log cannot be drawn for this feature.
    #[error("feature {feature}: {reason}")]
    Feature {
        /// Name of the feature.
        feature: String,
        /// What is wrong with the feature.
        reason: &'static str,
    },
    /// A part of the synthetic logit is constant, so that it cannot be scaled.
    #[error(
        "synthetic data: {part} = {asked}, but that part is the same for all samples; set it to 0 or add rows"
    )]
    Constant {
        /// Field of the settings.
        part: &'static str,
        /// Standard deviation that was requested.
        asked: f64,
    },
}

impl DataError {
    /// Makes an error about the file or folder at `path`.
    pub fn file(path: impl AsRef<Path>, problem: impl ToString) -> Self {
        Self::File { path: path.as_ref().to_owned(), problem: problem.to_string() }
    }
}

/// Lists the first names, separated by commas. The names come from files, so they are cut and escaped.
pub(crate) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 50;
    const LONGEST: usize = 40;
    let more = names.len().saturating_sub(MOST);
    let shown = |name: &str| {
        let rest = if name.chars().nth(LONGEST).is_some() { "…" } else { "" };
        format!("{}{rest}", name.chars().take(LONGEST).collect::<String>().escape_debug())
    };
    let first = names.take(MOST).map(shown).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// Lists the first bad lines, one per line.
fn described(bad: &BadLines) -> String {
    bad.first.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
