use super::*;

/// The DCNs' element-wise work is not counted: some .05 MFlops.
#[test]
fn the_models_cost_what_the_paper_says() {
    for row in rows().unwrap() {
        let printed = &row.printed;
        let within = if printed.kind == ModelKind::Dlrm { 0.01 } else { 0.1 };
        let (ours, paper) = (row.mflops, printed.mflops);
        assert!(row.mflops_apart() < within, "{}: {ours} MFlops, the paper has {paper}", printed.model);
        assert!(row.parameters_apart() < 0.03, "{}: {} G parameters", printed.model, row.parameters_g);
        if let Some(ratio) = printed.compression_ratio {
            assert_eq!(row.compression_ratio, ratio, "{}", printed.model);
        }
    }
}

/// Only with one layer of 1024 less do DLRM towers have the paper's FLOPs, and it is said where that is used.
#[test]
fn what_is_inferred_is_said() {
    let rows = rows().unwrap();
    let of = |name: &str| rows.iter().find(|row| row.printed.model == name).unwrap();
    let (flat, towers) = (of("DLRM"), of("DMT 8T-DLRM"));
    let layer = 6.0 * 1024.0 * 1024.0 / 1e6;
    assert!((towers.mflops + layer - 15.24).abs() < 0.01 && towers.mflops + layer > flat.mflops);
    let text = to_text(&rows);
    assert!(text.contains("15.24 MFlops") && text.contains("shorter top MLP"), "{text}");
    assert_eq!(of("DMT 8T-DCN").to_json()["inferred"], "one vector a tower");
    assert_eq!(flat.to_json()["inferred"], Value::Null);
}

#[test]
fn every_row_of_the_three_tables_is_there() {
    let of_table = |table| printed().iter().filter(|row| row.table == table).count();
    assert_eq!([3, 4, 5].map(of_table), [4, 10, 4]);
}
