//! Tensors of a model's inputs, and how a batch fills them.

use crate::onnx::{DENSE, rows_input, weights_input};
use data::Batch;
use spec::feature::Hotness;
use spec::model::Model;

/// Number that stands behind the last id of a bag that is shorter than the longest.
const NO_ROW: i64 = -1;

/// A tensor with one row for each sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTensor {
    /// Name of the model's input.
    pub name: String,
    /// Number of columns; `None` for one number a sample, without a dimension of its own.
    pub width: Option<usize>,
    /// Whether the numbers are floats; otherwise they are row numbers.
    pub floats: bool,
    /// Feature that the tensor is of; `None` for dense features.
    feature: Option<usize>,
}

impl RowTensor {
    /// Numbers of a sample.
    pub fn numbers(&self) -> usize {
        self.width.unwrap_or(1)
    }

    /// Bytes of a sample.
    pub fn bytes(&self) -> usize {
        self.numbers() * if self.floats { 4 } else { 8 }
    }
}

/// Numbers of one tensor for some samples, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Rows of a table.
    Rows(Vec<i64>),
    /// Dense features, or weights.
    Floats(Vec<f32>),
}

impl Numbers {
    /// The numbers as bytes, the lowest first.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Numbers::Rows(rows) => rows.iter().flat_map(|row| row.to_le_bytes()).collect(),
            Numbers::Floats(floats) => floats.iter().flat_map(|float| float.to_le_bytes()).collect(),
        }
    }
}

/// Consecutive samples, as tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct RowBlock {
    /// Number of samples.
    pub samples: usize,
    /// Numbers of each tensor.
    pub numbers: Vec<Numbers>,
}

/// Tensors of the inputs of a model, for bags of up to this many ids of each feature.
pub(super) fn of_model(model: &Model, longest: &[usize]) -> Vec<RowTensor> {
    let mut tensors = Vec::new();
    if model.dense_features() > 0 {
        let width = Some(model.dense_features());
        tensors.push(RowTensor { name: DENSE.into(), width, floats: true, feature: None });
    }
    for (index, (feature, &longest)) in model.features().iter().zip(longest).enumerate() {
        let width = (feature.hotness != Hotness::One).then_some(longest);
        let tensor = |name, floats| RowTensor { name, width, floats, feature: Some(index) };
        tensors.push(tensor(rows_input(&feature.name), false));
        if feature.weighted {
            tensors.push(tensor(weights_input(&feature.name), true));
        }
    }
    tensors
}

/// Raises `longest` to the longest bag of each feature.
pub(super) fn longest_bags(batch: &Batch, longest: &mut [usize]) {
    for (feature, longest) in longest.iter_mut().enumerate() {
        let here = batch.lengths(feature).iter().copied().max().unwrap_or(0);
        *longest = (*longest).max(here as usize);
    }
}

impl RowBlock {
    /// No samples yet.
    pub(super) fn new(tensors: &[RowTensor]) -> Self {
        let empty = |tensor: &RowTensor| match tensor.floats {
            true => Numbers::Floats(Vec::new()),
            false => Numbers::Rows(Vec::new()),
        };
        Self { samples: 0, numbers: tensors.iter().map(empty).collect() }
    }

    /// Replaces the samples by those of a batch.
    pub(super) fn fill(&mut self, model: &Model, tensors: &[RowTensor], batch: &Batch) {
        self.samples = batch.samples;
        for (tensor, numbers) in tensors.iter().zip(&mut self.numbers) {
            match (numbers, tensor.feature) {
                (Numbers::Floats(floats), None) => floats.clone_from(&batch.dense),
                (Numbers::Floats(floats), Some(feature)) => {
                    pad(tensor, batch.lengths(feature), batch.weights(feature), 0.0, floats);
                }
                (Numbers::Rows(rows), Some(feature)) => {
                    debug_assert!(feature < model.features().len());
                    let ids: Vec<i64> = batch.values(feature).iter().map(|&row| i64::from(row)).collect();
                    pad(tensor, batch.lengths(feature), &ids, NO_ROW, rows);
                }
                (Numbers::Rows(rows), None) => rows.clear(),
            }
        }
    }
}

/// Lays bags of `lengths` out in rows of one width, filled up with `filler`.
fn pad<T: Copy>(tensor: &RowTensor, lengths: &[u32], values: &[T], filler: T, out: &mut Vec<T>) {
    out.clear();
    let mut values = values.iter().copied();
    for &length in lengths {
        let end = out.len() + tensor.numbers();
        out.extend(values.by_ref().take(length as usize));
        out.resize(end.max(out.len()), filler);
    }
}
