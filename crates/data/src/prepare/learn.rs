//! Learns vocabularies and the values of transforms in one pass over the training rows.
//!
//! Numbers are counted as ids are: sorted in bounded memory, with the rest in temporary files. Since every transform is
//! monotone, the results of its first steps have the order of the numbers, and the values of the next step follow from one
//! or two passes over the counts:
//!
//! ```text
//! mean        Σ n·x / Σ n                    deviation   √(Σ n·(x − mean)² / Σ n), 1 if it is 0
//! quantile q  linear between the numbers of rank ⌊h⌋ and ⌊h⌋ + 1, h = q·(Σ n − 1), as NumPy has it
//! buckets     boundaries at the quantiles 1/N … (N − 1)/N, each once, those below the largest number
//! ```
//!
//! Sums run from the smallest number to the largest, so that they do not depend on the order of rows or on threads.

use super::split::Divider;
use super::{Learnt, RawLog};
use crate::DataError;
use crate::decode::Progress;
use crate::number::{of_ordered_key, ordered_key};
use crate::vocabulary::{Counter, Vocabulary};
use spec::schema::{IdRule, LearntStep, LearntTransform, SparseColumn, Transform};
use std::path::Path;

/// What was learnt, and how often each id with a row was seen.
pub(super) struct Counted {
    pub learnt: Learnt,
    /// Counts of rows 1, 2, and so on, by sparse column; empty for columns without ids.
    pub counts: Vec<Vec<u64>>,
}

/// Learns what the schema of `log` asks for. If the log is split, only training samples count.
pub(super) fn learn(
    log: &RawLog,
    folder: &Path,
    mut divider: Option<&mut Divider>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Counted, DataError> {
    let schema = log.schema;
    let is_counted = |column: &&SparseColumn| column.ids.is_learnt();
    let numbers = schema.dense.iter().filter(|column| column.transform.is_learnt()).count();
    let counted = (schema.sparse.iter().filter(is_counted).count() + numbers) as u64;
    if counted == 0 {
        let vocabularies = schema.sparse.iter().map(|_| None).collect();
        let learnt = Learnt { vocabularies, transforms: None };
        return Ok(Counted { learnt, counts: vec![vec![]; schema.sparse.len()] });
    }
    // Half for the counters, the other half for reading and decoding.
    let share = log.memory / 2 / counted;
    let counter = |name: &str, wanted: bool| wanted.then(|| Counter::new(name, folder, share));
    let mut ids: Vec<Option<Counter>> =
        schema.sparse.iter().map(|column| counter(&column.column, column.ids.is_learnt())).collect();
    let mut dense: Vec<Option<Counter>> =
        schema.dense.iter().map(|column| counter(&column.column, column.transform.is_learnt())).collect();
    let mut halved = RawLog { memory: log.memory / 2, ..log.clone() };
    halved.reading.numbers = numbers > 0;
    let mut keys = vec![];
    halved.decode(&[], progress, &mut |samples| {
        let samples = divider.as_mut().map_or(samples, |divider| divider.divide(samples).0);
        for (counter, bags) in ids.iter_mut().zip(&samples.bags) {
            if let Some(counter) = counter {
                counter.add(&bags.ids)?;
            }
        }
        for (column, counter) in dense.iter_mut().enumerate() {
            let Some(counter) = counter else { continue };
            let numbers = samples.numbers.iter().skip(column).step_by(schema.dense.len());
            keys.clear();
            keys.extend(numbers.filter(|number| number.is_finite()).map(|&number| ordered_key(number)));
            counter.add(&keys)?;
        }
        Ok(())
    })?;
    let (mut vocabularies, mut counts) = (vec![], vec![]);
    for (column, counter) in schema.sparse.iter().zip(ids) {
        let (vocabulary, counted) = vocabulary(column, counter)?;
        vocabularies.push(vocabulary);
        counts.push(counted);
    }
    let mut transforms = vec![];
    for (column, counter) in schema.dense.iter().zip(dense) {
        let steps = match counter {
            None => column.transform.steps().iter().filter_map(LearntStep::fixed).collect(),
            Some(mut counter) => {
                counter.sort()?;
                learnt_steps(&column.transform, &counter)?
            }
        };
        transforms.push(LearntTransform { column: column.column.clone(), steps });
    }
    let transforms = (numbers > 0).then_some(transforms);
    Ok(Counted { learnt: Learnt { vocabularies, transforms }, counts })
}

/// Vocabulary of a column whose ids or numbers were counted, and the counts of its rows.
fn vocabulary(
    column: &SparseColumn,
    counter: Option<Counter>,
) -> Result<(Option<Vocabulary>, Vec<u64>), DataError> {
    let Some(mut counter) = counter else { return Ok((None, vec![])) };
    if column.ids != IdRule::Buckets {
        let (vocabulary, counts) = counter.finish_counted(column.min_count, column.rows)?;
        return Ok((Some(vocabulary), counts));
    }
    counter.sort()?;
    let numbers = Numbers { counter: &counter, steps: &[] };
    let boundaries = numbers.boundaries(column.rows.unwrap_or(0).saturating_sub(1))?;
    let refuse = |error: crate::vocabulary::VocabularyError| DataError::Vocabulary {
        column: column.column.clone(),
        problem: error.to_string(),
    };
    Ok((Some(Vocabulary::of_buckets(boundaries).map_err(refuse)?), vec![]))
}

/// Steps of a transform with the values that the counted numbers give them.
fn learnt_steps(transform: &Transform, counter: &Counter) -> Result<Vec<LearntStep>, DataError> {
    let mut steps = vec![];
    for step in transform.steps() {
        let numbers = Numbers { counter, steps: &steps };
        let learnt = match step {
            Transform::Standardise => numbers.standardise()?,
            Transform::ClipQuantiles(shares) => {
                let bounds = numbers.quantiles(shares)?;
                LearntStep::Clip {
                    low: bounds.first().copied().unwrap_or(0.0),
                    high: bounds.last().copied().unwrap_or(0.0),
                }
            }
            Transform::Bucketise(buckets) => {
                LearntStep::Bucketise { boundaries: numbers.boundaries(*buckets)? }
            }
            fixed => match LearntStep::fixed(fixed) {
                Some(fixed) => fixed,
                None => continue,
            },
        };
        steps.push(learnt);
    }
    Ok(steps)
}

/// Numbers of a column that were counted, after the first steps of a transform.
struct Numbers<'a> {
    counter: &'a Counter,
    steps: &'a [LearntStep],
}

impl Numbers<'_> {
    /// Calls `each` with every number and its count, numbers ascending. Numbers that the steps make equal come one by one.
    fn visit(&self, each: &mut dyn FnMut(f64, u64)) -> Result<(), DataError> {
        self.counter.visit(&mut |key, count| {
            if let Some(number) = of_ordered_key(key) {
                each(self.steps.iter().fold(number, |x, step| step.apply(x)), count);
            }
            Ok(())
        })
    }

    fn standardise(&self) -> Result<LearntStep, DataError> {
        let (mut total, mut sum) = (0u64, 0.0);
        self.visit(&mut |x, count| {
            total += count;
            sum += x * count as f64;
        })?;
        let mean = sum / total.max(1) as f64;
        let mut squares = 0.0;
        self.visit(&mut |x, count| squares += (x - mean).powi(2) * count as f64)?;
        let deviation = (squares / total.max(1) as f64).sqrt();
        // The deviation of equal numbers is 0 but for the rounding of their mean.
        let is_constant = deviation <= mean.abs() * f64::EPSILON;
        Ok(LearntStep::Standardise { mean, deviation: if is_constant { 1.0 } else { deviation } })
    }

    /// Quantiles at `shares`, which ascend; none if there are no numbers.
    fn quantiles(&self, shares: &[f64]) -> Result<Vec<f64>, DataError> {
        let mut total = 0u64;
        self.visit(&mut |_, count| total += count)?;
        if total == 0 {
            return Ok(vec![]);
        }
        let place = |share: f64| {
            let at = share * (total - 1) as f64;
            let below = at.floor();
            (below as u64, at - below)
        };
        // Numbers of ranks ⌊h⌋ and ⌊h⌋ + 1 for each share. Ranks ascend with shares.
        let mut found: Vec<(f64, f64)> = vec![(0.0, 0.0); shares.len()];
        let (mut lower, mut upper, mut passed) = (0, 0, 0);
        self.visit(&mut |x, count| {
            passed += count;
            while lower < shares.len() && place(shares[lower]).0 < passed {
                found[lower].0 = x;
                lower += 1;
            }
            while upper < shares.len() && (place(shares[upper]).0 + 1).min(total - 1) < passed {
                found[upper].1 = x;
                upper += 1;
            }
        })?;
        let between = |(&share, (a, b)): (&f64, (f64, f64))| {
            let part = place(share).1;
            // From the nearer side, as NumPy does, so that the result never lies outside.
            if part < 0.5 { a + (b - a) * part } else { b - (b - a) * (1.0 - part) }
        };
        Ok(shares.iter().zip(found).map(between).collect())
    }

    /// Boundaries of at most `buckets` buckets that share the numbers equally.
    fn boundaries(&self, buckets: usize) -> Result<Vec<f64>, DataError> {
        let shares: Vec<f64> = (1..=buckets).map(|bucket| bucket as f64 / buckets.max(1) as f64).collect();
        let mut boundaries = self.quantiles(&shares)?;
        // The last is the largest number. A boundary there would have nothing above it.
        let largest = boundaries.pop();
        boundaries.dedup();
        boundaries.retain(|boundary| Some(*boundary) < largest);
        Ok(boundaries)
    }
}

#[cfg(test)]
mod tests;
