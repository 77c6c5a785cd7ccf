//! Cuts a line into its fields.
//!
//! ```text
//! a , "b""c" , d      the line
//! a , b"c , d         its text: the line itself, or, where it has quotes, a copy without them
//! 0   2     6   8     the starts: of every field, and one past the delimiter that would follow the last
//! ```

use super::fault::{Fault, Problem};
use memchr::{memchr, memchr_iter};

/// Number of bytes that are searched at once.
const BLOCK: usize = 64;

/// Reusable memory for the fields of a line.
#[derive(Debug, Default)]
pub struct Scratch {
    starts: Vec<usize>,
    unquoted: Vec<u8>,
}

/// The fields of a line.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    text: &'a [u8],
    starts: &'a [usize],
}

impl<'a> Fields<'a> {
    /// Cuts `line`, which must have `expected` fields where that is known, at every `delimiter` outside `quotes`.
    #[inline]
    pub fn cut(
        line: &'a [u8],
        delimiter: u8,
        quotes: bool,
        expected: Option<usize>,
        scratch: &'a mut Scratch,
    ) -> Result<Self, Fault<'a>> {
        let Scratch { starts, unquoted } = scratch;
        starts.clear();
        starts.push(0);
        // A line with too many fields does not make the scratch memory grow.
        let most = expected.unwrap_or(usize::MAX);
        let (text, got) = if quotes && memchr(b'"', line).is_some() {
            let got = unquote(line, delimiter, most, starts, unquoted).map_err(Problem::of_line)?;
            (unquoted.as_slice(), got)
        } else {
            find(line, delimiter, most, starts);
            let got = starts.len();
            (line, if got <= most { got } else { memchr_iter(delimiter, line).count() + 1 })
        };
        if let Some(expected) = expected
            && got != expected
        {
            return Err(Problem::Fields { expected, got }.of_line());
        }
        starts.push(text.len() + 1);
        Ok(Self { text, starts })
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Text of field `at`, from 0.
    ///
    /// # Panics
    /// If there is no such field.
    #[inline]
    pub fn get(&self, at: usize) -> &'a [u8] {
        &self.text[self.starts[at]..self.starts[at + 1] - 1]
    }
}

/// Appends the starts of the fields after each delimiter, and stops soon after `most` of them.
///
/// Fields are short, so that separate searches would spend most time on starting and ending. Computing one bit per byte for 64
/// bytes at a time is faster.
#[inline]
fn find(line: &[u8], delimiter: u8, most: usize, starts: &mut Vec<usize>) {
    let (blocks, rest) = line.as_chunks::<BLOCK>();
    let mut last = [!delimiter; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    for (block, at) in blocks.iter().chain([&last]).zip((1..).step_by(BLOCK)) {
        let mut found = equal_bytes(block, delimiter);
        while found != 0 {
            starts.push(at + found.trailing_zeros() as usize);
            found &= found - 1;
        }
        if starts.len() > most {
            return;
        }
    }
}

/// Compares each byte of `block` with `byte`; the result has one bit per byte.
#[inline]
fn equal_bytes(block: &[u8; BLOCK], byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let pattern = u64::from_ne_bytes([byte; 8]);
    let (words, _) = block.as_chunks::<8>();
    words.iter().rev().fold(0, |bits, &word| {
        let different = u64::from_le_bytes(word) ^ pattern;
        // The highest bit of each byte: 1 where all of its bits are 0. Nothing carries from byte to byte.
        let equal = !(((different & LOW) + LOW) | different | LOW);
        // Gathers those eight bits in the highest byte.
        bits << 8 | (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// Removes quotes by RFC 4180: a field may be quoted, and `""` inside quotes is a quote. A quote inside a field that does not
/// begin with one has no meaning. Returns the number of fields; the starts of at most `most` are noted.
fn unquote<'a>(
    line: &'a [u8],
    delimiter: u8,
    most: usize,
    starts: &mut Vec<usize>,
    text: &mut Vec<u8>,
) -> Result<usize, Problem<'a>> {
    text.clear();
    let mut rest = line;
    let mut fields = 1;
    loop {
        if let Some(mut quoted) = rest.strip_prefix(b"\"") {
            rest = loop {
                let Some(end) = memchr(b'"', quoted) else { return Err(Problem::OpenQuote) };
                text.extend_from_slice(&quoted[..end]);
                quoted = &quoted[end + 1..];
                match quoted.strip_prefix(b"\"") {
                    Some(more) => {
                        text.push(b'"');
                        quoted = more;
                    }
                    None => break quoted,
                }
            };
        } else {
            let end = memchr(delimiter, rest).unwrap_or(rest.len());
            text.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
        match rest.split_first() {
            None => return Ok(fields),
            Some((&byte, more)) if byte == delimiter => rest = more,
            Some(_) => return Err(Problem::AfterQuote(rest)),
        }
        text.push(delimiter);
        fields += 1;
        if fields <= most {
            starts.push(text.len());
        }
    }
}

#[cfg(test)]
mod tests;
