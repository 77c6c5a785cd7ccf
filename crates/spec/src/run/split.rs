//! Split of a log: rows that are kept from training, to evaluate on.
//!
//! ```
//! use spec::run::{DataConfig, DataFormat, SplitBy};
//! use spec::schema::Schema;
//! let mut data = DataConfig { format: Some(DataFormat::Csv), split: Some(0.1), ..DataConfig::default() };
//! let mut schema = Schema::criteo();
//! assert_eq!(data.split_of(&schema)?.unwrap().by, SplitBy::Numbers);
//! schema.time = Some("I1".into());
//! assert_eq!(data.split_of(&schema)?.unwrap().by, SplitBy::Column("I1".into()));
//! schema.in_time_order = true;
//! assert_eq!(data.split_of(&schema)?.unwrap().by, SplitBy::Order);
//! # Ok::<(), spec::run::RunError>(())
//! ```

use super::RunError;
use super::config::{DataConfig, DataFormat};
use crate::schema::Schema;
use std::fmt;

/// Split of a log: the share of the rows to evaluate on, and the rule that selects them.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Share of the rows to evaluate on, between 0 and 1.
    pub share: f64,
    /// Rule that selects the rows to evaluate on.
    pub by: SplitBy,
}

/// Rule that selects the rows to evaluate on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitBy {
    /// The last rows of the log.
    Order,
    /// The rows with the latest times in this column.
    Column(String),
    /// Rows by a hash of their number, for logs without times.
    Numbers,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.by {
            SplitBy::Order => write!(f, "{} by the order of the log", self.share),
            SplitBy::Column(column) => write!(f, "{} by column {column}", self.share),
            SplitBy::Numbers => write!(f, "{} by a hash of row numbers", self.share),
        }
    }
}

impl DataFormat {
    /// Whether logs of this format are in the order of time, whatever a schema says, as Criteo's are.
    pub fn is_in_time_order(self) -> bool {
        self == DataFormat::CriteoTsv
    }
}

impl DataConfig {
    /// Split of the training log; `None` if none is requested.
    pub fn split_of(&self, schema: &Schema) -> Result<Option<Split>, RunError> {
        self.check_split()?;
        let Some(share) = self.split else { return Ok(None) };
        let ordered = schema.in_time_order || self.format.unwrap_or_default().is_in_time_order();
        let by = match (&self.split_by, &schema.time) {
            (Some(column), _) => SplitBy::Column(column.clone()),
            (None, _) if ordered => SplitBy::Order,
            (None, Some(time)) => SplitBy::Column(time.clone()),
            (None, None) => SplitBy::Numbers,
        };
        Ok(Some(Split { share, by }))
    }

    /// Fails if the requested split is impossible.
    pub fn check_split(&self) -> Result<(), RunError> {
        let refuse = |problem: String| Err(RunError::new("data.split (--split)", problem));
        let Some(share) = self.split else {
            return match &self.split_by {
                None => Ok(()),
                Some(column) => {
                    let problem = format!(
                        "{column} orders the rows of a split, but no split is requested; add --split 0.1"
                    );
                    Err(RunError::new("data.split_by (--split-by)", problem))
                }
            };
        };
        if !(share > 0.0 && share < 1.0) {
            return refuse(format!(
                "{share} is not a share of the rows; use a number between 0 and 1 (0.1 is usual)"
            ));
        }
        if !self.eval.is_empty() {
            return refuse("there is evaluation data already (--eval); give one of the two".into());
        }
        match self.format.unwrap_or_default() {
            DataFormat::Synthetic => refuse(
                "a synthetic log has evaluation samples of its own (--eval-samples); leave it out, or name files with \
                 --data"
                    .into(),
            ),
            DataFormat::Prepared => refuse(format!(
                "a prepared log is not split any more; `campanile data prepare --split {share} --out DIR` writes DIR/train \
                 and DIR/eval, for --data and --eval"
            )),
            DataFormat::CriteoTsv | DataFormat::Csv | DataFormat::Parquet => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
