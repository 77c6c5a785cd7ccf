//! Rows that are left out of both parts: a log of 200 rows whose ids are their numbers, and whose times are in no order.

use super::*;
use crate::bad_lines::Policy;
use crate::prepared::PreparedLog;
use spec::run::DataFormat;
use spec::schema::{IdRule, LabelColumn, SparseColumn};

const ROWS: u64 = 200;

fn time(row: u64) -> u64 {
    row * 37 % ROWS
}

/// Numbers of the rows of both parts.
fn parts(division: &RowDivision) -> [Vec<u64>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.csv");
    let rows: String = (0..ROWS).map(|row| format!("{},{row},{}\n", row % 2, time(row))).collect();
    std::fs::write(&file, format!("label,row,time\n{rows}")).unwrap();
    let row = SparseColumn { ids: IdRule::Index, rows: Some(200), ..SparseColumn::hashed("row".into()) };
    let schema = Schema {
        delimiter: ',',
        columns: None,
        label: LabelColumn { column: "label".into(), positive_from: None },
        dense: vec![],
        sparse: vec![row],
        ..Schema::criteo()
    };
    let log = RawLog {
        table: None,
        format: DataFormat::Csv,
        files: &[file],
        schema: &schema,
        policy: Policy::default(),
        threads: 2,
        memory: 1 << 26,
        stop: None,
        reading: Reading::default(),
    };
    let folders = ["train", "eval"].map(|part| folder.path().join(part));
    let parts = prepare_split(&log, division, &folders[0], &folders[1], &|_| ()).unwrap();
    let counts = [parts.train.samples, parts.eval.samples];
    let read = |folder: &std::path::PathBuf| {
        let mut samples = Samples::default();
        let log = PreparedLog::open(folder).unwrap();
        log.read_block(0, &mut samples).unwrap();
        samples.bags[0].ids.clone()
    };
    let found = folders.each_ref().map(read);
    assert_eq!(found.each_ref().map(|rows| rows.len() as u64), counts);
    found
}

#[test]
fn left_out_rows_are_in_no_part_and_the_others_are_divided_as_a_split_divides() {
    for by in [SplitBy::Order, SplitBy::Column("time".into()), SplitBy::Numbers] {
        let split = |share| Split { share, by: by.clone() };
        let [trained_on, evaluated_on] = parts(&RowDivision::of(split(0.1)));
        assert_eq!(trained_on.len() + evaluated_on.len(), 200);
        let [train, validation] = parts(&RowDivision { split: split(0.2), left_out: Some(split(0.1)) });
        let mut rows = [train.clone(), validation.clone()].concat();
        rows.sort_unstable();
        assert_eq!(rows, trained_on, "{by:?}: rows to evaluate on are in neither part");
        match &by {
            // 180 rows are left, and the last 36 of them are held out.
            SplitBy::Order => assert_eq!(validation, (144..180).collect::<Vec<_>>()),
            SplitBy::Column(_) => {
                assert_eq!(validation.len(), 36);
                assert!(validation.iter().all(|&row| (144..180).contains(&time(row))), "{validation:?}");
            }
            SplitBy::Numbers => assert!((20..55).contains(&validation.len()), "{validation:?}"),
        }
    }
}
