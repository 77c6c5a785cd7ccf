use super::*;

fn latest(texts: &[&str], wanted: u64) -> Result<(Vec<String>, u64), DataError> {
    let folder = tempfile::tempdir().unwrap();
    let mut schema = Schema::criteo();
    schema.missing = vec!["NA".into()];
    let keys = Keys::new(&schema);
    let mut times = Times::new("ts", keys.clone(), folder.path())?;
    for text in texts {
        times.add(Some(text.as_bytes()))?;
    }
    let latest = times.latest(wanted)?;
    let held = |text: &&&str| keys.key(Some(text.as_bytes())).is_some_and(|key| latest.holds_out(&key));
    Ok((texts.iter().filter(held).map(ToString::to_string).collect(), latest.missing))
}

#[test]
fn numbers_are_compared_as_numbers_and_texts_as_texts() {
    let held = |texts: &[&str], wanted| latest(texts, wanted).unwrap().0;
    assert_eq!(held(&["9", "10", "-20", "100", "1e1", "NA"], 1), ["100"]);
    assert_eq!(held(&["-1", "-2", "-30", "0.5"], 2), ["-1", "0.5"]);
    let dates = ["2024-05-17T12:00:01.5", "2024-05-17T12:00:01.25", "2023-12-31", "2024-05-17"];
    assert_eq!(held(&dates, 1), ["2024-05-17T12:00:01.5"]);
}

#[test]
fn rows_of_one_time_stay_together() {
    let held = |wanted| latest(&["1", "2", "2", "2", "2", "3", "", "NA"], wanted).unwrap();
    assert_eq!(held(1), (vec!["3".into()], 2));
    assert_eq!(held(2).0, ["3"]);
    assert_eq!(held(4).0, ["2", "2", "2", "2", "3"]);
    let first = latest(&["1", "2", "2"], 1).unwrap().0;
    assert_eq!(first, ["2", "2"]);
    assert_eq!(latest(&["1", "1", "2"], 2).unwrap().0, ["2"]);
}

#[test]
fn columns_without_an_order_are_refused() {
    for (texts, expected) in [
        (&["1", "2", "soon"][..], "\"soon\""),
        (&["5", "5", "5"], "the same time"),
        (&["", "NA"], "0 rows have a time"),
    ] {
        let error = latest(texts, 1).unwrap_err().to_string();
        assert!(error.contains("ts") && error.contains(expected), "{error}");
    }
}

#[test]
fn keys_are_counted_where_they_do_not_fit_into_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut times = Times::new("ts", Keys::new(&Schema::criteo()), folder.path()).unwrap();
    let count = IN_MEMORY + 1000;
    for row in 0..count {
        // In some order of no meaning.
        let time = row.wrapping_mul(7_919) % count;
        times.add(Some((1_700_000_000 + time).to_string().as_bytes())).unwrap();
    }
    let latest = times.latest(100).unwrap();
    let bound = Keys::new(&Schema::criteo()).key(Some((1_700_000_000 + count - 100).to_string().as_bytes()));
    assert_eq!((Some(latest.bound), latest.inclusive), (bound, true));
}
