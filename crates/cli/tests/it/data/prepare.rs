//! `campanile data prepare`: what it says, what it leaves alone, and what training says of a damaged log.

use super::shop;
use crate::support::command::{Folder, has, json, refused_with};
use std::fs;

/// Prepares a log of 500 rows, and gives the arguments to do it again elsewhere.
fn prepare(folder: &Folder, out: &str) -> Vec<String> {
    let schema = folder.write("schema.toml", shop::schema());
    let log = folder.write("log.csv", shop::text(&shop::rows(0..500), ','));
    let args = ["data", "prepare", "--format", "csv", "--schema", &schema, "--data", &log, "--json", "--out"];
    let args: Vec<String> = args.into_iter().map(Into::into).collect();
    let value = json(&args.iter().map(String::as_str).chain([out]).collect::<Vec<_>>());
    has(&value, "folder samples clicks bad_lines bytes_read bytes_written seconds");
    let clicks = shop::rows(0..500).iter().filter(|row| row.clicked).count();
    assert_eq!((&value["samples"], &value["clicks"]), (&500.into(), &clicks.into()));
    assert_eq!(value["bytes_read"], fs::metadata(&log).unwrap().len());
    assert_eq!(value["folder"], out);
    args
}

#[test]
fn only_its_own_folder_is_written_again() {
    let folder = Folder::new();
    let out = folder.path("prepared");
    let args = prepare(&folder, &out);
    let into = |out| args.iter().map(String::as_str).chain([out]).collect::<Vec<_>>();
    json(&into(&out));
    let other = folder.path("other");
    fs::create_dir(&other).unwrap();
    json(&into(&other));
    let precious = folder.path("precious");
    fs::create_dir(&precious).unwrap();
    folder.write("precious/thesis.txt", "years of work");
    refused_with(&into(&precious), &[&precious, "holds something else"]);
    assert_eq!(fs::read_dir(&precious).unwrap().count(), 1);
    refused_with(&into(&folder.path("schema.toml")), &["schema.toml"]);
}

#[test]
fn damage_is_found_and_its_file_named() {
    let folder = Folder::new();
    let out = folder.path("prepared");
    prepare(&folder, &out);
    let train = ["train", "--format", "prepared", "--data", &out, "--dim", "8", "--json"];
    json(&train);
    for name in ["samples.bin", "index.bin", "manifest.json"] {
        let path = format!("{out}/{name}");
        let sound = fs::read(&path).unwrap();
        for place in [0, sound.len() / 3, sound.len() / 2, sound.len() - 1] {
            let mut damaged = sound.clone();
            damaged[place] ^= 0x10;
            fs::write(&path, damaged).unwrap();
            refused_with(&train, &[&path]);
        }
        for length in [0, sound.len() / 2, sound.len() - 1] {
            fs::write(&path, &sound[..length]).unwrap();
            refused_with(&train, &[&path]);
        }
        fs::write(&path, sound).unwrap();
    }
    json(&train);
}

/// Evaluation data must use the rows that the training data's vocabularies gave.
#[test]
fn vocabularies_can_be_those_of_another_log() {
    let folder = Folder::new();
    let out = folder.path("prepared");
    let mut args = prepare(&folder, &out);
    let held_out = folder.write("eval.csv", shop::text(&shop::rows(500..700), ','));
    let at = args.iter().position(|arg| arg == "--data").unwrap() + 1;
    args[at].clone_from(&held_out);
    let (prepared_eval, log) = (folder.path("prepared-eval"), folder.path("log.csv"));
    let like = [prepared_eval.as_str(), "--vocabularies-of", &out];
    json(&args.iter().map(String::as_str).chain(like).collect::<Vec<_>>());

    let small = ["--dim", "8", "--batch", "64", "--json"];
    let files = ["train", "--format", "prepared", "--data", &out, "--eval", &prepared_eval];
    let prepared = json(&[&files[..], &small].concat());
    let schema = folder.path("schema.toml");
    let files = ["train", "--format", "csv", "--schema", &schema, "--data", &log, "--eval", &held_out];
    let text = json(&[&files[..], &small].concat());
    for key in ["parameters_sha256", "auc", "logloss"] {
        assert_eq!(prepared[key], text[key], "{key}");
    }
}

/// The same tags in another order have other rows, in a vocabulary of the same size.
#[test]
fn vocabularies_of_another_log_are_refused() {
    let folder = Folder::new();
    let schema = "label = { column = \"y\" }\n[[sparse]]\ncolumn = \"x\"\nids = \"vocabulary\"\n";
    let schema = folder.write("schema.toml", schema);
    let train = folder.write("train.csv", "y,x\n1,a\n0,a\n1,b\n");
    let other = folder.write("other.csv", "y,x\n1,b\n0,b\n1,a\n");
    let prepare = |log: &str, out: &str, more: &[&str]| {
        let out = folder.path(out);
        let args = ["data", "prepare", "--format", "csv", "--schema", &schema, "--data", log, "--out", &out];
        json(&[&args[..], &["--json"], more].concat());
        out
    };
    let train = prepare(&train, "train", &[]);
    let own = prepare(&other, "own", &[]);
    let shared = prepare(&other, "shared", &["--vocabularies-of", &train]);
    let run = folder.path("run");
    let small = ["--dim", "8", "--batch", "64", "--json"];
    let on = |eval, out| {
        let files = ["train", "--format", "prepared", "--data", &train, "--eval", eval];
        [&files[..], &small, out].concat()
    };
    let expected = [own.as_str(), "vocabulary of x", "--vocabularies-of"];
    refused_with(&on(&own, &[]), &expected);
    let result = json(&on(&shared, &["--out", &run]));
    let eval = ["eval", "--checkpoint", &run, "--json", "--data"];
    refused_with(&[&eval[..], &[&own]].concat(), &expected);
    assert_eq!(json(&[&eval[..], &[&shared]].concat())["auc"], result["auc"]);
}
