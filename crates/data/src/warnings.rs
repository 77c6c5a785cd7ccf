//! Logs that train, but teach the wrong thing.
//!
//! Checks without side effects, for whoever looks at a log or trains on it:
//!
//! | check | what it looks at |
//! |---|---|
//! | the label is an input, too | the schema |
//! | the time is an input as a number | the schema, or the range of a column |
//! | rows are sorted by label | the labels, in order |
//!
//! ```
//! use data::warnings::{LabelOrder, of_schema};
//! use spec::schema::{Schema, SparseColumn};
//! let mut schema = Schema::criteo();
//! assert!(of_schema(&schema).is_empty());
//! schema.sparse.push(SparseColumn::hashed("label".into()));
//! assert!(of_schema(&schema)[0].contains("`label` is an input too"));
//!
//! let mut order = LabelOrder::default();
//! order.add(&[[0.0; 30], [1.0; 30]].concat());
//! assert!(order.warning().is_some());
//! ```

use crate::inspect::Inspection;
use crate::{DataError, PreparedLog, Samples};
use spec::schema::{Schema, Transform};

/// Fewer samples than this say nothing of their order.
const ENOUGH: u64 = 20;
/// Blocks of a prepared log that are looked at.
const BLOCKS: u64 = 32;

/// What the columns of a schema are used for that they should not be.
pub fn of_schema(schema: &Schema) -> Vec<String> {
    let label = &schema.label.column;
    let mut warnings = vec![];
    let inputs = schema.used().filter(|(field, _)| field != "label.column");
    for (field, _) in inputs.filter(|(_, column)| column == label) {
        warnings.push(format!(
            "the label `{label}` is an input too ({field}): the model reads the answer. Take it out of the schema"
        ));
    }
    let time = schema.time.as_deref();
    for dense in schema.dense.iter().filter(|dense| Some(dense.column.as_str()) == time) {
        warnings.push(time_as_number(&dense.column));
    }
    warnings
}

/// Columns of numbers whose values look like times.
pub fn of_numbers(schema: &Schema, inspection: &Inspection) -> Vec<String> {
    let columns = schema.dense.iter().zip(&inspection.dense);
    let times = columns.filter(|(column, seen)| {
        // What was put in place of missing numbers is no time, and neither is a mean below the smallest.
        let smallest = if seen.min == column.missing { seen.max } else { seen.min };
        let plain = |x: f64| if column.transform == Transform::Log { x.exp_m1() } else { x };
        let (min, max) = (plain(f64::from(smallest)), plain(f64::from(seen.max)));
        let known = schema.time.as_ref() == Some(&column.column);
        !known && crate::discover::is_time_range(min, max)
    });
    times.map(|(column, _)| time_as_number(&column.column)).collect()
}

fn time_as_number(column: &str) -> String {
    format!(
        "column `{column}` looks like a timestamp and is an input as a number: times to come lie beyond everything the \
         model has seen. Name it as `time` in the schema instead, and take it out of `dense`"
    )
}

/// Whether labels come sorted, seen in the order of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LabelOrder {
    samples: u64,
    changes: u64,
    last: Option<f32>,
}

impl LabelOrder {
    /// Looks at the labels that follow.
    pub fn add(&mut self, labels: &[f32]) {
        self.samples += labels.len() as u64;
        for &label in labels {
            self.changes += u64::from(self.last.is_some_and(|last| last != label));
            self.last = Some(label);
        }
    }

    /// What to say of labels that are sorted.
    pub fn warning(&self) -> Option<String> {
        let sorted = self.changes == 1 && self.samples >= ENOUGH;
        sorted.then(|| {
            "the rows are sorted by label: training sees one label first and then the other, and the last rows are all of \
             one kind. Shuffle the file, or pass --shuffle N with N as large as the log"
                .into()
        })
    }
}

/// The warnings that a prepared log gives rise to. Of a long one, some blocks are looked at.
///
/// # Errors
/// If a block cannot be read.
pub fn of_log(log: &PreparedLog) -> Result<Vec<String>, DataError> {
    let manifest = log.manifest();
    let mut warnings = of_schema(&manifest.schema);
    let (mut order, mut samples) = (LabelOrder::default(), Samples::default());
    let blocks = manifest.blocks();
    for block in (0..blocks).step_by((blocks as u64).div_ceil(BLOCKS).max(1) as usize) {
        log.read_block(block, &mut samples)?;
        order.add(&samples.labels);
    }
    warnings.extend(order.warning());
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::Inspector;
    use spec::schema::{DenseColumn, SparseColumn};

    #[test]
    fn sorted_labels_are_noticed() {
        let order = |labels: &[f32]| {
            let mut order = LabelOrder::default();
            labels.chunks(7).for_each(|labels| order.add(labels));
            order.warning().is_some()
        };
        let (zeros, ones) = ([0.0; 30], [1.0; 15]);
        assert!(order(&[&zeros[..], &ones].concat()) && order(&[&ones[..], &zeros].concat()));
        assert!(!order(&zeros) && !order(&[0.0, 1.0]) && !order(&[&zeros[..], &ones, &zeros].concat()));
    }

    #[test]
    fn times_as_numbers_are_noticed() {
        let dense = |transform, column: &str| DenseColumn { column: column.into(), transform, missing: 0.0 };
        let schema = Schema {
            columns: None,
            dense: vec![
                dense(Transform::None, "ts"),
                dense(Transform::Log, "ms"),
                dense(Transform::Log, "price"),
            ],
            sparse: vec![SparseColumn::hashed("user".into())],
            ..Schema::criteo()
        };
        let mut samples = Samples::new(1);
        for i in 0..9 {
            samples.labels.push(0.0);
            let ms = (1.7e12 + f64::from(i)).ln_1p() as f32;
            samples.dense.extend([1.7e9 + i as f32, if i == 3 { 0.0 } else { ms }, i as f32]);
            samples.bags[0].ids.push(7);
        }
        let mut inspector = Inspector::new(&schema);
        inspector.add(&samples);
        let told = of_numbers(&schema, &inspector.finish());
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("`ts`") && told[1].contains("`ms`"));
        let named = Schema { time: Some("ts".into()), ..schema };
        assert!(of_schema(&named)[0].contains("`ts` looks like a timestamp"));
    }
}
