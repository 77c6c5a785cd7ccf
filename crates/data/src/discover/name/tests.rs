use super::*;

#[test]
fn names_fall_into_words() {
    assert_eq!(words("userID"), ["user", "id"]);
    assert_eq!(words("User Id"), ["user", "id"]);
    assert_eq!(words("site_id.2"), ["site", "id", "2"]);
    assert!(words("").is_empty() && words("--").is_empty());
}

#[test]
fn hints_by_the_last_word_first() {
    for (name, expected) in [
        ("user_id", Hint::Id),
        ("userId", Hint::Id),
        ("num_items", Hint::Number),
        ("item_price", Hint::Number),
        ("price_category", Hint::Id),
        ("C14", Hint::Id),
        ("I3", Hint::Number),
        ("x", Hint::Nothing),
    ] {
        assert_eq!(hint(name), expected, "{name}");
    }
}
