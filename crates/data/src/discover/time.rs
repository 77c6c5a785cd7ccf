//! Finds columns that hold the time of each row.
//!
//! | form | example | text sorts as time does |
//! |---|---|---|
//! | since 1970 | 1700000000, in s, ms, µs or ns | as numbers |
//! | year first | 2024-03-01, 2024/03/01 12:00:00, 2024-03-01T12:00Z | yes |
//! | digits | 20240301, 2024030112, 14102100 (YYMMDDHH) | as numbers |
//! | year last | 01/03/2024, 01.03.2024 12:00 | no |
//! | counter | 0, 1, 1, 5, … by a name such as `timestamp` | as numbers |

use super::column::Profile;
use super::name::words;
use super::sample::Stored;

/// Form of the times in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A number since 1970, in this unit.
    Since1970(&'static str),
    /// A date, with or without a time of day, with the year first.
    YearFirst,
    /// A date with the year last.
    YearLast,
    /// A date in digits.
    Digits,
    /// A number that grows.
    Counter,
    /// A date or timestamp type of Parquet.
    Stored,
}

impl Form {
    /// Whether values sort as time does, as numbers or as text.
    pub fn sorts(self) -> bool {
        self != Form::YearLast
    }

    /// Description of the form for messages.
    pub fn describe(self) -> String {
        match self {
            Form::Since1970(unit) => format!("{unit} since 1970"),
            Form::YearFirst => "dates, year first".into(),
            Form::YearLast => "dates, year last".into(),
            Form::Digits => "dates in digits".into(),
            Form::Counter => "a number that grows".into(),
            Form::Stored => "timestamps".into(),
        }
    }
}

/// Form of a text that is a date and not a number.
pub(super) fn of_text(cell: &[u8]) -> Option<Form> {
    let text = str::from_utf8(cell).ok()?;
    if text.len() < 8 || text.len() > 40 {
        return None;
    }
    let end = text.find(['T', ' ']).unwrap_or(text.len());
    let (date, rest) = text.split_at(end);
    let mut parts = date.split(['-', '/', '.']);
    let (a, b, c) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let below =
        |part: &str, most: u32| digits(part, 2) && part.parse().is_ok_and(|n: u32| (1..=most).contains(&n));
    let year = |part: &str| digits(part, 4) && part.len() == 4;
    let is_time = rest.is_empty() || {
        let clock = &rest[1..];
        clock.starts_with(|c: char| c.is_ascii_digit())
            && clock.contains(':')
            && clock.chars().all(|c| c.is_ascii_digit() || ":.+- ZUTCAPMapm".contains(c))
    };
    if parts.next().is_some() || !is_time {
        return None;
    }
    if year(a) && below(b, 12) && below(c, 31) {
        Some(Form::YearFirst)
    } else if year(c) && below(a, 31) && below(b, 31) {
        Some(Form::YearLast)
    } else {
        None
    }
}

/// Unit in which all numbers between `min` and `max` are times in the years 1985 to 2096.
pub(super) fn unit(min: f64, max: f64) -> Option<&'static str> {
    let units = [("seconds", 1.0), ("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9)];
    units.iter().find(|(_, scale)| min >= 4.8e8 * scale && max <= 4e9 * scale).map(|(unit, _)| *unit)
}

/// Whether all numbers between `min` and `max` may be dates in digits: YYYYMMDD, with hours or without, or YYMMDDHH.
fn digits(min: f64, max: f64) -> bool {
    let date = |number: f64, scale: f64| {
        let day = (number / scale).floor();
        let (month, day_of_month) = ((day / 100.0).floor() % 100.0, day % 100.0);
        (19_700_101.0..=21_001_231.0).contains(&day)
            && (1.0..=12.0).contains(&month)
            && (1.0..=31.0).contains(&day_of_month)
    };
    let with_year = |number: f64| {
        let hour = number % 100.0;
        (0.0..24.0).contains(&hour) && date(20_000_000.0 + (number / 100.0).floor(), 1.0)
    };
    let scales = [1.0, 1e2, 1e4, 1e6];
    scales.iter().any(|&scale| date(min, scale) && date(max, scale)) || (with_year(min) && with_year(max))
}

const NAMES: &[&str] =
    &["timestamp", "ts", "time", "datetime", "date", "event", "created", "at", "hour", "day", "when", "unix"];

/// Form of a column that may hold the time of each row, and a score of how likely that is.
pub(super) fn of_column(name: &str, stored: &Stored, profile: &Profile) -> Option<(Form, u32)> {
    let words = words(name);
    let place = NAMES.iter().position(|known| words.iter().any(|word| word == known));
    let named = place.map_or(0, |place| 40 - place as u32);
    if *stored == Stored::Time {
        return Some((Form::Stored, 100 + named));
    }
    if let Some(form) = profile.date {
        return Some((form, 80 + named));
    }
    if !profile.is_numeric() || profile.distinct < 2 || !stored.as_number() {
        return None;
    }
    let rises = profile.falls == 0;
    if let Some(unit) = unit(profile.min, profile.max)
        && (named > 0 || rises)
    {
        return Some((Form::Since1970(unit), 60 + named));
    }
    if profile.is_whole() && digits(profile.min, profile.max) && named > 0 {
        return Some((Form::Digits, 50 + named));
    }
    // For example seconds since the log began. A day of the week or an hour of the day repeats.
    let exact = place.is_some_and(|place| place < 4);
    let grows = rises && profile.distinct > 2;
    (exact && (grows || profile.distinct > 1000)).then_some((Form::Counter, named))
}

#[cfg(test)]
mod tests;
