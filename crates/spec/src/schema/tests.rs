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
