//! Interval between events, in steps or in time.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The longest time between two events, in seconds: about thirty years.
const LONGEST_S: f64 = 1e9;

/// An interval: `500` is a number of steps; `30s`, `10min` and `1h` are times.
///
/// ```
/// use spec::run::Every;
/// assert_eq!("500".parse(), Ok(Every::Steps(500)));
/// assert_eq!("10min".parse(), Ok(Every::Seconds(600.0)));
/// assert_eq!(Every::Seconds(5400.0).to_string(), "90min");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Every {
    /// A number of steps.
    Steps(u64),
    /// A time in seconds.
    Seconds(f64),
}

/// Units of time by name, and their seconds, the longest first.
const UNITS: [(&str, f64); 3] = [("h", 3600.0), ("min", 60.0), ("s", 1.0)];

impl Every {
    /// What is wrong with the interval, if anything: one that never comes, or never ends.
    pub(crate) fn problem(&self) -> Option<String> {
        match *self {
            Every::Steps(0) => Some("every 0 steps is never; use at least 1, or leave it out".into()),
            Every::Seconds(s) if !(s > 0.0 && s <= LONGEST_S) => {
                Some(format!("{s} seconds is not an interval; use a time above 0, such as 10min"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Every::Steps(steps) => write!(f, "{steps}"),
            Every::Seconds(seconds) => {
                // The longest unit of which the time is a whole number.
                let whole = |(_, unit): &&(&str, f64)| seconds >= *unit && (seconds / unit).fract() == 0.0;
                let (name, unit) = UNITS.iter().find(whole).unwrap_or(&("s", 1.0));
                write!(f, "{}{name}", seconds / unit)
            }
        }
    }
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse =
            || format!("{text:?} is not an interval; write steps as 500, or a time as 30s, 10min or 1h");
        let trimmed = text.trim();
        if let Ok(steps) = trimmed.parse() {
            return Ok(Every::Steps(steps));
        }
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refuse)?;
        let number: f64 = trimmed[..digits].parse().map_err(|_| refuse())?;
        let unit = UNITS.iter().find(|(name, _)| *name == trimmed[digits..].trim()).ok_or_else(refuse)?;
        Ok(Every::Seconds(number * unit.1))
    }
}

impl Serialize for Every {
    /// Steps are written as a number, as they always were; times as text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Every::Steps(steps) => serializer.serialize_u64(*steps),
            Every::Seconds(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Every {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EveryVisitor;

        impl Visitor<'_> for EveryVisitor {
            type Value = Every;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number of steps, or a time such as \"10min\"")
            }

            fn visit_u64<E: de::Error>(self, steps: u64) -> Result<Every, E> {
                Ok(Every::Steps(steps))
            }

            fn visit_i64<E: de::Error>(self, steps: i64) -> Result<Every, E> {
                let known = u64::try_from(steps).map(Every::Steps);
                known.map_err(|_| E::invalid_value(de::Unexpected::Signed(steps), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Every, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(EveryVisitor)
    }
}

impl JsonSchema for Every {
    fn schema_name() -> Cow<'static, str> {
        "Every".into()
    }

    /// Shape of an interval in a config, as [`Deserialize`] accepts it.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Interval between two events, in steps or in time.",
            "oneOf": [
                { "type": "integer", "minimum": 1, "description": "A number of steps." },
                {
                    "type": "string",
                    "pattern": "^[0-9.]+ *(s|min|h)?$",
                    "description": "A time: `\"30s\"`, `\"10min\"` or `\"1h\"`."
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests;
