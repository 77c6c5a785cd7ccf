//! What the name of a column suggests about its values.

/// Words of a name in lower case: `userID`, `user_id` and `User Id` have the same words.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let begins = c.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
        if !c.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a name suggests about a column of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    Id,
    Number,
    Nothing,
}

const LAST_WORDS_OF_IDS: &[&str] =
    &["id", "ids", "code", "key", "type", "category", "hash", "class", "group"];
const WORDS_OF_IDS: &[&str] = &[
    "zip",
    "postcode",
    "cat",
    "user",
    "uid",
    "item",
    "cluster",
    "country",
    "region",
    "city",
    "state",
    "device",
    "os",
    "browser",
    "channel",
    "ip",
    "app",
    "slot",
    "pos",
    "position",
    "hour",
    "day",
    "weekday",
    "dow",
    "month",
    "segment",
    "brand",
    "model",
    "site",
    "domain",
    "ad",
    "campaign",
    "creative",
    "publisher",
    "advertiser",
    "product",
    "sku",
    "shop",
    "store",
    "genre",
    "gender",
    "sex",
    "occupation",
    "language",
    "lang",
    "query",
    "movie",
    "book",
    "artist",
    "pid",
    "cid",
    "aid",
    "adgroup",
    "categories",
    "session",
    "customer",
];
const WORDS_OF_NUMBERS: &[&str] = &[
    "count",
    "counts",
    "cnt",
    "num",
    "number",
    "price",
    "amount",
    "age",
    "qty",
    "quantity",
    "score",
    "rate",
    "ratio",
    "total",
    "sum",
    "avg",
    "mean",
    "size",
    "length",
    "duration",
    "seconds",
    "minutes",
    "clicks",
    "views",
    "impressions",
    "income",
    "salary",
    "weight",
    "height",
    "width",
    "distance",
    "balance",
    "budget",
    "bid",
    "lat",
    "lon",
    "lng",
    "latitude",
    "longitude",
    "percent",
    "pct",
    "share",
    "cost",
    "revenue",
    "spend",
    "ctr",
    "freq",
    "frequency",
    "days",
    "hours",
    "value",
    "usage",
    "dense",
    "rating",
    "int",
];

/// What `name` suggests about a column of whole numbers.
pub(super) fn hint(name: &str) -> Hint {
    let words = words(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    if words.last().is_some_and(|word| LAST_WORDS_OF_IDS.contains(&word.as_str())) {
        return Hint::Id;
    }
    if has(WORDS_OF_NUMBERS) {
        return Hint::Number;
    }
    // Criteo's columns, where somebody gave them names.
    match words.as_slice() {
        [word] if numbered(word, "c") || numbered(word, "cat") => return Hint::Id,
        [word] if numbered(word, "i") => return Hint::Number,
        _ => {}
    }
    if has(WORDS_OF_IDS) { Hint::Id } else { Hint::Nothing }
}

fn numbered(word: &str, prefix: &str) -> bool {
    let digits = word.strip_prefix(prefix).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
