//! Statistics of a log: what a planner should know of the ids that tables are asked for.
//!
//! ```
//! use spec::statistics::LogStatistics;
//! let text = r#"{ "samples": 1000, "features": [{
//!     "name": "user", "rows": 500, "mean_ids": 2.0, "empty": 0.1, "max_ids": 7, "distinct_ids": 400, "distinct_is_exact": true,
//!     "hottest": [{ "ids": 1, "share": 0.25 }, { "ids": 4, "share": 0.5 }] }] }"#;
//! let statistics: LogStatistics = serde_json::from_str(text).unwrap();
//! let user = statistics.feature("user").unwrap();
//! assert_eq!(user.share_of_hottest(4), 0.5);
//! // Of 100 lookups half are of four ids, and nearly all others differ.
//! assert!((50.0..54.0).contains(&user.distinct_in(100.0)));
//! ```

use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Statistics of a log: how its samples use the tables of a model. `campanile data inspect --stats` writes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct LogStatistics {
    /// Number of samples that were counted.
    pub samples: u64,
    /// Statistics of the sparse features, in the order of the log's columns.
    pub features: Vec<FeatureStatistics>,
}

/// Statistics of the ids of a sparse feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureStatistics {
    /// Name of the feature.
    pub name: String,
    /// Number of table rows: as the schema of the log says, or else as many as its ids need.
    pub rows: u64,
    /// Mean number of ids per sample.
    pub mean_ids: f64,
    /// Share of samples without ids.
    pub empty: f64,
    /// Largest number of ids in a sample.
    pub max_ids: u32,
    /// Number of different ids.
    pub distinct_ids: u64,
    /// Whether `distinct_ids` is exact; if not, its standard error is 0.8 %.
    pub distinct_is_exact: bool,
    /// Shares of the lookups that the most frequent ids take, for more and more ids: 1, 10, 100, 1000, and 0.1 % and 1 % of
    /// the different ids as far as frequent ids were counted.
    pub hottest: Vec<HotShare>,
}

/// Share of the lookups of a feature that its most frequent ids take together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotShare {
    /// Number of ids, the most frequent ones.
    pub ids: u64,
    /// Share of all lookups that these ids take at least: a log with many different ids is counted in bounded memory.
    pub share: f64,
}

/// Statistics as they stand in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    samples: u64,
    features: Vec<FeatureStatistics>,
}

/// Reason why statistics contradict themselves.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StatisticsError {
    /// Two features have the same name.
    #[error("statistics have the feature {0} twice; give every feature once")]
    Twice(String),
    /// A number is not possible.
    #[error("statistics of feature {feature}: {field} is {value}; it must be {expected}")]
    Value {
        /// Name of the feature.
        feature: String,
        /// Field that holds the number.
        field: &'static str,
        /// Number that was found.
        value: f64,
        /// Range of possible numbers, in words.
        expected: &'static str,
    },
}

impl TryFrom<Unchecked> for LogStatistics {
    type Error = StatisticsError;

    fn try_from(Unchecked { samples, features }: Unchecked) -> Result<Self, StatisticsError> {
        let mut names = HashSet::new();
        for feature in &features {
            if !names.insert(feature.name.as_str()) {
                return Err(StatisticsError::Twice(feature.name.clone()));
            }
            feature.check()?;
        }
        Ok(Self { samples, features })
    }
}

impl LogStatistics {
    /// Statistics of the feature with this name.
    pub fn feature(&self, name: &str) -> Option<&FeatureStatistics> {
        self.features.iter().find(|feature| feature.name == name)
    }
}

impl FeatureStatistics {
    fn check(&self) -> Result<(), StatisticsError> {
        let refuse = |field, value, expected| {
            Err(StatisticsError::Value { feature: self.name.clone(), field, value, expected })
        };
        if !(self.mean_ids.is_finite() && self.mean_ids >= 0.0) {
            return refuse("mean_ids", self.mean_ids, "a number that is not negative");
        }
        if !(0.0..=1.0).contains(&self.empty) {
            return refuse("empty", self.empty, "between 0 and 1");
        }
        let (mut ids, mut share) = (0, 0.0);
        for hot in &self.hottest {
            if hot.ids <= ids {
                return refuse("hottest.ids", hot.ids as f64, "above the number before it");
            }
            if !(share..=1.0).contains(&hot.share) {
                return refuse("hottest.share", hot.share, "between the share before it and 1");
            }
            (ids, share) = (hot.ids, hot.share);
        }
        Ok(())
    }

    /// Share of the lookups that the `ids` most frequent ids take: counted where it was counted, and between two counts in
    /// proportion. Ids beyond those that were counted are taken as equally frequent.
    pub fn share_of_hottest(&self, ids: u64) -> f64 {
        let mut before = HotShare { ids: 0, share: 0.0 };
        for step in self.steps() {
            if ids <= step.ids {
                let part = (ids - before.ids) as f64 / (step.ids - before.ids) as f64;
                return before.share + part * (step.share - before.share);
            }
            before = step;
        }
        1.0
    }

    /// Number of different ids to expect among `lookups` lookups: `Σ 1 − (1 − p)^lookups` over the ids, where `p` is the share
    /// of an id.
    pub fn distinct_in(&self, lookups: f64) -> f64 {
        let (mut distinct, mut before) = (0.0, HotShare { ids: 0, share: 0.0 });
        for step in self.steps() {
            let ids = (step.ids - before.ids) as f64;
            let each = ((step.share - before.share) / ids).clamp(0.0, 1.0);
            distinct += ids * -(lookups * (-each).ln_1p()).exp_m1();
            before = step;
        }
        distinct.min(lookups)
    }

    /// Steps of the shares, of which the last is all ids.
    fn steps(&self) -> impl Iterator<Item = HotShare> {
        let counted = self.hottest.last().map_or(0, |hot| hot.ids);
        let rest = (self.distinct_ids > counted).then_some(HotShare { ids: self.distinct_ids, share: 1.0 });
        self.hottest.iter().copied().chain(rest)
    }
}

#[cfg(test)]
mod tests;
