use super::*;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::RowAccessor;
use std::fs::File;
use table::GROUP_ROWS;

fn read(bytes: Vec<u8>) -> SerializedFileReader<File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    SerializedFileReader::new(file).unwrap()
}

fn values(count: usize) -> (Vec<f32>, Vec<f32>) {
    let labels = (0..count).map(|i| f32::from(u8::from(i % 3 == 0))).collect();
    let probabilities = (0..count).map(|i| 1.0 / (1.0 + i as f32)).collect();
    (labels, probabilities)
}

#[test]
fn csv_gives_the_same_floats_again() {
    let (mut labels, mut probabilities) = values(1000);
    for tiny in [f32::MIN_POSITIVE, 1e-40, 1.0 - f32::EPSILON / 2.0] {
        labels.push(1.0);
        probabilities.push(tiny);
    }
    let mut predictions = Predictions::new("out.csv", Vec::new(), &FirstColumn::Labels).unwrap();
    predictions.append(&labels[..400], &probabilities[..400]).unwrap();
    predictions.append(&labels[400..], &probabilities[400..]).unwrap();
    let text = String::from_utf8(predictions.finish().unwrap()).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("label,probability"));
    let rows: Vec<(f32, f32)> = lines
        .map(|line| line.split_once(',').unwrap())
        .map(|(label, probability)| {
            assert!(label == "0" || label == "1", "{label}");
            (label.parse().unwrap(), probability.parse().unwrap())
        })
        .collect();
    assert_eq!(rows, labels.into_iter().zip(probabilities).collect::<Vec<_>>());
}

#[test]
fn parquet_is_read_back_group_by_group() {
    let (labels, probabilities) = values(GROUP_ROWS + 100);
    let mut predictions = Predictions::new("out.parquet", Vec::new(), &FirstColumn::Labels).unwrap();
    for (labels, probabilities) in labels.chunks(300_000).zip(probabilities.chunks(300_000)) {
        predictions.append(labels, probabilities).unwrap();
    }
    let reader = read(predictions.finish().unwrap());
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups, [GROUP_ROWS as i64, 100]);
    let mut count = 0;
    for (row, (label, probability)) in
        reader.get_row_iter(None).unwrap().zip(labels.iter().zip(&probabilities))
    {
        let row = row.unwrap();
        assert_eq!((row.get_float(0).unwrap(), row.get_float(1).unwrap()), (*label, *probability));
        count += 1;
    }
    assert_eq!(count, labels.len());
}

#[test]
fn rows_without_a_probability_keep_their_place() {
    let write = |name: &str, first: FirstColumn| {
        let mut predictions = Predictions::new(name, Vec::new(), &first).unwrap();
        for (number, (key, probability)) in
            [(Some("a,\"b\""), Some(0.5)), (None, None), (Some("ü\n"), None)].into_iter().enumerate()
        {
            match first {
                FirstColumn::Keys(_) => predictions.append_key(key.map(str::as_bytes), probability),
                _ => predictions.append_row(number as u64, probability),
            }
            .unwrap();
        }
        predictions.finish().unwrap()
    };
    let keys = || FirstColumn::Keys("the key, quoted".into());
    let text = |name, first| String::from_utf8(write(name, first)).unwrap();
    assert_eq!(text("rows.csv", FirstColumn::Rows), "row,probability\n0,0.5\n1,\n2,\n");
    let expected = "\"the key, quoted\",probability\n\"a,\"\"b\"\"\",0.5\n,\n\"ü\n\",\n";
    assert_eq!(text("keys.csv", keys()), expected);

    let rows_of = |bytes| -> Vec<String> {
        read(bytes).get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
    };
    let rows = rows_of(write("rows.parquet", FirstColumn::Rows));
    assert_eq!(rows[0], "{row: 0, probability: 0.5}");
    assert_eq!(rows[2], "{row: 2, probability: null}");
    let keyed = rows_of(write("keys.parquet", keys()));
    assert_eq!(keyed[1], "{the key, quoted: null, probability: null}");
    assert!(keyed[0].contains("a,\"b\"") && keyed[2].contains("null"), "{keyed:?}");
}

#[test]
fn an_empty_table_is_a_table() {
    let reader =
        read(Predictions::new("OUT.Parquet", Vec::new(), &FirstColumn::Labels).unwrap().finish().unwrap());
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
}

#[test]
fn errors_name_the_path() {
    let mut predictions = Predictions::new("out.csv", Vec::new(), &FirstColumn::Labels).unwrap();
    let error = predictions.append(&[1.0], &[]).unwrap_err();
    assert_eq!(error, DataError::Size { what: "probabilities", got: 0, expected: 1 });
    // A medium of one byte is full at once.
    for name in ["out.csv", "out.parquet"] {
        let mut room = [0; 1];
        let error = Predictions::new(name, &mut room[..], &FirstColumn::Labels)
            .and_then(|table| table.finish().map(drop))
            .unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn several_labels_have_columns_of_their_own() {
    let names = ["click".to_owned(), "buy".to_owned()];
    let mut csv = Predictions::of_labels("out.csv", Vec::new(), &FirstColumn::Labels, &names).unwrap();
    csv.append(&[1.0, 0.0, 0.0, 1.0], &[0.5, 0.25, 0.75, 0.125]).unwrap();
    let text = String::from_utf8(csv.finish().unwrap()).unwrap();
    assert_eq!(
        text,
        "label_click,label_buy,probability_click,probability_buy\n1,0,0.5,0.25\n0,1,0.75,0.125\n"
    );
    let mut rows = Predictions::of_labels("out.csv", Vec::new(), &FirstColumn::Rows, &names).unwrap();
    rows.append_row_of_labels(0, Some(&[0.5, 0.25])).unwrap();
    rows.append_row_of_labels(1, None).unwrap();
    assert!(
        rows.append_row(2, Some(0.5)).unwrap_err().to_string().contains("1 for probabilities, expected 2")
    );
    let text = String::from_utf8(rows.finish().unwrap()).unwrap();
    assert_eq!(text, "row,probability_click,probability_buy\n0,0.5,0.25\n1,,\n");
    let mut table = Predictions::of_labels("out.parquet", Vec::new(), &FirstColumn::Labels, &names).unwrap();
    table.append(&[1.0, 0.0, 0.0, 1.0], &[0.5, 0.25, 0.75, 0.125]).unwrap();
    let reader = read(table.finish().unwrap());
    let last = reader.get_row_iter(None).unwrap().last().unwrap().unwrap();
    let floats: Vec<f32> = (0..4).map(|at| last.get_float(at).unwrap()).collect();
    assert_eq!(floats, [0.0, 1.0, 0.75, 0.125]);
}
