//! Sizes of memory as people write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Size in bytes, written as a number and a unit: `2GiB`, `512MiB`, `1.5GB`, or bytes without a unit.
///
/// ```
/// use spec::byte_size::ByteSize;
/// assert_eq!("2GiB".parse(), Ok(ByteSize(2 << 30)));
/// assert_eq!("1.5 MB".parse(), Ok(ByteSize(1_500_000)));
/// assert_eq!(ByteSize(1536 << 10).to_string(), "1.5MiB");
/// assert_eq!("2 apples".parse::<ByteSize>().unwrap_err(), "\"2 apples\" is no size; write a number and a unit, such as 2GiB, 512MiB or 1.5GB");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ByteSize(pub u64);

/// Units and their bytes; of those with the same name but for its case, any is understood.
const UNITS: [(&str, u64); 12] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!("{text:?} is no size; write a number and a unit, such as 2GiB, 512MiB or 1.5GB")
        };
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        let (_, bytes) =
            UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(refuse)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(*bytes).map(Self).ok_or_else(refuse);
        }
        let number: f64 = number.parse().map_err(|_| refuse())?;
        let size = number * *bytes as f64;
        if size.is_finite() && size < u64::MAX as f64 { Ok(Self(size as u64)) } else { Err(refuse()) }
    }
}

impl TryFrom<String> for ByteSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

impl fmt::Display for ByteSize {
    /// The largest binary unit in which the size has at most one decimal; otherwise bytes, so that no size is rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, unit) in UNITS[2..6].iter().rev() {
            let tenths = u128::from(self.0) * 10;
            if self.0 >= *unit && tenths.is_multiple_of(u128::from(*unit)) {
                let tenths = tenths / u128::from(*unit);
                let text = match tenths % 10 {
                    0 => format!("{}{name}", tenths / 10),
                    tenth => format!("{}.{tenth}{name}", tenths / 10),
                };
                return f.pad(&text);
            }
        }
        f.pad(&format!("{}B", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_exactly() {
        for bytes in [0, 1, 1023, 1024, 1025, 1536, 123_456_789, 2 << 30, u64::MAX] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "1..5MB", "-1GiB", "1e3", "99999999999TiB", "2 GiB x"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
