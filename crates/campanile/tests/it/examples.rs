//! The examples of the repository run: each is a module here, and its `main` a test.

#[path = "../../../../examples/custom_run.rs"]
mod custom_run;
#[path = "../../../../examples/price_a_schedule.rs"]
mod price_a_schedule;
#[path = "../../../../examples/ranks_by_hand.rs"]
mod ranks_by_hand;
#[path = "../../../../examples/train_evaluate_predict.rs"]
mod train_evaluate_predict;

#[test]
fn a_log_is_trained_on_evaluated_and_predicted() {
    train_evaluate_predict::main().unwrap();
}

#[test]
fn a_run_is_described_in_code() {
    custom_run::main().unwrap();
}

#[test]
fn ranks_work_by_hand() {
    ranks_by_hand::main().unwrap();
}

#[test]
fn a_schedule_is_priced() {
    price_a_schedule::main().unwrap();
}

/// Whoever adds an example adds its test.
#[test]
fn every_example_is_here() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let here = std::fs::read_to_string(file_of_this_test()).unwrap();
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let files = std::fs::read_dir(format!("{root}/examples")).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(here.contains(&format!("{name}::main()")), "no test runs {name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "Cargo.toml does not know {name}");
    }
}

fn file_of_this_test() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/examples.rs").into()
}
