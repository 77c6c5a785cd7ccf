use super::*;
use proptest::prelude::*;

/// Gives few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

/// All lines with their numbers; none for a line that is too long.
fn all(text: &[u8], size: usize, step: usize) -> Vec<(u64, Option<Vec<u8>>)> {
    let mut chunks = Chunks::new(Slow(text, step), "log".as_ref(), size);
    let mut chunk = Chunk::default();
    let mut lines = vec![];
    while chunks.next(&mut chunk).unwrap() {
        if chunk.too_long {
            assert_eq!((chunk.bytes.len(), chunk.lines), (0, 1));
            lines.push((chunk.first_line, None));
            continue;
        }
        let before = lines.len();
        lines.extend((chunk.first_line..).zip(chunk.lines().map(|line| Some(line.to_vec()))));
        assert_eq!(lines.len() - before, chunk.lines as usize);
    }
    assert_eq!(chunks.bytes(), text.len() as u64);
    lines
}

fn numbered(lines: &[&str]) -> Vec<(u64, Option<Vec<u8>>)> {
    (1..).zip(lines.iter().map(|line| Some(line.as_bytes().to_vec()))).collect()
}

#[test]
fn line_ends_and_marks() {
    for size in [1, 2, 3, 5, 100] {
        assert_eq!(all(b"", size, 9), []);
        assert_eq!(all(b"\xef\xbb\xbf", size, 1), []);
        assert_eq!(all(b"\xef\xbb\xbfa\r\nb\n\nc", size, 1), numbered(&["a", "b", "", "c"]));
        assert_eq!(all(b"a\r\n\r\n", size, 1), numbered(&["a", ""]));
        assert_eq!(all(b"a\xef\xbb\xbf\n", size, 2), numbered(&["a\u{feff}"]));
    }
}

#[test]
fn long_lines_are_skipped_and_counted() {
    let fits = vec![b'x'; MAX_LINE - 1];
    let long = vec![b'y'; MAX_LINE];
    let longer = vec![b'z'; 5 * MAX_LINE / 2];
    let text = [&b"a"[..], &fits, &long, b"b", &longer, b"c", &long].join(&b'\n');
    let expected: Vec<_> = (1..)
        .zip([Some(b"a".to_vec()), Some(fits), None, Some(b"b".to_vec()), None, Some(b"c".to_vec()), None])
        .collect();
    for size in [1000, CHUNK / 3, CHUNK] {
        let mut chunks = Chunks::new(text.as_slice(), "log".as_ref(), size);
        let mut chunk = Chunk::default();
        while chunks.next(&mut chunk).unwrap() {
            assert!(chunk.bytes.capacity() <= MAX_LINE + size);
        }
        assert!(all(&text, size, usize::MAX) == expected, "chunks of {size} bytes");
    }
}

#[test]
fn the_header_is_the_first_line() {
    for size in [1, 4, 100] {
        let mut chunks = Chunks::new(&b"\xef\xbb\xbfx,y\r\n1,2\n3,4"[..], "log".as_ref(), size);
        assert_eq!(chunks.header().unwrap().unwrap(), b"x,y");
        let mut chunk = Chunk::default();
        let mut lines = vec![];
        while chunks.next(&mut chunk).unwrap() {
            lines.extend((chunk.first_line..).zip(chunk.lines().map(<[u8]>::to_vec)));
        }
        assert_eq!(lines, [(2, b"1,2".to_vec()), (3, b"3,4".to_vec())]);
    }
    let header = |text: &[u8]| Chunks::new(text, "log".as_ref(), 10).header();
    assert_eq!(header(b"").unwrap(), None);
    assert_eq!(header(b"\n").unwrap().unwrap(), b"");
    assert!(header(&vec![b'x'; MAX_LINE]).unwrap_err().to_string().starts_with("log: the first line"));
}

/// A quote that is never closed costs its line; a record beyond the limit costs what was read of it.
#[test]
fn records_are_bounded() {
    let plain = "x,y\n".repeat(MAX_LINE / 2);
    let open = format!("a,\"b\n{plain}");
    let endless = "x\",\"y\n".repeat(MAX_LINE / 2);
    for (text, lines, too_long) in [(open, 1 + MAX_LINE / 2, 0), (endless, MAX_LINE / 2, 3)] {
        let mut chunks = Chunks::new(text.as_bytes(), "log".as_ref(), CHUNK).quoted(Some(b','));
        let (mut chunk, mut next, mut records, mut dropped) = (Chunk::default(), 1, 0, 0);
        while chunks.next(&mut chunk).unwrap() {
            assert_eq!(chunk.first_line, next);
            next += chunk.lines;
            records += chunk.records(b',').count();
            dropped += usize::from(chunk.too_long);
        }
        assert_eq!(next as usize, 1 + lines);
        assert_eq!(dropped, too_long);
        assert_eq!(records, if too_long == 0 { lines } else { 1 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However a text is cut into chunks, its records are the same.
    #[test]
    fn chunks_hold_the_records_of_the_text(
        text in "(a|,|\"|\"\"|\r|\n|\"\n|,\"){0,60}", size in 1usize..20, step in 1usize..9,
    ) {
        let mut chunks = Chunks::new(Slow(text.as_bytes(), step), "log".as_ref(), size).quoted(Some(b','));
        let (mut chunk, mut found) = (Chunk::default(), vec![]);
        while chunks.next(&mut chunk).unwrap() {
            found.extend(chunk.records(b',').map(|r| (r.first_line, r.last_line, r.text.to_vec())));
        }
        let whole = Records::new(text.as_bytes(), b',', 1);
        let whole: Vec<_> = whole.map(|r| (r.first_line, r.last_line, r.text.to_vec())).collect();
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn chunks_hold_the_lines_of_the_text(
        text in "(a|b|\r|\n|\r\n){0,40}", size in 1usize..20, step in 1usize..9,
    ) {
        let mut lines: Vec<&str> = text.split('\n').collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        let lines: Vec<&str> = lines.iter().map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        prop_assert_eq!(all(text.as_bytes(), size, step), numbered(&lines));
    }
}

#[test]
fn peeking_consumes_nothing() {
    for text in ["\u{feff}a\nbc\nd", "a\nbc\nd", ""] {
        let read = |peek: bool| {
            let mut chunks = Chunks::new(text.as_bytes(), "log".as_ref(), 4);
            if peek {
                let beginning = chunks.peek().unwrap().to_vec();
                assert!(beginning.is_empty() || beginning.starts_with(b"a"), "{beginning:?}");
            }
            let (mut chunk, mut bytes, mut lines) = (Chunk::default(), vec![], vec![]);
            while chunks.next(&mut chunk).unwrap() {
                bytes.extend_from_slice(&chunk.bytes);
                lines.push(chunk.first_line);
            }
            (bytes, lines.first().copied(), chunks.bytes())
        };
        assert_eq!(read(true), read(false));
    }
}
