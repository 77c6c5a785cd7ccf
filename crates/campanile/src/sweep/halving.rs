//! Successive halving: which trial runs next, and how far. Pure decisions, made from results alone.
//!
//! ```text
//! rung 1: all trials, a quarter of their steps → the best half → rung 2: half of the steps → the best half → rung 3: all steps
//! ```
//!
//! ```
//! use campanile::sweep::Halving;
//! use training::metrics::Better;
//! let halving = Halving { trials: 4, factor: Some(2), better: Better::Higher };
//! assert_eq!(halving.rungs(), 3);
//! assert_eq!([0, 1, 2].map(|rung| halving.steps(rung, 100)), [25, 50, 100]);
//! ```

use std::collections::BTreeMap;
use training::metrics::Better;

/// The most rungs, so that the first is no shorter than 1/R² of a run.
const MOST_RUNGS: usize = 3;

/// Results by trial and rung, both from 0. `None`: the trial failed.
pub type Results = BTreeMap<(usize, usize), Option<f64>>;

/// Plan of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halving {
    /// Number of trials.
    pub trials: usize,
    /// One in how many trials goes on to the next rung; `None` to train all trials to their end.
    pub factor: Option<usize>,
    /// Whether larger results are better.
    pub better: Better,
}

impl Halving {
    /// Number of rungs: until one trial is left, 3 at most.
    pub fn rungs(&self) -> usize {
        let Some(factor) = self.factor.filter(|&factor| factor > 1) else { return 1 };
        let (mut rungs, mut left) = (1, self.trials);
        while rungs < MOST_RUNGS && left > 1 {
            left = left.div_ceil(factor);
            rungs += 1;
        }
        rungs
    }

    /// Steps that a trial of `all` steps has done at the end of a rung.
    pub fn steps(&self, rung: usize, all: u64) -> u64 {
        let left = self.rungs().saturating_sub(rung + 1) as u32;
        let factor = self.factor.unwrap_or(1).max(1) as u64;
        all.div_ceil(factor.saturating_pow(left).max(1)).max(1)
    }

    /// Trials of a rung in the order in which they run; `None` while the rung before has trials without a result.
    pub fn contenders(&self, rung: usize, results: &Results) -> Option<Vec<usize>> {
        let Some(before) = rung.checked_sub(1) else { return Some((0..self.trials).collect()) };
        let contenders = self.contenders(before, results)?;
        if contenders.iter().any(|&trial| !results.contains_key(&(trial, before))) {
            return None;
        }
        let kept = contenders.len().div_ceil(self.factor.unwrap_or(1).max(1));
        let mut best = self.ranked(&contenders, before, results);
        best.truncate(kept);
        best.sort_unstable();
        Some(best)
    }

    /// Trial and rung to run next; `None` when all is done.
    pub fn next(&self, results: &Results) -> Option<(usize, usize)> {
        for rung in 0..self.rungs() {
            let contenders = self.contenders(rung, results)?;
            if let Some(&trial) = contenders.iter().find(|&&trial| !results.contains_key(&(trial, rung))) {
                return Some((trial, rung));
            }
        }
        None
    }

    /// Trials whose states may still be needed before `next` runs: those of its rung that have not run, and of those that have, as
    /// many of the best as go on. In the end that is the best trial.
    pub fn needed(&self, next: Option<(usize, usize)>, results: &Results) -> Vec<usize> {
        let Some((_, rung)) = next else { return vec![self.order(results)[0]] };
        let contenders = self.contenders(rung, results).unwrap_or_default();
        let last = rung + 1 == self.rungs();
        let go_on = if last { 1 } else { contenders.len().div_ceil(self.factor.unwrap_or(1).max(1)) };
        let mut needed = self.ranked(&contenders, rung, results);
        needed.truncate(go_on);
        needed.extend(contenders.into_iter().filter(|&trial| !results.contains_key(&(trial, rung))));
        needed
    }

    /// Trials that have results of a rung, best first; of equals, the first. Failed ones are left out.
    fn ranked(&self, trials: &[usize], rung: usize, results: &Results) -> Vec<usize> {
        let value = |trial: usize| results.get(&(trial, rung)).copied().flatten();
        let mut found: Vec<(usize, f64)> =
            trials.iter().filter_map(|&trial| Some((trial, value(trial)?))).collect();
        found.sort_by(|(_, one), (_, other)| self.compared(*one, *other));
        found.into_iter().map(|(trial, _)| trial).collect()
    }

    /// All trials, best first: those that came further before others, and failed ones last.
    pub fn order(&self, results: &Results) -> Vec<usize> {
        let last = |trial: usize| {
            let found = results.range((trial, 0)..=(trial, usize::MAX)).next_back();
            found.map(|((_, rung), value)| (*rung, *value))
        };
        let mut trials: Vec<usize> = (0..self.trials).collect();
        trials.sort_by(|&one, &other| match (last(one), last(other)) {
            (Some((_, Some(a))), Some((_, Some(b)))) => {
                last(other).map(|l| l.0).cmp(&last(one).map(|l| l.0)).then_with(|| self.compared(a, b))
            }
            (one, other) => {
                let rank = |last: Option<(usize, Option<f64>)>| last.and_then(|(_, value)| value).is_none();
                rank(one).cmp(&rank(other))
            }
        });
        trials
    }

    fn compared(&self, one: f64, other: f64) -> std::cmp::Ordering {
        match self.better {
            Better::Lower => one.total_cmp(&other),
            Better::Higher | Better::Neither => other.total_cmp(&one),
        }
    }
}

#[cfg(test)]
mod tests;
