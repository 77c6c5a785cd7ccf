//! Affinity of features (DMT §3.3): a symmetric matrix with values between 0 and 1.
//!
//! ```
//! use spec::affinity::Affinity;
//! let names = vec!["C1".to_string(), "C2".to_string()];
//! let affinity = Affinity::new(names.clone(), vec![vec![1.0, 0.3], vec![0.3, 1.0]]).unwrap();
//! assert_eq!(affinity.between(1, 0), 0.3);
//! let error = Affinity::new(names, vec![vec![1.0, 0.3], vec![f64::NAN, 1.0]]).unwrap_err();
//! assert_eq!(error.to_string(), "affinity of C2 and C1 (row 1, column 0) is NaN; it must lie between 0 and 1");
//! ```

use serde::{Deserialize, Serialize};

/// Affinity of features: a checked, symmetric matrix with one row and one column per feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "AffinityFile", into = "AffinityFile")]
pub struct Affinity {
    features: Vec<String>,
    values: Vec<f64>,
}

/// Affinities as they stand in a file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AffinityFile {
    features: Vec<String>,
    affinity: Vec<Vec<f64>>,
}

/// Reason why a matrix is not an affinity.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AffinityError {
    /// The number of rows or columns differs from the number of features.
    #[error("{features} features, but {what} {got}; an affinity has a row and a column for every feature")]
    Shape {
        /// Number of features.
        features: usize,
        /// Row or dimension that has the wrong length.
        what: String,
        /// Length that was found.
        got: usize,
    },
    /// The number of names differs from the number of rows and columns.
    #[error("{features} feature names were given for a matrix of {rows} × {rows}; give one for each row")]
    Names {
        /// Number of names.
        features: usize,
        /// Number of rows, which is also the number of columns.
        rows: usize,
    },
    /// A value is NaN, or outside of 0 to 1.
    #[error("affinity of {} and {} (row {row}, column {column}) is {value}; it must lie between 0 and 1", .names.0, .names.1)]
    Value {
        /// Names of the two features.
        names: (String, String),
        /// Row of the value.
        row: usize,
        /// Column of the value.
        column: usize,
        /// Value that was found.
        value: f64,
    },
    /// The matrix is not symmetric.
    #[error("affinity of {} and {} is {value} in row {row}, column {column} and {other} in row {column}, column {row}", .names.0, .names.1)]
    Asymmetric {
        /// Names of the two features.
        names: (String, String),
        /// Row of the first value, from 0.
        row: usize,
        /// Column of the first value, from 0.
        column: usize,
        /// Value in that row and column.
        value: f64,
        /// Value in the transposed position.
        other: f64,
    },
    /// A feature is named twice.
    #[error("feature {0} is named twice")]
    Twice(String),
}

/// Rounding that is forgiven: files hold decimals, and sums run in other orders.
const TOLERANCE: f64 = 1e-6;

impl Affinity {
    /// Checks a matrix and makes it an affinity.
    pub fn new(features: Vec<String>, rows: Vec<Vec<f64>>) -> Result<Self, AffinityError> {
        let count = features.len();
        let shape = |what: String, got| Err(AffinityError::Shape { features: count, what, got });
        let square = rows.iter().all(|row| row.len() == rows.len());
        if square && rows.len() != count {
            return Err(AffinityError::Names { features: count, rows: rows.len() });
        }
        if rows.len() != count {
            return shape("the matrix is not square: its rows are".into(), rows.len());
        }
        if let Some(row) = rows.iter().position(|row| row.len() != count) {
            return shape(
                format!("the matrix is not square: the numbers of row {row} ({}) are", features[row]),
                rows[row].len(),
            );
        }
        let mut sorted: Vec<&String> = features.iter().collect();
        sorted.sort();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(AffinityError::Twice(pair[0].clone()));
        }
        for (row, values) in rows.iter().enumerate() {
            for (column, &value) in values.iter().enumerate() {
                let names = || (features[row].clone(), features[column].clone());
                if !(-TOLERANCE..=1.0 + TOLERANCE).contains(&value) {
                    return Err(AffinityError::Value { names: names(), row, column, value });
                }
                let other = rows[column][row];
                if column < row && (value - other).abs() > TOLERANCE {
                    return Err(AffinityError::Asymmetric { names: names(), row, column, value, other });
                }
            }
        }
        // Exactly symmetric from here on.
        let value = |row: usize, column: usize| rows[row.max(column)][row.min(column)].clamp(0.0, 1.0);
        let values = (0..count * count).map(|at| value(at / count, at % count)).collect();
        Ok(Self { features, values })
    }

    /// Names of the features, in the order of the rows.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Affinity of the features with indices `a` and `b`.
    pub fn between(&self, a: usize, b: usize) -> f64 {
        self.values[a * self.features.len() + b]
    }
}

impl TryFrom<AffinityFile> for Affinity {
    type Error = AffinityError;

    fn try_from(written: AffinityFile) -> Result<Self, AffinityError> {
        Self::new(written.features, written.affinity)
    }
}

impl From<Affinity> for AffinityFile {
    fn from(affinity: Affinity) -> Self {
        let count = affinity.features.len().max(1);
        let rows = affinity.values.chunks(count).map(<[f64]>::to_vec).collect();
        AffinityFile { features: affinity.features, affinity: rows }
    }
}
