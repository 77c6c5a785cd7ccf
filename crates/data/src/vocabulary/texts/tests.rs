use super::*;
use crate::id;
use std::fs;

#[test]
fn texts_come_back_as_they_were_whatever_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let texts: [&[u8]; 6] = [b"Oslo", b"a,b", b"say \"hi\"", b"two\nlines", b"\xff\xfe", b" "];
    let vocabulary = Vocabulary::new(texts.iter().map(|text| id::key(text)).collect()).unwrap();
    let collector = IdTexts::new(&vocabulary, folder.path()).unwrap();
    // Rows in any order, again and again, and those of no row.
    for row in [3, 1, 0, 6, 2, 3, 4, 0, 5, 1] {
        let text = if row == 0 { b"other" } else { texts[row - 1] };
        collector.offer([(row as u64, text)].into_iter());
    }
    let (path, counts) = (folder.path().join("v.csv"), [60, 50, 40, 30, 20, 10]);
    collector.write(&counts, &path).unwrap();
    let mut reader = IdTextReader::open(&path).unwrap();
    for (row, (text, count)) in (1..).zip(texts.iter().zip(counts)) {
        assert_eq!(reader.next_id().unwrap(), Some(IdText { row, text, count }));
        assert_eq!(vocabulary.row(id::key(text)), row);
    }
    assert_eq!(reader.next_id().unwrap(), None);
    for damaged in
        ["row,id\n", "row,id,count\n2,a,1\n1,b,1\n", "row,id,count\n1,\"a,1\n", "row,id,count\nx,a,1\n", ""]
    {
        fs::write(&path, damaged).unwrap();
        let error = IdTextReader::open(&path).and_then(|mut reader| {
            while reader.next_id()?.is_some() {}
            Ok(())
        });
        assert!(error.is_err(), "{damaged}");
    }
}
