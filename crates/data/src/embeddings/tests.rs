use super::*;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{ListAccessor, RowAccessor};

const ROWS: [EmbeddingRow; 3] = [
    EmbeddingRow { row: 0, id: None, count: None, vector: &[0.5, -1.0] },
    EmbeddingRow { row: 1, id: Some(b"a,\tb"), count: Some(7), vector: &[0.25, 2.0] },
    EmbeddingRow { row: 2, id: Some(b"\xff"), count: Some(3), vector: &[f32::MIN_POSITIVE, 1e-3] },
];

fn written(name: &str, ids: bool) -> Vec<u8> {
    let mut table = EmbeddingTable::new(name, Vec::new(), 2, ids).unwrap();
    ROWS.iter().for_each(|row| table.append(row).unwrap());
    assert!(table.append(&EmbeddingRow { vector: &[1.0], ..ROWS[0] }).is_err());
    table.finish().unwrap()
}

#[test]
fn rows_are_written_as_csv_tsv_and_parquet() {
    let csv = b"row,id,count,v0,v1\n0,,,0.5,-1\n1,\"a,\tb\",7,0.25,2\n2,\xff,3,0.000000000000000000000000000000000000011754944,0.001\n";
    assert_eq!(written("e.csv", true), csv);
    assert!(
        written("e.TSV", true)
            .starts_with(b"row\tid\tcount\tv0\tv1\n0\t\t\t0.5\t-1\n1\t\"a,\tb\"\t7\t0.25\t2\n")
    );
    assert!(written("e.txt", false).starts_with(b"row,v0,v1\n0,0.5,-1\n"));
    for ids in [true, false] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&written("e.parquet", ids)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        for (row, expected) in rows.iter().zip(&ROWS) {
            assert_eq!(row.get_long(0).unwrap(), expected.row as i64);
            let list = row.get_list(if ids { 3 } else { 1 }).unwrap();
            let vector: Vec<f32> = (0..list.len()).map(|value| list.get_float(value).unwrap()).collect();
            assert_eq!(vector, expected.vector);
            if ids {
                let text = expected.id.map(|id| String::from_utf8_lossy(id).into_owned());
                assert_eq!(row.get_string(1).ok().cloned(), text);
                assert_eq!(row.get_long(2).ok(), expected.count.map(|count| count as i64));
            }
        }
    }
}
