use super::*;

#[test]
fn nothing_reaches_the_terminal_as_it_is() {
    for (text, expected) in [
        ("größe 7\"", "größe 7\""),
        ("\x1b[31mred", "\\u{1b}[31mred"),
        ("a\nb\tc\0", "a\\nb\\tc\\u{0}"),
        ("\u{9b}2J", "\\u{9b}2J"),
        ("abc\u{202e}txt\u{200b}", "abc\\u{202e}txt\\u{200b}"),
    ] {
        assert_eq!(printable(text), expected);
    }
    assert!(matches!(printable("plain"), Cow::Borrowed("plain")));
}

#[test]
fn names_from_files_cannot_drive_a_terminal() {
    assert_eq!(printable_lines("a\u{1b}[2Jb\nc\td"), "a\\u{1b}[2Jb\nc\\td");
    let rows = [vec!["\u{1b}[31mred".to_owned(), "1".into()], vec!["plain".into(), "22".into()]];
    assert_eq!(columns(&rows), "  \\u{1b}[31mred   1\n  plain          22\n");
}

#[test]
fn numbers_read_well() {
    assert_eq!(si(12.0), "12");
    assert_eq!(si(1234.0), "1.2 k");
    assert_eq!(si(999_960.0), "1.0 M");
    assert_eq!([0, 999, 17_600, 1_234_567].map(grouped), ["0", "999", "17,600", "1,234,567"]);
    assert_eq!(bytes(512), "512 B");
    assert_eq!(bytes(7_300_000), "7.3 MB");
    assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&mut []), 0.0);
}
