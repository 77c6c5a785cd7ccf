//! `campanile predict`: a probability for every row, as `eval` gives it, whatever stands in place of labels.

use super::{shop, shop_parquet};
use crate::support::command::{Folder, campanile, has, json, json_and_warnings, refused_with};
use parquet::file::reader::{FileReader, SerializedFileReader};
use spec::random::RandomSequence;
use std::fs::{self, File};

/// A model of the shop's log, and rows to score.
struct Trained {
    folder: Folder,
    run: String,
    /// The log to score, with labels.
    log: String,
    /// What `eval` predicts for it.
    expected: Vec<String>,
}

impl Trained {
    fn new() -> Self {
        let folder = Folder::new();
        let schema = folder.write("schema.toml", shop::schema());
        let train = folder.write("train.csv", shop::text(&shop::rows(0..800), ','));
        let log = folder.write("new.csv", shop::text(&shop::rows(3000..3301), ','));
        let (run, scored) = (folder.path("run"), folder.path("scored.csv"));
        let files = ["--format", "csv", "--schema", &schema, "--data", &train, "--out", &run];
        json(&[&["train"], &files[..], &["--dim", "8", "--batch", "128", "--json"]].concat());
        json(&["eval", "--checkpoint", &run, "--data", &log, "--predictions", &scored, "--json"]);
        let expected = fs::read_to_string(scored).unwrap();
        let expected =
            expected.lines().skip(1).map(|line| line.split_once(',').unwrap().1.to_owned()).collect();
        Self { folder, run, log, expected }
    }

    /// The lines of the log without those of `columns`, of which none is quoted.
    fn without_label(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap();
        text.lines().map(|line| format!("{}\n", line.split_once(',').unwrap().1)).collect()
    }

    fn predict<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        [&["predict", "--checkpoint", &self.run, "--json"], args].concat()
    }
}

#[test]
fn rows_are_scored_without_labels_as_with_them() {
    let trained = Trained::new();
    let out = trained.folder.path("out.csv");
    let bare = trained.folder.write("bare.csv", trained.without_label());
    let odd = fs::read_to_string(&trained.log).unwrap().replace("\n1,", "\nsoon,").replace("\n0,", "\n,");
    let odd = trained.folder.write("odd.csv", odd);
    let expected: Vec<String> =
        trained.expected.iter().enumerate().map(|(row, p)| format!("{row},{p}")).collect();
    for (data, more) in
        [(&bare, &[][..]), (&odd, &["--force"]), (&trained.log, &["--force", "--batch", "50"])]
    {
        let (result, said) =
            json_and_warnings(&trained.predict(&[&["--data", data, "--out", &out], more].concat()));
        has(&result, "out rows scored bad_lines step checkpoint seconds");
        assert_eq!(
            (&result["rows"], &result["scored"], &result["bad_lines"]),
            (&301.into(), &301.into(), &0.into())
        );
        assert!(said.is_empty(), "{said}");
        let text = fs::read_to_string(&out).unwrap();
        assert_eq!(text.lines().next(), Some("row,probability"));
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected, "{data}");
    }
    // Numbers go on over files.
    let two = trained.folder.path("two.csv");
    json(&trained.predict(&["--data", &bare, &trained.log, "--out", &two]));
    let text = fs::read_to_string(two).unwrap();
    assert_eq!(text.lines().count(), 603);
    assert_eq!(text.lines().last().unwrap(), format!("601,{}", trained.expected[300]));
}

#[test]
fn bad_lines_keep_their_place_and_keys_are_quoted() {
    let trained = Trained::new();
    let bare = trained.without_label();
    let mut lines: Vec<&str> = bare.lines().take(5).collect();
    // Too few fields, a number that is none, and a line after the last sample.
    let broken = lines[2].replacen(lines[2].split(',').next().unwrap(), "dear", 1);
    lines[2] = &broken;
    lines.insert(2, "oops");
    lines.push("oops");
    let data = trained.folder.write("bad.csv", lines.join("\n"));
    let (out, keyed) = (trained.folder.path("out.csv"), trained.folder.path("keyed.csv"));
    let (result, said) = json_and_warnings(&trained.predict(&["--data", &data, "--out", &out]));
    assert_eq!((&result["rows"], &result["scored"], &result["bad_lines"]), (&6.into(), &3.into(), &3.into()));
    assert!(said.contains("3 bad line(s) without a probability") && said.contains("line 3"), "{said}");
    let p = &trained.expected;
    let expected = format!("row,probability\n0,{}\n1,\n2,\n3,{}\n4,{}\n5,\n", p[0], p[2], p[3]);
    assert_eq!(fs::read_to_string(&out).unwrap(), expected);

    json(&trained.predict(&["--data", &data, "--out", &keyed, "--key", "brand"]));
    let text = fs::read_to_string(&keyed).unwrap();
    let brands: Vec<String> =
        shop::rows(3000..3004).iter().map(|row| format!("\"{}\"", row.brand.replace('"', "\"\""))).collect();
    let expected = [
        "brand,probability".to_owned(),
        format!("{},{}", brands[0], p[0]),
        ",".into(),
        format!("{},", brands[1]),
        format!("{},{}", brands[2], p[2]),
        format!("{},{}", brands[3], p[3]),
        ",".into(),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);

    refused_with(
        &trained.predict(&["--data", &data, "--out", &out, "--force", "--strict"]),
        &["bad.csv, line 3"],
    );
    let share = ["--data", &data, "--out", &out, "--force", "--max-bad-share", "0.2"];
    refused_with(&trained.predict(&share), &["3 of 6 lines are bad"]);
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 7, "a refusal leaves what was there");
    // Nothing but bad lines, and nothing at all.
    let header = bare.lines().next().unwrap();
    let hopeless = trained.folder.write("hopeless.csv", format!("{header}\noops\n"));
    json(&trained.predict(&["--data", &hopeless, "--out", &out, "--force"]));
    assert_eq!(fs::read_to_string(&out).unwrap(), "row,probability\n0,\n");
    let empty = trained.folder.write("empty.csv", "");
    json(&trained.predict(&["--data", &empty, "--out", &out, "--force"]));
    assert_eq!(fs::read_to_string(&out).unwrap(), "row,probability\n");
}

#[test]
fn parquet_is_read_and_written() {
    let trained = Trained::new();
    let log = trained.folder.path("new.parquet");
    shop_parquet::write(&shop::rows(3000..3301), &log);
    let lists = trained.folder.write("lists.toml", shop::schema_with_lists());
    let (rows, keys) = (trained.folder.path("rows.parquet"), trained.folder.path("keys.PARQUET"));
    let files = ["--format", "parquet", "--schema", &lists, "--data", &log, "--out"];
    json(&trained.predict(&[&files[..], &[&rows]].concat()));
    json(&trained.predict(&[&files[..], &[&keys, "--key", "user"]].concat()));
    let read = |path: &str| {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        rows.map(|row| row.get_column_iter().map(|(name, value)| (name.clone(), value.to_string())).collect())
            .collect::<Vec<Vec<(String, String)>>>()
    };
    let (by_row, by_key) = (read(&rows), read(&keys));
    assert_eq!((by_row.len(), by_key.len()), (301, 301));
    for (number, row) in shop::rows(3000..3301).iter().enumerate() {
        let p: f32 = trained.expected[number].parse().unwrap();
        assert_eq!(by_row[number][0], ("row".into(), number.to_string()));
        assert_eq!(by_row[number][1].1.parse::<f32>().unwrap(), p);
        let user = row.user.as_ref().map_or("null".into(), |user| format!("{user:?}"));
        assert_eq!(by_key[number][0], ("user".into(), user));
        assert_eq!(by_key[number][1].0, "probability");
    }
}

/// Lines of Criteo's format, with or without the label in front.
fn criteo(samples: std::ops::Range<u64>, labels: bool) -> String {
    let line = |sample: u64| {
        let draw = |what: &str, below: u64| RandomSequence::new(3, what).bits(sample) % below;
        let click = u8::from(draw("C1", 50) % 2 == 0);
        let counts = (1..=13).map(|i| draw(&format!("I{i}"), 9).to_string());
        let ids = (1..=26).map(|i| format!("{:08x}", draw(&format!("C{i}"), 50)));
        let fields: Vec<String> = counts.chain(ids).collect();
        let label = if labels { format!("{click}\t") } else { String::new() };
        format!("{label}{}\n", fields.join("\t"))
    };
    samples.map(line).collect()
}

#[test]
fn criteo_lines_need_no_label() {
    let folder = Folder::new();
    let train = folder.write("train.tsv", criteo(0..600, true));
    let (with, without) = (
        folder.write("with.tsv", criteo(600..700, true)),
        folder.write("without.tsv", criteo(600..700, false)),
    );
    let run = folder.path("run");
    let said = [
        "train",
        "--data",
        &train,
        "--out",
        &run,
        "--rows-cap",
        "60",
        "--dim",
        "8",
        "--split",
        "0.1",
        "--json",
    ];
    let (result, said) = json_and_warnings(&said);
    assert_eq!(result["eval_samples"], 60);
    assert!(said.contains("the last 10 % of the rows: 60 of 600") && said.contains("not shuffled"), "{said}");
    let predict = |data: &str, name: &str| {
        let out = folder.path(name);
        json(&["predict", "--checkpoint", &run, "--data", data, "--out", &out, "--json"]);
        fs::read_to_string(out).unwrap()
    };
    let expected = predict(&with, "with.csv");
    assert_eq!(expected.lines().count(), 101);
    assert_eq!(predict(&without, "without.csv"), expected);
    // A line that lacks a field is bad, and no line without a label.
    let cut = criteo(600..700, true).replacen("\t", "", 1);
    let cut = predict(&folder.write("cut.tsv", cut), "cut.csv");
    assert_eq!(cut.lines().nth(1), Some("0,"));
    assert_eq!(cut.lines().skip(2).collect::<Vec<_>>(), expected.lines().skip(2).collect::<Vec<_>>());
    let out = folder.path("key.csv");
    json(&["predict", "--checkpoint", &run, "--data", &without, "--out", &out, "--key", "C1", "--json"]);
    assert!(fs::read_to_string(out).unwrap().starts_with("C1,probability\n000000"));
}

#[test]
fn outputs_and_inputs_are_safe() {
    let trained = Trained::new();
    let out = trained.folder.write("out.csv", "years of work");
    let log = fs::read(&trained.log).unwrap();
    refused_with(&trained.predict(&["--data", &trained.log, "--out", &out]), &[&out, "exists", "--force"]);
    let onto_itself = ["--data", &trained.log, "--out", &trained.log, "--force"];
    refused_with(&trained.predict(&onto_itself), &[&trained.log, "an input of this command"]);
    let lacking = trained.without_label().replacen("brand", "label", 1);
    let lacking = trained.folder.write("lacking.csv", lacking);
    refused_with(
        &trained.predict(&["--data", &lacking, "--out", &out, "--force"]),
        &[&lacking, "no column `brand`"],
    );
    let key = ["--data", &trained.log, "--out", &out, "--force", "--key", "who"];
    refused_with(&trained.predict(&key), &[&trained.log, "no column `who`"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "years of work");
    assert_eq!(fs::read(&trained.log).unwrap(), log);
    let names: Vec<String> = fs::read_dir(trained.folder.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.ends_with(".partial")), "{names:?}");
    assert!(!campanile(&trained.predict(&["--data", &trained.log])).status.success(), "--out is needed");
}

/// A run that learned from a prepared log scores what such logs are made from.
#[test]
fn a_run_on_a_prepared_log_scores_files() {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", shop::schema());
    let csv = folder.write("log.csv", shop::text(&shop::rows(0..300), ','));
    let (prepared, run) = (folder.path("prepared"), folder.path("run"));
    json(&[
        "data", "prepare", "--format", "csv", "--schema", &schema, "--data", &csv, "--out", &prepared,
        "--json",
    ]);
    // The format need not be said.
    json(&["train", "--data", &prepared, "--dim", "8", "--out", &run, "--json"]);
    let predict = |data: &str, name: &str| {
        let out = folder.path(name);
        json(&["predict", "--checkpoint", &run, "--data", data, "--out", &out, "--json"]);
        fs::read_to_string(out).unwrap()
    };
    let expected = predict(&csv, "csv.csv");
    assert_eq!(expected.lines().count(), 301);
    assert_eq!(predict(&prepared, "prepared.csv"), expected);
    let out = folder.path("out.csv");
    let key = ["predict", "--checkpoint", &run, "--data", &prepared, "--out", &out, "--key", "user"];
    refused_with(&key, &["--key", "prepared"]);
}
