use super::*;

fn of(cells: &[&str]) -> Option<List> {
    find(cells.iter().map(|cell| cell.as_bytes()), Some(b','))
}

#[test]
fn lists_by_their_separator() {
    let ids = |separator, weight| Some(List::Ids { separator, weight });
    assert_eq!(of(&["3|17|4", "5", "3|4"]), ids('|', None));
    assert_eq!(of(&["Action|Sci-Fi", "Drama"]), ids('|', None));
    assert_eq!(of(&["3:0.5|17:1", "4", "9:-2|1:1|2:3"]), ids('|', Some(':')));
    assert_eq!(of(&["3 17 4", "5", "3 4"]), ids(' ', None));
    assert_eq!(of(&["a;b", "c"]), ids(';', None));
    assert_eq!(of(&["0.5|1.25", "0.75"]), Some(List::Numbers));
    assert_eq!(of(&["[1, 2]", "[3]"]), Some(List::Brackets));
}

#[test]
fn other_texts_are_none() {
    assert_eq!(of(&["a", "b"]), None);
    assert_eq!(of(&["New York", "Los Angeles", "Rome"]), None);
    assert_eq!(of(&["a long sentence here", "and one more of them"]), None);
    assert_eq!(of(&["10:30", "11:45"]), None);
    assert_eq!(of(&[]), None);
}
