//! The shop's log in Parquet: nulls for what is missing, lists for several ids.

use super::shop::Row;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::sync::Arc;

const SCHEMA: &str = "message log {
    required boolean clicked;
    optional double price;
    optional double age;
    optional binary user (UTF8);
    required binary brand (UTF8);
    optional group tags (LIST) { repeated group list { required binary element (UTF8); } }
    optional group visited (LIST) { repeated group list { required binary element (UTF8); } }
    optional group bought (LIST) { repeated group list { required int64 element; } }
    optional group amounts (LIST) { repeated group list { required double element; } }
    required int64 hour;
}";

/// Writes `rows` in groups of 700.
pub fn write(rows: &[Row], path: &str) {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    for rows in rows.chunks(700) {
        let mut group = writer.next_row_group().unwrap();
        let text = |text: &String| ByteArray::from(text.as_str());
        required::<BoolType>(&mut group, rows.iter().map(|row| row.clicked));
        optional::<DoubleType>(&mut group, rows.iter().map(|row| row.price));
        optional::<DoubleType>(&mut group, rows.iter().map(|row| row.age));
        optional::<ByteArrayType>(&mut group, rows.iter().map(|row| row.user.as_ref().map(text)));
        required::<ByteArrayType>(&mut group, rows.iter().map(|row| text(&row.brand)));
        lists::<ByteArrayType>(&mut group, rows.iter().map(|row| row.tags.iter().map(text).collect()));
        lists::<ByteArrayType>(
            &mut group,
            rows.iter().map(|row| row.visited_text().iter().map(text).collect()),
        );
        let bought = |row: &Row| row.bought.iter().map(|&(id, _)| id as i64).collect();
        lists::<Int64Type>(&mut group, rows.iter().map(bought));
        let amounts = |row: &Row| row.bought.iter().map(|&(_, amount)| amount).collect();
        lists::<DoubleType>(&mut group, rows.iter().map(amounts));
        required::<Int64Type>(&mut group, rows.iter().map(|row| row.hour as i64));
        group.close().unwrap();
    }
    writer.close().unwrap();
}

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn required<T: DataType>(group: &mut Group, values: impl Iterator<Item = T::T>) {
    put::<T>(group, &values.collect::<Vec<_>>(), None, None);
}

fn optional<T: DataType>(group: &mut Group, values: impl Iterator<Item = Option<T::T>>) {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    put::<T>(group, &values.into_iter().flatten().collect::<Vec<_>>(), Some(&levels), None);
}

/// A list without elements is null in every other row, and empty in the rest.
fn lists<T: DataType>(group: &mut Group, lists: impl Iterator<Item = Vec<T::T>>) {
    let (mut values, mut definitions, mut repetitions) = (vec![], vec![], vec![]);
    for (row, list) in lists.enumerate() {
        if list.is_empty() {
            definitions.push((row % 2) as i16);
            repetitions.push(0);
        }
        for (place, value) in list.into_iter().enumerate() {
            values.push(value);
            definitions.push(2);
            repetitions.push(i16::from(place > 0));
        }
    }
    put::<T>(group, &values, Some(&definitions), Some(&repetitions));
}

fn put<T: DataType>(
    group: &mut Group,
    values: &[T::T],
    definitions: Option<&[i16]>,
    repetitions: Option<&[i16]>,
) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, definitions, repetitions).unwrap();
    column.close().unwrap();
}
