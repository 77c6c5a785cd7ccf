use super::*;

#[test]
fn criteo_is_sound() {
    let schema = Schema::criteo();
    schema.check().unwrap();
    assert_eq!((schema.dense.len(), schema.sparse.len()), (13, 26));
    assert_eq!(schema.columns.as_ref().unwrap().len(), 40);
}

#[test]
fn nonsense_is_refused_by_field() {
    let refusal = |change: fn(&mut Schema)| {
        let mut schema = Schema::criteo();
        change(&mut schema);
        schema.check().unwrap_err().to_string()
    };
    assert!(refusal(|s| s.delimiter = '\n').starts_with("delimiter: "));
    assert!(refusal(|s| s.sparse.clear()).starts_with("sparse: "));
    assert!(refusal(|s| s.sparse[2].rows = Some(0)).starts_with("sparse.C3.rows: "));
    assert!(refusal(|s| s.sparse[2].min_count = 3).starts_with("sparse.C3.min_count: "));
    assert!(refusal(|s| s.sparse[2].column = "C2".into()).starts_with("sparse.C2: "));
    assert!(refusal(|s| s.sparse[2].ids = IdRule::Index).starts_with("sparse.C3.rows: "));
    assert!(refusal(|s| s.label.column = "click".into()).starts_with("label.column: "));
    assert!(refusal(|s| s.dense[0].missing = f32::NAN).starts_with("dense.I1.missing: "));
    assert!(refusal(|s| s.sparse[0].separator = Some('\t')).starts_with("sparse.C1.separator: "));
}

#[test]
fn labels_weights_and_kept_columns_are_checked() {
    let parsed = |labels: &str| -> Result<Schema, String> {
        let text = format!("{labels}\n[[sparse]]\ncolumn = \"user\"");
        let schema: Schema = toml::from_str(&text).map_err(|e| e.to_string())?;
        schema.check().map_err(|e| e.to_string())?;
        Ok(schema)
    };
    let two = parsed(
        "weight = \"w\"\nkeep = [\"user\"]\n[[labels]]\ncolumn = \"click\"\n[[labels]]\ncolumn = \"buy\"\nweight = 0.5",
    );
    let two = two.unwrap();
    let weights: Vec<_> = two.all_labels().map(|label| (label.column, label.weight)).collect();
    assert_eq!(weights, [("click", 1.0), ("buy", 0.5)]);
    let written = toml::to_string(&two).unwrap();
    assert_eq!(toml::from_str::<Schema>(&written).unwrap(), two, "{written}");
    let one = parsed("label = { column = \"click\" }").unwrap();
    assert_eq!((one.label_count(), one.has_extras()), (1, false));
    let refused = |labels: &str, field: &str| {
        let error = parsed(labels).unwrap_err();
        assert!(error.starts_with(field), "{labels}: {error}");
    };
    refused("", "label: ");
    refused("label = { column = \"a\" }\n[[labels]]\ncolumn = \"b\"", "labels: ");
    refused("[[labels]]\ncolumn = \"b\"\n[[labels]]\ncolumn = \"b\"", "labels.b: ");
    refused("[[labels]]\ncolumn = \"b\"\nweight = 0", "labels.b.weight: ");
    refused("label = { column = \"a\" }\nkeep = [\"x\", \"x\"]", "keep.x: ");
    refused("label = { column = \"a\" }\ncolumns = [\"a\", \"user\"]\nweight = \"w\"", "weight: ");
}
