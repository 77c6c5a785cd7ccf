//! Synthetic click logs: what is planted in them.
//!
//! A sample's log-odds of a click are a sum of parts, each scaled to the standard deviation its field states:
//!
//! ```text
//! logit = bias + main·M + dense·D + within·Σ_groups Σ_{f<f′ in group} ⟨u_f, u_f′⟩ + across·Σ_{bridges (f,f′)} ⟨u_f, u_f′⟩
//! ```
//!
//! `M` sums one effect per id, `D` is a function of the dense features, `u_f` is the latent vector of the sample's ids
//! of feature `f`, and a bridge joins two features of different groups (there are as many bridges as groups). `bias`
//! follows from `click_rate`. The groups are the ground truth that a tower partitioner should find.
//!
//! ```
//! use spec::synthetic::Synthetic;
//! let log = Synthetic { click_rate: 1.5, ..Synthetic::default() };
//! let error = log.check(26, 13).unwrap_err();
//! assert_eq!(error.to_string(), "click_rate = 1.5: must lie between 0 and 1, both excluded; 0.25 is usual");
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest number of groups of a log: the generator keeps one vector per group on its stack.
pub const MAX_GROUPS: usize = 64;

/// A synthetic click log. The default is the data of the built-in run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Synthetic {
    /// Seed from which all of the log follows.
    pub seed: u64,
    /// Number of training samples.
    pub samples: u64,
    /// Number of evaluation samples, which are drawn apart from the training samples.
    pub eval_samples: u64,
    /// Number of groups of features that interact.
    pub groups: usize,
    /// Ratio of the number of features of the largest group to that of the smallest, as nearly as possible; sizes in between
    /// fall evenly. At 1, sizes differ by one at most.
    pub group_ratio: f64,
    /// Exponent of the power law of ids: the `k`-th most frequent id has probability about `k^−zipf`. 0 is uniform.
    pub zipf: f64,
    /// Standard deviation of the interactions inside groups, in log-odds.
    pub within: f64,
    /// Standard deviation of the interactions across groups, in log-odds.
    pub across: f64,
    /// Standard deviation of the effects of single ids, in log-odds.
    pub main: f64,
    /// Standard deviation of the dense features' effects, in log-odds.
    pub dense: f64,
    /// Mean probability of a click.
    pub click_rate: f64,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            seed: 1,
            samples: 2_097_152,
            eval_samples: 262_144,
            groups: 8,
            group_ratio: 1.0,
            zipf: 1.5,
            within: 1.0,
            across: 0.2,
            main: 1.0,
            dense: 0.3,
            click_rate: 0.25,
        }
    }
}

impl Synthetic {
    /// Number of features of each group, largest group first.
    ///
    /// ```
    /// use spec::synthetic::Synthetic;
    /// let log = Synthetic { group_ratio: 3.0, ..Synthetic::default() };
    /// assert_eq!(log.group_sizes(32), [6, 5, 5, 4, 4, 3, 3, 2]);
    /// assert_eq!(Synthetic::default().group_sizes(26), [4, 4, 3, 3, 3, 3, 3, 3]);
    /// ```
    pub fn group_sizes(&self, features: usize) -> Vec<usize> {
        let last = self.groups.saturating_sub(1).max(1) as f64;
        let weight = |group: usize| self.group_ratio - (self.group_ratio - 1.0) * group as f64 / last;
        let total: f64 = (0..self.groups).map(weight).sum();
        let exact: Vec<f64> = (0..self.groups).map(|g| features as f64 * weight(g) / total).collect();
        let mut sizes: Vec<usize> = exact.iter().map(|size| (size + 1e-9) as usize).collect();
        // What is left goes to those that lost most by rounding.
        let mut order: Vec<usize> = (0..self.groups).collect();
        order.sort_by(|&a, &b| (exact[b] - sizes[b] as f64).total_cmp(&(exact[a] - sizes[a] as f64)));
        let left = features.saturating_sub(sizes.iter().sum());
        order.into_iter().take(left).for_each(|group| sizes[group] += 1);
        sizes
    }

    /// Fails if the log cannot be drawn for a model of `features` sparse and `dense_features` dense inputs.
    pub fn check(&self, features: usize, dense_features: usize) -> Result<(), SyntheticError> {
        let refuse = |field, value: String, remedy| Err(SyntheticError { field, value, remedy });
        for (field, value) in [
            ("zipf", self.zipf),
            ("within", self.within),
            ("across", self.across),
            ("main", self.main),
            ("dense", self.dense),
        ] {
            // Negated, so that NaN is refused too.
            if !(value >= 0.0 && value.is_finite()) {
                return refuse(field, value.to_string(), "must be a finite number of at least 0");
            }
        }
        if !(self.click_rate > 0.0 && self.click_rate < 1.0) {
            let remedy = "must lie between 0 and 1, both excluded; 0.25 is usual";
            return refuse("click_rate", self.click_rate.to_string(), remedy);
        }
        if self.zipf > 16.0 {
            return refuse(
                "zipf",
                self.zipf.to_string(),
                "leaves a single id per feature; 1.5 is usual, 16 the most",
            );
        }
        if self.samples == 0 {
            return refuse("samples", "0".into(), "an epoch needs at least one sample");
        }
        let groups = self.groups.to_string();
        if self.groups == 0 {
            return refuse("groups", groups, "must be at least 1");
        }
        if self.groups > MAX_GROUPS {
            return refuse("groups", groups, "must be at most 64");
        }
        if self.groups > features {
            return refuse("groups", groups, "more groups than sparse features; lower it");
        }
        let ratio = self.group_ratio.to_string();
        if !(self.group_ratio >= 1.0 && self.group_ratio <= 1e6) {
            return refuse(
                "group_ratio",
                ratio,
                "must be at least 1, for groups of equal size, and at most 1e6",
            );
        }
        if self.group_sizes(features).contains(&0) {
            return refuse("group_ratio", ratio, "leaves a group without features; lower it, or groups");
        }
        if self.within > 0.0 && self.groups == features {
            let remedy = "a group of one feature has no interactions; lower groups, or set within = 0";
            return refuse("groups", groups, remedy);
        }
        if self.across > 0.0 && self.groups == 1 {
            return refuse(
                "across",
                self.across.to_string(),
                "one group has no other; raise groups, or set across = 0",
            );
        }
        if self.dense > 0.0 && dense_features == 0 {
            return refuse("dense", self.dense.to_string(), "the model has no dense features; set dense = 0");
        }
        Ok(())
    }
}

/// Error in a field of [`Synthetic`], and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value}: {remedy}")]
pub struct SyntheticError {
    /// Name of the field that is wrong.
    pub field: &'static str,
    /// Value of the field.
    pub value: String,
    /// Values that the field accepts.
    pub remedy: &'static str,
}

#[cfg(test)]
mod tests;
