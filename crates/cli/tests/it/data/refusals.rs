//! Mistakes that users make with files, and what they are told.

use super::{shop, shop_parquet};
use crate::support::command::{Folder, json, refusal, refused_with};
use std::fs;

#[test]
fn mistakes_with_files_are_refused_with_what_to_do() {
    let folder = Folder::new();
    let rows = shop::rows(0..200);
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("log.csv", shop::text(&rows, ','));
    let parquet = folder.path("log.parquet");
    shop_parquet::write(&rows, &parquet);
    let lists = folder.write("lists.toml", shop::schema_with_lists());
    let empty = folder.write("empty.csv", "");
    let header = folder.write("header.csv", shop::text(&[], ','));
    let nothing = folder.path("nothing");
    fs::create_dir(&nothing).unwrap();
    let (missing, pattern) = (folder.path("missing.csv"), folder.path("day-*.csv"));

    let changed = |name: &str, from: &str, to: &str| {
        let text = shop::schema();
        assert!(text.contains(from));
        folder.write(name, text.replacen(from, to, 1))
    };
    let unknown_field = changed("field.toml", "min_count = 3", "min_counts = 3");
    let unknown_column = changed("column.toml", "column = \"user\"", "column = \"customer\"");
    let no_rows = changed("rows.toml", "rows = 400\n", "");
    let no_room = changed("room.toml", "rows = 400\n", "rows = 0\n");
    let no_sparse = folder.write("sparse.toml", "label = { column = \"clicked\" }\n");
    let broken = folder.write("broken.toml", "label = {\n");
    let run = folder.path("run");

    let csv_with = |schema, data| vec!["train", "--format", "csv", "--schema", schema, "--data", data];
    let parquet_with =
        |schema, data| vec!["train", "--format", "parquet", "--schema", schema, "--data", data];
    let cases: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (csv_with(&schema, &missing), vec![&missing, "no such file"]),
        (csv_with(&schema, &pattern), vec![&pattern, "no file matches"]),
        (csv_with(&schema, &nothing), vec![&nothing, "is a folder"]),
        (csv_with(&missing, &csv), vec![&missing, "cannot be read"]),
        (vec!["train", "--format", "csv", "--data", &csv], vec!["csv", "--schema"]),
        (vec!["train", "--format", "parquet", "--data", &parquet], vec!["parquet", "--schema"]),
        (vec!["train", "--format", "csv", "--schema", &schema], vec!["csv", "--data"]),
        (vec!["train", "--format", "synthetic", "--data", &csv], vec!["synthetic", "--format"]),
        (csv_with(&unknown_field, &csv), vec!["field.toml", "line 25", "min_counts", "min_count"]),
        (csv_with(&unknown_column, &csv), vec![&csv, "no column `customer`", "user"]),
        (parquet_with(&unknown_column, &parquet), vec![&parquet, "customer", "user"]),
        (csv_with(&no_rows, &csv), vec!["sparse.user", "rows"]),
        (csv_with(&no_room, &csv), vec!["sparse.user.rows", "between 1 and"]),
        (csv_with(&no_sparse, &csv), vec!["sparse", "at least one column"]),
        (csv_with(&broken, &csv), vec!["broken.toml", "line 1"]),
        (csv_with(&schema, &parquet), vec![&parquet, "no column `clicked`"]),
        (parquet_with(&lists, &csv), vec![&csv, "Parquet"]),
        (parquet_with(&schema, &parquet), vec![&parquet, "column tags", "list"]),
        (vec!["train", "--data", &csv], vec![&csv, "lines are bad", "expected 40 fields"]),
        (vec!["train", "--format", "prepared", "--data", &nothing], vec![&nothing, "not a prepared log"]),
        (vec!["train", "--format", "prepared", "--data", &csv], vec![&csv]),
        (
            vec!["train", "--format", "prepared", "--data", &nothing, &nothing],
            vec!["2 prepared folders", "one"],
        ),
        (vec!["train", "--shuffle", "100", "--samples", "1000"], vec!["data.shuffle", "synthetic"]),
        (vec!["eval", "--checkpoint", &nothing], vec![&nothing, "checkpoint"]),
        (vec!["eval", "--checkpoint", &missing], vec![&missing]),
        (csv_with(&schema, &empty), vec![&empty, "no samples"]),
        (csv_with(&schema, &header), vec![&header, "no samples"]),
        ([&csv_with(&schema, &csv)[..], &["--eval", &header]].concat(), vec![&header, "no samples"]),
        (parquet_with(&lists, &empty), vec![&empty]),
        (
            vec!["data", "prepare", "--data", &csv, "--format", "prepared", "--out", &run],
            vec!["nothing to prepare"],
        ),
        (vec!["data", "inspect", "--data", &csv, "--format", "synthetic"], vec!["synthetic", "describe"]),
        (vec!["data", "inspect", "--data", &csv, "--memory", "1XB"], vec!["XB", "MiB"]),
    ];
    for (args, expected) in cases {
        refused_with(&args, &expected);
    }
}

/// What a file holds does not reach the terminal as it is.
#[test]
fn names_from_files_are_shown_escaped_and_cut() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("log.csv", format!("\x1b[31mred,{},größe\n1,2,3\n", "long".repeat(1000)));
    let message = refusal(&["train", "--format", "csv", "--schema", &schema, "--data", &csv]);
    assert!(message.contains("\\u{1b}[31mred") && message.contains("größe"), "{message}");
    assert!(!message.contains('\x1b') && message.len() < 500, "{message}");
}

/// A refused run leaves a folder that the corrected command can use.
#[test]
fn a_refused_run_can_be_corrected() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..200), ','));
    let (run, missing) = (folder.path("run"), folder.path("missing.csv"));
    let args =
        ["train", "--format", "csv", "--schema", &schema, "--dim", "8", "--out", &run, "--json", "--data"];
    refused_with(&[&args[..], &[&missing]].concat(), &[&missing]);
    json(&[&args[..], &[&csv]].concat());
}
