//! What `partition` reads: affinities, loads, groups.

use super::npy;
use anyhow::{Context, Result, bail, ensure};
use spec::affinity::Affinity;
use std::collections::BTreeMap;
use std::path::Path;

/// An affinity from a JSON file, or from a `.npy` matrix, whose features are named C1, C2 …
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

/// An affinity as a program may have written it, with `null` for numbers that are not finite.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    features: Vec<String>,
    affinity: Vec<Vec<Option<f64>>>,
}

/// Replaces NaN and Infinity, which Python writes and JSON does not have, by null.
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

/// Groups of features.
pub struct Groups {
    pub names: Vec<String>,
    /// The group of every feature.
    pub of: Vec<usize>,
}

/// Groups, from lists of names.
pub fn groups(path: &Path, affinity: &Affinity) -> Result<Groups> {
    let lists: BTreeMap<String, Vec<String>> = json(path, "{\"user\": [\"C1\"], \"item\": [\"C2\"]}")?;
    let mut group_of: Vec<Option<&String>> = vec![None; affinity.features().len()];
    for (group, names) in &lists {
        for name in names {
            let feature = affinity.features().iter().position(|feature| feature == name);
            let feature = feature.with_context(|| {
                format!("{}: {group} names {name:?}, which is no feature of the affinity", path.display())
            })?;
            if let Some(before) = group_of[feature].replace(group) {
                let where_else = if before == group { "twice".into() } else { format!("and in {before}") };
                bail!("{}: {name} is in {group} {where_else}", path.display());
            }
        }
    }
    let index = |(feature, group): (usize, &Option<&String>)| {
        let group = group.with_context(|| {
            format!("{}: {} is in no group", path.display(), affinity.features()[feature])
        })?;
        Ok(lists.keys().position(|name| name == group).unwrap_or(0))
    };
    let of = group_of.iter().enumerate().map(index).collect::<Result<_>>()?;
    Ok(Groups { of, names: lists.into_keys().collect() })
}

fn json<T: serde::de::DeserializeOwned>(path: &Path, like: &str) -> Result<T> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: it should look like {like}", path.display()))
}
