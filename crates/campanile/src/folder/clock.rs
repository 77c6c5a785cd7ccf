//! Moments as text, in UTC: `2026-11-15T07:12:16Z` (RFC 3339).
//!
//! One direction of one format, so a dozen lines instead of a calendar library.

use std::time::{Duration, SystemTime};

/// A moment in RFC 3339. What lies before 1970 is shown as its beginning.
pub fn rfc3339(moment: SystemTime) -> String {
    let seconds = since_1970(moment).as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Time since the beginning of 1970; none for what lies before.
pub fn since_1970(moment: SystemTime) -> Duration {
    moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Year, month and day of a number of days since 1970. Years begin in March here, so that the leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    // A cycle of 400 years has 146 097 days; the first of March of year 0 lies 719 468 days before 1970.
    let (cycle, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, again and again: 153 in five.
    let from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * cycle + year + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests;
