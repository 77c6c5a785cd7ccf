//! What `partition` reads: affinities, loads, groups.

use super::npy;
use anyhow::{Context, Result, bail, ensure};
use spec::affinity::Affinity;
use spec::model::Member;
use spec::placement::share;
use std::collections::BTreeMap;
use std::path::Path;

/// An affinity from a JSON file, or from a `.npy` matrix whose features are named C1, C2 …
pub fn affinity(path: &Path) -> Result<Affinity> {
    let named = || path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let affinity = if path.extension().is_some_and(|extension| extension == "npy") {
        let rows = npy::square(&bytes).with_context(named)?;
        let names = (1..=rows.len()).map(|i| format!("C{i}")).collect();
        Affinity::new(names, rows).with_context(named)?
    } else {
        let text = std::str::from_utf8(&bytes).with_context(|| format!("{}: it is no text", named()))?;
        // A matrix is checked as a matrix, and the file before as a file, so that each is refused by what is wrong with it.
        let written: Written = serde_json::from_str(&without_bare_words(text)).with_context(|| {
            format!(
                "{}: an affinity looks like {{\"features\": [names], \"affinity\": [[1, 0.3], [0.3, 1]]}}",
                named()
            )
        })?;
        let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let rows = written.affinity.into_iter().map(|row| row.into_iter().map(number).collect()).collect();
        Affinity::new(written.features, rows).with_context(named)?
    };
    ensure!(!affinity.features().is_empty(), "{}: it has no features", path.display());
    Ok(affinity)
}

/// An affinity as a program may have written it, numbers that are none included.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    features: Vec<String>,
    affinity: Vec<Vec<Option<f64>>>,
}

/// NaN and Infinity, which JSON does not have and Python writes, as null.
fn without_bare_words(text: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let word =
            ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| !inside && rest.starts_with(word));
        if let Some(word) = word {
            clean.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        if next == '"' && !escaped {
            inside = !inside;
        }
        escaped = next == '\\' && !escaped;
        clean.push(next);
        rest = &rest[next.len_utf8()..];
    }
    clean
}

/// A number for every feature, by name.
pub fn loads(path: &Path, affinity: &Affinity) -> Result<Vec<f64>> {
    let mut loads: BTreeMap<String, f64> = json(path, "{\"C1\": 3.0, \"C2\": 1.5}")?;
    let load = |name: &String| {
        loads.remove(name).with_context(|| format!("{}: no load for feature {name}", path.display()))
    };
    let ordered = affinity.features().iter().map(load).collect::<Result<Vec<f64>>>()?;
    let wrong =
        affinity.features().iter().zip(&ordered).find(|(_, load)| !(load.is_finite() && **load >= 0.0));
    if let Some((name, load)) = wrong {
        bail!("{}: the load of {name} is {load}; loads are finite and at least 0", path.display());
    }
    match loads.keys().next() {
        Some(name) => bail!("{}: a load for {name}, which is no feature of the affinity", path.display()),
        None => Ok(ordered),
    }
}

/// The group of every feature, from lists of names.
pub fn groups(path: &Path, affinity: &Affinity) -> Result<Vec<usize>> {
    let lists: BTreeMap<String, Vec<String>> = json(path, "{\"user\": [\"C1\"], \"item\": [\"C2\"]}")?;
    let mut group_of: Vec<Option<&String>> = vec![None; affinity.features().len()];
    for (group, names) in &lists {
        for name in names {
            let feature = affinity.features().iter().position(|feature| feature == name);
            let feature = feature.with_context(|| {
                format!("{}: {group} names {name:?}, which is no feature of the affinity", path.display())
            })?;
            if let Some(before) = group_of[feature].replace(group) {
                bail!("{}: {name} is in {before} and in {group}", path.display());
            }
        }
    }
    let index = |(feature, group): (usize, &Option<&String>)| {
        let group = group.with_context(|| {
            format!("{}: {} is in no group", path.display(), affinity.features()[feature])
        })?;
        Ok(lists.keys().position(|name| name == group).unwrap_or(0))
    };
    group_of.iter().enumerate().map(index).collect()
}

fn json<T: serde::de::DeserializeOwned>(path: &Path, like: &str) -> Result<T> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: it should look like {like}", path.display()))
}

/// Features, or slices of their tables.
pub struct Pieces {
    /// Affinity between pieces; those of one feature have all to do with each other.
    pub affinity: Affinity,
    /// The feature of each piece, and its share of the feature's columns.
    of: Vec<(usize, f64)>,
}

/// The most pieces: their affinity is a matrix in memory.
const MOST: usize = 10_000;

impl Pieces {
    /// Every feature as it is.
    pub fn whole(affinity: &Affinity) -> Self {
        let of = (0..affinity.features().len()).map(|feature| (feature, 1.0)).collect();
        Self { affinity: affinity.clone(), of }
    }

    /// Tables of `dim` columns in slices of at most `width`, equal up to one.
    pub fn sliced(affinity: &Affinity, dim: usize, width: usize) -> Result<Self> {
        ensure!(width > 0, "--slice-to 0: a slice has at least 1 column");
        ensure!(dim > 0, "--dim 0: a table has at least 1 column");
        let (count, slices) = (affinity.features().len(), dim.div_ceil(width));
        let pieces = count.checked_mul(slices).filter(|&pieces| pieces <= MOST);
        let pieces = pieces.with_context(|| {
            let least = dim.div_ceil((MOST / count).max(1));
            format!("--slice-to {width} of {dim} columns makes more than {MOST} pieces of {count} features; use at least {least}")
        })?;
        let member = |at: usize| Member { feature: at / slices, columns: share(dim, slices, at % slices) };
        let name = |at: usize| member(at).name_of(&affinity.features()[at / slices], dim);
        let of: Vec<(usize, f64)> =
            (0..pieces).map(|at| (at / slices, member(at).columns.len() as f64 / dim as f64)).collect();
        let between = |a: usize, b: usize| if a == b { 1.0 } else { affinity.between(a, b) };
        let rows = of.iter().map(|a| of.iter().map(|b| between(a.0, b.0)).collect()).collect();
        Ok(Self { affinity: Affinity::new((0..pieces).map(name).collect(), rows)?, of })
    }

    /// What is known of features, for each of their pieces.
    pub fn of_features<T: Copy>(&self, features: &[T]) -> Vec<T> {
        self.of.iter().map(|&(feature, _)| features[feature]).collect()
    }

    /// Loads of features, shared among their pieces.
    pub fn shared(&self, loads: &[f64]) -> Vec<f64> {
        self.of.iter().map(|&(feature, share)| loads[feature] * share).collect()
    }
}
