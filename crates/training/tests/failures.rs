//! What is wrong on one rank ends them all, with the cause.

mod common;

use common::config;
use data::Batch;
use kernels::Device;
use spec::presets::ModelKind;
use std::time::Instant;
use training::{Logs, Session, Source, train_on};

/// Batches in memory, one of them with an id past the end of its table.
fn broken(run: &spec::run::Run) -> Source {
    let mut log = common::training_source(run);
    let batches = (0..4).map(|i| {
        let mut batch = Batch::default();
        log.fill(i * 96..(i + 1) * 96, &mut batch).unwrap();
        if i == 2 {
            // Sample 40 belongs to rank 1 of 4; feature C3 has 7 rows.
            let at = batch.feature_starts[3] + 40;
            batch.values[at] = 7;
        }
        batch
    });
    Source::Resident(batches.collect())
}

#[test]
fn a_bad_id_ends_all_ranks_and_is_named() {
    let mut config = config(ModelKind::Dlrm, false, 2, 2);
    config.train.steps = Some(10);
    let run = config.check().unwrap();
    let began = Instant::now();
    let error = train_on(&run, |_| Device::cpu(1), &|_| Ok(broken(&run)), &Session::default());
    let error = error.unwrap_err().to_string();
    assert!(began.elapsed().as_secs() < 5);
    for part in
        ["rank 1 on host 0 failed in phase `read batch`", "C3", "sample 16", "id 7", "7 rows", "rank 3"]
    {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn a_diverging_run_says_so() {
    let mut config = config(ModelKind::Dcn, false, 1, 2);
    config.optimizer.dense = Some(common::optimizer(spec::optimizer::UpdateRule::Sgd, 1e30));
    let run = config.check().unwrap();
    let sources = |split| Logs::Synthetic.source(&run, split);
    let error = train_on(&run, |_| Device::cpu(1), &sources, &Session::default()).unwrap_err().to_string();
    assert!(error.contains("the loss of step") && error.contains("lower the learning rates"), "{error}");
}
