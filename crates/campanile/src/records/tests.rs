use super::*;
use crate::error::chain;
use serde_json::json;

#[test]
fn work_goes_on_after_a_torn_line() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new");
    let records = Records::<u64>::open(&dir, &json!({ "steps": 4 })).unwrap();
    records.append(&1).unwrap();
    let mut file = OpenOptions::new().append(true).open(records.path()).unwrap();
    file.write_all(b"22").unwrap();
    assert_eq!(records.all().unwrap(), [1], "a line without an end does not count");
    let again = Records::<u64>::open(&dir, &json!({ "steps": 4 })).unwrap();
    again.append(&3).unwrap();
    assert_eq!(again.all().unwrap(), [1, 3]);
}

#[test]
fn results_of_other_settings_are_refused_with_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    Records::<u64>::open(folder.path(), &json!({ "steps": 4, "batch": 2 })).unwrap();
    let error = Records::<u64>::open(folder.path(), &json!({ "steps": 5, "batch": 2 })).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("records.jsonl: the folder holds results of other settings"), "{text}");
    assert!(
        text.contains("\n  steps: requested 5, but the folder has 4") && !text.contains("batch"),
        "{text}"
    );
}

#[test]
fn a_line_that_is_no_result_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::<u64>::open(folder.path(), &json!({})).unwrap();
    std::fs::write(records.path(), "{}\n1\n\"two\"\n").unwrap();
    let text = chain(&records.all().unwrap_err());
    assert!(text.contains("records.jsonl, line 3: invalid type"), "{text}");
}
