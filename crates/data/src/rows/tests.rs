use super::*;

#[test]
fn rows_come_back_from_disk_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = Rows::default();
    rows.push(true, Some(b"a,b"));
    rows.push(false, None);
    rows.push(false, Some(b""));
    let expected: Vec<(bool, Option<Vec<u8>>)> =
        rows.iter().map(|(good, text)| (good, text.map(<[u8]>::to_vec))).collect();
    assert_eq!(expected, [(true, Some(b"a,b".to_vec())), (false, None), (false, Some(vec![]))]);
    let mut file = RowsFile::create(&folder.path().join("rows")).unwrap();
    file.append(&rows).unwrap();
    file.append(&rows).unwrap();
    assert_eq!(file.len(), 6);
    let mut reader = file.read().unwrap();
    for row in expected.iter().chain(&expected) {
        let Row { is_sample, text } = reader.next_row().unwrap().unwrap();
        assert_eq!((is_sample, text.map(<[u8]>::to_vec)), *row);
    }
    assert_eq!(reader.next_row().unwrap(), None);
}
