//! What can go wrong with data.

use crate::bad_lines::{BadLine, BadLines};
use std::path::{Path, PathBuf};

/// What can be wrong with data, or with a request for it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file that cannot be read, written or understood.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A schema that cannot be used.
    #[error("schema: {0}")]
    Schema(#[from] spec::schema::SchemaError),
    /// A column of the schema that a file does not have.
    #[error("{}: no column `{column}`; the columns are {}", file.display(), listed(columns.iter().map(String::as_str)))]
    NoColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// The columns the file has.
        columns: Vec<String>,
    },
    /// The first bad line, where none is put up with.
    #[error("{0}")]
    BadLine(BadLine),
    /// Too many bad lines.
    #[error("{} of {} lines are bad ({:.2} %, at most {} % may be); the first are\n{}", bad.count, bad.lines,
        bad.share() * 100.0, max_share * 100.0, described(bad))]
    BadLines {
        /// The lines so far.
        bad: BadLines,
        /// The largest share that is put up with.
        max_share: f64,
    },
    /// A vocabulary that needs too much memory.
    #[error(
        "the vocabulary of column {column} has more than the {most} ids that fit into {memory} bytes; raise \
        min_count, set rows, or allow more memory"
    )]
    VocabularySize {
        /// The column.
        column: String,
        /// Ids that fit.
        most: u64,
        /// The memory allowed.
        memory: u64,
    },
    /// Ids of which no vocabulary can be made.
    #[error("the vocabulary of column {column}: {problem}")]
    Vocabulary {
        /// The column.
        column: String,
        /// What is wrong.
        problem: String,
    },
    /// Less memory than reading needs.
    #[error("reading needs at least {needed} bytes of memory, {allowed} are allowed")]
    Memory {
        /// The bytes needed.
        needed: u64,
        /// The bytes allowed.
        allowed: u64,
    },
    /// A thread ended in a panic: a mistake in this program.
    #[error("the {thread} panicked: {message}")]
    Panic {
        /// What it was doing.
        thread: &'static str,
        /// What it said.
        message: String,
    },
    /// A column of a file that cannot serve.
    #[error("{}: column {column}: {problem}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// What is wrong with it, and what would do.
        problem: String,
    },
    /// A column by which a log cannot be split.
    #[error("--split-by {column}: {problem}")]
    SplitBy {
        /// The column.
        column: String,
        /// What is wrong with its times, and what to do.
        problem: String,
    },
    /// Reading was asked to stop.
    #[error("stopped while the data was being read")]
    Stopped,
    /// A format that no reader reads.
    #[error("{format} data is not read from files")]
    Format {
        /// The format.
        format: &'static str,
    },
    /// A batch that was not read ahead in this order.
    #[error("the batch at {asked:?} was asked for, {next:?} was read ahead; please report this")]
    Order {
        /// Positions asked for.
        asked: std::ops::Range<u64>,
        /// Positions of the next batch; `None` when reading has ended.
        next: Option<std::ops::Range<u64>>,
    },
    /// A part of a batch has the wrong size.
    #[error("a batch has {got} for {what}, expected {expected}")]
    Size {
        /// The part.
        what: &'static str,
        /// Its size.
        got: usize,
        /// The size it should have.
        expected: usize,
    },
    /// A label that is neither 0 nor 1.
    #[error("sample {sample} has label {label}, neither 0 nor 1")]
    Label {
        /// The sample, counted in its batch.
        sample: usize,
        /// Its label.
        label: f32,
    },
    /// A dense value that is not a finite number.
    #[error("sample {sample} has dense feature {column} = {value}, not a finite number")]
    Dense {
        /// The sample, counted in its batch.
        sample: usize,
        /// The dense feature.
        column: usize,
        /// Its value.
        value: f32,
    },
    /// A feature's values begin at the wrong place.
    #[error("feature {feature} starts at value {got}, its lengths say {expected}")]
    Start {
        /// The feature.
        feature: String,
        /// Where it starts.
        got: usize,
        /// Where the lengths before it say it starts.
        expected: usize,
    },
    /// A bag of a single-hot feature without exactly one id.
    #[error("feature {feature}, sample {sample}: {length} ids, but the feature has exactly one")]
    Length {
        /// The feature.
        feature: String,
        /// The sample, counted in its batch.
        sample: usize,
        /// Ids in its bag.
        length: u32,
    },
    /// An id beyond its table.
    #[error("feature {feature}, sample {sample}: id {id} is outside the table's {rows} rows")]
    Id {
        /// The feature.
        feature: String,
        /// The sample, counted in its batch.
        sample: usize,
        /// The id.
        id: u32,
        /// Rows of the table.
        rows: usize,
    },
    /// A weight that is not finite, or not 1 on an unweighted feature.
    #[error("feature {feature}, sample {sample}: weight {weight} (finite when weighted, 1 otherwise)")]
    Weight {
        /// The feature.
        feature: String,
        /// The sample, counted in its batch.
        sample: usize,
        /// The weight.
        weight: f32,
    },
    /// Settings of a synthetic log that cannot be.
    #[error("synthetic data: {0}")]
    Synthetic(#[from] spec::synthetic::SyntheticError),
    /// A feature that no log can be drawn for.
    #[error("feature {feature}: {reason}")]
    Feature {
        /// The feature.
        feature: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A part of the synthetic logit that does not vary, so that it cannot be scaled.
    #[error(
        "synthetic data: {part} = {asked}, but that part is the same for all samples; set it to 0 or add rows"
    )]
    Constant {
        /// The field of the settings.
        part: &'static str,
        /// The standard deviation asked for.
        asked: f64,
    },
}

impl DataError {
    /// Something is wrong with the file or folder at `path`.
    pub fn file(path: impl AsRef<Path>, problem: impl ToString) -> Self {
        Self::File { path: path.as_ref().to_owned(), problem: problem.to_string() }
    }
}

/// The first of the names, with commas between them. They come from files, so their length and characters may be any.
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

/// One bad line below the other.
fn described(bad: &BadLines) -> String {
    bad.first.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
