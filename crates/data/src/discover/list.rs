//! Lists of ids in one field: `3|17|4`, or with weights `3:0.5|17:1`.

use crate::number::finite;
use std::collections::HashSet;

/// Form of the lists in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Several ids with `separator` between them, each followed by a weight where there is a `weight` separator.
    Ids {
        /// Separator between ids.
        separator: char,
        /// Separator between an id and its weight.
        weight: Option<char>,
    },
    /// Several numbers that are not ids, such as `0.5|1.25`.
    Numbers,
    /// Lists such as `[1, 2, 3]`, which cannot be read.
    Brackets,
}

/// Number of items that are examined.
const MOST_ITEMS: usize = 100_000;

/// Finds the form of the lists in the cells of a column, if they hold lists.
pub(super) fn find<'a>(cells: impl Iterator<Item = &'a [u8]> + Clone, delimiter: Option<u8>) -> Option<List> {
    let count = cells.clone().count();
    let share = |is: &dyn Fn(&[u8]) -> bool| {
        cells.clone().filter(|cell| is(cell)).count() as f64 / count.max(1) as f64
    };
    if count == 0 {
        return None;
    }
    if share(&|cell| cell.starts_with(b"[") && cell.ends_with(b"]")) > 0.9 {
        return Some(List::Brackets);
    }
    for (separator, least) in [(b'|', 0.02), (b';', 0.05), (b',', 0.1), (b' ', 0.1)] {
        if Some(separator) == delimiter || share(&|cell| cell.contains(&separator)) < least {
            continue;
        }
        let items = || {
            cells.clone().flat_map(move |cell| cell.split(move |&byte| byte == separator)).take(MOST_ITEMS)
        };
        // Commas and blanks occur in sentences and names too: with them, items must be short words that repeat.
        if matches!(separator, b',' | b' ')
            && !(are_tokens(items()) && lengths_differ(cells.clone(), separator))
        {
            continue;
        }
        let fractions = items().filter(|item| item.contains(&b'.') && finite(item).is_some()).count();
        if fractions * 10 >= items().count() && items().all(|item| item.is_empty() || finite(item).is_some())
        {
            return Some(List::Numbers);
        }
        let weight = has_weights(items()).then_some(':');
        return Some(List::Ids { separator: char::from(separator), weight });
    }
    None
}

/// Whether items are numbers or words without punctuation, and occur more than once.
fn are_tokens<'a>(items: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut count, mut numbers, mut distinct) = (0usize, 0usize, HashSet::new());
    for item in items {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-:.".contains(byte);
        if item.is_empty() || item.len() > 24 || !item.iter().all(word) {
            return false;
        }
        count += 1;
        numbers += usize::from(item[0].is_ascii_digit());
        distinct.insert(item);
    }
    numbers == count || distinct.len() * 4 < count
}

/// Whether fields have different numbers of items.
fn lengths_differ<'a>(cells: impl Iterator<Item = &'a [u8]>, separator: u8) -> bool {
    let lengths: HashSet<usize> =
        cells.map(|cell| cell.iter().filter(|&&byte| byte == separator).count()).take(MOST_ITEMS).collect();
    lengths.len() > 1
}

/// Whether most items end with `:` and a number, and none with `:` and something else.
fn has_weights<'a>(items: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut count, mut weighted) = (0usize, 0usize);
    for item in items.filter(|item| !item.is_empty()) {
        count += 1;
        if let Some(at) = memchr::memrchr(b':', item) {
            if at == 0 || finite(&item[at + 1..]).is_none() {
                return false;
            }
            weighted += 1;
        }
    }
    weighted * 2 > count
}

#[cfg(test)]
mod tests;
