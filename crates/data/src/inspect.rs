//! Statistics of a log, in one pass and little memory.
//!
//! ```
//! use data::Samples;
//! use data::inspect::Inspector;
//! use spec::schema::{Schema, SparseColumn};
//! let schema = Schema { dense: vec![], sparse: vec![SparseColumn::hashed("user".into())], ..Schema::criteo() };
//! let mut samples = Samples::new(1);
//! samples.labels = vec![0.0, 1.0, 0.0, 0.0];
//! samples.bags[0].ids = vec![7, 7, 8, 7];
//! let mut inspector = Inspector::new(&schema);
//! inspector.add(&samples);
//! let inspection = inspector.finish();
//! assert_eq!(inspection.click_rate, 0.25);
//! assert_eq!(inspection.sparse[0].distinct, 2);
//! assert_eq!(inspection.sparse[0].hottest[0].share, 0.75);
//! ```

mod extras;

pub use extras::{ExtrasInspection, KeptInspection, LabelInspection, WeightInspection};

use crate::sketch::{Distinct, Hottest};
use crate::{Bags, DataError, PreparedLog, Samples};
use extras::ExtrasInspector;
use serde::Serialize;
use spec::schema::{IdRule, Schema};
use spec::statistics::{FeatureStatistics, HotShare, LogStatistics};

/// Number of ids of a column that are reported as the most frequent.
const HOTTEST: usize = 10;
/// Number of counters per column: every id that makes up more than a thousandth of the column is found.
const COUNTERS: usize = 1024;

/// Statistics of a log. Shares and means over no samples are 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inspection {
    /// Number of samples.
    pub samples: u64,
    /// Number of samples with label 1.
    pub clicks: u64,
    /// Share of samples with label 1.
    pub click_rate: f64,
    /// Statistics of the dense columns, after the transform and with missing numbers replaced. Of a raw log, steps of a
    /// transform that are learnt when it is prepared, and those after them, are left out.
    pub dense: Vec<DenseInspection>,
    /// Statistics of the sparse columns.
    pub sparse: Vec<SparseInspection>,
    /// Statistics of what a row has besides one label and its inputs.
    #[serde(flatten)]
    pub extras: ExtrasInspection,
}

/// Statistics of a dense column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DenseInspection {
    /// The column.
    pub name: String,
    /// The smallest number.
    pub min: f32,
    /// Mean of the numbers.
    pub mean: f64,
    /// The largest number.
    pub max: f32,
    /// Share of zeros.
    pub zeros: f64,
}

/// Statistics of a sparse column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SparseInspection {
    /// The column.
    pub name: String,
    /// Number of different ids.
    pub distinct: u64,
    /// Whether `distinct` is exact; if not, its standard error is 0.8 %.
    pub distinct_is_exact: bool,
    /// Most frequent ids, the most frequent first.
    pub hottest: Vec<HotId>,
    /// Mean number of ids per sample.
    pub mean_ids: f64,
    /// Largest number of ids in a sample.
    pub max_ids: u32,
    /// Share of samples without ids.
    pub empty: f64,
    /// Suggested number of table rows: a round number at least a fifth above the number of different ids. For row numbers, the
    /// number of rows that they need.
    pub suggested_rows: u64,
    /// Number of rows that the ids need: one for each of them, or for row numbers one more than the largest.
    pub needed_rows: u64,
    /// Shares of the ids that the most frequent ones take together.
    pub hot_shares: Vec<HotShare>,
}

/// A frequent id of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotId {
    /// Key or row of the id, as in [`Samples`].
    pub key: u64,
    /// Text of the id, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Upper bound of how often the id occurs.
    pub count: u64,
    /// Largest amount by which `count` may be too large.
    pub count_error: u64,
    /// Share of the id among all ids of the column.
    pub share: f64,
}

/// Collects statistics of samples as they are read. Needs about 100 kB for each sparse column.
#[derive(Debug)]
pub struct Inspector {
    samples: u64,
    clicks: u64,
    dense: Vec<DenseColumn>,
    sparse: Vec<SparseColumn>,
    extras: ExtrasInspector,
}

#[derive(Debug)]
struct DenseColumn {
    name: String,
    min: f32,
    max: f32,
    sum: f64,
    zeros: u64,
}

#[derive(Debug)]
struct SparseColumn {
    name: String,
    rule: IdRule,
    distinct: Distinct,
    hottest: Hottest,
    ids: u64,
    largest: u64,
    max_ids: u32,
    empty: u64,
}

impl Inspection {
    /// Statistics for a planner of the tables that `schema` describes.
    pub fn statistics(&self, schema: &Schema) -> LogStatistics {
        let feature = |(seen, rows): (&SparseInspection, Option<usize>)| FeatureStatistics {
            name: seen.name.clone(),
            rows: rows.map_or(seen.needed_rows, |rows| rows as u64),
            mean_ids: seen.mean_ids,
            empty: seen.empty,
            max_ids: seen.max_ids,
            distinct_ids: seen.distinct,
            distinct_is_exact: seen.distinct_is_exact,
            hottest: seen.hot_shares.clone(),
        };
        let rows = schema.sparse.iter().map(|column| column.rows);
        LogStatistics { samples: self.samples, features: self.sparse.iter().zip(rows).map(feature).collect() }
    }
}

impl Inspector {
    /// Inspector of samples with this schema.
    pub fn new(schema: &Schema) -> Self {
        let dense = schema.dense.iter().map(|column| DenseColumn {
            name: column.column.clone(),
            min: f32::INFINITY,
            max: f32::NEG_INFINITY,
            sum: 0.0,
            zeros: 0,
        });
        let sparse = schema.sparse.iter().map(|column| SparseColumn {
            name: column.column.clone(),
            rule: column.ids,
            distinct: Distinct::default(),
            hottest: Hottest::new(COUNTERS),
            ids: 0,
            largest: 0,
            max_ids: 0,
            empty: 0,
        });
        let extras = ExtrasInspector::new(schema);
        Self { samples: 0, clicks: 0, dense: dense.collect(), sparse: sparse.collect(), extras }
    }

    /// Adds samples to the statistics.
    pub fn add(&mut self, samples: &Samples) {
        self.samples += samples.len() as u64;
        self.clicks += samples.first_labels().filter(|&label| label == 1.0).count() as u64;
        self.extras.add(samples);
        if !self.dense.is_empty() {
            for row in samples.dense.chunks_exact(self.dense.len()) {
                self.dense.iter_mut().zip(row).for_each(|(column, &value)| column.add(value));
            }
        }
        for (column, bags) in self.sparse.iter_mut().zip(&samples.bags) {
            column.add(bags, samples.len());
        }
    }

    /// Returns the statistics of all samples added.
    pub fn finish(self) -> Inspection {
        let samples = self.samples;
        Inspection {
            samples,
            clicks: self.clicks,
            click_rate: share(self.clicks, samples),
            dense: self.dense.into_iter().map(|column| column.finish(samples)).collect(),
            sparse: self.sparse.into_iter().map(|column| column.finish(samples)).collect(),
            extras: self.extras.finish(samples),
        }
    }
}

impl DenseColumn {
    fn add(&mut self, value: f32) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += f64::from(value);
        self.zeros += u64::from(value == 0.0);
    }

    fn finish(self, samples: u64) -> DenseInspection {
        let (min, max) = if samples == 0 { (0.0, 0.0) } else { (self.min, self.max) };
        let mean = self.sum / samples.max(1) as f64;
        DenseInspection { name: self.name, min, mean, max, zeros: share(self.zeros, samples) }
    }
}

impl SparseColumn {
    fn add(&mut self, bags: &Bags, samples: usize) {
        for &id in &bags.ids {
            self.distinct.add(id);
            self.hottest.add(id);
            self.largest = self.largest.max(id);
        }
        self.ids += bags.ids.len() as u64;
        if bags.lengths.is_empty() {
            self.max_ids = self.max_ids.max(u32::from(samples > 0));
        } else {
            self.max_ids = bags.lengths.iter().fold(self.max_ids, |most, &length| most.max(length));
            self.empty += bags.lengths.iter().filter(|&&length| length == 0).count() as u64;
        }
    }

    fn finish(self, samples: u64) -> SparseInspection {
        let distinct = self.distinct.count();
        let rows = if self.rule == IdRule::Index { self.largest.saturating_add(1) } else { distinct };
        let hottest = self.hottest.top(HOTTEST).into_iter().map(|hot| HotId {
            key: hot.key,
            text: None,
            count: hot.count,
            count_error: hot.error,
            share: share(hot.count, self.ids),
        });
        SparseInspection {
            name: self.name,
            distinct,
            distinct_is_exact: self.distinct.is_exact(),
            hottest: hottest.collect(),
            mean_ids: share(self.ids, samples),
            max_ids: self.max_ids,
            empty: share(self.empty, samples),
            suggested_rows: suggested_rows(rows),
            needed_rows: rows,
            hot_shares: hot_shares(&self.hottest, distinct, self.ids),
        }
    }
}

/// Statistics of a prepared log. A prepared log holds only the upper half of the key of a hashed id, so that among many
/// millions of ids some count as one.
pub fn inspect_prepared(log: &PreparedLog) -> Result<Inspection, DataError> {
    let mut inspector = Inspector::new(&log.manifest().schema);
    let mut samples = Samples::of(&log.manifest().schema);
    for block in 0..log.manifest().blocks() {
        log.read_block(block, &mut samples)?;
        inspector.add(&samples);
    }
    Ok(inspector.finish())
}

/// Shares of `ids` ids that 1, 10, 100, 1000, and 0.1 % and 1 % of the `distinct` ones take at least, as far as they have a
/// counter.
fn hot_shares(hottest: &Hottest, distinct: u64, ids: u64) -> Vec<HotShare> {
    let counts = hottest.at_least();
    let most = distinct.min(counts.len() as u64);
    let mut numbers = vec![1, 10, 100, 1000, distinct.div_ceil(1000), distinct.div_ceil(100)];
    numbers.retain(|&number| (1..=most).contains(&number));
    numbers.sort_unstable();
    numbers.dedup();
    let of =
        |&number: &u64| HotShare { ids: number, share: share(counts[..number as usize].iter().sum(), ids) };
    numbers.iter().map(of).collect()
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The smallest of 10, 15, 20, 30, 50, 70, 100, 150, … that is at least 1.2 × `ids`; at most 2³².
fn suggested_rows(ids: u64) -> u64 {
    const MOST: u64 = 1 << 32;
    let wanted = ids.saturating_add(ids.div_ceil(5));
    let steps = (0..9).flat_map(|power| [10, 15, 20, 30, 50, 70].map(|step| step * 10u64.pow(power)));
    steps.filter(|&rows| rows <= MOST).find(|&rows| rows >= wanted).unwrap_or(MOST)
}

#[cfg(test)]
mod tests;
