//! A run that is described in code and watched by an observer, which stops it once it has learnt enough.
//!
//! ```text
//! cargo run --release --example custom_run
//! ```

use campanile::{Config, Event, Training};
use spec::feature::Feature;
use spec::presets::ModelKind;
use spec::synthetic::Synthetic;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Trains a small DCN-v2 on one host with two ranks until its loss is low.
pub fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::default();
    config.model.kind = Some(ModelKind::Dcn);
    config.model.features = Some((1..=8).map(feature).collect());
    config.model.dim = Some(8);
    config.model.dense_features = Some(2);
    config.model.top = Some(vec![32, 1]);
    config.topology.hosts = Some(1);
    config.topology.ranks_per_host = Some(2);
    config.train.batch = Some(256);
    config.data.synthetic =
        Some(Synthetic { samples: 50_000, eval_samples: 4_000, groups: 2, ..Default::default() });

    let enough = Arc::new(AtomicBool::new(false));
    let stop = enough.clone();
    let trained = Training::new(config)
        .observe(move |event| match event {
            Event::Training { progress, .. } => {
                println!("step {:>4}: loss {:.4}", progress.step, progress.loss);
                stop.fetch_or(progress.loss < 0.5, Ordering::SeqCst);
            }
            Event::Evaluated { scores, .. } => println!("AUC {:?}", scores.evaluation.auc),
            _ => {}
        })
        .report_every(Some(20))
        .stop_on(enough)
        .run()?;
    let outcome = trained.outcome;
    println!("{} after step {}", if outcome.interrupted { "enough" } else { "all data seen" }, outcome.steps);
    Ok(())
}

/// A feature whose ids are the rows of a table.
fn feature(number: usize) -> Feature {
    Feature {
        name: format!("C{number}"),
        rows: 100,
        pooling: Default::default(),
        hotness: Default::default(),
        weighted: false,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    }
}
