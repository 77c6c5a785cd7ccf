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
    if path.extension().is_some_and(|extension| extension == "npy") {
        let rows = npy::square(&bytes).with_context(named)?;
        let names = (1..=rows.len()).map(|i| format!("C{i}")).collect();
        return Affinity::new(names, rows).with_context(named);
    }
    serde_json::from_slice(&bytes)
        .with_context(|| format!("{}: an affinity looks like {{\"features\": [names], \"affinity\": [[1, 0.3], [0.3, 1]]}}", named()))
}

/// A number for every feature, by name.
pub fn loads(path: &Path, affinity: &Affinity) -> Result<Vec<f64>> {
    let mut loads: BTreeMap<String, f64> = json(path, "{\"C1\": 3.0, \"C2\": 1.5}")?;
    let load = |name: &String| {
        loads.remove(name).with_context(|| format!("{}: no load for feature {name}", path.display()))
    };
    let ordered = affinity.features().iter().map(load).collect::<Result<Vec<f64>>>()?;
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
            let feature = feature
                .with_context(|| format!("{}: {group} names {name:?}, which is no feature of the affinity", path.display()))?;
            if let Some(before) = group_of[feature].replace(group) {
                bail!("{}: {name} is in {before} and in {group}", path.display());
            }
        }
    }
    let index = |(feature, group): (usize, &Option<&String>)| {
        let group = group.with_context(|| format!("{}: {} is in no group", path.display(), affinity.features()[feature]))?;
        Ok(lists.keys().position(|name| name == group).unwrap_or(0))
    };
    group_of.iter().enumerate().map(index).collect()
}

fn json<T: serde::de::DeserializeOwned>(path: &Path, like: &str) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: it should look like {like}", path.display()))
}

/// Features, or slices of their columns, with what is known of each.
pub struct Pieces {
    /// Affinity between pieces; those of one feature have all to do with each other.
    pub affinity: Affinity,
    /// The feature of each piece.
    pub feature_of: Vec<usize>,
}

/// Cuts tables of `dim` columns into equal slices of at most `width`.
pub fn sliced(affinity: &Affinity, dim: usize, width: usize) -> Result<Pieces> {
    ensure!(width > 0, "--slice-to 0: a slice has at least 1 column");
    let slices = dim.div_ceil(width);
    let count = affinity.features().len();
    let feature_of: Vec<usize> = (0..count).flat_map(|feature| std::iter::repeat_n(feature, slices)).collect();
    let features: Vec<spec::feature::Feature> = affinity.features().iter().map(|name| named(name)).collect();
    let names = (0..count * slices)
        .map(|at| Member { feature: at / slices, columns: share(dim, slices, at % slices) }.name(&features, dim))
        .collect();
    let between = |a: usize, b: usize| if a == b { 1.0 } else { affinity.between(a, b) };
    let rows = feature_of.iter().map(|&a| feature_of.iter().map(|&b| between(a, b)).collect()).collect();
    Ok(Pieces { affinity: Affinity::new(names, rows)?, feature_of })
}

/// A feature of which only the name matters.
fn named(name: &str) -> spec::feature::Feature {
    spec::feature::Feature {
        name: name.into(),
        rows: 1,
        pooling: Default::default(),
        hotness: Default::default(),
        weighted: false,
    }
}
