//! The fast parser against a slow and obvious one, and text that was written from samples.

use super::*;
use crate::id;
use crate::lines::Chunks;
use proptest::prelude::*;
use spec::schema::{IdRule, LabelColumn, LabelHead, SparseColumn, Transform};

/// Parses `text` in chunks of about `size` bytes; the first line is the header where the schema has no columns.
fn parse(schema: &Schema, text: &[u8], size: usize) -> Result<(Samples, BadLines), DataError> {
    let mut chunks = Chunks::new(text, "log".as_ref(), size).quoted(quotes_beside(schema));
    let header = if schema.columns.is_none() { chunks.header()? } else { None };
    let layout = LineLayout::new(schema, "log".as_ref(), header.as_deref())?;
    let (mut samples, mut bad) = (Samples::new(schema.sparse.len()), BadLines::default());
    let (mut scratch, mut chunk) = (Scratch::default(), Chunk::default());
    while chunks.next(&mut chunk)? {
        layout.parse(&mut scratch, &chunk, &mut samples, &mut bad);
    }
    Ok((samples, bad))
}

/// A CSV with every kind of column, and columns nobody reads.
fn rich() -> Schema {
    let column = |name: &str| SparseColumn::hashed(name.into());
    let mut schema = Schema::criteo();
    schema.delimiter = ',';
    schema.columns = None;
    schema.missing = vec!["NA".into()];
    schema.label = LabelColumn { column: "clicked".into(), positive_from: None };
    schema.dense.truncate(2);
    schema.dense[0].column = "price".into();
    schema.dense[1].column = "age".into();
    schema.dense[1].transform = Transform::None;
    schema.dense[1].missing = -1.0;
    let tags = SparseColumn { separator: Some('|'), weight_separator: Some(':'), ..column("tags") };
    let items = SparseColumn { separator: Some(' '), weights: Some("scores".into()), ..column("items") };
    let slot = SparseColumn { ids: IdRule::Index, rows: Some(10), ..column("slot") };
    let city = SparseColumn { weights: Some("city_weight".into()), ..column("city") };
    schema.sparse = vec![column("user"), tags, items, slot, city];
    schema.check().unwrap();
    schema
}

const HEADER: &str = "unused,user,tags,items,scores,slot,city,city_weight,price,age,clicked\n";

/// The samples of one line below the header, or the complaint about it.
fn one(line: &str) -> Result<Samples, String> {
    let (samples, bad) = parse(&rich(), format!("{HEADER}{line}\n").as_bytes(), 1 << 20).unwrap();
    assert_eq!(bad.lines, 1);
    match bad.first.first() {
        None => Ok(samples),
        Some(bad) => {
            assert_eq!(samples, Samples::new(5), "a bad line left something behind");
            Err(bad.to_string())
        }
    }
}

#[test]
fn every_kind_of_column() {
    let samples = one(r#"x,u7,a:0.5|b|c:-2,i j,1 2.5,9,Oslo,3,1e1,37,1"#).unwrap();
    assert_eq!(samples.labels, [1.0]);
    assert_eq!(samples.dense, [11f32.ln(), 37.0]);
    let key = |text: &str| id::key(text.as_bytes());
    let bags = |lengths: &[u32], ids: &[u64], weights: &[f32]| crate::Bags {
        lengths: lengths.to_vec(),
        ids: ids.to_vec(),
        weights: weights.to_vec(),
        texts: None,
    };
    let expected = [
        bags(&[], &[key("u7")], &[]),
        bags(&[3], &[key("a"), key("b"), key("c")], &[0.5, 1.0, -2.0]),
        bags(&[2], &[key("i"), key("j")], &[1.0, 2.5]),
        bags(&[], &[9], &[]),
        bags(&[], &[key("Oslo")], &[3.0]),
    ];
    assert_eq!(samples.bags, expected);
    let missing = one(",,,,,,,,,,false").unwrap();
    assert_eq!((missing.labels[0], &missing.dense[..]), (0.0, &[0.0, -1.0][..]));
    let expected = [
        bags(&[], &[id::MISSING], &[]),
        bags(&[0], &[], &[]),
        bags(&[0], &[], &[]),
        bags(&[], &[0], &[]),
        bags(&[], &[id::MISSING], &[1.0]),
    ];
    assert_eq!(missing.bags, expected);
    assert_eq!(one("x,NA,NA,NA,NA,NA,NA,NA,NA,NA,FALSE").unwrap(), missing);
    assert_eq!(one(r#""a ""b"", c","","","","","","","","","",0.0"#).unwrap(), missing);
    assert_eq!(one(",,a|,,,,,,,,1").unwrap().bags[1].ids, [key("a"), id::MISSING]);
}

#[test]
fn faults_name_their_column() {
    for (line, complaint) in [
        ("", "log, line 2: expected 11 fields, got 1"),
        (",,,,,,,,,,,,", "log, line 2: expected 11 fields, got 13"),
        (",,,,,,,,,,", "log, line 2, column clicked: the label is missing"),
        (",,,,,,,,,,2", "log, line 2, column clicked: expected a label of 0 or 1, got \"2\""),
        (",,,,,,,,x,,1", "log, line 2, column price: expected a finite number, got \"x\""),
        (",,,,,,,,,nan,1", "log, line 2, column age: expected a finite number, got \"nan\""),
        (",,,,,,,,,1e39,1", "log, line 2, column age: expected a finite number, got \"1e39\""),
        (",,a:b,,,,,,,,1", "log, line 2, column tags: expected a finite weight, got \"b\""),
        (",,a:1|b:inf,,,,,,,,1", "log, line 2, column tags: expected a finite weight, got \"inf\""),
        (
            ",,,i j,1,,,,,,1",
            "log, line 2, column scores: expected as many weights as ids, got 1 weights and 2 ids",
        ),
        (
            ",,,,1,,,,,,1",
            "log, line 2, column scores: expected as many weights as ids, got 1 weights and 0 ids",
        ),
        (",,,,,10,,,,,1", "log, line 2, column slot: expected a row number below 10, got \"10\""),
        (",,,,,-1,,,,,1", "log, line 2, column slot: expected a row number below 10, got \"-1\""),
        (",,,,,99999999999999999999,,,,,1", "log, line 2, column slot: expected a row number below 10"),
        (",,a|b,,,,Oslo,,,,1", "log, line 2, column city_weight: expected a finite weight, got \"\""),
        (r#","u,,,,,,,,,1"#, "log, line 2: a quoted field that begins on this line does not end;"),
        (r#","u"x,,,,,,,,,1"#, "log, line 2: expected the delimiter after a closing quote, got \"x,,,"),
    ] {
        let error = one(line).unwrap_err();
        assert!(error.starts_with(complaint), "{line}: {error}");
    }
}

/// A quoted field may hold line ends; one that never ends costs its own line, and no other.
#[test]
fn line_ends_inside_quotes() {
    let lines = [
        ",\"two\nlines\",,,,,,,,,1",
        ",\"never ends,,,,,,,,,1",
        ",u,,,,,,,,,1",
        ",\"a\r\n\r\nb\",,,,,,,x,,1",
        ",\"a\nb\",\"c,,,,,,,,,1",
        ",v,,,,,,,,,0",
    ];
    let text = format!("{HEADER}{}\n", lines.join("\n"));
    for size in [1, 7, 40, 1 << 20] {
        let (samples, bad) = parse(&rich(), text.as_bytes(), size).unwrap();
        let expected = ["two\nlines", "u", "v"].map(|text| id::key(text.as_bytes()));
        assert_eq!((&samples.bags[0].ids[..], &samples.labels[..]), (&expected[..], &[1.0, 1.0, 0.0][..]));
        let told: Vec<String> = bad.first.iter().map(ToString::to_string).collect();
        assert!(told[0].starts_with("log, line 4: a quoted field that begins on this line does not end"));
        assert!(told[1].starts_with("log, line 6, column price: expected a finite number, got \"x\""));
        assert!(told[2].starts_with("log, line 10: a quoted field that begins on this line"), "{told:?}");
        assert_eq!((bad.count, bad.lines), (3, 6));
    }
}

#[test]
fn headers_may_hold_line_ends() {
    let header = HEADER.replace("unused", "\"not\nused\"");
    let (samples, bad) = parse(&rich(), format!("{header},,,,,,,,,,1\n,\n").as_bytes(), 5).unwrap();
    assert_eq!((samples.len(), bad.first[0].line), (1, 4));
}

#[test]
fn labels_by_threshold() {
    let mut schema = rich();
    schema.label.positive_from = Some(3.5);
    let text = format!("{HEADER},,,,,,,,,,3\n,,,,,,,,,,3.5\n,,,,,,,,,,5\n,,,,,,,,,,true\n");
    let (samples, bad) = parse(&schema, text.as_bytes(), 9).unwrap();
    assert_eq!((samples.labels, bad.count), (vec![0.0, 1.0, 1.0], 1));
}

#[test]
fn headers_are_checked() {
    let error = |header: &str| parse(&rich(), header.as_bytes(), 100).unwrap_err().to_string();
    let missing = error("user,tags,items,scores,slot,price,age,clicked\n");
    assert_eq!(
        missing,
        "log: no column `city_weight`; the columns are user, tags, items, scores, slot, price, age, clicked"
    );
    assert_eq!(error(&format!("user,{HEADER}")), "log: the header names column `user` twice");
    assert!(error("a,\"b\n").starts_with("log: the header: a quoted field"));
    assert!(error(&",".repeat(1 << 17)).starts_with("log: the header has 131073 columns"));
    // A name that nobody asks for may stand twice, and names may be quoted.
    let header = HEADER.replace("user", "\"user\"");
    parse(&rich(), format!("unused,{header}").as_bytes(), 100).unwrap();
}

/// Slow and obvious: Criteo's lines, one at a time.
fn reference(line: &str) -> Option<(f32, Vec<f32>, Vec<u64>)> {
    let fields: Vec<&str> = line.split('\t').collect();
    if fields.len() != 40 {
        return None;
    }
    let label = ["0", "1"].iter().position(|label| *label == fields[0])? as f32;
    let mut dense = vec![];
    for field in &fields[1..14] {
        let count: f64 = if field.is_empty() { 0.0 } else { field.parse().ok()? };
        dense.push((1.0 + count.max(0.0)).ln() as f32);
    }
    Some((label, dense, fields[14..].iter().map(|field| id::key(field.as_bytes())).collect()))
}

fn criteo_line() -> impl Strategy<Value = String> {
    let label = prop_oneof![9 => "[01]", 1 => "[2x]?"];
    let count = prop_oneof![3 => Just(String::new()), 20 => "-?[0-9]{1,4}", 5 => "[0-9]{5,12}"];
    let bad = prop_oneof![400 => Just(""), 1 => Just("x"), 1 => Just("\t")];
    let counts = prop::collection::vec((count, bad), 13);
    let ids = prop::collection::vec("([0-9a-f]{8})?", 26);
    (label, counts, ids).prop_map(|(label, counts, ids)| {
        let counts: Vec<String> = counts.into_iter().map(|(count, bad)| count + bad).collect();
        [label, counts.join("\t"), ids.join("\t")].join("\t")
    })
}

/// What `write` turns into lines of the rich schema and `expect` into what must come out.
#[derive(Clone, Debug)]
struct Row {
    clicked: bool,
    numbers: [Option<i32>; 2],
    user: String,
    tags: Vec<(String, Option<i16>)>,
    items: Vec<(String, i16)>,
    slot: u8,
    city: (String, i16),
}

fn row() -> impl Strategy<Value = Row> {
    let text = || prop_oneof![8 => "[a-z0-9é]{1,20}", 1 => "[a-z,\" \r\n]{1,6}!"];
    let word = || "[a-z0-9,\"é]{1,5}!";
    let tags = prop::collection::vec((word(), prop::option::of(any::<i16>())), 0..4);
    let items = prop::collection::vec((word(), any::<i16>()), 0..4);
    let numbers = prop::array::uniform2(prop::option::of(any::<i32>()));
    let city = (text(), any::<i16>());
    (any::<bool>(), numbers, text(), tags, items, 0u8..10, city).prop_map(
        |(clicked, numbers, user, tags, items, slot, city)| Row {
            clicked,
            numbers,
            user,
            tags,
            items,
            slot,
            city,
        },
    )
}

fn quoted(text: String, delimiter: char, always: bool) -> String {
    if always || text.contains([delimiter, '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

fn write(row: &Row, delimiter: char, always: bool) -> String {
    let weight = |weight: i16| (f32::from(weight) / 8.0).to_string();
    let tag = |(id, w): &(String, Option<i16>)| match w {
        Some(w) => format!("{id}:{}", weight(*w)),
        None => id.clone(),
    };
    let join = |items: Vec<String>, by: &str| items.join(by);
    let number = |number: Option<i32>| number.map_or("NA".to_owned(), |number| number.to_string());
    let fields = [
        "x".to_owned(),
        row.user.clone(),
        join(row.tags.iter().map(tag).collect(), "|"),
        join(row.items.iter().map(|(id, _)| id.clone()).collect(), " "),
        join(row.items.iter().map(|(_, w)| weight(*w)).collect(), " "),
        row.slot.to_string(),
        row.city.0.clone(),
        weight(row.city.1),
        number(row.numbers[0]),
        number(row.numbers[1]),
        u8::from(row.clicked).to_string(),
    ];
    let fields = fields.map(|field| quoted(field, delimiter, always));
    fields.join(&delimiter.to_string())
}

fn expect(rows: &[Row]) -> Samples {
    let mut samples = Samples::new(5);
    let key = |text: &str| id::key(text.as_bytes());
    for row in rows {
        samples.labels.push(f32::from(u8::from(row.clicked)));
        samples.dense.push(row.numbers[0].map_or(0.0, |x| f64::from(x.max(0)).ln_1p() as f32));
        samples.dense.push(row.numbers[1].map_or(-1.0, |x| x as f32));
        let [user, tags, items, slot, city] = samples.bags.as_mut_slice() else { unreachable!() };
        user.ids.push(key(&row.user));
        tags.lengths.push(row.tags.len() as u32);
        tags.ids.extend(row.tags.iter().map(|(id, _)| key(id)));
        tags.weights.extend(row.tags.iter().map(|(_, w)| w.map_or(1.0, |w| f32::from(w) / 8.0)));
        items.lengths.push(row.items.len() as u32);
        items.ids.extend(row.items.iter().map(|(id, _)| key(id)));
        items.weights.extend(row.items.iter().map(|(_, w)| f32::from(*w) / 8.0));
        slot.ids.push(u64::from(row.slot));
        city.ids.push(key(&row.city.0));
        city.weights.push(f32::from(row.city.1) / 8.0);
    }
    samples
}

/// Bytes that are nearly a log.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(&b"\n"[..]),
        Just(&b"\r\n"[..]),
        Just(&b","[..]),
        Just(&b"\t"[..]),
        Just(&b"\""[..]),
        Just(&b"\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n1"[..]),
        Just(&b",,,,,,,,,,1\n"[..]),
        Just(&b"a:1|b:2"[..]),
        Just(&b"1 2"[..]),
        Just(&b"-7"[..]),
        Just(&b"1e400"[..]),
        Just(&b"\xef\xbb\xbf\xff\0"[..]),
    ];
    let pieces = prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat());
    prop_oneof![4 => pieces, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

/// Whether the parts of `samples` agree about how many there are.
fn consistent(schema: &Schema, samples: &Samples) -> bool {
    let dense = samples.dense.len() == samples.len() * schema.dense.len();
    dense
        && schema.sparse.iter().zip(&samples.bags).all(|(column, bags)| {
            let ids = bags.lengths.iter().map(|&length| length as usize).sum::<usize>();
            let ids = if column.many() { ids } else { samples.len() };
            let lengths = if column.many() { samples.len() } else { 0 };
            let weights = if column.weighted() { ids } else { 0 };
            (bags.lengths.len(), bags.ids.len(), bags.weights.len()) == (lengths, ids, weights)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn criteo_lines_equal_the_reference(lines in prop::collection::vec(criteo_line(), 0..12), size in 1usize..2000) {
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let (samples, bad) = parse(&Schema::criteo(), text.as_bytes(), size).unwrap();
        let expected: Vec<_> = lines.iter().filter_map(|line| reference(line)).collect();
        prop_assert_eq!(bad.lines, lines.len() as u64);
        prop_assert_eq!(bad.count as usize, lines.len() - expected.len());
        prop_assert_eq!(samples.len(), expected.len());
        for (s, (label, dense, ids)) in expected.iter().enumerate() {
            prop_assert_eq!(samples.labels[s], *label);
            for (got, expected) in samples.dense[s * 13..(s + 1) * 13].iter().zip(dense) {
                prop_assert!((got - expected).abs() <= 1e-6 * expected, "{} {}", got, expected);
            }
            let got: Vec<u64> = samples.bags.iter().map(|bags| bags.ids[s]).collect();
            prop_assert_eq!(&got, ids);
        }
    }

    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec(row(), 0..8), always: bool, tab: bool, size in 1usize..400, end in "\r?\n",
    ) {
        let mut schema = rich();
        schema.delimiter = if tab { '\t' } else { ',' };
        let mut text = HEADER.trim().replace(',', &schema.delimiter.to_string());
        for row in &rows {
            text += &end;
            text += &write(row, schema.delimiter, always);
        }
        let (samples, bad) = parse(&schema, text.as_bytes(), size).unwrap();
        prop_assert_eq!(&bad.first, &[]);
        prop_assert_eq!(samples, expect(&rows));
    }

    #[test]
    fn any_bytes_are_samples_or_bad_lines(bytes in hostile(), csv: bool, size in 1usize..300) {
        let (schema, text) = if csv {
            (rich(), [HEADER.as_bytes(), &bytes].concat())
        } else {
            (Schema::criteo(), bytes)
        };
        let (samples, bad) = parse(&schema, &text, size).unwrap();
        prop_assert_eq!(bad.lines, samples.len() as u64 + bad.count);
        prop_assert!(consistent(&schema, &samples));
        let (whole, bad_of_whole) = parse(&schema, &text, 1 << 20).unwrap();
        prop_assert_eq!(samples, whole);
        prop_assert_eq!(bad, bad_of_whole);
    }
}

#[test]
fn labels_weights_and_kept_columns() {
    let head = |column: &str, positive_from| LabelHead { column: column.into(), positive_from, weight: 1.0 };
    let schema = Schema {
        weight: Some("w".into()),
        keep: vec!["user".into()],
        missing: vec!["NA".into()],
        label: LabelColumn::default(),
        labels: vec![head("click", None), head("stars", Some(4.0))],
        columns: None,
        delimiter: ',',
        dense: vec![],
        sparse: vec![SparseColumn::hashed("ad".into())],
        ..Schema::criteo()
    };
    let text = "user,click,stars,w,ad\nann,1,3,0.5,a\nNA,0,5,2,b\nann,2,5,1,c\nann,1,,1,c\nann,1,4,-1,c\nann,1,4,,c\nann,1,4,1e99,c\n";
    let mut chunks = Chunks::new(text.as_bytes(), "log".as_ref(), 1 << 20);
    let header = chunks.header().unwrap();
    let layout = LineLayout::new(&schema, "log".as_ref(), header.as_deref()).unwrap();
    let (mut samples, mut bad, mut chunk) = (Samples::of(&schema), BadLines::default(), Chunk::default());
    while chunks.next(&mut chunk).unwrap() {
        layout.parse(&mut Scratch::default(), &chunk, &mut samples, &mut bad);
    }
    assert_eq!(samples.labels, [1.0, 0.0, 0.0, 1.0]);
    assert_eq!((samples.len(), &samples.weights[..]), (2, &[0.5, 2.0][..]));
    assert_eq!(samples.kept[0].keys, [id::key(b"ann"), id::MISSING]);
    assert_eq!(samples.kept[0].names.texts(), ["ann", ""]);
    assert_eq!(samples.bags[0].ids, [id::key(b"a"), id::key(b"b")]);
    let bad: Vec<String> = bad.first.iter().map(ToString::to_string).collect();
    assert_eq!(
        bad,
        [
            "log, line 4, column click: expected a label of 0 or 1, got \"2\"; other numbers need label.positive_from",
            "log, line 5, column stars: the label is missing",
            "log, line 6, column w: expected a sample weight, a finite number of at least 0, got \"-1\"",
            "log, line 7, column w: the sample weight is missing",
            "log, line 8, column w: expected a sample weight, a finite number of at least 0, got \"1e99\"",
        ]
    );
    // Without labels, as for predictions: neither labels, weights nor kept columns are needed.
    let reading = Reading { unlabelled: true, ..Reading::default() };
    let layout = LineLayout::reading(&schema, "log".as_ref(), Some(b"ad"), &reading).unwrap();
    samples.clear();
    let chunk = Chunk { bytes: b"x\n".to_vec(), first_line: 2, lines: 1, too_long: false };
    layout.parse(&mut Scratch::default(), &chunk, &mut samples, &mut BadLines::default());
    assert_eq!((&samples.labels[..], &samples.weights[..]), (&[0.0, 0.0][..], &[1.0][..]));
    assert_eq!(samples.kept[0].keys, [id::MISSING]);
}
