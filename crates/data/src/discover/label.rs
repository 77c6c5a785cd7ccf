//! Finds the label column.

use super::column::Profile;
use super::missing::Missing;
use super::name::words;
use super::sample::Sample;
use crate::bad_lines::excerpt;
use crate::number::finite;

/// The label column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    /// Index of the column.
    pub column: usize,
    /// Threshold from which numbers count as 1; `None` if the column holds 0 and 1.
    pub positive_from: Option<f64>,
    /// Reason why the column is the label.
    pub reason: String,
}

/// Usual names of label columns, the most likely first.
const NAMES: &[&str] = &[
    "label",
    "target",
    "clicked",
    "click",
    "is click",
    "is clicked",
    "clk",
    "y",
    "converted",
    "conversion",
    "is conversion",
    "purchased",
    "purchase",
    "bought",
    "is attributed",
    "installed",
    "install",
    "liked",
    "like",
    "response",
    "outcome",
    "subscribed",
    "churned",
    "churn",
];
/// Words in the names of label columns.
const WORDS: &[&str] =
    &["label", "target", "click", "clicked", "clk", "conversion", "converted", "purchased", "bought"];
/// Words in the names of rating columns.
const RATINGS: &[&str] = &["rating", "ratings", "stars", "score", "overall"];
/// Largest number of different values of a rating: 0 to 10 in halves.
const MOST_RATINGS: usize = 21;

/// Finds the label by the requested name, or else by what the columns look like.
///
/// # Errors
/// The reason why there is none.
pub(super) fn find(
    sample: &Sample,
    profiles: &[Profile],
    missing: &Missing,
    requested: Option<&str>,
    named: bool,
) -> Result<Label, String> {
    if let Some(name) = requested {
        let mut places = (0..sample.names.len()).filter(|&at| sample.names[at] == name);
        let Some(column) = places.next() else { return Err(format!("there is no column `{name}`")) };
        return of(sample, profiles, missing, column, "as asked");
    }
    let usable = |&column: &usize| sample.stored[column].as_number() && profiles[column].values() > 0;
    let flags: Vec<usize> = (0..profiles.len()).filter(usable).filter(|&at| profiles[at].is_flag()).collect();
    let by_name = flags.iter().filter_map(|&at| Some((likelihood(&sample.names[at])?, at))).min();
    if let Some((_, column)) = by_name {
        return of(sample, profiles, missing, column, "by its name");
    }
    // A label of 1 and 2, or of −1 and 1.
    let two = |&at: &usize| profiles[at].is_numeric() && profiles[at].distinct == 2;
    let two = (0..profiles.len()).filter(usable).filter(two);
    let by_name = two.filter_map(|at| Some((likelihood(&sample.names[at])?, at))).min();
    if let Some((_, column)) = by_name {
        return of(sample, profiles, missing, column, "by its name");
    }
    let rated = |&at: &usize| {
        let (profile, words) = (&profiles[at], words(&sample.names[at]));
        let few = (2..=MOST_RATINGS).contains(&profile.distinct) && profile.is_numeric();
        few && words.iter().any(|word| RATINGS.contains(&word.as_str()))
    };
    if let Some(column) = (0..profiles.len()).filter(usable).find(rated) {
        return of(sample, profiles, missing, column, "a rating");
    }
    let last = profiles.len().saturating_sub(1);
    match flags.as_slice() {
        [column] => of(sample, profiles, missing, *column, "the only column of 0 and 1"),
        [] => Err(two_words(sample, profiles, missing)
            .unwrap_or_else(|| "no column looks like one: 0 and 1, true and false, or a rating".into())),
        _ if !named && flags.contains(&0) => of(sample, profiles, missing, 0, "the first column"),
        _ if !named && flags.contains(&last) => of(sample, profiles, missing, last, "the last column"),
        several => {
            let names: Vec<&str> = several.iter().map(|&at| sample.names[at].as_str()).collect();
            let names = crate::error::listed(names.into_iter());
            Err(format!("several columns hold 0 and 1, and no name says which is the label: {names}"))
        }
    }
}

/// Message about a column that has the name of a label and holds two words, such as yes and no.
fn two_words(sample: &Sample, profiles: &[Profile], missing: &Missing) -> Option<String> {
    let two = |at: &usize| profiles[*at].distinct == 2 && likelihood(&sample.names[*at]).is_some();
    let column = (0..profiles.len()).find(two)?;
    let mut cells = sample.column(column).filter(|cell| !missing.is(cell));
    let one = cells.next()?;
    let other = cells.find(|cell| *cell != one)?;
    let (name, one, other) = (&sample.names[column], excerpt(one), excerpt(other));
    Some(format!("column `{name}` looks like one, but holds {one} and {other}; write it as 0 and 1"))
}

/// Position of a name among the usual names of labels, the most likely first.
fn likelihood(name: &str) -> Option<usize> {
    let words = words(name);
    let whole = words.join(" ");
    let known = NAMES.iter().position(|known| *known == whole);
    let part = || WORDS.iter().position(|known| words.iter().any(|word| word == known));
    known.or_else(|| part().map(|place| NAMES.len() + place))
}

/// Makes a column the label, with a threshold if it does not hold 0 and 1.
fn of(
    sample: &Sample,
    profiles: &[Profile],
    missing: &Missing,
    column: usize,
    why: &str,
) -> Result<Label, String> {
    let (name, profile) = (&sample.names[column], &profiles[column]);
    if sample.names.iter().filter(|other| *other == name).count() > 1 {
        return Err(format!("two columns are called `{name}`"));
    }
    if !sample.stored[column].as_number() || !(profile.is_numeric() || profile.is_flag()) {
        return Err(format!(
            "column `{name}` holds no numbers; a label is 0 and 1, true and false, or a number"
        ));
    }
    if profile.is_flag() {
        let what = if profile.words > 0 { "true or false" } else { "0 or 1" };
        return Ok(Label { column, positive_from: None, reason: format!("{what}, {why}") });
    }
    let values = sample.column(column).filter(|cell| !missing.is(cell)).filter_map(finite);
    let Some((threshold, share)) = most_even(values.collect()) else {
        return Err(format!("column `{name}` holds a single value, so nothing can be learnt from it"));
    };
    let reason = format!("{threshold} and above count as 1 ({:.0} % of the rows), {why}", 100.0 * share);
    Ok(Label { column, positive_from: Some(threshold), reason })
}

/// The value that divides the values most evenly, and the share of values at or above it.
fn most_even(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let starts = (1..values.len()).filter(|&at| values[at] > values[at - 1]);
    let shares = starts.map(|at| (values[at], (count - at as f64) / count));
    shares.min_by(|(_, a), (_, b)| (a - 0.5).abs().total_cmp(&(b - 0.5).abs()))
}
