use super::*;
use proptest::prelude::*;
use std::io::Write;
use tempfile::{NamedTempFile, TempDir, tempdir};

fn names(folder: &TempDir, patterns: &[&str]) -> Result<Vec<String>, String> {
    let inside = |pattern: &&str| folder.path().join(pattern).to_str().unwrap().to_owned();
    let files =
        resolve(&patterns.iter().map(inside).collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    Ok(files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect())
}

#[test]
fn patterns_keep_their_order_and_matches_are_sorted() {
    let folder = tempdir().unwrap();
    for name in ["day_10", "day_2", "day_1", "other", "odd[1]"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    assert_eq!(names(&folder, &["other", "day_*"]).unwrap(), ["other", "day_1", "day_10", "day_2"]);
    assert_eq!(names(&folder, &["day_?", "odd[1]"]).unwrap(), ["day_1", "day_2", "odd[1]"]);
    for (pattern, problem) in
        [("none", "no such file"), ("none*", "no file matches"), ("a[", "not a pattern"), ("", "is a folder")]
    {
        let error = names(&folder, &["day_1", pattern]).unwrap_err();
        assert!(error.contains(problem) && error.contains(pattern), "{error}");
    }
}

/// The same text, twice, in two members, streams or frames.
fn compressed(format: &str, text: &[u8]) -> Vec<u8> {
    let once = match format {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(vec![], 6);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => {
            let mut encoder = zstd::Encoder::new(vec![], 3).unwrap();
            encoder.include_checksum(true).unwrap();
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        _ => text.to_vec(),
    };
    [once.clone(), once].concat()
}

fn read(bytes: &[u8], memory: u64) -> Result<Vec<u8>, String> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let consumed = Arc::new(AtomicU64::new(0));
    let mut contents = vec![];
    let mut reader = open(file.path(), memory, consumed.clone()).unwrap();
    reader.read_to_end(&mut contents).map_err(|error| error.to_string())?;
    assert_eq!(consumed.load(Ordering::Relaxed), bytes.len() as u64);
    Ok(contents)
}

fn text() -> Vec<u8> {
    (0..20_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_string().into_bytes()).collect()
}

#[test]
fn every_format_and_several_members() {
    for format in ["plain", "gzip", "xz", "zstd"] {
        let expected = [text(), text()].concat();
        assert!(read(&compressed(format, &text()), 64 << 20).unwrap() == expected, "{format}");
        assert!(read(&compressed(format, b""), 64 << 20).unwrap().is_empty(), "{format}");
    }
    assert_eq!(read(b"\x1f", 0).unwrap(), b"\x1f");
}

#[test]
fn hostile_dictionaries_are_refused() {
    let error = read(&compressed("xz", &text()), 1 << 20).unwrap_err();
    assert!(error.contains("xz data") && error.contains("1024 KiB"), "{error}");
    let mut encoder = zstd::Encoder::new(vec![], 1).unwrap();
    encoder.window_log(25).unwrap();
    encoder.write_all(&text()).unwrap();
    encoder.flush().unwrap();
    let bytes = encoder.finish().unwrap();
    assert!(read(&bytes, 1 << 25).is_ok());
    let error = read(&bytes, (1 << 25) - 1).unwrap_err();
    assert!(error.contains("zstd data"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damage_is_noticed(format in 0usize..3, place in 0.0..1.0f64, bit in 0u8..8) {
        let format = ["gzip", "xz", "zstd"][format];
        let text = text();
        let whole = compressed(format, &text);
        let half = whole.len() / 2;
        // After the magic, inside the first half, so that a member is never whole.
        let at = 6 + (place * (half - 7) as f64) as usize;
        let error = read(&whole[..at], 64 << 20).unwrap_err();
        prop_assert!(error.starts_with(format), "{}", error);
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        // Some bits of headers mean nothing: a time, say.
        if let Ok(contents) = read(&flipped, 64 << 20) {
            prop_assert!(at < 20 && contents == [&text[..], &text].concat(), "byte {} of {}", at, half);
        }
    }
}
