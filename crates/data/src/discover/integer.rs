//! Columns of whole numbers: decides whether they are ids, or count or measure something.

use super::column::Profile;
use super::name::{Hint, hint};

/// Whether a column of whole numbers holds ids.
pub(super) fn are_ids(name: &str, profile: &Profile) -> bool {
    if profile.zero_led * 20 > profile.values() {
        return true;
    }
    match hint(name) {
        Hint::Id => true,
        Hint::Number => false,
        Hint::Nothing if profile.min < 0.0 => false,
        Hint::Nothing => looks_like_ids(profile),
    }
}

/// Whether whole numbers look like ids regardless of the column's name: few categories, only large numbers, or a range that is
/// used evenly.
fn looks_like_ids(profile: &Profile) -> bool {
    let (distinct, values) = (profile.distinct as f64, profile.values() as f64);
    let span = profile.max - profile.min + 1.0;
    // Counts begin at 0 or 1, and most of them are small.
    let counts = profile.min <= 1.0 && profile.median * 8.0 <= profile.max && profile.max >= 16.0;
    if counts {
        return false;
    }
    let few = distinct <= 32.0 && distinct * 20.0 <= values;
    let large = profile.min >= 100_000.0 && distinct * 2.0 <= values;
    // Row numbers of some other table.
    let even = span <= distinct * 2.0 && distinct * 4.0 <= values && distinct > 200.0;
    few || large || even
}
