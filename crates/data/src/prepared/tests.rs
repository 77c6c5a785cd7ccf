//! Logs for the tests, and what a batch of them should be.

mod damage;
mod extras;
mod round_trip;
mod writing;

use super::*;
use crate::{Batch, Samples};
use proptest::prelude::*;
use spec::schema::{DenseColumn, IdRule, LabelColumn, Schema, SparseColumn, Transform};
use std::ops::Range;
use std::path::Path;

/// A whole log as a reader would give it, sample by sample.
#[derive(Clone, Debug)]
struct Log {
    schema: Schema,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    label: f32,
    dense: Vec<f32>,
    bags: Vec<Vec<(u64, f32)>>,
}

/// Rows of tables that are not hashed.
const ROWS: u64 = 50;
/// Rows of tables that are.
const HASHED_ROWS: usize = 1000;

fn column(name: usize, kind: usize) -> SparseColumn {
    let mut column = SparseColumn::hashed(format!("C{name}"));
    match kind % 3 {
        0 => (),
        1 => column.ids = IdRule::Vocabulary,
        _ => (column.ids, column.rows) = (IdRule::Index, Some(ROWS as usize)),
    }
    column.separator = (kind / 3 % 2 == 1).then_some('|');
    column.weight_separator = (kind / 6 % 2 == 1).then_some(':');
    column
}

fn schema(dense: usize, kinds: &[usize]) -> Schema {
    Schema {
        time: None,
        in_time_order: false,
        delimiter: ',',
        columns: None,
        missing: vec![],
        label: LabelColumn { column: "label".into(), positive_from: Some(0.1) },
        dense: (0..dense)
            .map(|i| DenseColumn { column: format!("I{i}"), transform: Transform::None, missing: 0.1 })
            .collect(),
        sparse: kinds.iter().enumerate().map(|(name, &kind)| column(name, kind)).collect(),
        ..Schema::criteo()
    }
}

fn sample(schema: &Schema) -> impl Strategy<Value = Sample> + use<> {
    let bags: Vec<_> = schema
        .sparse
        .iter()
        .map(|column| {
            let ids = if column.ids == IdRule::Hash { 0..=u64::MAX } else { 0..=ROWS - 1 };
            let lengths = if column.many() { 0..5 } else { 1..2usize };
            prop::collection::vec((ids, -2f32..2.0), lengths)
        })
        .collect();
    let dense = prop::collection::vec(-9f32..9.0, schema.dense.len());
    (any::<bool>(), dense, bags).prop_map(|(click, dense, bags)| Sample { label: click.into(), dense, bags })
}

/// Logs with up to `most` samples.
fn log(most: usize) -> impl Strategy<Value = Log> {
    (0..3usize, prop::collection::vec(0..12usize, 1..5)).prop_flat_map(move |(dense, kinds)| {
        let schema = schema(dense, &kinds);
        prop::collection::vec(sample(&schema), 0..=most)
            .prop_map(move |samples| Log { schema: schema.clone(), samples })
    })
}

impl Log {
    /// One log with every kind of column, the same in every run.
    fn example(samples: u64) -> Self {
        let schema = schema(2, &(0..12).collect::<Vec<_>>());
        let stream = spec::random::RandomSequence::new(5, "example");
        let mut at = 0;
        let mut draw = || {
            at += 1;
            stream.bits(at)
        };
        let mut bag = |column: &SparseColumn| {
            let length = if column.many() { draw() % 4 } else { 1 };
            let id = |bits| if column.ids == IdRule::Hash { bits } else { bits % ROWS };
            (0..length).map(|_| (id(draw()), (draw() % 8) as f32)).collect()
        };
        let mut sample = |i: u64| Sample {
            label: i.is_multiple_of(3).into(),
            dense: vec![i as f32, -1.0],
            bags: schema.sparse.iter().map(&mut bag).collect(),
        };
        Self { samples: (0..samples).map(&mut sample).collect(), schema: schema.clone() }
    }

    /// Some of its samples as readers hand them over.
    fn samples(&self, range: Range<usize>) -> Samples {
        let mut samples = Samples::new(self.schema.sparse.len());
        for sample in &self.samples[range] {
            samples.labels.push(sample.label);
            samples.dense.extend(&sample.dense);
            for ((bags, bag), column) in samples.bags.iter_mut().zip(&sample.bags).zip(&self.schema.sparse) {
                if column.many() {
                    bags.lengths.push(bag.len() as u32);
                }
                bags.ids.extend(bag.iter().map(|&(id, _)| id));
                if column.weighted() {
                    bags.weights.extend(bag.iter().map(|&(_, weight)| weight));
                }
            }
        }
        samples
    }

    fn rows(&self) -> Vec<Option<usize>> {
        let rows = |column: &SparseColumn| (column.ids == IdRule::Vocabulary).then_some(ROWS as usize);
        self.schema.sparse.iter().map(rows).collect()
    }

    /// Writes the log, some samples at a time.
    fn write(&self, folder: &Path, block_samples: u32, at_a_time: usize) -> Manifest {
        let options = WriterOptions { block_samples };
        let mut writer = Writer::create(folder, &self.schema, &self.rows(), options).unwrap();
        for start in (0..self.samples.len()).step_by(at_a_time) {
            writer.append(&self.samples(start..self.samples.len().min(start + at_a_time))).unwrap();
        }
        writer.finish(About::default()).unwrap()
    }

    /// What a batch of these samples should be, slowly.
    fn batch(&self, numbers: &[u64]) -> Batch {
        let samples: Vec<&Sample> = numbers.iter().map(|&i| &self.samples[i as usize]).collect();
        let mut batch = Batch { samples: samples.len(), feature_starts: vec![0], ..Batch::default() };
        batch.labels = samples.iter().map(|sample| sample.label).collect();
        batch.dense = samples.iter().flat_map(|sample| sample.dense.clone()).collect();
        let any_weighted = self.schema.sparse.iter().any(SparseColumn::weighted);
        for (f, column) in self.schema.sparse.iter().enumerate() {
            for sample in &samples {
                batch.lengths.push(sample.bags[f].len() as u32);
                for &(id, weight) in &sample.bags[f] {
                    let hashed = (u128::from(id >> 32) * HASHED_ROWS as u128) >> 32;
                    batch.values.push(if column.ids == IdRule::Hash { hashed as u32 } else { id as u32 });
                    if any_weighted {
                        batch.weights.push(if column.weighted() { weight } else { 1.0 });
                    }
                }
            }
            batch.feature_starts.push(batch.values.len());
        }
        batch
    }
}

/// A reader of the log in `folder`.
fn bound(folder: &Path) -> Result<BoundLog, crate::DataError> {
    let log = std::sync::Arc::new(PreparedLog::open(folder)?);
    let features = log.features(|_| Some(HASHED_ROWS))?;
    let dense = log.manifest().dense.len();
    log.bind(&features, dense)
}
