//! Transforms that are learnt, from `prepare` to predictions and exports, and vocabularies that people can read.

use super::shop;
use crate::support::command::{Folder, has, json, json_and_warnings, refused_with};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{ListAccessor, RowAccessor};
use serde_json::Value;
use std::fs::{self, File};

/// The schema of the shop, with transforms that are learnt and buckets as ids.
fn schema() -> String {
    let schema = shop::schema()
        .replace("transform = \"log\"", "transform = [\"log\", \"standardise\"]")
        .replace("column = \"age\"\n", "column = \"age\"\ntransform = { bucketise = 8 }\n")
        .replace("missing = 30.0", "missing = 0.5");
    format!("{schema}\n[[sparse]]\ncolumn = \"price\"\nids = \"buckets\"\nrows = 6\n")
}

fn probabilities(path: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| line.split_once(',').unwrap().1.to_owned()).collect()
}

/// A run on the shop's log, of which a fifth is held out.
struct Trained {
    folder: Folder,
    run: String,
    new: String,
}

fn trained() -> (Trained, Value) {
    let folder = Folder::new();
    let schema = folder.write("schema.toml", schema());
    let train = folder.write("train.csv", shop::text(&shop::rows(0..900), ','));
    let new = folder.write("new.csv", shop::text(&shop::rows(3000..3200), ','));
    let run = folder.path("run");
    let args = ["train", "--format", "csv", "--schema", &schema, "--data", &train, "--split", "0.2"];
    let size = ["--dim", "8", "--batch", "128", "--hosts", "1", "--steps", "6", "--out", &run, "--json"];
    let result = json(&[&args[..], &size].concat());
    (Trained { folder, run, new }, result)
}

#[test]
fn a_model_carries_its_transforms() {
    let (Trained { folder, run, new }, result) = trained();
    // Held-out rows have the inputs of the training, and predictions are those of an evaluation.
    let again = json(&["eval", "--checkpoint", &run, "--json"]);
    assert_eq!(again["auc"], result["auc"]);
    let (scored, predicted) = (folder.path("scored.csv"), folder.path("predicted.csv"));
    json(&["eval", "--checkpoint", &run, "--data", &new, "--predictions", &scored, "--json"]);
    json(&["predict", "--checkpoint", &run, "--data", &new, "--out", &predicted, "--json"]);
    assert_eq!(probabilities(&scored), probabilities(&predicted));
    // A log prepared like the first has the same inputs; one that learnt its own is refused.
    let (like, own, first) = (folder.path("like"), folder.path("own"), folder.path("run/prepared/train"));
    let schema = folder.path("schema.toml");
    let prepare =
        ["data", "prepare", "--format", "csv", "--schema", &schema, "--data", &new, "--json", "--out"];
    json(&[&prepare[..], &[&like, "--vocabularies-of", &first]].concat());
    json(&[&prepare[..], &[&own]].concat());
    let from_like = folder.path("like.csv");
    json(&["predict", "--checkpoint", &run, "--data", &like, "--out", &from_like, "--json"]);
    assert_eq!(probabilities(&from_like), probabilities(&scored));
    refused_with(&["eval", "--checkpoint", &run, "--data", &own], &["--vocabularies-of"]);
    // Resumed after six steps, the run has the bits of one that was never stopped.
    let whole = folder.path("whole");
    let train = folder.path("train.csv");
    let steps = json(&["train", "--resume", &run, "--steps", "9", "--json"]);
    let args = ["train", "--format", "csv", "--schema", &schema, "--data", &train, "--split", "0.2"];
    let size = ["--dim", "8", "--batch", "128", "--hosts", "1", "--steps", "9", "--out", &whole, "--json"];
    let at_once = json(&[&args[..], &size].concat());
    assert_eq!(steps["parameters_sha256"], at_once["parameters_sha256"]);
    // Without its transforms the model cannot be used.
    fs::remove_file(folder.path("run/vocabularies/transforms.json")).unwrap();
    let lost = ["predict", "--checkpoint", &run, "--data", &new, "--out", &folder.path("lost.csv")];
    refused_with(&lost, &["transforms.json", "the values that the model was trained with"]);
}

#[test]
fn exports_and_embeddings_have_readable_ids() {
    let (Trained { folder, run, .. }, _) = trained();
    let model = folder.path("model.safetensors");
    let result = json(&["checkpoint", "export", &run, "--out", &model, "--json"]);
    assert_eq!(result["inputs"], folder.path("model.inputs.json"));
    assert_eq!(
        result["vocabularies"],
        serde_json::json!([folder.path("model.brand.csv"), folder.path("model.tags.csv")])
    );
    let inputs: Value =
        serde_json::from_str(&fs::read_to_string(folder.path("model.inputs.json")).unwrap()).unwrap();
    assert_eq!(inputs["dense"][0]["steps"][0], "log");
    has(&inputs["dense"][0]["steps"][1]["standardise"], "mean deviation");
    assert_eq!(inputs["dense"][1]["missing"], 0.5);
    let rules: Vec<_> = (0..7).map(|feature| inputs["sparse"][feature]["ids"]["rule"].clone()).collect();
    assert_eq!(rules, ["hash", "vocabulary", "vocabulary", "hash", "hash", "index", "buckets"]);
    assert_eq!(inputs["sparse"][1]["ids"]["file"], "model.brand.csv");
    let brands = fs::read_to_string(folder.path("model.brand.csv")).unwrap();
    let first = brands.lines().nth(1).unwrap();
    assert!(first.starts_with("1,\"Smith, \"\"") && first.contains("Söhne"), "{first}");
    let rows = brands.lines().count() as u64;
    // Nothing is replaced without being asked for, not even beside the model.
    fs::remove_file(&model).unwrap();
    refused_with(&["checkpoint", "export", &run, "--out", &model], &["model.inputs.json", "--force"]);
    json(&["checkpoint", "export", &run, "--out", &model, "--force", "--json"]);
    let embeddings = |feature: &str, out: &str, more: &[&str]| {
        let out = folder.path(out);
        let args = ["embeddings", "--checkpoint", &run, "--feature", feature, "--out", &out, "--json"];
        json_and_warnings(&[&args[..], more].concat())
    };
    let (result, _) = embeddings("brand", "brand.parquet", &[]);
    assert_eq!(
        (&result["rows"], &result["dim"], &result["ids"]),
        (&rows.into(), &8.into(), &"vocabulary".into())
    );
    embeddings("brand", "brand.csv", &["--top", "3"]);
    let csv = fs::read_to_string(folder.path("brand.csv")).unwrap();
    assert_eq!(csv.lines().count(), 4);
    // Row 1, as text, in Parquet and in the exported model.
    let reader = SerializedFileReader::new(File::open(folder.path("brand.parquet")).unwrap()).unwrap();
    let row = reader.get_row_iter(None).unwrap().nth(1).unwrap().unwrap();
    let list = row.get_list(3).unwrap();
    let vector: Vec<f32> = (0..list.len()).map(|at| list.get_float(at).unwrap()).collect();
    let line = csv.lines().nth(1).unwrap();
    let values: Vec<String> = vector.iter().map(f32::to_string).collect();
    assert_eq!(line, format!("{first},{}", values.join(",")));
    let file = fs::read(&model).unwrap();
    let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert!(file.windows(bytes.len()).any(|window| window == bytes), "the row is not in the model");
    // Buckets have ranges, row numbers themselves, hashed rows nothing.
    embeddings("price", "price.tsv", &[]);
    let prices = fs::read_to_string(folder.path("price.tsv")).unwrap();
    assert!(prices.lines().nth(2).unwrap().starts_with("1\t(-inf, "), "{prices}");
    assert!(prices.lines().last().unwrap().contains(", inf)"), "{prices}");
    let (result, said) = embeddings("user", "user.csv", &[]);
    assert_eq!((&result["rows"], &result["with_ids"]), (&400.into(), &false.into()));
    assert!(said.contains("the ids of user are not known: they are hashed"), "{said}");
    let out = folder.path("none.csv");
    let ask =
        |feature: &'static str| ["embeddings", "--checkpoint", &run, "--out", &out, "--feature", feature];
    refused_with(&[&ask("user")[..], &["--top", "5"]].concat(), &["--top", "its ids are hashed"]);
    refused_with(&ask("shoe"), &["no table of shoe", "brand, "]);
    // Logs of older versions have no texts.
    fs::remove_file(folder.path("run/vocabularies/vocabulary-0001.csv")).unwrap();
    let (result, said) =
        json_and_warnings(&["checkpoint", "export", &run, "--out", &model, "--force", "--json"]);
    assert_eq!(result["vocabularies"].as_array().unwrap().len(), 1);
    assert!(said.contains("the ids of brand are not written"), "{said}");
}
