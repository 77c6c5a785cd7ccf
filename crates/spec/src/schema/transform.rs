//! Transforms of numbers before they are inputs.
//!
//! ```text
//! none                      x
//! log                       ln(1 + max(x, 0)), for counts
//! { clip = [lo, hi] }       min(max(x, lo), hi)
//! { clip_quantiles = [p, q] }  clip between two quantiles of the training rows
//! standardise               (x − mean) / deviation of the training rows
//! { bucketise = N }         number of the quantile bucket of the training rows, scaled to 0..1
//! [one, another]            one after the other
//! ```
//!
//! What standardise, clip_quantiles and bucketise need to know is learnt from the training rows when a log is prepared, and
//! becomes a [`LearntTransform`](super::LearntTransform). Every transform is monotone: a larger number never has a smaller
//! input.
//!
//! ```
//! use spec::schema::{DenseColumn, Transform};
//! # fn parse(text: &str) -> DenseColumn { toml::from_str(text).unwrap() }
//! let price = parse(r#"
//!     column = "price"
//!     transform = [{ clip = [0, 1000] }, "log", "standardise"]
//! "#);
//! assert!(price.transform.is_learnt());
//! assert_eq!(price.transform.steps().len(), 3);
//! assert_eq!(parse(r#"column = "price""#).transform, Transform::None);
//! ```

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest number of buckets of `bucketise`.
pub const MAX_BUCKETS: usize = 10_000;
/// Largest number of steps of a list.
const MAX_STEPS: usize = 16;
/// Names of the transforms, for messages.
const NAMES: &str = "none, log, standardise, { clip = [lo, hi] }, { clip_quantiles = [p, q] } or { bucketise = N }, \
                     or a list of them";

/// Transform of a number before it is an input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// No transform.
    #[default]
    None,
    /// `ln(1 + max(x, 0))`, for counts.
    Log,
    /// `(x − mean) / deviation`, with mean and standard deviation of the training rows.
    Standardise,
    /// Numbers below the first bound become it, and numbers above the second become that.
    Clip([f64; 2]),
    /// Clip between two quantiles of the training rows, such as 0.01 and 0.99.
    ClipQuantiles([f64; 2]),
    /// Number of the bucket, scaled to 0..1, of at most this many buckets that share the training rows equally.
    Bucketise(usize),
    /// Transforms that are applied one after the other.
    #[serde(untagged)]
    List(Vec<Transform>),
}

impl Transform {
    /// The transforms that are applied, in order.
    pub fn steps(&self) -> &[Transform] {
        match self {
            Self::List(steps) => steps,
            one => std::slice::from_ref(one),
        }
    }

    /// Whether the transform depends on values that are learnt from the training rows.
    pub fn is_learnt(&self) -> bool {
        self.steps().iter().any(|step| {
            matches!(step, Self::Standardise | Self::ClipQuantiles(_) | Self::Bucketise(_) | Self::List(_))
        })
    }

    /// Checks the bounds of the transform. The error says what is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        let steps = self.steps();
        if steps.is_empty() || steps.len() > MAX_STEPS {
            return Err(format!("a list of {} transforms; give 1 to {MAX_STEPS}", steps.len()));
        }
        for step in steps {
            match step {
                Self::Clip([low, high]) if !(low.is_finite() && high.is_finite() && low <= high) => {
                    return Err(format!(
                        "clip = [{low}, {high}]: give two finite numbers, the smaller first"
                    ));
                }
                Self::ClipQuantiles([low, high]) if !(0.0 <= *low && low < high && *high <= 1.0) => {
                    return Err(format!(
                        "clip_quantiles = [{low}, {high}]: give two shares from 0 to 1, the smaller first, such as \
                         [0.01, 0.99]"
                    ));
                }
                Self::Bucketise(buckets) if !(2..=MAX_BUCKETS).contains(buckets) => {
                    return Err(format!("bucketise = {buckets}: give a number from 2 to {MAX_BUCKETS}"));
                }
                Self::List(_) => return Err("a list inside a list; write all transforms in one".into()),
                _ => {}
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Transform {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Written)
    }
}

/// Reads a transform as users write it: a name, a table with one key, or a list of both.
struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Transform;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        write!(text, "a transform: {NAMES}")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Transform, E> {
        match name {
            "none" => Ok(Transform::None),
            "log" => Ok(Transform::Log),
            "standardise" => Ok(Transform::Standardise),
            other => Err(E::custom(format!("unknown transform {other:?}; use {NAMES}"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Transform, A::Error> {
        let Some(name) = map.next_key::<String>()? else {
            return Err(A::Error::custom(format!("an empty transform; use {NAMES}")));
        };
        let transform = match name.as_str() {
            "clip" => Transform::Clip(map.next_value()?),
            "clip_quantiles" => Transform::ClipQuantiles(map.next_value()?),
            "bucketise" => Transform::Bucketise(map.next_value()?),
            other => return Err(A::Error::custom(format!("unknown transform {other:?}; use {NAMES}"))),
        };
        match map.next_key::<String>()? {
            None => Ok(transform),
            Some(other) => Err(A::Error::custom(format!(
                "a transform with two keys, {name:?} and {other:?}; write a list to apply one after the other"
            ))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Transform, A::Error> {
        let mut steps = vec![];
        while let Some(step) = list.next_element()? {
            // Nesting is refused at once, so that a hostile file cannot make it deep.
            match step {
                Transform::List(_) => {
                    return Err(A::Error::custom("a list inside a list of transforms; write all in one"));
                }
                step => steps.push(step),
            }
        }
        Ok(Transform::List(steps))
    }
}

#[cfg(test)]
mod tests;
