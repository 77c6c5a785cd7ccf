//! Discovers the delimiter and the header of a text log, and reads sample rows.

use super::column::is_number;
use super::criteo;
use super::sample::{FIRST_ROWS, Sample, Stored};
use super::{name, time};
use crate::delimited::{Fields, Scratch};
use crate::lines::{CHUNK, Chunk, Chunks, Records};
use crate::{DataError, files};
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Number of bytes in which the delimiter and the header are searched for.
const HEAD: usize = 256 << 10;
/// Largest number of bytes that are read for sample rows.
const MOST_BYTES: u64 = 256 << 20;
/// Number of rows that are examined in each chunk after the first.
const CHUNK_ROWS: usize = 200;
/// Memory limit of the decompressor, in bytes.
const MEMORY: u64 = 256 << 20;
/// Number of lines by which a delimiter is judged.
const JUDGED: usize = 500;
/// Bytes that may be delimiters.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// A text log that was examined.
pub(super) struct Text {
    pub sample: Sample,
    pub delimiter: u8,
    pub header: bool,
    /// Whether the text is one of Criteo's logs.
    pub criteo: bool,
}

/// Examines a text log.
pub(super) fn look(files: &[PathBuf]) -> Result<Text, DataError> {
    let mut head = vec![];
    let mut first = files.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
    for file in files {
        first = file;
        head = read_head(file)?;
        if !head.is_empty() {
            break;
        }
    }
    let refuse = |problem: &str| DataError::file(first, problem);
    if head.is_empty() {
        return Err(refuse("is empty: there are no rows to look at"));
    }
    if let Some(problem) = no_text(&head) {
        return Err(refuse(problem));
    }
    let head = whole_lines(&head)
        .ok_or_else(|| refuse("has no line end in its first 256 KiB; a log has one row a line"))?;
    let delimiter = delimiter(head).ok_or_else(|| DataError::file(first, no_delimiter(head)))?;
    let rows = table(head, delimiter, JUDGED);
    let width = mode(rows.iter().map(Vec::len)).0;
    let is_criteo = |row: &Vec<Vec<u8>>| criteo::is_line(row.iter().map(Vec::as_slice));
    let criteo = (delimiter, width) == (b'\t', criteo::FIELDS)
        && rows.iter().filter(|row| row.len() == width && is_criteo(row)).count() * 20 >= rows.len() * 19;
    let rows: Vec<_> = rows.into_iter().filter(|row| row.len() == width).collect();
    let header = !criteo && has_header(&rows);
    let sample = read_rows(files, first, delimiter, header, width)?;
    Ok(Text { sample, delimiter, header, criteo })
}

/// Reads the beginning of a file, decompressed, without a byte order mark.
fn read_head(file: &Path) -> Result<Vec<u8>, DataError> {
    let mut head = vec![];
    let contents = files::open(file, MEMORY, Default::default())?;
    contents.take(HEAD as u64).read_to_end(&mut head).map_err(|error| DataError::file(file, error))?;
    if head.starts_with(b"\xef\xbb\xbf") {
        head.drain(..3);
    }
    Ok(head)
}

/// Reason why bytes are not the text of a log, if they are not.
fn no_text(head: &[u8]) -> Option<&'static str> {
    let begins = |magic: &[u8]| head.starts_with(magic);
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    if begins(b"\xff\xfe") || begins(b"\xfe\xff") {
        Some("is UTF-16; save it as UTF-8")
    } else if begins(b"PK\x03\x04") {
        Some("is a zip archive (or a spreadsheet); unpack it, or save it as CSV")
    } else if begins(b"BZh") {
        Some("is compressed with bzip2; gzip, xz and zstd can be read")
    } else if begins(b"ORC") || begins(b"Obj\x01") || begins(b"SQLite format 3") || begins(b"\x89HDF") {
        Some("is ORC, Avro, SQLite or HDF5; write the log as CSV, TSV or Parquet")
    } else if matches!(first, Some(b'{' | b'[')) {
        Some("looks like JSON; write the log as CSV, TSV or Parquet")
    } else {
        let control = |byte: &&u8| **byte < 32 && !matches!(**byte, b'\t' | b'\n' | b'\r' | 0x1b);
        let controls = head.iter().filter(control).count();
        let binary = memchr::memchr(0, head).is_some() || controls * 50 > head.len();
        binary.then_some(
            "holds no log that can be read: neither Parquet nor text with , tab ; or | between fields",
        )
    }
}

/// The text up to its last line end, or all of it if it is the whole file.
fn whole_lines(head: &[u8]) -> Option<&[u8]> {
    if head.len() < HEAD - 3 {
        return Some(head);
    }
    memchr::memrchr(b'\n', head).map(|end| &head[..=end])
}

/// Fields of the first records that can be cut.
fn table(text: &[u8], delimiter: u8, most: usize) -> Vec<Vec<Vec<u8>>> {
    let mut scratch = Scratch::default();
    let mut rows = vec![];
    for record in Records::new(text, delimiter, 1).take(most).filter(|record| !record.text.is_empty()) {
        if let Ok(fields) = Fields::cut(record.text, delimiter, true, None, &mut scratch) {
            rows.push((0..fields.len()).map(|at| fields.get(at).to_vec()).collect());
        }
    }
    rows
}

/// The most frequent length, and how often it occurs.
fn mode(lengths: impl Iterator<Item = usize>) -> (usize, usize) {
    let mut counts = std::collections::BTreeMap::new();
    lengths.for_each(|length| *counts.entry(length).or_insert(0) += 1);
    counts.into_iter().max_by_key(|&(length, count)| (count, length)).unwrap_or((0, 0))
}

/// The delimiter: the byte that cuts nearly all lines, including the first, into the same number of fields.
fn delimiter(text: &[u8]) -> Option<u8> {
    let mut best: Option<(usize, usize, u8)> = None;
    for delimiter in DELIMITERS {
        let lengths: Vec<usize> = table(text, delimiter, JUDGED).iter().map(Vec::len).collect();
        let (width, count) = mode(lengths.iter().copied());
        let share = 100 * count / lengths.len().max(1);
        if width < 2 || share < 80 || (lengths.first() != Some(&width) && lengths.len() < 20) {
            continue;
        }
        // A header that is cut into one field is cut at the wrong byte.
        if lengths.first() == Some(&1) {
            continue;
        }
        if best.is_none_or(|(other, fields, _)| (share, width) > (other, fields)) {
            best = Some((share, width, delimiter));
        }
    }
    best.map(|(.., delimiter)| delimiter)
}

/// Message about a text in which no delimiter was found.
fn no_delimiter(text: &[u8]) -> String {
    let mut lines = Records::new(text, 0, 1).take(JUDGED).filter(|record| !record.text.is_empty()).peekable();
    let double = |text: &[u8]| text.windows(2).any(|pair| pair == b"::");
    if lines.peek().is_some_and(|record| double(record.text)) {
        return "fields seem to stand between `::`, which is two characters; replace them by one, as in \
                sed 's/::/,/g'"
            .into();
    }
    "holds no log that can be read: its lines are not cut into the same number of fields by , tab ; or |"
        .into()
}

/// Whether the first row names the columns.
fn has_header(rows: &[Vec<Vec<u8>>]) -> bool {
    let Some((first, below)) = rows.split_first() else { return false };
    // Columns that were numbered from 0 on when the file was written.
    let numbered = first.iter().enumerate().all(|(at, cell)| cell == at.to_string().as_bytes());
    if numbered && first.len() > 2 && below.iter().take(5).all(|row| row != first) {
        return true;
    }
    let distinct: HashSet<&Vec<u8>> = first.iter().collect();
    let measured = |cell: &[u8]| is_number(cell) || time::of_text(cell).is_some();
    // The first name is empty where a table was written with its index.
    if first.iter().any(|cell| measured(cell)) || first.iter().skip(1).any(Vec::is_empty) {
        return false;
    }
    let (mut for_header, mut against) = (0, usize::from(distinct.len() < first.len()));
    for (at, name) in first.iter().enumerate() {
        let cells = || below.iter().filter_map(|row| row.get(at)).filter(|cell| !cell.is_empty());
        if cells().count() > 0 && cells().filter(|cell| measured(cell)).count() * 10 >= cells().count() * 9 {
            for_header += 2;
        } else if cells().any(|cell| cell == name) {
            against += 2;
        } else if name::hint(&String::from_utf8_lossy(name)) != name::Hint::Nothing {
            for_header += 1;
        }
    }
    let identifier = |cell: &Vec<u8>| cell.len() <= 64 && cell.iter().all(|&byte| byte >= 32 && byte != b'|');
    for_header > against || (for_header == against && against == 0 && first.iter().all(identifier))
}

/// Reads rows from the beginning of the log, and some from each following chunk.
fn read_rows(
    files: &[PathBuf],
    first: &Path,
    delimiter: u8,
    header: bool,
    width: usize,
) -> Result<Sample, DataError> {
    let quotes = (header || delimiter != b'\t').then_some(delimiter);
    let mut sample: Option<Sample> = None;
    let mut header_of_first = None;
    let (mut scratch, mut chunk) = (Scratch::default(), Chunk::default());
    let mut bytes = 0;
    let mut whole = true;
    for file in files {
        let contents = files::open(file, MEMORY, Default::default())?;
        let mut chunks = Chunks::new(contents, file, CHUNK).quoted(quotes);
        if header {
            let Some(names) = chunks.header()? else { continue };
            let of_first = header_of_first.get_or_insert_with(|| names.clone());
            if *of_first != names {
                // The pass over the whole log finds its columns by name, or reports which are missing.
                whole = false;
                continue;
            }
        }
        let sample = match &mut sample {
            Some(sample) => sample,
            none => {
                let names = match &header_of_first {
                    Some(header) => header_names(first, header, delimiter, width)?,
                    None => (1..=width).map(|at| format!("column{at}")).collect(),
                };
                none.insert(Sample::new(names, vec![Stored::Text; width]))
            }
        };
        while bytes < MOST_BYTES && chunks.next(&mut chunk)? {
            bytes += chunk.bytes.len() as u64;
            let most = if sample.rows() == 0 { FIRST_ROWS } else { CHUNK_ROWS }.min(sample.room());
            let taken = take(sample, &chunk, (delimiter, quotes.is_some()), most, &mut scratch);
            whole &= taken;
        }
        whole &= bytes < MOST_BYTES;
    }
    let mut sample = sample.unwrap_or_default();
    sample.whole = whole;
    Ok(sample)
}

/// Appends up to `most` rows of a chunk. Returns whether those were all of its rows.
fn take(
    sample: &mut Sample,
    chunk: &Chunk,
    (delimiter, quotes): (u8, bool),
    most: usize,
    scratch: &mut Scratch,
) -> bool {
    let width = sample.names.len();
    let mut add = |text: &[u8]| {
        if let Ok(fields) = Fields::cut(text, delimiter, quotes, Some(width), scratch) {
            (0..width).for_each(|at| sample.push(fields.get(at)));
        }
    };
    if quotes {
        chunk.records(delimiter).take(most).for_each(|record| add(record.text));
        chunk.records(delimiter).nth(most).is_none()
    } else {
        chunk.lines().take(most).for_each(&mut add);
        chunk.lines().nth(most).is_none()
    }
}

/// Column names in a header.
fn header_names(file: &Path, header: &[u8], delimiter: u8, width: usize) -> Result<Vec<String>, DataError> {
    let mut scratch = Scratch::default();
    let fields = Fields::cut(header, delimiter, true, Some(width), &mut scratch)
        .map_err(|fault| DataError::file(file, format!("the header: {}", fault.problem)))?;
    Ok((0..fields.len()).map(|at| String::from_utf8_lossy(fields.get(at)).into_owned()).collect())
}
