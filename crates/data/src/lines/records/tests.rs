use super::*;

fn records(text: &str) -> Vec<(u64, u64, &str)> {
    let records = Records::new(text.as_bytes(), b',', 1);
    records.map(|r| (r.first_line, r.last_line, str::from_utf8(r.text).unwrap())).collect()
}

#[test]
fn quoted_fields_span_lines() {
    assert_eq!(records("a,\"b\nc\",d\ne\n"), [(1, 2, "a,\"b\nc\",d"), (3, 3, "e")]);
    assert_eq!(records("\"\r\n\"\"\n\"\r\nx"), [(1, 3, "\"\r\n\"\"\n\""), (4, 4, "x")]);
    assert_eq!(records("\"a\n\"\n\"b\n\""), [(1, 2, "\"a\n\""), (3, 4, "\"b\n\"")]);
}

#[test]
fn other_quotes_mean_nothing() {
    assert_eq!(records("6\" pipe,1\n7\"\n"), [(1, 1, "6\" pipe,1"), (2, 2, "7\"")]);
}

/// The line on which the quote stands is all that an open one takes.
#[test]
fn open_quotes_end_with_their_line() {
    assert_eq!(records("a,\"b\nc,d\ne"), [(1, 1, "a,\"b"), (2, 2, "c,d"), (3, 3, "e")]);
    assert_eq!(records("\"said,3\n\"foo\",4\n"), [(1, 1, "\"said,3"), (2, 2, "\"foo\",4")]);
    assert_eq!(records("\"x\ny\",\"z\nw\n"), [(1, 2, "\"x\ny\",\"z"), (3, 3, "w")]);
    let far = format!("\"a\nb\n{}\"\n", "x\n".repeat(MAX_LINE / 2));
    assert_eq!(records(&far)[..2], [(1, 1, "\"a"), (2, 2, "b")]);
}
