//! What a division reads: affinities, loads, groups.

use super::{DivisionError, npy};
use crate::file::{FileError, read_text};
use spec::affinity::Affinity;
use std::collections::BTreeMap;
use std::path::Path;

/// An affinity from a JSON file, or from a `.npy` matrix, whose features are named C1, C2 …
pub fn affinity(path: &Path) -> Result<Affinity, DivisionError> {
    let bytes = std::fs::read(path).map_err(FileError::reading(path))?;
    let (names, rows) = match path.extension().is_some_and(|extension| extension == "npy") {
        true => {
            let rows =
                npy::square(&bytes).map_err(|source| DivisionError::Npy { path: path.to_owned(), source })?;
            ((1..=rows.len()).map(|i| format!("C{i}")).collect(), rows)
        }
        false => from_json(path, &bytes)?,
    };
    let affinity = Affinity::new(names, rows)
        .map_err(|source| DivisionError::AffinityOf { path: path.to_owned(), source })?;
    match affinity.features().is_empty() {
        true => Err(DivisionError::NoFeatures { path: path.to_owned() }),
        false => Ok(affinity),
    }
}

/// Names and values of a matrix, which is checked as a matrix afterwards: each is refused by what is wrong with it.
fn from_json(path: &Path, bytes: &[u8]) -> Result<(Vec<String>, Vec<Vec<f64>>), DivisionError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|source| DivisionError::NoText { path: path.to_owned(), source })?;
    let written: AffinityText =
        serde_json::from_str(&without_bare_words(text)).map_err(|source| DivisionError::Json {
            path: path.to_owned(),
            looks: "an affinity looks like {\"features\": [names], \"affinity\": [[1, 0.3], [0.3, 1]]}",
            source,
        })?;
    let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let rows = written.affinity.into_iter().map(|row| row.into_iter().map(number).collect()).collect();
    Ok((written.features, rows))
}

/// An affinity as a program may have written it, with `null` for numbers that are not finite.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AffinityText {
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
pub fn loads(path: &Path, affinity: &Affinity) -> Result<Vec<f64>, DivisionError> {
    let named = || path.to_owned();
    let mut loads: BTreeMap<String, f64> = json(path, "it should look like {\"C1\": 3.0, \"C2\": 1.5}")?;
    let load = |name: &String| {
        loads.remove(name).ok_or_else(|| DivisionError::NoLoad { path: named(), feature: name.clone() })
    };
    let ordered = affinity.features().iter().map(load).collect::<Result<Vec<f64>, _>>()?;
    let wrong =
        affinity.features().iter().zip(&ordered).find(|(_, load)| !(load.is_finite() && **load >= 0.0));
    if let Some((name, load)) = wrong {
        return Err(DivisionError::WrongLoad { path: named(), feature: name.clone(), load: *load });
    }
    match loads.into_keys().next() {
        Some(feature) => Err(DivisionError::LoadOfNothing { path: named(), feature }),
        None => Ok(ordered),
    }
}

/// Groups of features.
pub struct Groups {
    /// Names of the groups.
    pub names: Vec<String>,
    /// The group of every feature.
    pub of: Vec<usize>,
}

/// Groups, from lists of names.
pub fn groups(path: &Path, affinity: &Affinity) -> Result<Groups, DivisionError> {
    let named = || path.to_owned();
    let lists: BTreeMap<String, Vec<String>> =
        json(path, "it should look like {\"user\": [\"C1\"], \"item\": [\"C2\"]}")?;
    let mut group_of: Vec<Option<&String>> = vec![None; affinity.features().len()];
    for (list, names) in &lists {
        for name in names {
            let (group, feature) = (list.clone(), name.clone());
            let Some(at) = affinity.features().iter().position(|feature| feature == name) else {
                return Err(DivisionError::GroupOfNothing { path: named(), group, feature });
            };
            if let Some(before) = group_of[at].replace(list) {
                let again = if before == list { "twice".into() } else { format!("and in {before}") };
                return Err(DivisionError::InTwoGroups { path: named(), feature, group, again });
            }
        }
    }
    let index = |(feature, group): (usize, &Option<&String>)| {
        let group = group.ok_or_else(|| DivisionError::InNoGroup {
            path: named(),
            feature: affinity.features()[feature].clone(),
        })?;
        Ok(lists.keys().position(|name| name == group).unwrap_or(0))
    };
    let of = group_of.iter().enumerate().map(index).collect::<Result<_, DivisionError>>()?;
    Ok(Groups { of, names: lists.into_keys().collect() })
}

fn json<T: serde::de::DeserializeOwned>(path: &Path, looks: &'static str) -> Result<T, DivisionError> {
    serde_json::from_str(&read_text(path)?).map_err(|source| DivisionError::Json {
        path: path.to_owned(),
        looks,
        source,
    })
}
