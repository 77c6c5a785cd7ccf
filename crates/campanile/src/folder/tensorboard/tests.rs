use super::*;
use std::time::Duration;

/// The bytes are those that TensorBoard's own writer makes of these two events.
#[test]
fn a_file_is_as_it_always_was() {
    let dir = tempfile::tempdir().unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
    let mut writer = EventWriter::create(dir.path(), now, None).unwrap();
    writer.write(now, 300, &[("train/loss", 0.5)]).unwrap();
    let path = dir.path().join("events.out.tfevents.1700000000.campanile");
    let hex: String = std::fs::read(path).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe92100000000\
            000000017becf60900001040fc54d94110ac022a130a110a0a747261696e2f6c6f7373150000003f8c4ba26f";
    assert_eq!(hex, expected);
}

#[test]
fn two_files_of_one_second_have_names_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(7);
    let one = EventWriter::create(dir.path(), now, None).unwrap();
    let two = EventWriter::create(dir.path(), now, Some(3)).unwrap();
    assert!(one.path < two.path, "{one:?} {two:?}");
}
