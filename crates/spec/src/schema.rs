//! Schema: the meaning of the columns of a click log.
//!
//! A schema names the column of the label, those with numbers (dense) and those with ids (sparse). Files in TOML look
//! like this:
//!
//! ```
//! use spec::schema::{IdRule, Schema};
//! # fn parse(text: &str) -> Schema { toml::from_str(text).unwrap() }
//! let schema = parse(r#"
//!     delimiter = ","
//!     missing = ["NA"]
//!     label = { column = "clicked" }
//!     [[dense]]
//!     column = "price"
//!     transform = "log"
//!     [[sparse]]
//!     column = "user"
//!     rows = 100000
//!     [[sparse]]
//!     column = "tags"             # 3:0.5|17:1
//!     separator = "|"
//!     weight_separator = ":"
//!     ids = "vocabulary"
//!     min_count = 2
//!     rows = 5000
//! "#);
//! schema.check().unwrap();
//! assert_eq!(schema.sparse[1].ids, IdRule::Vocabulary);
//! ```
//!
//! A log may have several labels, each with its own output of the model, a weight for each row, and columns that are kept
//! to group rows by. These keys stand before the first `[[…]]`:
//!
//! ```
//! # let parse = |text: &str| -> spec::schema::Schema { toml::from_str(text).unwrap() };
//! let schema = parse(r#"
//!     weight = "importance"       # factor of a row's loss, at least 0
//!     keep = ["user"]
//!     [[labels]]
//!     column = "click"
//!     [[labels]]
//!     column = "buy"
//!     weight = 0.5                # factor of the loss of this label
//!     [[sparse]]
//!     column = "user"
//! "#);
//! schema.check().unwrap();
//! assert_eq!(schema.label_count(), 2);
//! ```

mod labels;

pub use labels::{LabelHead, LabelRule};

mod learnt;
mod transform;

pub use learnt::{LearntStep, LearntTransform};
pub use transform::{MAX_BUCKETS, Transform};

use crate::Pooling;
use crate::feature::{Feature, Hotness};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Schema of a log: the meaning of its columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Delimiter between the fields of a line. Text only.
    #[serde(default = "comma")]
    pub delimiter: char,
    /// Names of the columns in order, for text without a header line. By default the first line of each file is the header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Texts that mean "missing", besides the empty one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Column of the time of each row: a number (such as seconds), or text whose order is that of time (such as an ISO
    /// date). The column is an input of the model only if it is also listed as dense or sparse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Whether the rows of the log lie in the order of time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_time_order: bool,
    /// Label column of a log with one label.
    #[serde(default, skip_serializing_if = "LabelColumn::is_unset")]
    pub label: LabelColumn,
    /// Labels of a log with several, instead of `label`: an output of the model for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelHead>,
    /// Column of sample weights: the factor of each row in the loss and in metrics, at least 0. By default all rows weigh 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// Columns that are kept besides the inputs, to group rows by (`--group`, `--slice`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// Dense columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dense: Vec<DenseColumn>,
    /// Sparse columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sparse: Vec<SparseColumn>,
}

/// Label column, which says whether there was a click.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelColumn {
    /// Name of the column of the label.
    pub column: String,
    /// Smallest number that counts as 1, for columns such as ratings. By default the column holds 0 and 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positive_from: Option<f64>,
}

impl LabelColumn {
    /// Whether the schema names no column here.
    fn is_unset(&self) -> bool {
        self.column.is_empty() && self.positive_from.is_none()
    }
}

/// Dense column: numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenseColumn {
    /// Name of the column of numbers.
    pub column: String,
    /// Transform of a number before it is an input.
    #[serde(default)]
    pub transform: Transform,
    /// Input for a missing number, as it is after the transform.
    #[serde(default)]
    pub missing: f32,
}

/// Sparse column: ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SparseColumn {
    /// Name of the column of ids, and of its feature.
    pub column: String,
    /// Rule that maps ids to rows of the table.
    #[serde(default)]
    pub ids: IdRule,
    /// Number of rows of the table. By default a vocabulary has a row for each id, and hashes have the rows of the model's
    /// preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// Number of times an id must be seen to get a row of its own; rarer ids get the out-of-vocabulary row. Vocabularies
    /// only. Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub min_count: u64,
    /// Separator between the ids of a field. Text only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// Whether the column holds lists of ids. Parquet only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub list: bool,
    /// Separator between an id and its weight. Text only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_separator: Option<char>,
    /// Name of the column with the weights of the ids, one for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// Pooling: how the rows of a bag become one vector.
    #[serde(default)]
    pub pooling: Pooling,
    /// Mean number of ids per sample, for planning; by default the number that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ids: Option<u32>,
}

/// Rule that maps ids to rows of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdRule {
    /// The row is a hash of the id's text; a missing id hashes as the empty text.
    #[default]
    Hash,
    /// The row is the position in a list of frequent ids, the most frequent first; row 0 is for all others and for missing
    /// ids.
    Vocabulary,
    /// The id is the number of its row. A missing id is row 0.
    Index,
    /// The column holds numbers, and the row is that of the number's bucket: 1 for the smallest numbers, and so on. `rows` − 1
    /// buckets share the training rows equally, or fewer where many numbers are equal. A missing number is row 0.
    Buckets,
}

impl IdRule {
    /// Whether rows follow from what is learnt from the training rows when a log is prepared.
    pub fn is_learnt(self) -> bool {
        matches!(self, Self::Vocabulary | Self::Buckets)
    }
}

fn comma() -> char {
    ','
}
fn one() -> u64 {
    1
}
fn is_one(count: &u64) -> bool {
    *count == 1
}
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Error in a schema: the field that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct SchemaError {
    /// Name of the field, as in the file.
    pub field: String,
    /// Problem with the field.
    pub problem: String,
}

/// The most columns of a kind.
const MAX_COLUMNS: usize = 1 << 16;

impl Schema {
    /// Schema of Criteo's logs, Kaggle and Terabyte: the label, 13 counts and 26 ids, separated by tabs, without a header.
    pub fn criteo() -> Self {
        let counts: Vec<String> = (1..=13).map(|i| format!("I{i}")).collect();
        let ids: Vec<String> = (1..=26).map(|i| format!("C{i}")).collect();
        let columns = ["label".to_owned()].into_iter().chain(counts.clone()).chain(ids.clone()).collect();
        let dense =
            counts.into_iter().map(|column| DenseColumn { column, transform: Transform::Log, missing: 0.0 });
        Self {
            delimiter: '\t',
            columns: Some(columns),
            missing: vec![],
            time: None,
            in_time_order: false,
            label: LabelColumn { column: "label".into(), positive_from: None },
            labels: vec![],
            weight: None,
            keep: vec![],
            dense: dense.collect(),
            sparse: ids.into_iter().map(SparseColumn::hashed).collect(),
        }
    }

    /// Checks the schema, without any file.
    pub fn check(&self) -> Result<(), SchemaError> {
        let refuse = |field: String, problem: &str| Err(SchemaError { field, problem: problem.into() });
        let is_control = |c: char| c == '\n' || c == '\r' || c == '"' || !c.is_ascii();
        if is_control(self.delimiter) {
            return refuse("delimiter".into(), "one ASCII character, no quote and no line end");
        }
        if self.dense.len() > MAX_COLUMNS || self.sparse.len() > MAX_COLUMNS {
            return refuse("dense, sparse".into(), "more than 65536 columns of a kind");
        }
        if self.sparse.is_empty() {
            return refuse("sparse".into(), "a model needs at least one column of ids");
        }
        self.check_labels()?;
        if let Some(columns) = &self.columns {
            let known: HashSet<&str> = columns.iter().map(String::as_str).collect();
            if known.len() != columns.len() {
                return refuse("columns".into(), "two columns have the same name");
            }
            for (field, column) in self.used() {
                if !known.contains(column) {
                    return refuse(field, "`columns` has no column of that name");
                }
            }
            if self.time.as_deref().is_some_and(|time| !known.contains(time)) {
                return refuse("time".into(), "`columns` has no column of that name");
            }
        }
        let mut names = HashSet::new();
        for dense in &self.dense {
            if !names.insert(&dense.column) {
                return refuse(format!("dense.{}", dense.column), "stands twice in the schema");
            }
            if !dense.missing.is_finite() {
                return refuse(format!("dense.{}.missing", dense.column), "must be a finite number");
            }
            if let Err(problem) = dense.transform.check() {
                return refuse(format!("dense.{}.transform", dense.column), &problem);
            }
        }
        let mut names = HashSet::new();
        for sparse in &self.sparse {
            let field = |name: &str| format!("sparse.{}.{name}", sparse.column);
            if !names.insert(&sparse.column) {
                return refuse(format!("sparse.{}", sparse.column), "stands twice in the schema");
            }
            if sparse.rows.is_some_and(|rows| rows == 0 || rows > 1 << 32) {
                return refuse(field("rows"), "must lie between 1 and 2³²");
            }
            if sparse.ids == IdRule::Index && sparse.rows.is_none() {
                return refuse(field("rows"), "ids that are row numbers need the number of rows");
            }
            let buckets = sparse.rows.map_or(0, |rows| rows - 1);
            if sparse.ids == IdRule::Buckets && !(2..=MAX_BUCKETS).contains(&buckets) {
                return refuse(
                    field("rows"),
                    "ids that are buckets need rows from 3 to 10001: one more than the number of buckets",
                );
            }
            if sparse.ids != IdRule::Vocabulary && sparse.min_count != 1 {
                return refuse(
                    field("min_count"),
                    "only a vocabulary has a threshold; set ids = \"vocabulary\"",
                );
            }
            let characters = [("separator", sparse.separator), ("weight_separator", sparse.weight_separator)];
            for (name, character) in characters {
                if character.is_some_and(|c| is_control(c) || c == self.delimiter) {
                    return refuse(field(name), "one ASCII character, other than the delimiter and no quote");
                }
            }
            if sparse.separator.is_some() && sparse.separator == sparse.weight_separator {
                return refuse(field("weight_separator"), "must differ from the separator");
            }
            if sparse.weight_separator.is_some() && sparse.weights.is_some() {
                return refuse(field("weights"), "weights stand either in the field or in another column");
            }
            if sparse.mean_ids == Some(0) {
                return refuse(field("mean_ids"), "must be at least 1");
            }
        }
        Ok(())
    }

    /// Columns that are read, each with the field of the schema that names it.
    pub fn used(&self) -> impl Iterator<Item = (String, &str)> {
        let several = !self.labels.is_empty();
        let labels = self.all_labels().map(move |label| {
            let field = if several { format!("labels.{}", label.column) } else { "label.column".into() };
            (field, label.column)
        });
        let dense = self.dense.iter().map(|d| (format!("dense.{}", d.column), d.column.as_str()));
        let sparse = self.sparse.iter().map(|s| (format!("sparse.{}", s.column), s.column.as_str()));
        let weights = self.sparse.iter().filter_map(|s| {
            let weights = s.weights.as_deref()?;
            Some((format!("sparse.{}.weights", s.column), weights))
        });
        let weight = self.weight.iter().map(|column| ("weight".to_owned(), column.as_str()));
        let kept = self.keep.iter().map(|column| (format!("keep.{column}"), column.as_str()));
        labels.chain(dense).chain(sparse).chain(weights).chain(weight).chain(kept)
    }
}

impl SparseColumn {
    /// Sparse column with one hashed id per sample.
    pub fn hashed(column: String) -> Self {
        Self {
            column,
            ids: IdRule::Hash,
            rows: None,
            min_count: 1,
            separator: None,
            list: false,
            weight_separator: None,
            weights: None,
            pooling: Pooling::Sum,
            mean_ids: None,
        }
    }

    /// Whether a sample may have any number of ids.
    pub fn many(&self) -> bool {
        self.separator.is_some() || self.list
    }

    /// Whether ids have weights.
    pub fn weighted(&self) -> bool {
        self.weight_separator.is_some() || self.weights.is_some()
    }

    /// Feature of this column, over a table of `rows` rows, with `mean` ids per sample if a sample may have many.
    pub fn feature(&self, rows: usize, mean: u32) -> Feature {
        let hotness = if self.many() { Hotness::Many { mean: mean.max(1) } } else { Hotness::One };
        Feature {
            name: self.column.clone(),
            rows,
            pooling: self.pooling,
            hotness,
            weighted: self.weighted(),
            dim: None,
            format: None,
            cache: None,
            tt_rank: None,
        }
    }
}

#[cfg(test)]
mod tests;
