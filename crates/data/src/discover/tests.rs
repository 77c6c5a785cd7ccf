//! Small logs of many kinds, and bytes that are none.

use super::*;
use proptest::prelude::*;
use std::io::Write;
use tempfile::tempdir;

fn found_in(bytes: &[u8], request: &Request) -> Result<Found, DataError> {
    let folder = tempdir().unwrap();
    let file = folder.path().join("log");
    std::fs::write(&file, bytes).unwrap();
    discover(&[file], request)
}

fn found(text: &str) -> Found {
    found_in(text.as_bytes(), &Request::default()).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    found_in(bytes, &Request::default()).unwrap_err().to_string()
}

/// A header, and rows made of their numbers.
fn log(header: &str, rows: usize, row: impl Fn(usize) -> String) -> String {
    let mut text = format!("{header}\n");
    (0..rows).for_each(|i| text += &format!("{}\n", row(i)));
    text
}

/// Numbers that look random.
fn noise(i: usize, column: u64) -> usize {
    (spec::random::RandomSequence::new(9, "discover").bits(i as u64 * 64 + column) >> 33) as usize
}

fn reason<'a>(found: &'a Found, name: &str) -> &'a str {
    &found.columns.iter().find(|column| column.name == name).unwrap().reason
}

/// user, price and clicked between delimiters.
fn shop(delimiter: char) -> String {
    let row = |i: usize| format!("u{},{}.25,{}", noise(i, 0) % 30, noise(i, 1) % 50, noise(i, 2) % 2);
    log("user,price,clicked", 200, row).replace(',', &delimiter.to_string())
}

#[test]
fn delimiters_and_headers() {
    for delimiter in [',', '\t', ';', '|'] {
        let text = shop(delimiter);
        let (_, below) = text.split_once('\n').unwrap();
        let with = found(&text);
        assert_eq!((with.delimiter, with.header), (Some(delimiter), Some(true)));
        assert_eq!((with.schema.label.column.as_str(), &with.schema.columns), ("clicked", &None));
        let without = found(below);
        assert_eq!((without.delimiter, without.header), (Some(delimiter), Some(false)));
        assert_eq!(without.schema.label.column, "column3");
        assert_eq!(without.schema.columns.as_deref().unwrap(), ["column1", "column2", "column3"]);
        for found in [with, without] {
            assert_eq!(
                found.columns.iter().map(|c| c.role).collect::<Vec<_>>(),
                [Role::Id, Role::Number, Role::Label]
            );
            assert_eq!((found.format, found.rows), (DataFormat::Csv, 200));
        }
    }
}

#[test]
fn line_ends_marks_and_compression() {
    let text = shop(',');
    let expected = found(&text);
    assert_eq!(found(&format!("\u{feff}{}", text.replace('\n', "\r\n"))), expected);
    assert_eq!(found(text.trim_end()), expected);
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    assert_eq!(found_in(&gzip.finish().unwrap(), &Request::default()).unwrap(), expected);
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    assert_eq!(found_in(&zstd, &Request::default()).unwrap(), expected);
    // All names text, all values text: a header by its words alone.
    let words = found(&log("country,browser,label", 60, |i| format!("c{},b{},{}", i % 5, i % 3, i % 2)));
    assert_eq!(words.header, Some(true));
}

#[test]
fn quoted_fields_may_hold_delimiters_and_line_ends() {
    let row =
        |i: usize| format!("{},\"a, \"\"{}\"\"\nb\",{}", noise(i, 0) % 2, noise(i, 1) % 9, noise(i, 2) % 7);
    let found = found(&log("clicked,brand,shop_id", 300, row));
    assert_eq!((found.delimiter, found.rows), (Some(','), 300));
    assert_eq!(reason(&found, "brand"), "id: text, 9 distinct");
}

#[test]
fn missing_texts() {
    let row = |i: usize| {
        let age = ["NA", "null", "31", "-", "47", ""][i % 6];
        let city = ["Rome", "-", "None", "Oslo"][i % 4];
        format!("{},{age},{city},{}", noise(i, 0) % 2, ["\\N", "1.5", "2.5"][i % 3])
    };
    let found = found(&log("clicked,age,city,price", 240, row));
    assert_eq!(found.schema.missing, ["-", "NA", "None", "\\N", "null"]);
    let age = found.columns.iter().find(|column| column.name == "age").unwrap();
    assert_eq!((age.role, age.missing), (Role::Number, 4.0 / 6.0));
    // A dash among words is a word.
    let row = |i: usize| format!("{},{}", noise(i, 0) % 2, ["a", "-"][i % 2]);
    let found = self::found(&log("clicked,city", 60, row));
    assert!(found.schema.missing.is_empty());
}

#[test]
fn times_in_several_forms() {
    let row = |i: usize| {
        let other = noise(i, 1) % 100_000;
        format!(
            "{},u{},{},2024-03-{:02} 10:00:00,{}",
            noise(i, 0) % 2,
            noise(i, 2) % 9,
            1_700_000_000 + i * 60,
            1 + other % 28,
            other
        )
    };
    let with_epoch = |name: &str| log(&format!("clicked,user,{name},day,x"), 300, row);
    let found = found(&with_epoch("ts"));
    // A date outranks a number; the other time is left out.
    assert_eq!(found.schema.time.as_deref(), Some("day"));
    assert!(!found.schema.in_time_order);
    assert_eq!(reason(&found, "day"), "time: dates, year first, not in order");
    assert_eq!(reason(&found, "ts"), "left out: another time");
    let asked = Request { time: Some("ts"), label: None };
    let found = found_in(with_epoch("ts").as_bytes(), &asked).unwrap();
    assert_eq!(reason(&found, "ts"), "time: seconds since 1970, increasing");
    assert!(found.schema.in_time_order && found.schema.time.as_deref() == Some("ts"));

    // Avazu's hours, and dates that do not sort as text.
    let row = |i: usize| format!("{},{},s{}", noise(i, 0) % 2, 14_102_100 + i / 100, noise(i, 1) % 9);
    let hours = self::found(&log("click,hour,site", 300, row));
    assert_eq!(reason(&hours, "hour"), "time: dates in digits, increasing");
    let row = |i: usize| {
        format!(
            "{},{:02}/{:02}/2024,s{}",
            noise(i, 0) % 2,
            1 + noise(i, 3) % 12,
            1 + noise(i, 2) % 28,
            noise(i, 1) % 9
        )
    };
    let last = self::found(&log("click,date,site", 300, row));
    assert_eq!((last.schema.time.as_deref(), last.schema.in_time_order), (None, false));
    assert!(
        last.warnings[0].contains("`date`") && last.warnings[0].contains("does not sort"),
        "{:?}",
        last.warnings
    );
}

#[test]
fn ids_numbers_keys_and_constants() {
    let row = |i: usize| {
        let skewed = (noise(i, 3) % 1000).pow(2) / 1000 * (noise(i, 7) % 5);
        format!(
            "{i},{},{},{:05},{}.5,{},de,{},{skewed}",
            noise(i, 0) % 2,
            noise(i, 1) % 40,
            noise(i, 2) % 90,
            noise(i, 4) % 80,
            noise(i, 5) % 2,
            noise(i, 6) as i64 % 9 - 4,
        )
    };
    let found = found(&log("row,clicked,user_id,zip,price,premium,land,delta,views", 500, row));
    assert_eq!(
        reason(&found, "row"),
        "left out: a different value in every row (a key: use it with `predict --key`)"
    );
    assert_eq!(reason(&found, "user_id"), "id: integer, 40 distinct");
    assert!(reason(&found, "zip").starts_with("id: integer, "));
    assert_eq!(reason(&found, "price"), "number: float, 0.500 to 79.500");
    assert_eq!(reason(&found, "premium"), "id: 0 or 1, 2 distinct");
    assert_eq!(reason(&found, "land"), "left out: constant");
    assert_eq!(reason(&found, "delta"), "number: integer, -4 to 4");
    assert!(reason(&found, "views").ends_with("as log(1 + x)"), "{}", reason(&found, "views"));
    let transforms: Vec<_> =
        found.schema.dense.iter().map(|d| (d.column.as_str(), d.transform.clone())).collect();
    use spec::schema::Transform::{Log, None};
    assert_eq!(transforms, [("price", None), ("delta", None), ("views", Log)]);
}

#[test]
fn lists_of_ids() {
    let row = |i: usize| {
        let ids: Vec<String> =
            (0..noise(i, 0) % 4).map(|j| (noise(i, 10 + j as u64) % 40).to_string()).collect();
        let weighted: Vec<String> = ids.iter().map(|id| format!("{id}:0.5")).collect();
        format!("{},{},{}", noise(i, 1) % 2, ids.join("|"), weighted.join(" "))
    };
    let found = found(&log("clicked,bought,seen", 300, row));
    let [bought, seen] = &found.schema.sparse[..] else { panic!("{:?}", found.schema) };
    assert_eq!((bought.separator, bought.weight_separator), (Some('|'), None));
    assert_eq!((seen.separator, seen.weight_separator), (Some(' '), Some(':')));
    assert!(reason(&found, "seen").starts_with("id: lists of ids, ' ' between with weights"));
}

#[test]
fn labels() {
    // A rating is a label, with a threshold.
    let row = |i: usize| {
        format!(
            "{},{},{},{}",
            noise(i, 0) % 90,
            noise(i, 1) % 70,
            [5, 4, 4, 3, 1][noise(i, 2) % 5],
            978_300_000 + noise(i, 3) % 9_000_000
        )
    };
    let ratings = log("userId,movieId,rating,timestamp", 600, row);
    let rated = found(&ratings);
    assert_eq!((rated.schema.label.column.as_str(), rated.schema.label.positive_from), ("rating", Some(4.0)));
    assert_eq!((rated.schema.time.as_deref(), rated.schema.in_time_order), (Some("timestamp"), false));
    assert_eq!(rated.schema.sparse.len(), 2);
    // The name decides among several columns of 0 and 1; without one, the user must.
    let row = |i: usize| format!("{},{},c{}", noise(i, 0) % 2, noise(i, 1) % 2, noise(i, 2) % 5);
    assert_eq!(found(&log("a,is_click,c", 80, row)).schema.label.column, "is_click");
    let several = refusal(log("a,b,c", 80, row).as_bytes());
    assert!(several.contains("a, b") && several.contains("--label COLUMN"), "{several}");
    let chosen =
        found_in(log("a,b,c", 80, row).as_bytes(), &Request { label: Some("b"), time: None }).unwrap();
    assert_eq!(chosen.schema.label.column, "b");
    // Named, and one-sided so far.
    assert_eq!(found(&log("label,c", 50, |i| format!("0,c{}", i % 7))).schema.label.column, "label");
    for (asked, part) in [("nobody", "no column `nobody`"), ("c", "column `c` holds no numbers")] {
        let error = found_in(log("a,b,c", 80, row).as_bytes(), &Request { label: Some(asked), time: None });
        let error = error.unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("c (text, 5 distinct)"), "{error}");
    }
    let words = refusal(log("y,c", 50, |i| format!("{},c{}", ["no", "yes"][i % 2], i % 7)).as_bytes());
    assert!(words.contains("column `y` looks like one, but holds \"no\" and \"yes\""), "{words}");
    let none = refusal(log("x,y2,z", 50, |i| format!("{}.5,{}.25,t{}", i, i * 2, i % 4)).as_bytes());
    assert!(none.contains("no label was found") && none.contains("z (text, 4 distinct)"), "{none}");
}

#[test]
fn a_column_that_is_the_label_is_left_out() {
    let row = |i: usize| format!("{0},{0}.0,u{1}", noise(i, 0) % 2, noise(i, 1) % 9);
    let found = found(&log("clicked,score,user", 90, row));
    assert_eq!(reason(&found, "score"), "left out: equals the label in every row");
    assert!(found.warnings[0].contains("`score` equals the label"), "{:?}", found.warnings);
}

#[test]
fn a_log_without_ids_is_refused() {
    let text =
        refusal(log("clicked,x,y", 90, |i| format!("{},{}.5,{}.25", i % 2, i, noise(i, 1))).as_bytes());
    assert!(text.contains("no column holds ids"), "{text}");
    // Numbers with few values may serve.
    let few =
        found(&log("clicked,count,y", 90, |i| format!("{},{},{}.25", i % 2, noise(i, 2) % 5, noise(i, 1))));
    assert_eq!(few.schema.sparse[0].column, "count");
}

fn criteo_line(i: usize, blanks: bool) -> String {
    let blank = |column: u64| blanks && noise(i, column).is_multiple_of(3);
    let count = |column: u64| if blank(column) { String::new() } else { (noise(i, column) % 90).to_string() };
    let id = |column: u64| if blank(column) { String::new() } else { format!("{:08x}", noise(i, column)) };
    let fields = (1..14).map(count).chain((14..40).map(id));
    format!("{}\t{}\n", noise(i, 0) % 2, fields.collect::<Vec<_>>().join("\t"))
}

#[test]
fn criteo_with_and_without_blanks() {
    for blanks in [false, true] {
        let text: String = (0..100).map(|i| criteo_line(i, blanks)).collect();
        let found = found(&text);
        assert_eq!(
            (found.format, found.header, found.columns.len()),
            (DataFormat::CriteoTsv, Some(false), 40)
        );
        assert_eq!(found.schema, Schema { in_time_order: true, ..Schema::criteo() });
        assert_eq!(reason(&found, "I3"), "number: a count, as log(1 + x)");
        assert!(reason(&found, "C3").starts_with("id: hexadecimal id, "));
    }
    // Forty columns alone are not enough.
    let other: String = (0..100).map(|i| criteo_line(i, false).replacen('\t', "\tx", 1)).collect();
    assert_eq!(found(&other).format, DataFormat::Csv);
}

#[test]
fn files_that_hold_no_log() {
    for (bytes, part) in [
        (&b""[..], "is empty"),
        (b"a,b,c\n", "no rows"),
        (b"PK\x03\x04rest", "zip"),
        (b"\xff\xfea\0,\0b\0", "UTF-16"),
        (b"{\"a\": 1}\n{\"a\": 2}\n", "JSON"),
        (b"1::2::3\n4::5::6\n", "`::`"),
        (b"one\ntwo\nthree\n", "tab ; or |"),
        (b"\0\x01\x02\x03binary", "neither Parquet nor text"),
        (b"PAR1 but nothing more", "Parquet"),
    ] {
        let error = refusal(bytes);
        assert!(error.contains(part), "{error}");
    }
    let long = "x".repeat(1 << 20);
    assert!(refusal(long.as_bytes()).contains("no line end"));
}

/// What logs are made of.
const PIECES: &[&[u8]] = &[
    b"\n",
    b",",
    b"\t",
    b"\"",
    b"1",
    b"0",
    b"id",
    b"label",
    b"2024-01-01",
    b"3|4:1",
    b"\xff",
    b"\0",
    b"1700000000",
    b"NA",
    b"-",
    b"0,a,1\n",
    b"1,b,2\n",
    b"\r\n",
    b"|",
    b"1e400",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any bytes are a log that has a sound schema, or are refused.
    #[test]
    fn any_bytes_are_read_or_refused(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..120),
    ) {
        if let Ok(found) = found_in(&pieces.concat(), &Request::default()) {
            prop_assert!(found.schema.check().is_ok());
            prop_assert!(found.columns.iter().filter(|column| column.role == Role::Label).count() == 1);
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), parquet: bool) {
        let bytes = if parquet { [b"PAR1", &bytes[..], b"PAR1"].concat() } else { bytes };
        let _ = found_in(&bytes, &Request::default());
    }
}

#[test]
fn a_column_of_sample_weights_is_named() {
    let row = |i: usize| format!("{},c{},{}", i % 2, i % 7, (i % 5) as f64 / 2.0);
    let named = found(&log("clicked,c,sample_weight", 80, row));
    assert_eq!(named.schema.weight.as_deref(), Some("sample_weight"));
    assert!(reason(&named, "sample_weight").starts_with("weight: a sample weight by its name, 0 to 2"));
    // The weight of a parcel is a number like any other, and a negative weight is none of a sample.
    assert_eq!(found(&log("clicked,c,weight", 80, row)).schema.weight, None);
    let negative = |i: usize| format!("{},c{},{}", i % 2, i % 7, i as f64 - 4.5);
    assert_eq!(found(&log("clicked,c,sample_weight", 80, negative)).schema.weight, None);
}
