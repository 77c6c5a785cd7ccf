use super::*;
use proptest::prelude::*;
use serde_json::json;

fn path() -> &'static Path {
    Path::new("step-000000000007/manifest.json")
}

fn manifest() -> Manifest {
    let name = file_name(0);
    let tensor = |name: &str, rows, columns| TensorEntry {
        name: name.into(),
        file: file_name(0),
        key: format!("{name}{rows:?}"),
        shape: vec![4, 2],
        rows,
        columns,
        listed: None,
    };
    let tensors = vec![tensor("a", 0..4, 0..2), tensor("b", 0..1, 0..2), tensor("b", 1..4, 0..2)];
    let file = FileEntry { name, bytes: 100, sha256: "0".repeat(CHECKSUM_DIGITS) };
    let topology = TopologyEntry { hosts: 1, ranks_per_host: 1 };
    Manifest {
        run: json!({ "rate": 0.1f32, "tiny": 5e-324, "third": 1.0 / 3.0, "model": "DLRM™" }),
        extra: json!([u64::MAX, -1, 1.7976931348623157e308]),
        ..Manifest::new(7, topology, vec![super::super::RankFile { file, tensors }])
    }
}

/// Changes the JSON as `change` says, and seals it again, as an enemy would.
fn resealed(change: impl Fn(&mut serde_json::Value)) -> Result<Manifest, CheckpointError> {
    let mut value = serde_json::to_value(manifest()).unwrap();
    change(&mut value);
    Manifest::from_text(path(), seal(&serde_json::to_string_pretty(&value).unwrap()).as_bytes())
}

#[test]
fn text_and_back() {
    let text = manifest().to_text(path()).unwrap();
    assert_eq!(Manifest::from_text(path(), text.as_bytes()).unwrap(), manifest());
    // Other programs see one JSON object.
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["format"], "campanile-checkpoint");
    assert_eq!(value["tensors"][2]["rows"], json!([1, 4]));
    assert_eq!(value["sha256"].as_str().unwrap().len(), CHECKSUM_DIGITS);
}

#[test]
fn what_does_not_belong_is_refused() {
    let says = |expected: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let error = resealed(change).unwrap_err().to_string();
        assert!(error.starts_with("step-000000000007/manifest.json: "), "{error}");
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    };
    says("version 3 of the format", &|m| {
        m["version"] = json!(3);
        m["news"] = json!(true);
    });
    says("needs an identity", &|m| m["version"] = json!(2));
    says("has no identity", &|m| m["identity"] = json!("abc"));
    let base = |step: u64| json!({ "step": step, "identity": "abc" });
    says("builds on step 7, which is not before it", &|m| {
        (m["version"], m["identity"], m["base"]) = (json!(2), json!("abc"), base(7));
    });
    says("no base that has the others", &|m| m["tensors"][0]["listed"] = json!("a.rows"));
    says("holds row numbers under this key", &|m| {
        (m["version"], m["identity"], m["base"]) = (json!(2), json!("abc"), base(3));
        m["tensors"][0]["listed"] = m["tensors"][0]["key"].clone();
    });
    says("format is \"tar\"", &|m| m["format"] = json!("tar"));
    says("unknown field `news`", &|m| m["news"] = json!(true));
    says("file \"../rank-0000.safetensors\" is not of the form", &|m| {
        m["files"][0]["name"] = json!("../rank-0000.safetensors");
    });
    says("rank-0000.safetensors is there twice", &|m| {
        let file = m["files"][0].clone();
        m["files"].as_array_mut().unwrap().push(file);
        m["topology"]["hosts"] = json!(2);
    });
    says("file \"rank-0001.safetensors\" is not of the form", &|m| {
        m["files"][0]["name"] = json!("rank-0001.safetensors");
    });
    says("step is 0", &|m| m["step"] = json!(0));
    says("no tensors", &|m| m["tensors"] = json!([]));
    says("0 files of 1 hosts × 1 ranks", &|m| m["files"] = json!([]));
    says("1 files of 1 hosts × 2 ranks", &|m| m["topology"]["ranks_per_host"] = json!(2));
    says("0 hosts × 1 ranks", &|m| m["topology"]["hosts"] = json!(0));
    says("1 hosts × 0 ranks", &|m| m["topology"]["ranks_per_host"] = json!(0));
    says("1 files of", &|m| {
        m["topology"] = json!({ "hosts": u64::MAX, "ranks_per_host": u64::MAX });
    });
    says("rank-0001.safetensors is not among the files", &|m| {
        m["tensors"][0]["file"] = json!("rank-0001.safetensors");
    });
    says("holds this key for another piece too", &|m| m["tensors"][1]["key"] = json!("b1..4"));
    says("hold 7 of its 8 elements", &|m| m["tensors"][1]["columns"] = json!([0, 1]));
    says("overlaps rows 0..2", &|m| m["tensors"][1]["rows"] = json!([0, 2]));
    says("outside of the tensor's shape [4, 2]", &|m| m["tensors"][2]["rows"] = json!([1, 5]));
    says("outside of the tensor's shape [4, 2]", &|m| m["tensors"][2]["rows"] = json!([4, 1]));
    says("its shape is [8] here and [4, 2] in", &|m| m["tensors"][2]["shape"] = json!([8]));
    says("no tensor can have the shape", &|m| m["tensors"][0]["shape"] = json!([u64::MAX, 2]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Manifest::from_text(path(), &bytes).is_err());
        let body = String::from_utf8_lossy(&bytes);
        prop_assert!(Manifest::from_text(path(), seal(&body).as_bytes()).is_err());
    }

    #[test]
    fn any_change_under_a_right_checksum_is_read_or_refused(at in any::<prop::sample::Index>(), to in " -~") {
        let mut body = serde_json::to_string_pretty(&manifest()).unwrap().into_bytes();
        let at = at.index(body.len());
        body.splice(at..=at, to.bytes());
        if let Ok(body) = String::from_utf8(body) {
            let _ = Manifest::from_text(path(), seal(&body).as_bytes());
        }
    }
}
