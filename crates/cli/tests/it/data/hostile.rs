//! Whatever bytes a file holds, the binary ends by itself: no panic, no signal.

use super::{shop, shop_parquet};
use crate::support::command::{self, Folder, campanile, refused_with};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;

/// Random bytes, or `sound` with some of its bytes overwritten, perhaps cut short.
fn damaged(sound: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = sound.len();
    let overwritten = prop::collection::vec((0..length, any::<u8>()), 1..6);
    let cut = prop_oneof![2 => Just(length), 1 => 0..length];
    let damage = (overwritten, cut).prop_map(move |(bytes, cut)| {
        let mut damaged = sound.clone();
        bytes.into_iter().for_each(|(at, byte)| damaged[at] = byte);
        damaged.truncate(cut);
        damaged
    });
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..2000), 3 => damage]
}

/// Text that is nearly TOML: lines of `sound` in any order, with some of their words replaced.
fn jumbled(sound: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let words = [
        "-1",
        "0",
        "1e400",
        "nan",
        "[]",
        "{}",
        "\"\"",
        "\"\\u0000\"",
        "true",
        "18446744073709551616",
        "=",
        "[[",
    ];
    let lines: Vec<String> = sound.lines().map(Into::into).collect();
    let line =
        (prop::sample::select(lines), prop::option::weighted(0.3, prop::sample::select(words.to_vec())));
    let line = line.prop_map(|(line, word)| match (word, line.split_once('=')) {
        (Some(word), Some((key, _))) => format!("{key}= {word}"),
        (Some(word), None) => word.into(),
        (None, _) => line,
    });
    prop::collection::vec(line, 0..40).prop_map(|lines| lines.join("\n").into_bytes())
}

/// Runs the binary, which may succeed or refuse. Gives what it said on standard error.
fn survives(args: &[&str]) -> Result<String, TestCaseError> {
    let output = campanile(args);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let ended = output.status.code().is_some_and(|code| code != 101);
    prop_assert!(ended, "{:?}: {}, {}", args, output.status, message);
    Ok(message)
}

/// As [`survives`], and no thread panicked on the way.
fn never_panics(args: &[&str]) -> Result<(), TestCaseError> {
    let message = survives(args)?;
    prop_assert!(!message.contains("panicked"), "{:?}: {}", args, message);
    Ok(())
}

/// Whatever a config says, a run of this size is over soon.
const TINY: &[&str] = &["--dim", "8", "--rows-cap", "50", "--batch", "64", "--steps", "2", "--hosts", "1"];
const ONE_RANK: &[&str] = &["--ranks-per-host", "1", "--max-bad-share", "1"];

fn train<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["train"], args, TINY, ONE_RANK].concat()
}

fn criteo_lines() -> Vec<u8> {
    let line = |n: u64| format!("{}\t{}{}", n % 2, "3\t".repeat(13), vec!["68fd1e64"; 26].join("\t"));
    (0..40).map(line).collect::<Vec<_>>().join("\n").into_bytes()
}

fn shop_lines() -> Vec<u8> {
    shop::text(&shop::rows(0..40), ',').into_bytes()
}

fn parquet_bytes() -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.path("log.parquet");
    shop_parquet::write(&shop::rows(0..40), &path);
    fs::read(path).unwrap()
}

fn example() -> String {
    fs::read_to_string(command::repository("examples/multi-hot.toml")).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn criteo_logs(bytes in damaged(criteo_lines())) {
        let folder = Folder::new();
        let log = folder.write("log.tsv", bytes);
        never_panics(&train(&["--data", &log]))?;
        never_panics(&["data", "inspect", "--data", &log, "--max-bad-share", "1", "--json"])?;
    }

    #[test]
    fn delimited_logs(bytes in damaged(shop_lines())) {
        let folder = Folder::new();
        let (schema, log) = (folder.write("schema.toml", shop::schema()), folder.write("log.csv", bytes));
        never_panics(&train(&["--format", "csv", "--schema", &schema, "--data", &log]))?;
    }

    #[test]
    fn compressed_logs(bytes in damaged(zstd::encode_all(shop_lines().as_slice(), 1).unwrap())) {
        let folder = Folder::new();
        let (schema, log) = (folder.write("schema.toml", shop::schema()), folder.write("log.csv.zst", bytes));
        never_panics(&train(&["--format", "csv", "--schema", &schema, "--data", &log]))?;
    }

    /// Parquet's library may panic, which is caught and becomes an error; its message is printed all the same.
    #[test]
    fn parquet_logs(bytes in damaged(parquet_bytes())) {
        let folder = Folder::new();
        let schema = folder.write("schema.toml", shop::schema_with_lists());
        let log = folder.write("log.parquet", bytes);
        survives(&train(&["--format", "parquet", "--schema", &schema, "--data", &log]))?;
    }

    #[test]
    fn schemas(bytes in prop_oneof![damaged(shop::schema().into_bytes()), jumbled(&shop::schema())]) {
        let folder = Folder::new();
        let (schema, log) = (folder.write("schema.toml", bytes), folder.write("log.csv", shop_lines()));
        never_panics(&train(&["--format", "csv", "--schema", &schema, "--data", &log]))?;
    }

    #[test]
    fn configs(bytes in prop_oneof![damaged(example().into_bytes()), jumbled(&example())]) {
        let folder = Folder::new();
        let config = folder.write("run.toml", bytes);
        never_panics(&["describe", &config])?;
        never_panics(&["schedule", &config])?;
        never_panics(&train(&[&config, "--samples", "256", "--eval-samples", "64"]))?;
    }

    #[test]
    fn prepared_manifests(bytes in damaged(prepared().1)) {
        let (folder, _) = prepared();
        folder.write("prepared/manifest.json", bytes);
        opens_without_panic(&folder)?;
    }

    /// Whoever means harm writes a matching checksum.
    #[test]
    fn forged_manifests(place in any::<prop::sample::Index>(), forged in prop::sample::select(forgeries())) {
        let (folder, manifest) = prepared();
        let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let mut pointers = vec![];
        collect_pointers(&manifest, String::new(), &mut pointers);
        *manifest.pointer_mut(place.get(&pointers[..]).as_str()).unwrap() = forged;
        folder.write("prepared/manifest.json", sealed(manifest));
        opens_without_panic(&folder)?;
    }
}

fn opens_without_panic(folder: &Folder) -> Result<(), TestCaseError> {
    let (log, run) = (folder.path("prepared"), folder.path("run"));
    never_panics(&train(&["--format", "prepared", "--data", &log, "--out", &run]))?;
    never_panics(&["data", "inspect", "--format", "prepared", "--data", &log])?;
    never_panics(&["eval", "--checkpoint", &log])
}

fn forgeries() -> Vec<Value> {
    let (negative, large, huge) = (json!(-1), json!(u64::MAX), json!(1e300));
    vec![json!(0), json!(1), json!(7), negative, large, huge, json!("\0"), json!([]), json!({}), json!(null)]
}

/// The places of all values in `value`, as JSON pointers.
fn collect_pointers(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, field)| collect_pointers(field, format!("{at}/{key}"), pointers));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, item)| collect_pointers(item, format!("{at}/{i}"), pointers));
        }
        _ => {}
    }
    pointers.push(at);
}

/// A manifest's text with the checksum that belongs to it, where it still has a place for one.
fn sealed(mut manifest: Value) -> String {
    const NONE: &str = "0000000000000000";
    if let Some(checksum) = manifest.get_mut("checksum").filter(|checksum| checksum.is_string()) {
        *checksum = NONE.into();
    }
    let text = manifest.to_string();
    let digits = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()));
    text.replace(&format!("\"checksum\":\"{NONE}\""), &format!("\"checksum\":\"{digits}\""))
}

/// A prepared log that someone else made must not read or write outside the folders it is given.
#[test]
fn a_manifest_names_files_of_its_own_folder_only() {
    let (folder, manifest) = prepared();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let (log, run) = (folder.path("prepared"), folder.path("run"));
    let args = train(&["--format", "prepared", "--data", &log, "--out", &run]);
    let precious = folder.write("precious.txt", "years of work");
    for name in ["../precious.txt", "../../precious.txt", precious.as_str(), "..", ""] {
        let mut forged = manifest.clone();
        forged["vocabularies"]["brand"] = name.into();
        folder.write("prepared/manifest.json", sealed(forged));
        refused_with(&args, &["manifest.json", "vocabulary of brand"]);
        assert_eq!(fs::read_to_string(&precious).unwrap(), "years of work");
    }
    folder.write("prepared/manifest.json", sealed(manifest));
    assert!(campanile(&args).status.success(), "a manifest that was only sealed again is sound");
}

/// A prepared log of 40 samples, and its manifest.
fn prepared() -> (Folder, Vec<u8>) {
    let folder = Folder::new();
    let (schema, log) = (folder.write("schema.toml", shop::schema()), folder.write("log.csv", shop_lines()));
    let out = folder.path("prepared");
    command::json(&[
        "data", "prepare", "--format", "csv", "--schema", &schema, "--data", &log, "--out", &out, "--json",
    ]);
    let manifest = fs::read(format!("{out}/manifest.json")).unwrap();
    (folder, manifest)
}
