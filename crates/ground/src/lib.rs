//! Values that arithmetic and runs have in common, below both: `kernels` needs nothing else of a run, so that an edit of a schedule or a
//! config compiles no kernel anew. Crate `spec` exports them under its own names.
#![forbid(unsafe_code)]

pub mod codec;
pub mod device;
pub mod optimizer;
pub mod precision;
pub mod random;
pub mod table_format;
pub mod tensor_train;
pub mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Pooling: how the rows of a bag become one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Sum of the rows, each times its weight where the feature carries weights. An empty bag gives zeros.
    #[default]
    Sum,
    /// (Weighted) sum of the rows divided by their number. An empty bag gives zeros.
    Mean,
}

/// Activation function after a linear map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// No activation.
    Identity,
    /// `max(x, 0)`.
    Relu,
}

/// Range of part `index` if `len` items are divided into `parts` contiguous parts; the first `len % parts` parts are one
/// item longer.
///
/// ```
/// use ground::share;
/// assert_eq!((share(5, 2, 0), share(5, 2, 1)), (0..3, 3..5));
/// ```
pub fn share(len: usize, parts: usize, index: usize) -> Range<usize> {
    let (each, more) = (len / parts, len % parts);
    let start = index * each + index.min(more);
    start..start + each + usize::from(index < more)
}
