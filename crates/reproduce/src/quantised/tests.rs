use super::*;
use crate::program::tests::Flags;
use clap::Parser;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn args(words: &str) -> Args {
    Command::parse_from(std::iter::once("quantised").chain(words.split_whitespace())).args
}

#[test]
fn the_model_is_that_of_the_paper() {
    let run = planning::check(&configure(&args(""), None, 0).unwrap()).unwrap();
    let widths = |block: &str| -> Vec<[usize; 2]> {
        let maps = run.model.network().blocks().iter().filter(|b| b.name.to_string() == block);
        maps.flat_map(|block| block.layers.maps()).map(|map| [map.inputs, map.outputs]).collect()
    };
    assert_eq!(widths("bottom"), [[13, 512], [512, 256], [256, 64], [64, 16]]);
    assert_eq!(widths("top"), [[367, 512], [512, 256], [256, 1]]);
    assert_eq!((run.batch, run.model.dim(), run.model.features().len()), (1024, 16, 26));
}

/// §4 of the paper: with 32 nodes, layers of 16 outputs and of one are left out.
#[test]
fn layers_that_nodes_do_not_divide_are_left_out() {
    let args = args("");
    let emulated = |nodes, layers| {
        let row = Some(&Table::Allreduce.rows()[1]);
        let case =
            Case { table: Some(Table::Allreduce), row, nodes: Some(nodes), layers: Some(layers), seed: 0 };
        let run = planning::check(&configure(&args, Some(&case), 600).unwrap()).unwrap();
        let schedule = run.schedule(spec::schedule::Task::Train);
        (schedule.emulated_buckets().count(), schedule.buckets().len())
    };
    assert_eq!(emulated(32, Layers::Divisible), (5, 7));
    assert_eq!(emulated(128, Layers::Divisible), (4, 7));
    assert_eq!(emulated(32, Layers::All), (2, 2));
}

#[test]
fn trainings_are_compared_by_seed_and_go_on_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let words = |rows: &str, seeds: u64| {
        format!(
            "--rows {rows} --nodes 4 --layers all --seeds {seeds} --train-rows 2048 --test-rows 256 --rows-cap 100 --jobs 2 --json \
             --out {}",
            folder.path().display()
        )
    };
    let first = report(Table::Allreduce, &args(&words("RD", 1)), &Flags).unwrap();
    let again = report(Table::Allreduce, &args(&words("RD", 2)), &Flags).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&again.json).unwrap();
    assert_eq!(rows.len(), 3);
    let before: Vec<serde_json::Value> = serde_json::from_str(&first.json).unwrap();
    for (row, before) in rows.iter().zip(&before) {
        assert_eq!(row["seeds"], 2);
        let seeds = row["accuracy_change_percent"]["seeds"].as_array().unwrap();
        assert_eq!(seeds.len(), 2);
        assert!(
            before["accuracy_change_percent"]["seeds"].as_array().unwrap().iter().all(|s| seeds.contains(s))
        );
    }
    let records = Records::<TrainedRow>::existing(folder.path()).all().unwrap();
    assert_eq!(records.len(), 2 * (1 + 3));
    let refused =
        report(Table::Allreduce, &args(&words("RD", 2).replace("2048", "1024")), &Flags).unwrap_err();
    assert!(refused.chain().contains("other settings"), "{}", refused.chain());
}

#[test]
fn changes_are_those_of_equation_2() {
    let record = |table, row: &str, seed, accuracy| TrainedRow {
        table,
        row: row.into(),
        nodes: None,
        layers: None,
        seed,
        accuracy,
        auc: accuracy,
        logloss: accuracy,
        diverged: accuracy.is_none().then(|| "the loss of step 3 is NaN".into()),
        seconds: 1.0,
        parameters_sha256: String::new(),
        version: String::new(),
    };
    let (table, row) = (Table::Alltoall, "forward u2, backward u2");
    let records = [
        record(None, "f32", 0, Some(0.8)),
        record(None, "f32", 1, Some(0.5)),
        record(Some(table), row, 0, Some(0.792)),
        record(Some(table), row, 1, Some(0.485)),
        record(Some(table), "forward u2, backward u4", 0, None),
    ];
    let changes = report::changes(&records, table);
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[0].accuracy_cell(), "diverged");
    assert_eq!(changes[1].accuracy_cell(), "-2.000 ± 1.000");
    assert_eq!(changes[1].paper(), Some(-0.06339));
}
