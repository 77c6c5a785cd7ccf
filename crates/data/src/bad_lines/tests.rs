use super::*;

fn bad(count: u64, lines: u64) -> BadLines {
    let mut bad = BadLines { lines, ..BadLines::default() };
    for line in 1..=count {
        bad.push(|| BadLine { file: "a.tsv".into(), line, field: None, problem: "is bad".into() });
    }
    bad
}

#[test]
fn the_share_is_judged_late_and_at_the_end() {
    let policy = Policy::default();
    assert!(policy.check(&bad(9_000, 9_999), false).is_ok());
    assert!(policy.check(&bad(9_000, 9_999), true).is_err());
    assert!(policy.check(&bad(100, 10_000), false).is_ok());
    let error = policy.check(&bad(101, 10_000), false).unwrap_err().to_string();
    assert!(error.contains("101 of 10000 lines") && error.contains("a.tsv, line 5: is bad"), "{error}");
    assert!(policy.check(&bad(0, 0), true).is_ok());
}

#[test]
fn strict_names_the_first() {
    let strict = Policy { strict: true, ..Policy::default() };
    assert!(strict.check(&bad(0, 10), false).is_ok());
    assert_eq!(strict.check(&bad(2, 10), false).unwrap_err().to_string(), "a.tsv, line 1: is bad");
}

#[test]
fn appending_keeps_the_first_and_the_order() {
    let mut all = bad(3, 10);
    let mut next = bad(4, 20);
    all.append(&mut next);
    assert_eq!((all.count, all.lines), (7, 30));
    assert_eq!(all.first.iter().map(|bad| bad.line).collect::<Vec<_>>(), [1, 2, 3, 1, 2]);
    assert_eq!(next, BadLines::default());
}

#[test]
fn excerpts_are_short_and_printable() {
    assert_eq!(excerpt(b"a\xff\"\n"), r#""a\xff\"\n""#);
    assert_eq!(excerpt(&[b'x'; 41]), format!("\"{}\"…", "x".repeat(40)));
}
