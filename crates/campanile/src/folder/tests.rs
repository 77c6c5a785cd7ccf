//! A run folder as the trainer writes it and as others find it.

use super::metrics::{End, Eval, MetricValues, Records, Start, Train};
use super::*;

fn train(step: u64) -> MetricsLine {
    MetricsLine::Train(Train { step, samples: step * 64, loss: 0.5, auc: Some(0.7), ..Train::default() })
}

fn records(dir: &Path) -> Records {
    Records::parse(&read(&dir.join(METRICS)).unwrap())
}

#[test]
fn what_is_recorded_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("runs/one");
    let mut folder = RunFolder::create(&run).unwrap();
    let mut undefined = MetricValues::default();
    undefined.push("auc", None);
    let written = [
        MetricsLine::Start(Start { model: "dlrm".into(), hosts: 2, ..Start::default() }),
        train(10),
        MetricsLine::Eval(Eval { step: 10, metrics: undefined, ..Eval::default() }),
        MetricsLine::End(End { step: 10, ..End::default() }),
    ];
    for record in &written {
        folder.record(record).unwrap();
    }
    assert_eq!(records(&run), Records { records: written.to_vec(), unknown: 0, torn: false });
    folder.write_text(SUMMARY, "one").unwrap();
    folder.write_text(SUMMARY, "two").unwrap();
    assert_eq!(read(&run.join(SUMMARY)).unwrap(), "two");
    assert!(folder.checkpoints().is_dir());
    let names = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().contains("partial")));
}

#[test]
fn a_folder_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    // One that never began is no hindrance, once its process has ended.
    let idle = RunFolder::create(dir.path()).unwrap();
    let error = RunFolder::create(dir.path()).unwrap_err().to_string();
    assert!(error.contains("another process"), "{error}");
    drop(idle);
    let mut begun = RunFolder::create(dir.path()).unwrap();
    begun.record(&MetricsLine::Start(Default::default())).unwrap();
    let error = RunFolder::create(dir.path()).unwrap_err().to_string();
    assert!(error.contains("not empty") && error.contains("--resume"), "{error}");
    let error = crate::error::chain(&RunFolder::resume(&dir.path().join("other"), Some(0)).unwrap_err());
    assert!(error.contains("other") && error.contains("cannot be written"), "{error}");
    let file = dir.path().join(METRICS);
    let error = crate::error::chain(&RunFolder::create(&file).unwrap_err());
    assert!(error.contains("metrics.jsonl"), "{error}");
}

#[test]
fn a_resumed_run_forgets_later_steps_and_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = RunFolder::create(dir.path()).unwrap();
    folder.record(&MetricsLine::Start(Start::default())).unwrap();
    for step in [10, 20, 30] {
        folder.record(&train(step)).unwrap();
    }
    folder
        .metrics
        .write_all(b"{\"event\":\"dream\",\"step\":20}\n{\"event\":\"dream\",\"step\":30}\n")
        .unwrap();
    folder.metrics.write_all(b"{\"event\":\"train\",\"st").unwrap();
    drop(folder);
    let before = records(dir.path());
    assert_eq!((before.records.len(), before.unknown, before.torn), (4, 2, true));

    let mut folder = RunFolder::resume(dir.path(), Some(20)).unwrap();
    folder.record(&train(25)).unwrap();
    let after = records(dir.path());
    assert_eq!(after.records[1..], [train(10), train(20), train(25)]);
    assert_eq!((after.unknown, after.torn), (1, false));
    assert_eq!(fs::read_dir(dir.path().join(TENSORBOARD)).unwrap().count(), 2);
}

#[test]
fn a_loss_that_is_no_number_survives() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = RunFolder::create(dir.path()).unwrap();
    folder.record(&MetricsLine::Train(Train { step: 1, loss: f64::NAN, ..Train::default() })).unwrap();
    let read = records(dir.path());
    let [MetricsLine::Train(train)] = &read.records[..] else { panic!("{read:?}") };
    assert!(train.loss.is_nan());
}
