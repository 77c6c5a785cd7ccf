//! Settings that a sweep varies: read from text, and drawn.
//!
//! ```text
//! optimizer.peak=0.01,0.02         a list: every value
//! model.top=[64,1],[128,64,1]      a list of lists
//! optimizer.peak=1e-3..1e-1:log    a range: drawn, here uniformly in the logarithm
//! model.dim=8..32                  a range of whole numbers, since both ends are
//! ```
//!
//! ```
//! use campanile::sweep::{Setting, Space};
//! let space = Space::new(vec!["model.dim=8,16".parse::<Setting>()?, "train.batch=64,128".parse()?])?;
//! assert_eq!(space.trials(None, 0)?.len(), 4);
//! # Ok::<(), campanile::sweep::SpaceError>(())
//! ```

use spec::random::RandomSequence;
use std::fmt;
use std::str::FromStr;
use toml::{Table, Value};

/// Trials with ranges, unless told.
pub const DRAWS: usize = 16;
/// The most points of a grid.
const MOST_POINTS: usize = 1 << 20;

/// Reason why settings cannot be varied as requested.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// No key, or no value.
    #[error(
        "{text:?} is no setting; write KEY=V1,V2,… or KEY=LO..HI[:log], such as optimizer.peak=0.01,0.02"
    )]
    NoSetting {
        /// Text that was given.
        text: String,
    },
    /// A range whose ends are no range.
    #[error("{text}: {problem}")]
    Range {
        /// Text that was given.
        text: String,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// A setting that would change the rows that trials are compared on.
    #[error(
        "{key}: trials share one log, so that they can be compared; of [data], only data.shuffle can vary"
    )]
    Data {
        /// Key of the setting.
        key: String,
    },
    /// A key that is given twice.
    #[error("{key} is given twice; give all of its values in one --set")]
    Twice {
        /// Key of the setting.
        key: String,
    },
    /// Nothing to vary.
    #[error("there is nothing to vary; give at least one --set KEY=V1,V2,…")]
    Nothing,
    /// No trial.
    #[error("0 trials try nothing; give --trials a number above 0, or leave it out")]
    NoTrials,
    /// A grid that is too large.
    #[error("the lists give more than {MOST_POINTS} combinations; give fewer values")]
    TooMany,
    /// A key inside a value that has no keys.
    #[error("{key}: {outer} is no section of a config")]
    NotASection {
        /// Key of the setting.
        key: String,
        /// The part of the key that is a plain value.
        outer: String,
    },
}

/// A key of the config, and the values that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    key: String,
    values: Values,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    List(Vec<Value>),
    Range { low: f64, high: f64, log: bool, whole: bool },
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Setting {
    type Err = SpaceError;

    fn from_str(text: &str) -> Result<Self, SpaceError> {
        let no_setting = || SpaceError::NoSetting { text: text.into() };
        let (key, values) = text.split_once('=').ok_or_else(no_setting)?;
        let (key, values) = (key.trim(), values.trim());
        if key.split('.').any(str::is_empty) || values.is_empty() {
            return Err(no_setting());
        }
        if key.split('.').next() == Some("data") && key != "data.shuffle" {
            return Err(SpaceError::Data { key: key.into() });
        }
        let values = match range(text, values)? {
            Some(range) => range,
            None => {
                let parts = divided(values);
                if parts.iter().any(|part| part.is_empty()) {
                    return Err(no_setting());
                }
                Values::List(parts.into_iter().map(value).collect())
            }
        };
        Ok(Self {
            key: key.into(),
            values,
            text: format!("{key}={}", text.split_once('=').map_or("", |t| t.1.trim())),
        })
    }
}

impl Setting {
    /// Dotted name of the key in a config.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether values are drawn uniformly in their logarithm.
    pub fn is_log(&self) -> bool {
        matches!(self.values, Values::Range { log: true, .. })
    }

    /// Number of values of a list; 1 for a range, whose value is drawn.
    fn len(&self) -> usize {
        match &self.values {
            Values::List(values) => values.len(),
            Values::Range { .. } => 1,
        }
    }

    /// Value number `index` of a list, or draw number `draw` of a range.
    fn at(&self, index: usize, draw: usize, seed: u64) -> Value {
        let (low, high, log, whole) = match &self.values {
            Values::List(values) => return values[index].clone(),
            Values::Range { low, high, log, whole } => (*low, *high, *log, *whole),
        };
        let unit = RandomSequence::new(seed, &self.key).unit_f64(draw as u64);
        // Whole numbers include the upper end.
        let end = if whole { high + 1.0 } else { high };
        let drawn = match log {
            false => low + unit * (end - low),
            true => (low.ln() + unit * (end.ln() - low.ln())).exp(),
        };
        match whole {
            true => Value::Integer(drawn.floor().clamp(low, high) as i64),
            false => Value::Float(rounded(drawn).clamp(low, high)),
        }
    }
}

/// A number with four significant digits, as it is trained with and shown.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

/// The range that `values` describe; `None` for a list.
fn range(text: &str, values: &str) -> Result<Option<Values>, SpaceError> {
    let Some((low_text, rest)) = values.split_once("..") else { return Ok(None) };
    let Ok(low) = low_text.trim().parse::<f64>() else { return Ok(None) };
    let refuse = |problem| Err(SpaceError::Range { text: text.into(), problem });
    let (high_text, log) = rest.strip_suffix(":log").map_or((rest, false), |high| (high, true));
    let Ok(high) = high_text.trim().parse::<f64>() else {
        return refuse("a range is LO..HI or LO..HI:log with two numbers, such as 1e-4..1e-2:log");
    };
    if !(low.is_finite() && high.is_finite() && low < high) {
        return refuse("a range begins with the smaller of two finite numbers");
    }
    if log && low <= 0.0 {
        return refuse("a range with :log begins above 0");
    }
    let is_whole = |text: &str| text.trim().parse::<i64>().is_ok();
    Ok(Some(Values::Range { low, high, log, whole: is_whole(low_text) && is_whole(high_text) }))
}

/// The parts of a list between commas that stand neither in quotes nor in brackets.
fn divided(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0i32, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts
}

/// A value as TOML writes it, or else the text itself: `0.1`, `[64, 1]`, `true`, `dcn`.
fn value(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}")).ok().filter(|table| table.len() == 1);
    parsed.and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(text.into()))
}

/// All settings of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    settings: Vec<Setting>,
}

impl Space {
    /// A space over `settings`, each of another key.
    pub fn new(settings: Vec<Setting>) -> Result<Self, SpaceError> {
        if settings.is_empty() {
            return Err(SpaceError::Nothing);
        }
        for (at, setting) in settings.iter().enumerate() {
            if settings[..at].iter().any(|other| other.key == setting.key) {
                return Err(SpaceError::Twice { key: setting.key.clone() });
            }
        }
        Ok(Self { settings })
    }

    /// The settings, in the order given.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Values of every trial, in the order of the settings. Lists give a grid, of which `count` points are drawn where it is
    /// smaller; ranges are drawn `count` times, and the points of the grid take turns.
    pub fn trials(&self, count: Option<usize>, seed: u64) -> Result<Vec<Vec<Value>>, SpaceError> {
        let grid = self.settings.iter().try_fold(1usize, |n, setting| n.checked_mul(setting.len()));
        let grid = grid.filter(|&grid| grid <= MOST_POINTS).ok_or(SpaceError::TooMany)?;
        if count == Some(0) {
            return Err(SpaceError::NoTrials);
        }
        let drawn = self.settings.iter().any(|setting| matches!(setting.values, Values::Range { .. }));
        let count = if drawn { count.unwrap_or(DRAWS) } else { count.unwrap_or(grid).min(grid) };
        if count > MOST_POINTS {
            return Err(SpaceError::TooMany);
        }
        let mut points: Vec<usize> = (0..grid).collect();
        if count < grid || drawn {
            let order = RandomSequence::new(seed, "grid");
            points.sort_by_key(|&point| (order.bits(point as u64), point));
            points.truncate(count);
            if !drawn {
                points.sort_unstable();
            }
        }
        Ok((0..count).map(|trial| self.point(points[trial % points.len()], trial, seed)).collect())
    }

    /// Values at one point of the grid; the last setting varies fastest.
    fn point(&self, mut point: usize, draw: usize, seed: u64) -> Vec<Value> {
        let mut values = Vec::with_capacity(self.settings.len());
        for setting in self.settings.iter().rev() {
            values.push(setting.at(point % setting.len(), draw, seed));
            point /= setting.len();
        }
        values.reverse();
        values
    }

    /// The config `base` with one trial's values in place of its own.
    pub fn applied(&self, base: &Table, values: &[Value]) -> Result<Table, SpaceError> {
        let mut table = base.clone();
        for (setting, value) in self.settings.iter().zip(values) {
            let (sections, name) = setting.key.rsplit_once('.').unwrap_or(("", &setting.key));
            let mut section = &mut table;
            for part in sections.split('.').filter(|part| !part.is_empty()) {
                let inner = section.entry(part).or_insert_with(|| Value::Table(Table::new()));
                section = inner.as_table_mut().ok_or_else(|| SpaceError::NotASection {
                    key: setting.key.clone(),
                    outer: part.into(),
                })?;
            }
            section.insert(name.into(), value.clone());
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests;
