//! Compares what a page prints with what a command printed.
//!
//! Numbers differ from machine to machine, so that any number matches any other, with its unit, and whitespace counts as one
//! space. An AUC must be near the one printed. A line `…` stands for any lines, `…` in a line for any text.

/// How far an AUC may be from that of the page: a page of a hundred steps, on another processor.
const AUC: f64 = 0.02;

/// What a reader of `expected` would miss in `printed`.
pub fn mismatch(expected: &str, printed: &str) -> Option<String> {
    let printed: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut next = 0;
    let mut anywhere = false;
    for line in expected.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line == "…" {
            anywhere = true;
            continue;
        }
        let rest = &printed[next..];
        let within = if anywhere { rest.len() } else { rest.len().min(1) };
        let Some(found) = rest[..within].iter().position(|other| same(line, other)) else {
            let instead = rest.first().unwrap_or(&"nothing more");
            return Some(format!("the page prints\n  {line}\nwhere the command printed\n  {instead}"));
        };
        next += found + 1;
        anywhere = false;
    }
    let left = printed.get(next).filter(|_| !anywhere);
    left.map(|line| format!("the command also printed\n  {line}\nEnd the block with … to leave lines out"))
}

/// Whether two lines have the same shape.
fn same(page: &str, printed: &str) -> bool {
    let parts: Vec<Vec<Word>> = page.split('…').map(words).collect();
    let printed = words(printed);
    let (first, rest) = parts.split_first().unwrap();
    if !begins(&printed, first) {
        return false;
    }
    let mut at = first.len();
    for (index, part) in rest.iter().enumerate() {
        let last = index + 1 == rest.len();
        let start = match last {
            true => printed.len().checked_sub(part.len()).filter(|&start| start >= at),
            false => (at..=printed.len()).find(|&start| begins(&printed[start..], part)),
        };
        match start.filter(|&start| begins(&printed[start..], part)) {
            Some(start) => at = start + part.len(),
            None => return false,
        }
    }
    !rest.is_empty() || at == printed.len()
}

fn begins(line: &[Word], part: &[Word]) -> bool {
    line.len() >= part.len() && part.iter().zip(line).all(|(a, b)| a.matches(b))
}

/// Part of a line: text that must be the same, or a number.
#[derive(Debug)]
enum Word {
    Text(String),
    Number,
    Auc(f64),
}

impl Word {
    fn matches(&self, printed: &Word) -> bool {
        match (self, printed) {
            (Word::Text(a), Word::Text(b)) => a == b,
            (Word::Auc(a), Word::Auc(b)) => (a - b).abs() <= AUC,
            (Word::Number, Word::Number) => true,
            _ => false,
        }
    }
}

/// A line as texts and numbers. Digits behind a letter belong to a name (`C1`, `f32`); units behind a number to the number.
fn words(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for piece in line.split_whitespace() {
        if is_digest(piece) {
            words.push(Word::Number);
            continue;
        }
        let follows_number = matches!(words.last(), Some(Word::Number));
        if follows_number && is_unit(piece.trim_end_matches([',', ';', ')', '.', ':'])) {
            let tail = piece.trim_start_matches(|c: char| c.is_alphabetic() || c == 'µ' || c == '/');
            words.extend(tail.chars().map(|c| Word::Text(c.into())));
            continue;
        }
        let auc = matches!(words.last(), Some(Word::Text(text)) if text == "AUC");
        for (text, number) in split_numbers(piece) {
            words.push(match (number, text.parse()) {
                (false, _) => Word::Text(text),
                (true, Ok(value)) if auc => Word::Auc(value),
                (true, _) => Word::Number,
            });
        }
    }
    words
}

/// Texts and numbers of a piece of a line: `(12.5` is `(` and a number.
fn split_numbers(piece: &str) -> Vec<(String, bool)> {
    let mut parts: Vec<(String, bool)> = Vec::new();
    let mut before = ' ';
    for c in piece.chars() {
        let in_number = parts.last().is_some_and(|part| part.1);
        let digit = c.is_ascii_digit();
        let number = match in_number {
            true => digit || matches!(c, '.' | ','),
            false => digit && !before.is_alphabetic() && !(before.is_ascii_digit()),
        };
        let same_kind = parts.last().is_some_and(|part| part.1 == number);
        match parts.last_mut().filter(|_| same_kind) {
            Some(part) => part.0.push(c),
            None => parts.push((c.into(), number)),
        }
        before = c;
    }
    // A comma or full stop behind a number ends the phrase, not the number.
    let mut split = Vec::new();
    for (text, number) in parts {
        let kept = text.trim_end_matches(['.', ',']);
        if number && kept.len() < text.len() {
            split.push((kept.to_owned(), true));
            split.push((text[kept.len()..].to_owned(), false));
        } else {
            split.push((text, number));
        }
    }
    split
}

fn is_digest(piece: &str) -> bool {
    piece.len() >= 12
        && piece.chars().all(|c| c.is_ascii_hexdigit())
        && piece.chars().any(|c| c.is_ascii_digit())
}

fn is_unit(piece: &str) -> bool {
    const UNITS: [&str; 24] = [
        "s", "ms", "µs", "min", "h", "k", "M", "G", "T", "B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB",
        "F", "kF", "MF", "GF", "TF", "k/s", "M/s",
    ];
    UNITS.contains(&piece)
}

#[test]
fn shapes_are_compared_and_numbers_are_not() {
    let printed = "Trained dlrm (94.0 k parameters) in 12.2 s\n\n  AUC 0.7484   logloss 0.4890\nC1 of f32\nsha256 5baecd58be6cb8b25b1f\n";
    assert_eq!(mismatch(printed, printed), None);
    assert_eq!(mismatch("Trained dlrm (2 M parameters) in 900 ms\nAUC 0.75 logloss 1\n…", printed), None);
    assert_eq!(mismatch("…\nsha256 0123456789abcdef", printed), None);
    assert_eq!(mismatch("Trained … in 1 min\n…\nC1 … f32\n…", printed), None);
    for lie in [
        "Trained dcn (94.0 k parameters) in 12.2 s\n…", // another word
        "…\nAUC 0.80   logloss 0.4890\n…",              // an AUC that is far away
        "…\nC2 of f32\n…",                              // another name
        "Trained dlrm (94.0 k parameters) in 12.2 s",   // lines left out without …
        "…\nsha256",                                    // part of a line
        "…\nC1 of f32\nAUC 0.7484   logloss 0.4890\n…", // another order
    ] {
        assert!(mismatch(lie, printed).is_some(), "{lie}");
    }
}
