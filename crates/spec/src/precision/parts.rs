//! Precisions of the parts of a network: one for all of them, and others for some.

use super::Precision;
use crate::device::DeviceChoice;
use crate::model::{BlockName, Model};
use crate::text::listed;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Word for all parts, where they are written by name.
const ALL: &str = "all";

/// Precisions of a run, part by part.
///
/// ```
/// use spec::model::BlockName;
/// use spec::precision::{Precision, PrecisionConfig, Precisions};
/// let precisions = "bf16,top=f32".parse::<PrecisionConfig>().unwrap().check();
/// assert_eq!(precisions.of(BlockName::new("bottom")), Precision::Bf16);
/// assert_eq!(precisions.of(BlockName::new("top")), Precision::F32);
/// assert_eq!(precisions.to_string(), "bf16,top=f32");
/// assert_eq!(Precisions::from(Precision::Bf16).to_string(), "bf16");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precisions {
    /// Precision of the parts that have none of their own.
    pub all: Precision,
    /// Parts in another precision, by name: [`Model::parts_with_products`] are the names of a model.
    pub parts: BTreeMap<String, Precision>,
}

impl Precisions {
    /// Precision of the products of a part of the network.
    pub fn of(&self, part: BlockName) -> Precision {
        self.parts.get(part.as_str()).copied().unwrap_or(self.all)
    }

    /// Reason why no rank on `device` computes in one of the precisions, with what to do; `None` where one may.
    /// [`Precision::problem_on`] says what `auto` is.
    pub fn problem_on(&self, device: DeviceChoice) -> Option<String> {
        let of_part = |(part, precision): (&String, &Precision)| {
            precision.problem_on(device).map(|problem| format!("{part}: {problem}"))
        };
        self.all.problem_on(device).or_else(|| self.parts.iter().find_map(of_part))
    }
}

impl From<Precision> for Precisions {
    fn from(all: Precision) -> Self {
        Self { all, parts: BTreeMap::new() }
    }
}

/// Precisions as `--precision` reads them: one word where all parts have the same.
impl fmt::Display for Precisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PrecisionConfig::explicit(self).fmt(f)
    }
}

impl Serialize for Precisions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Precisions as users write them: `bf16` for all parts, or `bf16,top=f32`. A config may also hold them as a table,
/// `{ all = "bf16", top = "f32" }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrecisionConfig {
    /// Precision of all parts that are not named; `None` where users say nothing of them.
    pub all: Option<Precision>,
    /// Precisions of parts by name.
    pub parts: BTreeMap<String, Precision>,
}

impl PrecisionConfig {
    /// Makes a config with one precision for all parts.
    pub fn all(precision: Precision) -> Self {
        Self { all: Some(precision), parts: BTreeMap::new() }
    }

    /// Makes a config that gives `precisions`.
    pub fn explicit(precisions: &Precisions) -> Self {
        Self { all: Some(precisions.all), parts: precisions.parts.clone() }
    }

    /// Precisions of a run: f32 where nothing is said.
    pub fn check(&self) -> Precisions {
        let all = self.all.unwrap_or_default();
        let differs = |(_, precision): &(&String, &Precision)| **precision != all;
        let parts = self.parts.iter().filter(differs).map(|(part, precision)| (part.clone(), *precision));
        Precisions { all, parts: parts.collect() }
    }

    /// Reason why `model` has no products of one of the parts, with the parts that it has; `None` where it has all of them.
    pub fn problem_with(&self, model: &Model) -> Option<String> {
        let known: Vec<&str> = model.parts_with_products().into_iter().map(BlockName::as_str).collect();
        let unknown = self.parts.keys().find(|part| !known.contains(&part.as_str()))?;
        Some(format!(
            "this {} model has no part {unknown:?} that computes matrix products; use {}",
            model.architecture().name(),
            listed(&known)
        ))
    }

    /// Returns the config with the precisions of `over` in place of its own. One for all parts replaces all of them.
    pub fn overlaid(&self, over: &Self) -> Self {
        if over.all.is_some() {
            return over.clone();
        }
        let mut config = self.clone();
        config.parts.extend(over.parts.clone());
        config
    }

    /// Sets the precision of a part, or of all.
    fn set(&mut self, part: &str, precision: Precision) -> Result<(), String> {
        let before = match part {
            "" => return Err("a part of the network has a name, such as top=f32".into()),
            ALL => self.all.replace(precision),
            part => self.parts.insert(part.into(), precision),
        };
        match (before, part) {
            (None, _) => Ok(()),
            (Some(before), ALL) => {
                Err(format!("all parts have two precisions, {before} and {precision}; give one"))
            }
            (Some(_), part) => Err(format!("{part} has two precisions; give one")),
        }
    }
}

impl FromStr for PrecisionConfig {
    type Err = String;

    /// One precision for all parts, `top=f32,bottom=bf16` for some, or both with commas between them.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut config = Self::default();
        for word in text.split(',') {
            match word.split_once('=') {
                None => config.set(ALL, word.parse()?)?,
                Some((part, precision)) => {
                    let precision = precision.parse().map_err(|problem| format!("{part}: {problem}"))?;
                    config.set(part, precision)?;
                }
            }
        }
        Ok(config)
    }
}

impl fmt::Display for PrecisionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all.iter().map(|precision| precision.to_string());
        let parts = self.parts.iter().map(|(part, precision)| format!("{part}={precision}"));
        f.pad(&all.chain(parts).collect::<Vec<_>>().join(","))
    }
}

impl Serialize for PrecisionConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PrecisionConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = PrecisionConfig;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(
                    "a precision such as \"bf16\", or a table such as { all = \"bf16\", top = \"f32\" }",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PrecisionConfig, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<PrecisionConfig, A::Error> {
                let mut config = PrecisionConfig::default();
                while let Some((part, precision)) = table.next_entry::<String, String>()? {
                    let of_part = |problem| de::Error::custom(format!("{part}: {problem}"));
                    let precision = precision.parse().map_err(of_part)?;
                    config.set(&part, precision).map_err(de::Error::custom)?;
                }
                match config == PrecisionConfig::default() {
                    true => Err(de::Error::custom("the table names no precision; leave it out")),
                    false => Ok(config),
                }
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}

impl JsonSchema for PrecisionConfig {
    fn schema_name() -> Cow<'static, str> {
        "Precisions".into()
    }

    /// Shape of the precisions in a config, as [`Deserialize`] accepts it.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut for_all = generator.subschema_for::<Precision>();
        for_all.insert("description".into(), "A precision for all parts.".into());
        let of_part = generator.subschema_for::<Precision>();
        json_schema!({
            "description": "Precision of the operands of matrix products, by part of the network: the names of blocks as `campanile schedule` \
                            prints them, such as `bottom`, `top`, `interaction` (dot products or cross layers), `deep` and `project`, and `towers` for \
                            the modules of all towers.",
            "oneOf": [
                for_all,
                {
                    "type": "string",
                    "pattern": "^[^,]*[,=]",
                    "description": "A precision for all parts and others for some, as `--precision` takes them: `\"bf16,top=f32\"`."
                },
                {
                    "type": "object",
                    "additionalProperties": of_part,
                    "minProperties": 1,
                    "description": "Precisions by name, with `all` for the parts that are not named: `{ all = \"bf16\", top = \"f32\" }`."
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests;
